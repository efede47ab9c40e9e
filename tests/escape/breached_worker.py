"""Native code in a worker that has locked itself down: what an attacker has who broke V8.

usage: breached_worker.py PROFILE, in a pid namespace of its own; prints {probe: end} as JSON.

The worker is the real one up to the point where it would wait for its program: there, on V8's thread, its only one, a
probe runs instead, one in each process. Its end is "ok", the name of an errno, or the signal that killed the worker.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from paddock.engines.javascript.child import fork_server

LIBC = ctypes.CDLL(None, use_errno=True)
SYSCALL = LIBC.syscall
SYSCALL.restype = ctypes.c_long
CONNECTION: list[socket.socket] = []
OWN = object()
"""Stands for the descriptor of the worker's own socket."""
X32 = 0x40000000
AT_FDCWD = -100
RWX, RX, RW = 7, 5, 3
PRIVATE_ANONYMOUS = 0x22
BUFFER = ctypes.create_string_buffer(4096)
STACK = ctypes.create_string_buffer(65536)
PATH = ctypes.create_string_buffer(b"/tmp/paddock-probe")
PASSWD = ctypes.create_string_buffer(b"/etc/passwd")
URANDOM = ctypes.create_string_buffer(b"/dev/urandom")
MEMORY = ctypes.create_string_buffer(b"/proc/1/mem")
ENVIRON = ctypes.create_string_buffer(b"/proc/1/environ")
EXE = ctypes.create_string_buffer(b"/proc/self/exe")
FD = ctypes.create_string_buffer(b"/proc/self/fd/2")
SHELL = ctypes.create_string_buffer(b"/bin/true")
ROOT = ctypes.create_string_buffer(b"/")
ABSTRACT = ctypes.create_string_buffer(struct.pack("<H", socket.AF_UNIX) + b"\0probe")
UNLIMITED = ctypes.create_string_buffer(b"\xff" * 16)
CLONE_ARGS = ctypes.create_string_buffer(struct.pack("<11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0))
FUNCTION = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 1, ctypes.addressof(BUFFER)))


def call(number: int, *arguments: object) -> Callable[[], int]:
    """Return a probe that makes one system call."""

    def probe() -> int:
        plain = [CONNECTION[0].fileno() if item is OWN else item for item in arguments]
        wide = [ctypes.c_long(item) if isinstance(item, int) else item for item in plain]
        return SYSCALL(ctypes.c_long(number), *wide)

    return probe


def protected(protection: int, number: int = 10) -> Callable[[], int]:
    """Return a probe that maps a writable page and then asks for another protection of it."""

    def probe() -> int:
        page = SYSCALL(ctypes.c_long(9), None, 4096, RW, PRIVATE_ANONYMOUS, -1, ctypes.c_long(0))
        return (
            page
            if page < 0
            else SYSCALL(ctypes.c_long(number), ctypes.c_long(page), ctypes.c_long(4096), protection, -1)
        )

    return probe


def raised_again() -> int:
    """Raise a data limit that was lowered, as it is when a program starts."""
    lower = ctypes.create_string_buffer(struct.pack("<QQ", 1 << 40, 1 << 40))
    result = SYSCALL(ctypes.c_long(302), 0, 2, lower, None)
    return result if result < 0 else SYSCALL(ctypes.c_long(302), 0, 2, UNLIMITED, None)


def descriptor_message() -> int:
    """Send standard error over the worker's own socket, which is no file that it should not have."""
    return socket.send_fds(CONNECTION[0], [b""], [2]) or 0


def legacy_call() -> int:
    """Make a 32-bit system call (getpid) from memory that is writable and executable."""
    page = SYSCALL(ctypes.c_long(9), None, 4096, RWX, PRIVATE_ANONYMOUS, -1, ctypes.c_long(0))
    if page < 0:
        return page
    code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"  # mov eax, 20; int 0x80; ret
    ctypes.memmove(page, code, len(code))
    return ctypes.CFUNCTYPE(ctypes.c_int)(page)()


