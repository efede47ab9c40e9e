"""How a process of Paddock gives up its powers for good, in the order that makes each step possible.

    shed   leave root, no_new_privs, Landlock                     before the first thread: these are per thread
    seal   core dumps off, files and processes to zero, seccomp   after the last thing that needs a system call

Only the standard library may be imported here: the module runs in zygotes.
"""

import ctypes
import os
import resource
from typing import NamedTuple

from paddock.confine import landlock, seccomp

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_SIGKILL = 9
_LIBC = ctypes.CDLL(None, use_errno=True)
_LOWEST_PRIVATE_DESCRIPTOR = 3

UNPRIVILEGED = 65534
"""The user and group a worker of a root Paddock becomes: `nobody`, which owns nothing."""


class Rules(NamedTuple):
    """What a worker is left with. Prepared in the zygote, where files can still be read."""

    filter: bytes
    landlock_abi: int


def prepare(profile: str) -> Rules:
    """Read what `shed` and `seal` need. Raises OSError when this machine has no filter or no Landlock."""
    version = landlock.abi()
    if version == 0:
        raise OSError("this kernel offers no Landlock (Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK=y)")
    return Rules(filter=seccomp.read_filter(profile), landlock_abi=version)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends (prctl(2), PR_SET_PDEATHSIG)."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def close_all_but(*kept: int) -> None:
    """Close every descriptor above standard error that is not in `kept`."""
    last = _LOWEST_PRIVATE_DESCRIPTOR - 1
    for descriptor in sorted(kept):
        os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def shed(rules: Rules) -> None:
    """Leave root, refuse new privileges, and deny all files, sockets and scopes to this thread and its heirs.

    `/dev/urandom` stays readable, so that V8 can seed its generator while it starts; `seal` ends that too.
    """
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
        os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
        die_with_parent()  # a change of user clears it
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    landlock.deny_everything(rules.landlock_abi, readable=("/dev/urandom",))


def seal(rules: Rules) -> None:
    """Set the limits that never change and install the system call filter on every thread."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    seccomp.install(rules.filter)
