"""Read Paddock's memory by system call; only the denial shows as another error than EFAULT.

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


libc.process_vm_readv(FACTS["server"], None, 0, None, 0, 0)
if ctypes.get_errno():
    raise OSError(ctypes.get_errno(), "refused")