PROBES: dict[str, Callable[[], int]] = {
    "open": call(2, PASSWD, os.O_RDONLY), "openat": call(257, AT_FDCWD, PASSWD, os.O_RDONLY),
    "openat2": call(437, AT_FDCWD, PASSWD, BUFFER, 24), "creat": call(85, PATH, 0o600),
    "open for writing": call(2, PATH, os.O_RDWR | os.O_CREAT, 0o600), "open a directory": call(2, ROOT, os.O_DIRECTORY),
    "open /dev/urandom": call(2, URANDOM, os.O_RDONLY), "open the memory of another": call(2, MEMORY, os.O_RDWR),
    "open the environment of another": call(2, ENVIRON, os.O_RDONLY), "open its own descriptor anew": call(2, FD, os.O_RDWR),
    "stat": call(4, PASSWD, BUFFER), "newfstatat": call(262, AT_FDCWD, PASSWD, BUFFER, 0), "statx": call(332, AT_FDCWD, PASSWD, 0, 0, BUFFER),
    "readlink": call(89, EXE, BUFFER, 4096), "access": call(21, PASSWD, 0), "getcwd": call(79, BUFFER, 4096),
    "unlink": call(87, PATH), "mkdir": call(83, PATH, 0o700), "rename": call(82, PATH, PASSWD), "chmod": call(90, PATH, 0o777),
    "chown": call(92, PATH, 0, 0), "symlink": call(88, PASSWD, PATH), "link": call(86, PASSWD, PATH), "mknod": call(133, PATH, 0o600, 0),
    "truncate": call(76, PATH, 0), "utimensat": call(280, AT_FDCWD, PATH, None, 0), "chdir": call(80, ROOT), "getdents64": call(217, 0, BUFFER, 4096),
    "name_to_handle_at": call(303, AT_FDCWD, PASSWD, BUFFER, BUFFER, 0), "open_by_handle_at": call(304, AT_FDCWD, BUFFER, 0),
    "inotify_init1": call(294, 0), "fanotify_init": call(300, 0, 0), "memfd_create": call(319, PATH, 0), "memfd_secret": call(447, 0),
    "socket AF_UNIX": call(41, socket.AF_UNIX, socket.SOCK_STREAM, 0), "socket AF_INET": call(41, socket.AF_INET, socket.SOCK_STREAM, 0),
    "socket AF_INET6": call(41, socket.AF_INET6, socket.SOCK_DGRAM, 0), "socket AF_NETLINK": call(41, 16, socket.SOCK_RAW, 0),
    "socket AF_VSOCK": call(41, 40, socket.SOCK_STREAM, 0), "socket AF_PACKET": call(41, 17, socket.SOCK_RAW, 0), "socket AF_ALG": call(41, 38, 5, 0),
    "socketpair": call(53, socket.AF_UNIX, socket.SOCK_STREAM, 0, BUFFER), "connect": call(42, OWN, ABSTRACT, 8), "bind": call(49, OWN, ABSTRACT, 8),
    "listen": call(50, OWN, 1), "accept": call(43, OWN, None, None), "getsockopt": call(55, OWN, 1, 17, BUFFER, BUFFER), "setsockopt": call(54, OWN, 1, 7, BUFFER, 4),
    "sendto an address": call(44, OWN, BUFFER, 0, 0, ABSTRACT, 8), "send a descriptor": descriptor_message,
    "fork": call(57), "vfork": call(58), "clone": call(56, signal.SIGCHLD, 0), "clone a thread": call(56, 0x10F00, ctypes.addressof(STACK) + 65536),
    "clone3": call(435, CLONE_ARGS, 88), "execve": call(59, SHELL, None, None), "execveat": call(322, AT_FDCWD, SHELL, None, None, 0),
    "ptrace": call(101, 16, 1, 0, 0), "ptrace traceme": call(101, 0, 0, 0, 0), "process_vm_readv": call(310, 1, BUFFER, 1, BUFFER, 1, 0),
    "process_vm_writev": call(311, 1, BUFFER, 1, BUFFER, 1, 0), "process_madvise": call(440, 3, BUFFER, 1, 4, 0), "kcmp": call(312, 1, 1, 0, 0, 0),
    "kill itself": call(62, os.getpid(), 0), "kill another": call(62, 1, 9), "kill all": call(62, -1, 9), "tkill": call(200, 1, 9),
    "tgkill": call(234, 1, 1, 9), "rt_sigqueueinfo": call(129, 1, 9, BUFFER), "pidfd_open": call(434, 1, 0), "pidfd_getfd": call(438, 3, 0, 0),
    "pidfd_send_signal": call(424, 3, 9, None, 0), "io_uring_setup": call(425, 8, BUFFER), "userfaultfd": call(323, 0), "bpf": call(321, 0, BUFFER, 72),
    "perf_event_open": call(298, BUFFER, 0, -1, -1, 0), "keyctl": call(250, 0, 0), "add_key": call(248, PATH, PATH, None, 0, -2), "request_key": call(249, PATH, PATH, None, 0),
    "setuid": call(105, 0), "setgid": call(106, 0), "setresuid": call(117, 0, 0, 0), "setgroups": call(116, 0, None), "capset": call(126, BUFFER, BUFFER),
    "unshare a user namespace": call(272, 0x10000000), "setns": call(308, 3, 0), "mount": call(165, PATH, PATH, PATH, 0, None), "umount2": call(166, PATH, 0),
    "fsopen": call(430, PATH, 0), "open_tree": call(428, AT_FDCWD, ROOT, 0), "chroot": call(161, ROOT), "pivot_root": call(155, ROOT, ROOT),
    "prctl dumpable": call(157, 4, 1, 0, 0, 0), "prctl seccomp": call(157, 22, 2, FUNCTION, 0, 0), "prctl keep caps": call(157, 8, 1, 0, 0, 0), "prctl pdeathsig": call(157, 1, 0, 0, 0, 0),
    "prctl name": call(157, 15, PATH, 0, 0, 0), "seccomp": call(317, 1, 0, FUNCTION), "landlock_create_ruleset": call(444, None, 0, 1), "personality": call(135, 0x0040000), "arch_prctl": call(158, 0x1002, 0), "modify_ldt": call(154, 0, BUFFER, 16), "iopl": call(172, 3),
    "x32 getpid": call(39 | X32), "x32 open": call(2 | X32, PASSWD, os.O_RDONLY), "x32 execve": call(520 | X32, SHELL, None, None), "no such call": call(9999),
    "mmap rwx": call(9, 0, 4096, RWX, PRIVATE_ANONYMOUS, -1, 0), "mmap rx": call(9, 0, 4096, RX, PRIVATE_ANONYMOUS, -1, 0), "mprotect rwx": protected(RWX), "mprotect rx": protected(RX), "pkey_mprotect rx": protected(RX, 329),
    "mmap of a descriptor": call(9, 0, 4096, RW, 2, OWN, 0), "mmap shared": call(9, 0, 4096, RW, 0x21, -1, 0), "mmap shared, validated": call(9, 0, 4096, RW, 0x23, -1, 0), "mmap growing down": call(9, 0, 4096, RW, 0x122, -1, 0), "remap_file_pages": call(216, BUFFER, 4096, 0, 0, 0), "32-bit call": legacy_call,
    "shmget": call(29, 0, 4096, 0o1600), "shmat": call(30, 1, 0, 0), "msgget": call(68, 0, 0o1600), "semget": call(64, 0, 1, 0o1600), "mq_open": call(240, PATH, 0o102, 0o600, None),
    "prlimit of another": call(302, 1, 7, None, BUFFER), "prlimit: more processes": call(302, 0, 6, UNLIMITED, None), "prlimit: more memory": raised_again, "setrlimit": call(160, 6, UNLIMITED), "setpriority": call(141, 0, 0, -20),
    "sched_setaffinity": call(203, 0, 8, UNLIMITED), "sched_setscheduler": call(144, 0, 1, BUFFER), "sched_setattr": call(314, 0, BUFFER, 0), "ioprio_set": call(251, 1, 0, 0),
    "dup": call(32, 2), "dup2": call(33, OWN, 0), "fcntl": call(72, OWN, 3), "ioctl": call(16, 0, 0x5412, BUFFER), "pipe2": call(293, BUFFER, 0), "epoll_create1": call(291, 0), "eventfd2": call(290, 0, 0), "signalfd4": call(289, -1, BUFFER, 8, 0), "timerfd_create": call(283, 0, 0),
    "splice": call(275, OWN, None, 1, None, 1, 0), "tee": call(276, OWN, 1, 1, 0), "vmsplice": call(278, 1, BUFFER, 1, 0), "sendfile": call(40, 1, OWN, None, 1), "setitimer": call(38, 0, BUFFER, None), "timer_create": call(222, 0, None, BUFFER), "alarm": call(37, 1), "setsid": call(112), "setpgid": call(109, 0, 0),
    "init_module": call(175, BUFFER, 0, BUFFER), "kexec_load": call(246, 0, 0, None, 0), "reboot": call(169, 0, 0, 0, None), "swapon": call(167, PATH, 0), "sethostname": call(170, PATH, 1), "settimeofday": call(164, BUFFER, None), "acct": call(163, PATH), "syslog": call(103, 10, None, 0), "quotactl": call(179, 0, PATH, 0, BUFFER), "vhangup": call(153),
    "write to standard input": call(1, 0, BUFFER, 1), "write to standard output": call(1, 1, BUFFER, 1), "write to standard error": call(1, 2, BUFFER, 1), "write to any other": call(1, 4, BUFFER, 1), "read standard input": call(0, 0, BUFFER, 1), "read standard error": call(0, 2, BUFFER, 1), "getpid": call(39), "getuid": call(102),
}  # fmt: skip


