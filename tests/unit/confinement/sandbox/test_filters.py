"""The seccomp filters that ship as data are those that the script makes, and decide as they should.

A small interpreter runs them here, so those of the other architecture are tried too. The numbers of calls are written
out, from the kernel's tables, and not taken from libseccomp, which made the filters.
"""

import errno
import importlib.util
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.confinement.sandbox.child import seccomp

ROOT = Path(__file__).resolve().parents[4]
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOAD_ARCHITECTURE = (0x20, 0, 0, 4)
"""BPF_LD | BPF_W | BPF_ABS of seccomp_data.arch (seccomp(2))."""
JUMP_IF_EQUAL, RETURN = 0x15, 0x06
KILL_PROCESS, KILL_THREAD = 0x80000000, 0
JOB_PROFILES = ["job", "job-loopback", "job-network"]
PROFILES = ["guest", "guest-jit", *JOB_PROFILES, "supervised", "watches", "sockets"]
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
PRETENDED = ERRNO
"""Not done, and said to be."""
PERMISSION, ACCESS, MISSING = ERRNO | errno.EPERM, ERRNO | errno.EACCES, ERRNO | errno.ENOSYS
NO_MEMORY = ERRNO | errno.ENOMEM
OTHER_ARCHITECTURES = (0x40000003, 0x40000028, 0xC0000015, 0)
"""i386, ARM, PowerPC, and none."""
X32 = 0x40000000
NUMBERS = {  # arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h
    "x86_64": {
        "read": 0, "write": 1, "mmap": 9, "mprotect": 10, "ioctl": 16, "shmget": 29, "socket": 41, "clone": 56,
        "execve": 59, "kill": 62, "ptrace": 101, "chroot": 161, "mount": 165, "init_module": 175, "mq_open": 240,
        "kexec_load": 246, "add_key": 248, "keyctl": 250, "openat": 257, "mknodat": 259, "unshare": 272,
        "perf_event_open": 298, "prlimit64": 302, "setns": 308, "process_vm_readv": 310, "bpf": 321,
        "userfaultfd": 323, "io_uring_setup": 425, "fsopen": 430, "clone3": 435, "pidfd_getfd": 438,
        "fchmod": 91, "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "sched_setaffinity": 203,
        "ioprio_set": 251, "fchmodat": 268, "sched_setattr": 314, "openat2": 437, "fchmodat2": 452,
        "fcntl": 72, "setrlimit": 160, "memfd_create": 319, "open": 2, "creat": 85, "chmod": 90, "mknod": 133, "socketpair": 53,
    },
    "aarch64": {
        "read": 63, "write": 64, "mmap": 222, "mprotect": 226, "ioctl": 29, "shmget": 194, "socket": 198, "clone": 220,
        "execve": 221, "kill": 129, "ptrace": 117, "chroot": 51, "mount": 40, "init_module": 105, "mq_open": 180,
        "kexec_load": 104, "add_key": 217, "keyctl": 219, "openat": 56, "mknodat": 33, "unshare": 97,
        "perf_event_open": 241, "prlimit64": 261, "setns": 268, "process_vm_readv": 270, "bpf": 280,
        "userfaultfd": 282, "io_uring_setup": 425, "fsopen": 430, "clone3": 435, "pidfd_getfd": 438,
        "fchmod": 52, "setpriority": 140, "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122,
        "fcntl": 25, "setrlimit": 164, "memfd_create": 279, "ioprio_set": 30, "fchmodat": 53, "sched_setattr": 274, "openat2": 437, "fchmodat2": 452, "socketpair": 199,
    },
}  # fmt: skip
SET_FLAGS, SET_LOCK, ENLARGE_PIPE, SIZE_OF_PIPE, SET_LEASE, NOTIFY_OF_CHANGES = 4, 6, 1031, 1032, 1024, 1026
"""Commands of fcntl(2)."""
MODIFY_LDT = 154
LANDLOCK = {"landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446}
"""The same on every architecture."""
REFUSED_TO_JOBS = (
    "ptrace", "chroot", "mount", "init_module", "mq_open", "shmget", "kexec_load", "add_key", "keyctl", "unshare",
    "perf_event_open", "setns", "process_vm_readv", "bpf", "userfaultfd", "fsopen", "pidfd_getfd",
)  # fmt: skip
SUPERVISED = {  # the tables named above
    "x86_64": (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 254, 260, 261, 268, 280, 452),
    "aarch64": (5, 6, 7, 14, 15, 16, 27, 52, 53, 54, 55, 88, 452),
}
"""chmod, chown, utime, setxattr, removexattr and their relatives, and inotify_add_watch."""
NOTIFY, SETXATTRAT, REMOVEXATTRAT = 0x7FC00000, 463, 466
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK = 1, 2, 10, 16, 17, 40
STREAM, DATAGRAM, RAW, SEQUENCED = 1, 2, 3, 5
NON_BLOCKING, CLOSED_BY_EXEC = 0o4000, 0o2000000
NEW_USER, NEW_NETWORK, SIGCHLD, THREAD, SHARED_FILES = 0x10000000, 0x40000000, 17, 0x3D0F00, 0x400
CHARACTER_DEVICE, BLOCK_DEVICE, FIFO = 0o020666, 0o060666, 0o010666
TYPE_INTO_TERMINAL, WINDOW_SIZE = 0x5412, 0x5413
READ_WRITE, READ_EXECUTE = 3, 5
SHARED, PRIVATE, SHARED_VALIDATED, GROWS_DOWN = 1, 2, 3, 0x100


@pytest.mark.skipif(importlib.util.find_spec("pyseccomp") is None, reason="needs pyseccomp")
def test_the_filters_are_those_that_the_script_makes():
    script = ROOT / "scripts" / "seccomp_filters.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
@pytest.mark.parametrize("profile", PROFILES)
def test_each_filter_begins_with_its_architecture_and_never_kills_a_thread_alone(profile, architecture):
    program = Path(seccomp.FILTERS_FOLDER, f"{profile}.{architecture}.bpf").read_bytes()
    instructions = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    assert len(program) == 8 * len(instructions)
    assert len(instructions) > 10
    assert instructions[0] == LOAD_ARCHITECTURE
    code, _, elsewhere, architecture_code = instructions[1]
    assert (code, architecture_code) == (JUMP_IF_EQUAL, AUDIT_ARCH[architecture])
    assert follow(instructions, 2 + elsewhere) == (RETURN, 0, 0, KILL_PROCESS)
    verdicts = {value for code, _, _, value in instructions if code == RETURN}
    assert KILL_PROCESS in verdicts
    assert KILL_THREAD not in verdicts


def follow(instructions, at):
    """Return the instruction at `at`, or where the jumps there lead to."""
    while instructions[at][0] == 0x05:  # BPF_JA
        at += 1 + instructions[at][3]
    return instructions[at]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_filter_of_this_machine_is_loaded_by_name(profile):
    assert seccomp.read_filter(profile)[:8] == struct.pack("<HBBI", *LOAD_ARCHITECTURE)


def test_a_profile_without_a_filter_is_no_profile():
    with pytest.raises(FileNotFoundError):
        seccomp.read_filter("nobody")


def verdict(profile, architecture, call, *arguments, machine=None):
    """Return what a filter says to a call (a name or a number), as the kernel would run it."""
    program = Path(seccomp.FILTERS_FOLDER, f"{profile}.{architecture}.bpf").read_bytes()
    number = (NUMBERS[architecture] | LANDLOCK).get(call, call)
    machine = AUDIT_ARCH[architecture] if machine is None else machine
    data = struct.pack("<IIQ6Q", number, machine, 0, *arguments, *(0,) * (6 - len(arguments)))
    at, register = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        match code:
            case 0x20:  # BPF_LD | BPF_W | BPF_ABS
                (register,) = struct.unpack_from("<I", data, value)
            case 0x15:  # BPF_JEQ
                at += if_true if register == value else if_false
            case 0x25:  # BPF_JGT
                at += if_true if register > value else if_false
            case 0x35:  # BPF_JGE
                at += if_true if register >= value else if_false
            case 0x05:  # BPF_JA
                at += value
            case 0x45:  # BPF_JSET
                at += if_true if register & value else if_false
            case 0x54:  # BPF_AND
                register &= value
            case _:
                assert code == RETURN
                return value


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
@pytest.mark.parametrize("profile", PROFILES)
def test_calls_by_the_numbers_of_another_architecture_kill(profile, architecture):
    others = {*OTHER_ARCHITECTURES, *AUDIT_ARCH.values()} - {AUDIT_ARCH[architecture]}
    verdicts = {
        verdict(profile, architecture, call, machine=other) for other in others for call in range(600)
    }
    assert verdicts == {KILL_PROCESS}


@pytest.mark.parametrize("profile", PROFILES)
def test_calls_by_the_numbers_of_x32_kill(profile):
    assert {verdict(profile, "x86_64", X32 + call) for call in range(600)} == {KILL_PROCESS}


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
@pytest.mark.parametrize("profile", JOB_PROFILES)
def test_programs_are_refused_what_reaches_out_and_nothing_else(profile, architecture):
    def told(call, *arguments):
        return verdict(profile, architecture, call, *arguments)

    assert {name: told(name) for name in REFUSED_TO_JOBS} == dict.fromkeys(REFUSED_TO_JOBS, PERMISSION)
    absent = ("clone3", "io_uring_setup", "openat2", *LANDLOCK)
    assert {name: told(name) for name in absent} == dict.fromkeys(absent, MISSING)
    for flag in (NEW_USER, NEW_NETWORK, NEW_USER | NEW_NETWORK | SIGCHLD):
        assert told("clone", flag) == PERMISSION
    assert (told("clone", SIGCHLD), told("clone", THREAD)) == (ALLOW, ALLOW)
    assert told("clone", THREAD & ~SHARED_FILES) == PERMISSION  # a thread with its own descriptors
    for kind in (CHARACTER_DEVICE, BLOCK_DEVICE):
        assert told("mknodat", 0, 0, kind) == PERMISSION
    assert told("mknodat", 0, 0, FIFO) == ALLOW
    for request in (TYPE_INTO_TERMINAL, TYPE_INTO_TERMINAL | 1 << 32):  # the kernel takes 32 bits of it
        assert told("ioctl", 0, request) == PERMISSION
    assert told("ioctl", 0, WINDOW_SIZE) == ALLOW
    refused = (ENLARGE_PIPE, ENLARGE_PIPE | 1 << 32, SET_LEASE, NOTIFY_OF_CHANGES)
    assert [told("fcntl", 0, request) for request in refused] == [PERMISSION] * 4
    if architecture == "x86_64":
        assert told(MODIFY_LDT) == PERMISSION
    assert [told("fcntl", 0, request) for request in (SET_FLAGS, SET_LOCK, SIZE_OF_PIPE)] == [ALLOW] * 3
    granted = {
        "job": (),
        "job-loopback": (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK),
        "job-network": (AF_INET, AF_INET6),
    }
    families = {
        family: told("socket", family, STREAM) for family in (*range(64), 1 << 31, 1 << 32, AF_UNIX | 1 << 32)
    }
    assert families == dict.fromkeys(families, PERMISSION) | dict.fromkeys(granted[profile], ALLOW)
    with_unix = ALLOW if profile == "job-loopback" else PERMISSION
    flags = (0, NON_BLOCKING, CLOSED_BY_EXEC, 1 << 32)
    kinds = {
        kind: {told("socket", AF_UNIX, kind | flag) for flag in flags}
        for kind in (STREAM, DATAGRAM, RAW, SEQUENCED)
    }
    assert kinds == {STREAM: {with_unix}, DATAGRAM: {PERMISSION}, RAW: {PERMISSION}, SEQUENCED: {with_unix}}
    others = [told("socket", AF_NETLINK, RAW, protocol) for protocol in (4, 9, 15, 16, 1 << 32)]
    assert others == [PERMISSION] * 5
    assert {AF_UNIX, AF_NETLINK, AF_PACKET, AF_VSOCK} <= families.keys()
    for name in ("read", "write", "mmap", "mprotect", "execve", "openat", "kill", "prlimit64"):
        assert told(name) == ALLOW, name
    core, cpu, limits = 4, 0, 0x1000
    changes = [told("prlimit64", 0, core, limits), told("setrlimit", core, limits)]
    assert (changes, told("prlimit64", 7, core, limits)) == ([PRETENDED, PRETENDED], PERMISSION)
    others = [
        told("prlimit64", 0, core, 0),
        told("prlimit64", 0, cpu, limits),
        told("setrlimit", cpu, limits),
    ]
    assert others == [ALLOW] * 3
    private, huge, close_on_exec, huge_file = 0x22, 0x15 << 26 | 0x40000, 1, 4
    assert (told("mmap", 0, 0, 3, private), told("mmap", 0, 0, 3, private | huge)) == (ALLOW, NO_MEMORY)
    files = [told("memfd_create", 0, flags) for flags in (close_on_exec, close_on_exec | huge_file)]
    assert files == [ALLOW, NO_MEMORY]


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
@pytest.mark.parametrize("profile", JOB_PROFILES)
def test_calls_younger_than_the_filter_are_missing_in_programs(profile, architecture):
    removexattrat, open_tree_attr, last = 466, 467, X32 - 1
    told = {call: verdict(profile, architecture, call) for call in (*range(open_tree_attr, 1000), last)}
    assert told == dict.fromkeys(told, MISSING)
    assert verdict(profile, architecture, removexattrat) == ALLOW


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
@pytest.mark.parametrize("profile", JOB_PROFILES)
@pytest.mark.parametrize("flags", [0, NON_BLOCKING, NON_BLOCKING | CLOSED_BY_EXEC, 1 << 32])
def test_programs_have_pairs_of_sockets_that_stay_pairs(profile, architecture, flags):
    told = {
        kind: verdict(profile, architecture, "socketpair", AF_UNIX, kind | flags)
        for kind in (STREAM, DATAGRAM, RAW, SEQUENCED)
    }
    assert told == {STREAM: ALLOW, DATAGRAM: PERMISSION, RAW: PERMISSION, SEQUENCED: ALLOW}


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
@pytest.mark.parametrize("profile", JOB_PROFILES)
def test_programs_have_power_over_themselves_alone(profile, architecture):
    def told(call, *arguments):
        return verdict(profile, architecture, call, *arguments)

    limits, nowhere = 0x7FFF_0000_0000, 0
    assert [told("prlimit64", *how) for how in ((0, 7, limits), (77, 7, nowhere), (1 << 32, 7, nowhere))] == [
        ALLOW
    ] * 3
    assert [told("prlimit64", pid, 7, limits) for pid in (77, 1 << 32, 2**64 - 1)] == [PERMISSION] * 3
    for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        assert [told(name, pid) for pid in (0, 77, 1 << 32)] == [ALLOW, PRETENDED, PRETENDED]
    for name, process, group, user in (("setpriority", 0, 1, 2), ("ioprio_set", 1, 2, 3)):
        assert [told(name, process, pid) for pid in (0, 77, 1 << 32)] == [ALLOW, PERMISSION, PERMISSION]
        assert [told(name, kind, 0) for kind in (group, user, process | 1 << 32)] == [PERMISSION] * 3


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
@pytest.mark.parametrize("profile", JOB_PROFILES)
def test_programs_make_no_set_user_id_or_set_group_id_file(profile, architecture):
    def told(call, *arguments):
        return verdict(profile, architecture, call, *arguments)

    plain, dangerous, of_group = 0o755, 0o104755, 0o2755
    create, unnamed, read = 0o101, 0o20200001, 0
    ways = {"fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknodat": 2, "chmod": 1, "creat": 1, "mknod": 1}
    made = {"mknodat", "creat", "mknod"}  # the mode of a folder may have the bit: others decide
    for name in ways.keys() & NUMBERS[architecture].keys():
        tried = [told(name, *(0,) * ways[name], mode) for mode in (plain, dangerous, of_group)]
        assert tried == [ALLOW, PERMISSION, PERMISSION if name in made else ALLOW], name
    for flags in (create, unnamed):
        tried = [told("openat", 0, 0, flags, mode) for mode in (plain, dangerous, of_group)]
        assert tried == [ALLOW, PERMISSION, PERMISSION]
    for mode in (dangerous, of_group):
        assert told("openat", 0, 0, read, mode) == ALLOW  # what is in that register then is anybody's guess
        if "open" in NUMBERS[architecture]:
            assert [told("open", 0, how, mode) for how in (create, read)] == [PERMISSION, ALLOW]


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
@pytest.mark.parametrize("profile", ["guest", "guest-jit"])
def test_guests_get_little_more_than_memory(profile, architecture):
    def told(call, *arguments):
        return verdict(profile, architecture, call, *arguments)

    killing = (*REFUSED_TO_JOBS, "clone", "clone3", "io_uring_setup", "socket", "execve", "kill", "mknodat")
    assert {name: told(name) for name in killing} == dict.fromkeys(killing, KILL_PROCESS) | {
        "shmget": PERMISSION
    }
    assert (told("read"), told("write"), told("openat"), told("ioctl")) == (ALLOW, ALLOW, ACCESS, PERMISSION)
    for name in ("mmap", "mprotect"):
        executable = ALLOW if profile == "guest-jit" else PERMISSION
        assert (told(name, 0, 0, READ_WRITE), told(name, 0, 0, READ_EXECUTE)) == (ALLOW, executable)
    for kind in (SHARED, SHARED_VALIDATED, PRIVATE | GROWS_DOWN):  # RLIMIT_DATA does not count them
        assert [told("mmap", 0, 0, how, kind) for how in (READ_WRITE, READ_EXECUTE)] == [PERMISSION] * 2
    assert told("mmap", 0, 0, READ_WRITE, PRIVATE) == ALLOW
    assert (told("prlimit64", 0), told("prlimit64", 1)) == (ALLOW, PERMISSION)


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
def test_supervised_calls_are_notified_and_all_others_allowed(architecture):
    told = {call: verdict("supervised", architecture, call) for call in (*range(1000), X32 - 1)}
    expected = dict.fromkeys(told, ALLOW) | dict.fromkeys(SUPERVISED[architecture], NOTIFY)
    assert told == expected | dict.fromkeys((SETXATTRAT, REMOVEXATTRAT), MISSING)


@pytest.mark.parametrize(
    ("profile", "architecture", "calls"),
    [
        ("sockets", "x86_64", (42, 49)),
        ("sockets", "aarch64", (203, 200)),
        ("watches", "x86_64", (254,)),
        ("watches", "aarch64", (27,)),
    ],
)
def test_calls_that_name_a_socket_or_watch_are_notified_and_modes_of_a_group(profile, architecture, calls):
    def told_all(*arguments):
        return {call: verdict(profile, architecture, call, *arguments) for call in (*range(1000), X32 - 1)}

    allowed = dict.fromkeys(told_all(), ALLOW) | dict.fromkeys(calls, NOTIFY)
    assert told_all(0o5777, 0o5777, 0o5777) == allowed
    for position, names in ((1, ("chmod", "fchmod")), (2, ("fchmodat", "fchmodat2"))):
        numbers = [NUMBERS[architecture][name] for name in names if name in NUMBERS[architecture]]
        assert told_all(*(0,) * position, 0o2755) == allowed | dict.fromkeys(numbers, NOTIFY)
