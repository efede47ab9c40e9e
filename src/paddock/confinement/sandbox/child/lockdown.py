"""Steps by which a process of Paddock gives up its powers permanently, in the order that each step requires.

    shed   leave root, no_new_privs, Landlock                     before the first thread: these are per thread
    seal   core dumps off, files and processes to zero, seccomp   after the last system call that the filter forbids

A job (`shim.py`) takes the same steps with other rules.
"""

import contextlib
import ctypes
import functools
import importlib
import os
import resource
from typing import NamedTuple

from paddock.confinement.sandbox.child import landlock, seccomp
from paddock.confinement.sandbox.child.system_calls import LIBC, check_result

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 36, 38, 47
_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_SIGKILL, _SIGCONT = 9, 18
_ARG_START, _ARG_END = 45, 46
"""Fields of /proc/<pid>/stat after the name."""
_capset = LIBC.capset  # these three are made once, before the forks
_THIS_THREAD = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()
_LOWEST_PRIVATE_DESCRIPTOR = 3

UNPRIVILEGED_UID = 65534
"""The user and group that a worker becomes if Paddock is root: `nobody`, which owns no file."""
JOB_UID = 65531
"""The default user and group of jobs if Paddock is root. No distribution and no system service assigns this number
(Debian policy 9.2.2; UIDs and GIDs of systemd). Therefore no file and no other process has it, unlike `nobody`. Most
user namespaces of containers map it, because it is below 65536."""


class LockdownRules(NamedTuple):
    """The restrictions of a worker. The fork server prepares them, because it can still read files."""

    filter: bytes
    landlock_abi: int
    """0 without Landlock; then the worker gets an empty root instead."""
    ruleset: int
    """Descriptor of a Landlock ruleset, which `shed_powers` closes; -1 without Landlock."""
    readable: tuple[str, ...] = ()
    """Files that the worker may read."""


def prepare_rules(profile: str, *, readable: tuple[str, ...] = ()) -> LockdownRules:
    """Prepare what `shed_powers` and `seal_process` need. The rules deny everything except reading `readable` files.

    Raises OSError if Paddock has no filter for this machine.
    """
    has_own_user()  # fills the cache, which forked children inherit
    version = landlock.read_abi_version()
    ruleset = -1
    if version:
        ruleset = landlock.build_ruleset(version, [(path, landlock.READ_FILE) for path in readable])
    else:
        importlib.import_module(
            "paddock.confinement.sandbox.child.empty_root"
        )  # workers cannot read it any more
    return LockdownRules(seccomp.read_filter(profile), version, ruleset, readable)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends (prctl(2), PR_SET_PDEATHSIG)."""
    LIBC.prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def continue_without_parent() -> None:
    """Have the kernel continue this process when its parent ends (prctl(2), PR_SET_PDEATHSIG with SIGCONT).

    A process that is stopped would not notice the end, and what is below it would go on later.
    """
    LIBC.prctl(_PR_SET_PDEATHSIG, _SIGCONT)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    check_result("prctl(PR_SET_CHILD_SUBREAPER)", LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def make_undumpable() -> None:
    """Deny other processes of the same user this process's memory and /proc entry, until exec (PR_SET_DUMPABLE)."""
    LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def name_itself(title: bytes) -> None:
    """Replace /proc/<pid>/cmdline, which every user may read, by `title`, to show no host path (proc(5), arg_start)."""
    with open("/proc/self/stat", "rb") as file:  # pathlib costs a fork server's child a millisecond
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    if 0 < start < end:
        ctypes.memmove(start, title[: end - start - 1].ljust(end - start, b"\0"), end - start)


def become_user(user: int) -> None:
    """Change from root to `user` and the group of the same number, without other groups."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def forbid_capabilities() -> None:
    """Empty the ambient and bounding sets, so that no exec grants capabilities. The latter needs CAP_SETPCAP."""
    LIBC.prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    capability = 0
    while LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1


def drop_capabilities() -> None:
    """Give up every capability of this process. Raises OSError if the kernel refuses."""
    check_result("capset", _capset(_THIS_THREAD, _NO_CAPABILITIES))


def keep_capability(number: int) -> None:
    """Give up every capability of this process except one, a number below 32. Raises OSError if the kernel refuses."""
    held = 1 << number
    check_result("capset", _capset(_THIS_THREAD, (ctypes.c_uint32 * 6)(held, held, 0, 0, 0, 0)))


def refuse_new_privileges() -> None:
    """Prevent every later exec from granting privileges (prctl(2), PR_SET_NO_NEW_PRIVS)."""
    check_result("prctl(PR_SET_NO_NEW_PRIVS)", LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def close_all_except(*kept: int) -> None:
    """Close every descriptor above standard error that is not in `kept`; negative numbers there mean none."""
    last = _LOWEST_PRIVATE_DESCRIPTOR - 1
    for descriptor in sorted(number for number in kept if number >= 0):
        os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


@functools.cache
def is_mapped(number: int) -> bool:
    """Return whether this user namespace maps a user and a group of that number (user_namespaces(7))."""
    for kind in ("uid", "gid"):
        with open(f"/proc/self/{kind}_map") as file:
            ranges = [[int(word) for word in line.split()] for line in file]
        if not any(first <= number < first + count for first, _, count in ranges):
            return False
    return True


@functools.cache
def has_own_user() -> bool:
    """Return whether workers can run as a separate user: Paddock must be root, and the user must be mapped."""
    return os.geteuid() == 0 and is_mapped(UNPRIVILEGED_UID)


def shed_powers(rules: LockdownRules) -> None:
    """Leave root, refuse new privileges, and deny files, sockets and scopes to this thread and its children.

    In a user namespace without another user, root stays root but loses all capabilities. Without Landlock, an empty
    root denies the files. Raises OSError if neither can be had.
    """
    if has_own_user():
        become_user(UNPRIVILEGED_UID)
        die_with_parent()  # again, because a change of user clears it
    if not rules.landlock_abi:
        from paddock.confinement.sandbox.child.empty_root import enter_empty_root

        enter_empty_root(rules.readable)
        forbid_capabilities()
        drop_capabilities()
    elif os.geteuid() == 0:
        forbid_capabilities()
        drop_capabilities()
    refuse_new_privileges()
    make_undumpable()
    if rules.landlock_abi:
        landlock.enforce_ruleset(rules.ruleset)


def lift_stack_limit() -> None:
    """Remove the inherited maximum of the stack limit, where this process may: jobs have limits of their own."""
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_STACK, (soft, resource.RLIM_INFINITY))


def dump_no_core() -> None:
    """Prevent core dumps and crash handlers for this process and its children.

    With a limit of 1 byte the kernel writes no file and starts no crash handler, which would run as root outside of our
    limits. With a limit of 0 it would start the handler (`do_coredump` in the kernel, core(5)).
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    value = 1 if hard == resource.RLIM_INFINITY else min(1, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (value, value))


def seal_process(rules: LockdownRules) -> None:
    """Set the limits that never change and install the system call filter on every thread."""
    dump_no_core()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    seccomp.install_filter(rules.filter)
