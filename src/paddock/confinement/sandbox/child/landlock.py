"""Landlock system calls (landlock(7), Linux >= 5.13): a process gives up its own rights permanently.

`RESIDUAL_RISKS` in `sandbox/tiers.py` lists what Landlock has no rule for and what therefore stays open.
"""

import ctypes
import os
import stat
from collections.abc import Iterable

from paddock.confinement.sandbox.child.paths import open_itself
from paddock.confinement.sandbox.child.system_calls import LIBC

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_FLAG = 1

_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file system rights in each ABI, which are the lowest bits. Later ABIs have as many as ABI 5."""
_NETWORK_ABI = 4
SCOPE_ABI = 6
"""The first ABI that keeps signals and abstract unix sockets within the domain."""
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
"""All rights except making device nodes and sockets, and ioctls on devices."""
_OF_FILES = 1 << 0 | 1 << 1 | READ_FILE | 1 << 14 | _DEVICE_IOCTL
"""The rights that a rule for a file, not a directory, may contain."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # the default with `_pack_`; Python 3.14 requires it to be explicit
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def read_abi_version() -> int:
    """Return the kernel's Landlock ABI; 0 if it has none or Landlock is switched off."""
    return max(0, int(LIBC.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


def build_ruleset(
    version: int,
    rules: Iterable[tuple[str, int]],
    *,
    network: bool = False,
    fixed: frozenset[str] = frozenset(),
) -> int:
    """Return a descriptor of a ruleset that denies every right of ABI `version` except `rules` (path, rights).

    Opens the paths with the caller's rights: call it before a change of user. With `network`, TCP is not restricted.
    `fixed` paths must not lead through a link.
    Raises OSError, with the path, if one does not exist.
    """
    handled = _Ruleset(
        files=(1 << _RIGHTS_BY_ABI.get(version, 16)) - 1,
        network=_ALL_TCP if version >= _NETWORK_ABI and not network else 0,
        scopes=_ALL_SCOPES if version >= SCOPE_ABI else 0,
    )
    size = 24 if version >= SCOPE_ABI else 16 if version >= _NETWORK_ABI else 8
    ruleset = int(LIBC.syscall(_CREATE_RULESET, ctypes.byref(handled), size, 0))
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
    """Add a path to a ruleset; a `fixed` one must not lead through a link.

    Raises OSError, also if the kernel does not know one of the `rights`.
    """
    descriptor = open_itself(path) if fixed else os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = _PathRule(rights, descriptor)
        if LIBC.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0):
            raise OSError(ctypes.get_errno(), f"landlock_add_rule: {path}")
    finally:
        os.close(descriptor)


def enforce_ruleset(ruleset: int) -> None:
    """Restrict this thread and its children permanently, and close the ruleset's descriptor.

    `no_new_privs` must be set. Call it while the process has one thread, or in the thread to be restricted.
    Raises OSError if the kernel refuses.
    """
    try:
        if LIBC.syscall(_RESTRICT_SELF, ruleset, 0):
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(ruleset)
