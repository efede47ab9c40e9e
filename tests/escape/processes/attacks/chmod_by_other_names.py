"""Change the mode of a file outside by another name: `..`, a directory or a descriptor of it, links, /proc.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import array
import ctypes
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)
outside, own = FACTS["outside"], FACTS["workspace"]
NUMBERS = {"x86_64": {"fchmodat": 268, "fchmodat2": 452}, "aarch64": {"fchmodat": 53, "fchmodat2": 452}}
AT_FDCWD, EMPTY_PATH, MODE = -100, 0x1000, 0o777
os.symlink(outside, f"{own}/folder")
os.symlink(f"{outside}/mode", f"{own}/file")
os.symlink(f"{own}/folder/../outside/mode", f"{own}/far")


def call(name, *arguments):
    if libc.syscall(NUMBERS[os.uname().machine][name], *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def pass_descriptor(descriptor):
    """Return a descriptor as it comes out of a socket."""
    one, other = socket.socketpair()
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])
    _, ancillary, _, _ = other.recvmsg(1, socket.CMSG_LEN(4))
    return int.from_bytes(ancillary[0][2][:4], "little")


folder, file = (os.open(path, os.O_PATH) for path in (outside, f"{outside}/mode"))
ways = [
    lambda: os.chmod(f"{own}/../outside/mode", MODE),
    lambda: os.chmod(f"//{outside}/./mode", MODE),
    lambda: os.chmod("mode", MODE, dir_fd=folder),
    lambda: os.chmod("mode", MODE, dir_fd=pass_descriptor(folder)),
    lambda: os.chmod("../outside/mode", MODE, dir_fd=os.open(own, os.O_RDONLY)),
    lambda: os.chmod(f"/proc/self/fd/{file}", MODE),
    lambda: os.chmod(f"/dev/fd/{file}", MODE),
    lambda: os.chmod(f"/proc/thread-self/fd/{folder}/mode", MODE),
    lambda: os.chmod(f"/proc/{os.getpid()}/fd/{file}", MODE),
    lambda: os.chmod(f"/proc/self/root{outside}/mode", MODE),
    lambda: os.chmod(f"{own}/folder/mode", MODE),
    lambda: os.chmod(f"{own}/file", MODE),
    lambda: os.chmod(f"{own}/far", MODE),
    lambda: os.fchmod(file, MODE),
    lambda: call("fchmodat", AT_FDCWD, f"{outside}/mode".encode(), MODE),
    lambda: call("fchmodat", folder, b"mode", MODE),
    lambda: call("fchmodat2", file, b"", MODE, EMPTY_PATH),
    lambda: call("fchmodat2", pass_descriptor(file), b"", MODE, EMPTY_PATH),
    lambda: call("fchmodat2", folder, b"mode", MODE, 0),
    lambda: (os.chdir(outside), os.chmod("mode", MODE)),
    lambda: os.chmod("/proc/self/cwd/mode", MODE),
]
for way in ways:
    try:
        way()
    except OSError:
        continue
    if os.stat(f"{outside}/mode").st_mode & 0o777 == MODE:
        break
else:
    raise OSError("all were refused")