def breach(zygote_process: fork_server.WorkerForkServer, probe: Callable[[], int]) -> str:
    """Fork a worker, let it lock itself down, run the probe in it, and return how that ended."""
    ours, theirs = socket.socketpair()
    errors, their_errors = os.pipe()
    pid = os.fork()
    if pid == 0:
        channel, _ = zygote_process._become_worker(theirs.fileno(), their_errors)
        CONNECTION.append(channel._connection)
        ctypes.set_errno(0)
        result = probe()
        end = "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]
        CONNECTION[0].sendall(end.encode())
        os._exit(0)
    theirs.close()
    os.close(their_errors)
    told = b""
    ours.settimeout(10)
    try:
        while part := ours.recv(4096):
            told += part
    except TimeoutError:
        told = b"hangs"
        os.kill(pid, signal.SIGKILL)
    ours.close()
    words = os.read(errors, 4096).strip(b"\0")
    os.close(errors)
    _, status = os.waitpid(pid, 0)
    if told == b"hangs":
        return "hangs"
    code = os.waitstatus_to_exitcode(status)
    if words:
        return words.decode("utf-8", "replace")
    return (
        told.decode().strip("\0") if code == 0 else signal.Signals(-code).name if code < 0 else f"exit {code}"
    )


ONLY = sys.argv[2:]


def main() -> None:
    out = os.dup(1)
    nothing = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)
    for number, descriptor in enumerate(nothing):  # as a zygote is started
        os.dup2(descriptor, number)
    _, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made = fork_server.WorkerForkServer(control, sys.argv[1], Path(find_spec("py_mini_racer").origin).parent)

    def attack() -> NoReturn:
        ends = {name: breach(made, probe) for name, probe in PROBES.items() if not ONLY or name in ONLY}
        os.write(out, json.dumps(ends).encode())
        os._exit(0)

    made._guest.hand_over(attack)
    threading.Event().wait()


main()
