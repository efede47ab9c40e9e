"""A broken engine: native code in a locked worker, and what the worker looks like from outside."""

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.command import CONTAINED

EXECUTABLE = ["mmap rwx", "mmap rx", "mprotect rwx", "mprotect rx", "pkey_mprotect rx"]
ENDS = {
    "EACCES": [
        "open", "openat", "open for writing", "open a directory", "open /dev/urandom", "open the memory of another",
        "open the environment of another", "open its own descriptor anew", "stat", "newfstatat", "statx", "readlink",
        "access", "getcwd",
    ],
    "EPERM": [
        "prctl dumpable", "prctl seccomp", "prctl keep caps", "prctl pdeathsig", "prctl name", "shmget", "shmat",
        "prlimit of another", "prlimit: more processes", "prlimit: more memory", "sched_setscheduler", "fcntl", "ioctl",
        "getuid", "mmap shared", "mmap shared, validated", "mmap growing down",
    ],
    "EISCONN": ["sendto an address"],
    "ENODEV": ["mmap of a descriptor"],
    "EBADF": ["write to standard input", "write to any other", "read standard error"],
    # Standard input and output are /dev/null, standard error is a pipe of which the parent reads some kilobytes, and a
    # descriptor sent over the worker's socket is dropped, for the parent takes none.
    "ok": ["getpid", "read standard input", "write to standard output", "write to standard error", "send a descriptor"],
    "SIGSYS": [
        "openat2", "creat", "unlink", "mkdir", "rename", "chmod", "chown", "symlink", "link", "mknod", "truncate",
        "utimensat", "chdir", "getdents64", "name_to_handle_at", "open_by_handle_at", "inotify_init1", "fanotify_init",
        "memfd_create", "memfd_secret", "socket AF_UNIX", "socket AF_INET", "socket AF_INET6", "socket AF_NETLINK",
        "socket AF_VSOCK", "socket AF_PACKET", "socket AF_ALG", "socketpair", "connect", "bind", "listen", "accept",
        "getsockopt", "setsockopt", "fork", "vfork", "clone", "clone a thread", "clone3", "execve", "execveat",
        "ptrace", "ptrace traceme", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "kill itself",
        "kill another", "kill all", "tkill", "tgkill", "rt_sigqueueinfo", "pidfd_open", "pidfd_getfd",
        "pidfd_send_signal", "io_uring_setup", "userfaultfd", "bpf", "perf_event_open", "keyctl", "add_key",
        "request_key", "setuid", "setgid", "setresuid", "setgroups", "capset", "unshare a user namespace", "setns",
        "mount", "umount2", "fsopen", "open_tree", "chroot", "pivot_root", "seccomp", "landlock_create_ruleset",
        "personality", "arch_prctl", "modify_ldt", "iopl", "x32 getpid", "x32 open", "x32 execve", "no such call",
        "remap_file_pages", "msgget", "semget", "mq_open", "setrlimit", "setpriority", "sched_setaffinity",
        "sched_setattr", "ioprio_set", "dup", "dup2", "pipe2", "epoll_create1", "eventfd2", "signalfd4",
        "timerfd_create", "splice", "tee", "vmsplice", "sendfile", "setitimer", "timer_create", "alarm", "setsid",
        "setpgid", "init_module", "kexec_load", "reboot", "swapon", "sethostname", "settimeofday", "acct", "syslog",
        "quotactl", "vhangup",
    ],
}  # fmt: skip
EXPECTED = {name: end for end, names in ENDS.items() for name in names}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the probes are numbers of x86_64")
@pytest.mark.parametrize("profile", ["guest", "guest-jit"])
def test_native_code_in_a_locked_worker_reaches_nothing(profile):
    jit = profile == "guest-jit"
    expected = EXPECTED | dict.fromkeys(EXECUTABLE, "ok" if jit else "EPERM")
    expected["32-bit call"] = "SIGSYS" if jit else "EPERM"
    script = Path(__file__).with_name("breached_worker.py")
    # Python 3.12 and later warn of the zygote's way to fork where it is not imported.
    done = subprocess.run(
        [*CONTAINED, sys.executable, "-W", "ignore::DeprecationWarning", str(script), profile],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == expected


def facts_of(pid: int) -> dict[str, object]:
    process = Path(f"/proc/{pid}")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    wanted = (
        "Uid",
        "Gid",
        "Groups",
        "NoNewPrivs",
        "Seccomp",
        "Threads",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapAmb",
    )
    links = {int(link.name): str(link.readlink()) for link in (process / "fd").iterdir()}
    limits = {
        line[:26].strip(): line[26:].split()[:2] for line in (process / "limits").read_text().splitlines()[1:]
    }
    return {
        **{name: tuple(status[name].split()) for name in wanted},
        "descriptors": [links[number].split(":")[0] for number in sorted(links)],
        "environment": (process / "environ").read_bytes(),
        "directory": str((process / "cwd").readlink()),
        "limits": {name: limits[name] for name in ("Max core file size", "Max file size", "Max processes")},
    }


@pytest.mark.usefixtures("as_root")  # another user's process shows its descriptors to root alone
@pytest.mark.parametrize("jit", [False, True])
def test_the_worker_from_outside(guest, jit):
    seen = []

    def look(line):
        worker = guest.running_worker()
        seen.append(facts_of(worker))
        os.kill(worker, signal.SIGKILL)

    request = guest.request("console.log('now'); await sleep(60_000)", jit=jit)
    assert guest.execute(request, on_console=look).status == "lost"
    assert seen == [
        {
            "Uid": ("65534",) * 4,
            "Gid": ("65534",) * 4,
            "Groups": (),
            "NoNewPrivs": ("1",),
            "Seccomp": ("2",),
            "Threads": ("1",),
            **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), ("0000000000000000",)),
            "descriptors": ["/dev/null", "/dev/null", "pipe", "socket"],
            "environment": b"",
            "directory": "/",
            "limits": {
                "Max core file size": ["1", "1"],
                "Max file size": ["0", "0"],
                "Max processes": ["0", "0"],
            },
        }
    ]
