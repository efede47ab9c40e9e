"""Generate the seccomp filters that Paddock ships as data: `python scripts/seccomp_filters.py [--check]`.

The filters are plain BPF programs in `confinement/sandbox/child/filters/`, one per profile and architecture, so that no
libseccomp is needed where Paddock runs. `--check` compares instead of writing and exits with 1 on a difference.

`guest` is an allow-list: V8 without compilers needs little more than memory, time and its one socket, and a worker that
asks for anything else is broken or breached, so it dies. Calls that the C library or V8 make out of habit, and can do
without, get an errno instead. `guest-jit` differs in one point: memory may be made executable.

`job` is a deny-list, for any program in any language may run behind it, and an allow-list kills honest programs as C
libraries move on. It takes away what reaches other processes, the kernel's rarely used halves, namespaces, every
socket but a pair of streams, and set-user-id files. `job-network` allows sockets of the internet families, and
`job-loopback` also those that list the interfaces, since its network is the job's own. Calls that are younger than
this list are missing, as they are on an older kernel: who wants one has another way. Call numbers of another
architecture, x32 included, kill.

`supervised` stands beside a job's filter where the job's user may own files outside of its grants. It notifies a
supervisor of calls for which Landlock has no rule (`call_broker.py`). A refusal of the other filter
takes precedence. `watches` stands there for every other job of that tier. `sockets` stands beside the filter of a job
in a jail that has its own network or may write, and notifies of the calls that name a socket, and of those that give a
file the powers of its group (`socket_broker.py`).
"""

import errno
import io
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyseccomp as seccomp

from paddock.confinement.sandbox.child import call_broker, socket_broker

TARGET = Path(__file__).parent.parent / "src/paddock/confinement/sandbox/child/filters"
ARCHITECTURES = {"x86_64": seccomp.Arch.X86_64, "aarch64": seccomp.Arch.AARCH64}
PROT_EXEC = 4
UNBOUNDED = (0x01, 0x100)
"""MAP_SHARED, which the other kinds of sharing contain, and MAP_GROWSDOWN: mappings that RLIMIT_DATA does not count."""

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

DENIED = {
    errno.EPERM: """
ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd
perf_event_open bpf userfaultfd keyctl add_key request_key
setns unshare mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount
fspick mount_setattr name_to_handle_at open_by_handle_at fanotify_init
kexec_load kexec_file_load init_module finit_module delete_module create_module query_module
swapon swapoff reboot acct quotactl quotactl_fd settimeofday clock_settime stime adjtimex clock_adjtime
sethostname setdomainname syslog vhangup ioperm iopl modify_ldt nfsservctl lookup_dcookie uselib _sysctl sysfs
shmget shmat shmctl msgget msgctl msgsnd msgrcv semget semop semctl semtimedop mq_open mq_unlink
""".split(),  # noqa: SIM905 - grouped by what they reach
    errno.ENOSYS: [
        *("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register"),
        *("memfd_secret", "vmsplice"),
        *("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"),
    ],
}
"""With ENOSYS the C library falls back to `clone`, whose flags a filter can see, and programs to plain I/O.

The last ones hold memory that counts as nobody's: secret memory files that are not mapped, pages in pipes, with a huge
page behind each, and rules of the kernel's own: one for each port and file of the machine, in each Landlock ruleset.
"""

