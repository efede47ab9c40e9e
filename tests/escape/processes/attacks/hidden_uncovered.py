"""Remove what covers a hidden file: by mounts, new namespaces, modes and owners.

landlock: closed
namespaces: closed
unconfined: open
"""

import contextlib
import ctypes
import os

os.chdir(FACTS["workspace"])
libc = ctypes.CDLL(None, use_errno=True)
libc.unshare(0x10000000)
libc.unshare(0x00020000)
for path in (b".env", b"api/config/.env", b"api/config", b"api"):
    libc.umount2(path, 2)
    libc.mount(path, path, None, 4096 | 32, None)
    tree = libc.syscall(428, -100, path, 1)
    libc.syscall(429, tree, b"", -100, b"src", 4)
for path in (".env", "api/config/.env"):
    with contextlib.suppress(OSError):
        os.chmod(path, 0o666)
    with contextlib.suppress(OSError):
        os.chown(path, os.getuid(), os.getgid())
assert b"SECRET" in (open(".env", "rb").read(), open("api/config/.env", "rb").read())
