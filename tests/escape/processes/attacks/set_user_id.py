"""Gain privileges by a set-user-id program.

landlock: closed
namespaces: closed
unconfined: closed
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


if libc.prctl(39, 0, 0, 0, 0) == 1:
    raise OSError("no_new_privs is set")