UNKNOWN = 467
"""The first call that this list knows nothing of, on both architectures: `open_tree_attr` of Linux 6.15."""
X32 = 0x40000000
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOAD, EQUAL, AT_LEAST, HAS_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF_LD | BPF_W | BPF_ABS and so on (linux/bpf_common.h)."""
ARCHITECTURE, NUMBER, ARGUMENTS = 4, 0, 16
"""Where they stand in seccomp_data (seccomp(2))."""
KILL_PROCESS, MISSING = 0x80000000, 0x00050000 | errno.ENOSYS
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000
"""SECCOMP_RET_USER_NOTIF and SECCOMP_RET_ALLOW."""
SETXATTRAT, REMOVEXATTRAT = 463, 466
"""Of Linux 6.13, the same on both architectures. C libraries do without them."""
CLONE_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
THREAD, SHARES_FILES = 0x10000, 0x400
"""CLONE_THREAD and CLONE_FILES: a thread with descriptors of its own, which only those who look at each thread see."""
NO_CALL = -1
"""What libseccomp makes of a name that it does not know."""
FILE_TYPE, DEVICES = 0o170000, (0o020000, 0o060000)
TERMINAL_INJECTION = (0x5412, 0x541C)
"""ioctl TIOCSTI and TIOCLINUX: type into somebody's terminal."""
SET_LEASE, SET_DELEGATION, NOTIFY_OF_CHANGES, ENLARGE_PIPE = 1024, 1040, 1026, 1031
"""fcntl F_SETLEASE and F_SETDELEG (Linux 6.19), with which each open(2) and execve(2) of a readable file, or each
change in a readable folder, waits for the holder; F_NOTIFY, which watches folders by an old way; and F_SETPIPE_SZ: the
parent reads what is in a pipe of output before it has the result.
"""
HUGE_MAPPING, HUGE_FILE = 0x40000, 4
"""MAP_HUGETLB and MFD_HUGETLB: pages that the machine keeps for who was promised them; no limit counts them."""
PRETENDED = 0
"""For what is not done and said to be done."""
SOCKET_TYPE, DATAGRAMS = 0xF, (2, 3)
"""SOCK_DGRAM, and SOCK_RAW, which is the same for unix sockets (unix(7))."""
UNIX = 1
"""AF_UNIX."""
INTERNET = (2, 10)
"""AF_INET and AF_INET6."""
NETLINK, NETLINK_ROUTE = 16, 0
"""AF_NETLINK: getifaddrs(3) and its like ask for the interfaces (netlink(7))."""
SOL_SOCKET, SO_SNDBUF = 1, 7
"""Who enlarges what a socket holds hears that it is done: `anonymous_memory` counts on the default."""
CORE = 4
"""RLIMIT_CORE, which keeps the machine's handler of crashes from being started (`lockdown.py`)."""
SET_USER_ID, SET_GROUP_ID = 0o4000, 0o2000
CREATE = (0o100, 0o20000000)
"""Flags of open that make a file: O_CREAT, and the bit of O_TMPFILE that O_DIRECTORY is not."""
MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
NEW_MODES = {"creat": 1, "mknod": 1, "mknodat": 2}
"""Which argument is the mode of a file, or of a new one. The kernel makes no folder with these bits (mkdir(2))."""
OF_OTHERS = {"sched_setaffinity": 0, "sched_setscheduler": 0, "sched_setparam": 0, "sched_setattr": 0}
"""Which argument names the process whose right to the processor is changed; 0 is the caller.

A thread is named like a process, so a filter cannot tell the threads of a program from the processes of others. .NET
does not start when it cannot choose the processors of its threads, and Mono complains on standard output about their
priority: programs hear that it is done.
"""


def build(profile: str, architecture: str) -> bytes:
    """Return the BPF program of a profile for an architecture."""
    calls = call_broker.CALL_NUMBERS[architecture]
    modes = {
        number: call_broker.CALLS[name].rest
        for name, number in calls.items()
        if name in call_broker.MODE_CALLS
    }
    if profile == "supervised":
        return notifying(architecture, calls.values(), missing=(SETXATTRAT, REMOVEXATTRAT))
    if profile == "watches":
        return notifying(architecture, [calls["inotify_add_watch"]], modes)
    if profile == "sockets":
        return notifying(architecture, socket_broker.CALL_NUMBERS[architecture].values(), modes)
    for_jobs = profile.startswith("job")
    rules = job(profile, architecture) if for_jobs else guest(profile, architecture)
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return (without_unknown(architecture) if for_jobs else b"") + file.read()


