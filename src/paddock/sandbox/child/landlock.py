"""Landlock by system call (landlock(7), Linux >= 5.13): a process gives up its own rights for good."""

import ctypes
import os
import stat
from collections.abc import Iterable

from paddock.sandbox.child.paths import open_itself

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_FLAG = 1

_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many file system rights each ABI knows; they are the lowest bits. Later ABIs know as many as ABI 5."""
_NETWORK_ABI, _SCOPE_ABI = 4, 6
_ALL_TCP = 0b11
_ALL_SCOPES = 0b11
_RULE_PATH_BENEATH = 1

READ_FILE = 1 << 2
LIST = 1 << 3
"""List directories."""
READ = 1 << 0 | READ_FILE | LIST
"""Execute, read files, list directories."""
DEVICE = 1 << 1 | READ_FILE | 1 << 14
"""Read, write and truncate one existing file."""
_MAKE_DEVICES_AND_SOCKETS = 1 << 6 | 1 << 9 | 1 << 11
_DEVICE_IOCTL = 1 << 15
WRITE = (1 << 15) - 1 & ~_MAKE_DEVICES_AND_SOCKETS
"""Everything but device nodes, sockets and ioctls on devices."""
_OF_FILES = 1 << 0 | 1 << 1 | READ_FILE | 1 << 14 | _DEVICE_IOCTL
"""The rights that a rule over a file, rather than a directory, may name."""

SCOPE_ABI = _SCOPE_ABI
"""The first ABI that keeps signals and abstract unix sockets within the domain."""

_LIBC = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # what `_pack_` means anyway; Python 3.14 wants it said
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def read_abi_version() -> int:
    """Return the kernel's Landlock ABI, 0 when it has none or it is switched off."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


def build_ruleset(
    version: int,
    rules: Iterable[tuple[str, int]],
    *,
    network: bool = False,
    fixed: frozenset[str] = frozenset(),
) -> int:
    """Return a ruleset descriptor that denies all that ABI `version` can name, but `rules` (path, rights).

    Paths are opened now, with the rights of now: call it before a change of user. `network` leaves TCP alone; `fixed`
    are paths that may lead through no link.
    Raises OSError, with the path, when one is not there.
    """
    handled = _Ruleset(
        files=(1 << _RIGHTS_BY_ABI.get(version, 16)) - 1,
        network=_ALL_TCP if version >= _NETWORK_ABI and not network else 0,
        scopes=_ALL_SCOPES if version >= _SCOPE_ABI else 0,
    )
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _NETWORK_ABI else 8
    ruleset = int(_LIBC.syscall(_CREATE_RULESET, ctypes.byref(handled), size, 0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    try:
        for path, rights in rules:
            allow_path(ruleset, path, rights & handled.files, fixed=path in fixed)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def allow_path(ruleset: int, path: str, rights: int, *, fixed: bool = False) -> None:
    """Add a path to a ruleset, a `fixed` one only when it leads through no link.

    Raises OSError, also when `rights` holds one that the kernel does not know.
    """
    descriptor = open_itself(path) if fixed else os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = _PathRule(rights, descriptor)
        if _LIBC.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0):
            raise OSError(ctypes.get_errno(), f"landlock_add_rule: {path}")
    finally:
        os.close(descriptor)


def enforce_ruleset(ruleset: int) -> None:
    """Put this thread and its heirs under a ruleset for ever, and close its descriptor.

    `no_new_privs` must be set. Call it while the process has one thread, or in the thread that matters.
    Raises OSError when the kernel refuses.
    """
    try:
        if _LIBC.syscall(_RESTRICT_SELF, ruleset, 0):
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(ruleset)
