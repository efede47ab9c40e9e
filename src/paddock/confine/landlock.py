"""Landlock by system call (landlock(7), Linux >= 5.13): a process gives up its own rights for good.

Only the standard library may be imported here: the module runs in zygotes and wardens.
"""

import ctypes
import os

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_FLAG = 1

_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many file system rights each ABI knows; they are the lowest bits. Later ABIs know as many as ABI 5."""
_NETWORK_ABI, _SCOPE_ABI = 4, 6
_ALL_TCP = 0b11
_ALL_SCOPES = 0b11
_READ_FILE = 1 << 2
_RULE_PATH_BENEATH = 1


_LIBC = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """Return the kernel's Landlock ABI, 0 when it has none or it is switched off."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


def deny_everything(version: int, *, readable: tuple[str, ...] = ()) -> None:
    """Deny this thread every file, TCP port and scope that ABI `version` can name, for ever, but reading `readable`.

    `no_new_privs` must be set. Call it while the process has one thread, or in the thread that matters.
    Raises OSError when the kernel refuses.
    """
    handled = _Ruleset(
        files=(1 << _RIGHTS_BY_ABI.get(version, 16)) - 1,
        network=_ALL_TCP if version >= _NETWORK_ABI else 0,
        scopes=_ALL_SCOPES if version >= _SCOPE_ABI else 0,
    )
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _NETWORK_ABI else 8
    ruleset = _LIBC.syscall(_CREATE_RULESET, ctypes.byref(handled), size, 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    try:
        for path in readable:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = _PathRule(_READ_FILE, descriptor)
            failed = _LIBC.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
            os.close(descriptor)
            if failed:
                raise OSError(ctypes.get_errno(), f"landlock_add_rule: {path}")
        if _LIBC.syscall(_RESTRICT_SELF, ruleset, 0):
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(ruleset)
