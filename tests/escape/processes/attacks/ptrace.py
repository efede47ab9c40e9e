"""Trace Paddock's process (PTRACE_SEIZE).

landlock: closed
namespaces: closed
unconfined: open
"""

import ctypes

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


check(libc.ptrace(0x4206, FACTS["server"], None, None))
