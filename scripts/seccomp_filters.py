"""Generate the seccomp filters that Paddock ships as data: `python scripts/seccomp_filters.py [--check]`.

The filters are plain BPF programs in src/paddock/confine/filters/, one per profile and architecture, so that no
libseccomp is needed where Paddock runs. `--check` compares instead of writing and exits with 1 on a difference.

`guest` is an allow-list: V8 without compilers needs little more than memory, time and its one socket, and a worker that
asks for anything else is broken or breached, so it dies. Calls that the C library or V8 make out of habit, and can do
without, get an errno instead. `guest-jit` differs in one point: memory may be made executable.
"""

import errno
import io
import sys
import tempfile
from pathlib import Path

import pyseccomp as seccomp

TARGET = Path(__file__).parent.parent / "src/paddock/confine/filters"
ARCHITECTURES = {"x86_64": seccomp.Arch.X86_64, "aarch64": seccomp.Arch.AARCH64}
PROT_EXEC = 4

ALLOWED = """
read write readv writev recvfrom recvmsg sendto sendmsg poll ppoll close lseek fstat
munmap mremap madvise brk mincore
futex sched_yield sched_getaffinity sched_getparam sched_getscheduler
nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time
getpid gettid getrandom getrusage sysinfo uname exit exit_group
rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall
set_robust_list rseq membarrier pkey_alloc pkey_free
""".split()  # noqa: SIM905 - grouped by what they are for

REFUSED = {  # asked for out of habit; the caller copes with a refusal
    errno.EACCES: [
        "open",
        "openat",
        "access",
        "faccessat",
        "faccessat2",
        "stat",
        "lstat",
        "newfstatat",
        "statx",
        "readlink",
        "readlinkat",
        "getcwd",
    ],
    errno.EPERM: [
        "prctl",
        "mlock",
        "mbind",
        "sched_setscheduler",
        "ioctl",
        "fcntl",
        "shmget",
        "shmat",
        "getuid",
        "geteuid",
        "getgid",
        "getegid",
    ],
}


def build(profile: str, architecture: str) -> bytes:
    """Return the BPF program of a profile for an architecture."""
    rules = seccomp.SyscallFilter(defaction=seccomp.KILL_PROCESS)
    # Calls of another architecture and of x32: libseccomp would kill the thread alone, and leave a worker
    # that hangs.
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    if ARCHITECTURES[architecture] != seccomp.system_arch():
        rules.add_arch(ARCHITECTURES[architecture])
        rules.remove_arch(seccomp.system_arch())

    def add(action: object, name: str, *arguments: object) -> None:
        if seccomp.resolve_syscall(ARCHITECTURES[architecture], name) >= 0:
            rules.add_rule(action, name, *arguments)

    for name in ALLOWED:
        add(seccomp.ALLOW, name)
    for number, names in REFUSED.items():
        for name in names:
            add(seccomp.ERRNO(number), name)
    for name in ("mmap", "mprotect", "pkey_mprotect"):
        if profile == "guest-jit":
            add(seccomp.ALLOW, name)
        else:
            add(seccomp.ALLOW, name, seccomp.Arg(2, seccomp.MASKED_EQ, PROT_EXEC, 0))
            add(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(2, seccomp.MASKED_EQ, PROT_EXEC, PROT_EXEC))
    # A worker lowers its own data limit when it learns its budget; process 0 is itself.
    add(seccomp.ALLOW, "prlimit64", seccomp.Arg(0, seccomp.EQ, 0))
    add(seccomp.ERRNO(errno.EPERM), "prlimit64", seccomp.Arg(0, seccomp.NE, 0))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def main() -> int:
    """Write or check every filter."""
    stale = io.StringIO()
    for profile in ("guest", "guest-jit"):
        for architecture in ARCHITECTURES:
            path = TARGET / f"{profile}.{architecture}.bpf"
            program = build(profile, architecture)
            if "--check" not in sys.argv:
                path.write_bytes(program)
            elif not path.exists() or path.read_bytes() != program:
                print(f"{path.name} differs from what this script generates", file=stale)
    print(stale.getvalue(), end="", file=sys.stderr)
    return 1 if stale.getvalue() else 0


if __name__ == "__main__":
    sys.exit(main())