def notifying(
    architecture: str,
    calls: Iterable[int],
    modes: Mapping[int, int] | None = None,
    *,
    missing: tuple[int, ...] = (),
) -> bytes:
    """Return a filter that notifies of supervised calls; libseccomp would not know the youngest ones.

    It notifies of calls in `modes`, which have the position of their mode, only for that of a set-group-id file.
    """
    verdicts = dict.fromkeys(sorted(calls), NOTIFY)
    verdicts |= dict.fromkeys(missing, MISSING)
    instructions = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, AUDIT_ARCH[architecture]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, KILL_PROCESS),
    ]
    for number, verdict in verdicts.items():
        instructions += [(EQUAL, 0, 1, number), (RETURN, 0, 0, verdict)]
    for number, position in (modes or {}).items():
        instructions += [
            (EQUAL, 0, 4, number),
            (LOAD, 0, 0, ARGUMENTS + 8 * position),
            (HAS_BITS, 0, 1, SET_GROUP_ID),
        ]
        instructions += [(RETURN, 0, 0, NOTIFY), (RETURN, 0, 0, ALLOW)]
    instructions.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def without_unknown(architecture: str) -> bytes:
    """Return what goes before a filter that allows by default, so that it allows no call that nobody has looked at.

    libseccomp has no rules for ranges of calls.
    """
    instructions = (
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, AUDIT_ARCH[architecture]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 2, 0, X32),  # the filter itself knows what to do with those
        (AT_LEAST, 0, 1, UNKNOWN),
        (RETURN, 0, 0, MISSING),
    )
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def job(profile: str, architecture: str) -> seccomp.SyscallFilter:
    """Return the deny-list for programs."""
    rules = new_filter(seccomp.ALLOW, architecture)

    def deny(number: int, name: str, *arguments: object) -> None:
        call = seccomp.resolve_syscall(ARCHITECTURES[architecture], name)
        assert call != NO_CALL, name
        if call >= 0:  # else it is there on other architectures alone
            rules.add_rule_exactly(seccomp.ERRNO(number), name, *arguments)

    for number, names in DENIED.items():
        for name in names:
            deny(number, name)
    for flag in CLONE_NAMESPACES:
        deny(errno.EPERM, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    deny(errno.EPERM, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, THREAD | SHARES_FILES, THREAD))
    for kind in DEVICES:
        deny(errno.EPERM, "mknod", seccomp.Arg(1, seccomp.MASKED_EQ, FILE_TYPE, kind))
        deny(errno.EPERM, "mknodat", seccomp.Arg(2, seccomp.MASKED_EQ, FILE_TYPE, kind))
    for command in (SET_LEASE, SET_DELEGATION, NOTIFY_OF_CHANGES, ENLARGE_PIPE):
        deny(errno.EPERM, "fcntl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, command))
    deny(errno.ENOMEM, "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, HUGE_MAPPING, HUGE_MAPPING))
    deny(errno.ENOMEM, "memfd_create", seccomp.Arg(1, seccomp.MASKED_EQ, HUGE_FILE, HUGE_FILE))
    for request in TERMINAL_INJECTION:
        deny(errno.EPERM, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, request))
    deny_sockets(profile, deny)
    deny_power_over_others(deny)
    deny_set_user_id(deny)
    return rules


def deny_sockets(profile: str, deny: Callable[..., None]) -> None:
    """Leave pairs of unix sockets, and where the profile says so, unix sockets and those of the internet families.

    A pair of streams stays a pair. A datagram socket can send to any other one, such as the system log.
    """
    deny(
        PRETENDED,
        "setsockopt",
        seccomp.Arg(1, seccomp.EQ, SOL_SOCKET),
        seccomp.Arg(2, seccomp.EQ, SO_SNDBUF),
    )
    for kind in DATAGRAMS:
        deny(errno.EPERM, "socketpair", seccomp.Arg(1, seccomp.MASKED_EQ, SOCKET_TYPE, kind))
    if profile == "job":
        deny(errno.EPERM, "socket")
        return
    families = (UNIX, *INTERNET, NETLINK) if profile == "job-loopback" else INTERNET
    for family in set(range(max(families))) - set(families):
        deny(errno.EPERM, "socket", seccomp.Arg(0, seccomp.EQ, family))
    deny(errno.EPERM, "socket", seccomp.Arg(0, seccomp.GT, max(families)))
    if profile == "job-loopback":
        for kind in DATAGRAMS:
            alike = seccomp.Arg(1, seccomp.MASKED_EQ, SOCKET_TYPE, kind)
            deny(errno.EPERM, "socket", seccomp.Arg(0, seccomp.EQ, UNIX), alike)
        route = seccomp.Arg(2, seccomp.NE, NETLINK_ROUTE)
        deny(errno.EPERM, "socket", seccomp.Arg(0, seccomp.EQ, NETLINK), route)


def deny_power_over_others(deny: Callable[..., None]) -> None:
    """Leave a process its own limits and priority alone: no Landlock scope keeps it from those of its user's others."""
    deny(errno.EPERM, "prlimit64", seccomp.Arg(0, seccomp.NE, 0), seccomp.Arg(2, seccomp.NE, 0))
    deny(PRETENDED, "setrlimit", seccomp.Arg(0, seccomp.EQ, CORE))
    deny(
        PRETENDED,
        "prlimit64",
        seccomp.Arg(0, seccomp.EQ, 0),
        seccomp.Arg(1, seccomp.EQ, CORE),
        seccomp.Arg(2, seccomp.NE, 0),
    )
    for name, process in OF_OTHERS.items():
        deny(PRETENDED, name, seccomp.Arg(process, seccomp.NE, 0))
    for name, of_processes in (("setpriority", 0), ("ioprio_set", 1)):
        deny(errno.EPERM, name, seccomp.Arg(0, seccomp.NE, of_processes))
        deny(errno.EPERM, name, seccomp.Arg(1, seccomp.NE, 0))


def deny_set_user_id(deny: Callable[..., None]) -> None:
    """Make no file that gives whoever runs it the powers of the job's user, who may be root, or of its group.

    A folder may have the bit of a group, which a filter cannot tell from a file: those who supervise calls can.
    """
    for name, mode in (MODES | NEW_MODES).items():
        deny(errno.EPERM, name, seccomp.Arg(mode, seccomp.MASKED_EQ, SET_USER_ID, SET_USER_ID))
    for name, mode in NEW_MODES.items():
        deny(errno.EPERM, name, seccomp.Arg(mode, seccomp.MASKED_EQ, SET_GROUP_ID, SET_GROUP_ID))
    for name, flags in (("open", 1), ("openat", 2)):
        for flag in CREATE:
            makes = seccomp.Arg(flags, seccomp.MASKED_EQ, flag, flag)
            for bit in (SET_USER_ID, SET_GROUP_ID):
                deny(errno.EPERM, name, makes, seccomp.Arg(flags + 1, seccomp.MASKED_EQ, bit, bit))


def new_filter(default: object, architecture: str) -> seccomp.SyscallFilter:
    """Return a filter with no rules yet, which speaks of this architecture alone."""
    rules = seccomp.SyscallFilter(defaction=default)
    # Calls of another architecture and of x32: libseccomp would kill the thread alone, and leave a worker
    # that hangs.
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    # A binary tree: the kernel runs a filter once for every call that there is when it installs it.
    rules.set_attr(seccomp.Attr.CTL_OPTIMIZE, 2)
    if ARCHITECTURES[architecture] != seccomp.system_arch():
        rules.add_arch(ARCHITECTURES[architecture])
        rules.remove_arch(seccomp.system_arch())
    return rules


def guest(profile: str, architecture: str) -> seccomp.SyscallFilter:
    """Return the allow-list for V8."""
    rules = new_filter(seccomp.KILL_PROCESS, architecture)

    def add(action: object, name: str, *arguments: object) -> None:
        if seccomp.resolve_syscall(ARCHITECTURES[architecture], name) >= 0:
            rules.add_rule(action, name, *arguments)

    for name in ALLOWED:
        add(seccomp.ALLOW, name)
    for number, names in REFUSED.items():
        for name in names:
            add(seccomp.ERRNO(number), name)
    bounded = seccomp.Arg(3, seccomp.MASKED_EQ, sum(UNBOUNDED), 0)
    for name in ("mmap", "mprotect", "pkey_mprotect"):
        alike = (bounded,) if name == "mmap" else ()
        if profile == "guest-jit":
            add(seccomp.ALLOW, name, *alike)
        else:
            add(seccomp.ALLOW, name, seccomp.Arg(2, seccomp.MASKED_EQ, PROT_EXEC, 0), *alike)
            add(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(2, seccomp.MASKED_EQ, PROT_EXEC, PROT_EXEC))
    for flag in UNBOUNDED:
        add(seccomp.ERRNO(errno.EPERM), "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, flag, flag))
    # A worker lowers its own data limit when it learns its budget; process 0 is itself.
    add(seccomp.ALLOW, "prlimit64", seccomp.Arg(0, seccomp.EQ, 0))
    add(seccomp.ERRNO(errno.EPERM), "prlimit64", seccomp.Arg(0, seccomp.NE, 0))
    return rules


def main() -> int:
    """Write or check every filter."""
    stale = io.StringIO()
    for profile in (
        "guest",
        "guest-jit",
        "job",
        "job-loopback",
        "job-network",
        "supervised",
        "watches",
        "sockets",
    ):
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
