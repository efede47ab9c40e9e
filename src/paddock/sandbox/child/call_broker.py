"""The broker of one job: it changes metadata of files for the job, below the job's writable roots alone.

    caller -> broker   one supervised call: `Notification`, with the caller's memory if it can be read
    broker             copies every argument out of the memory once
                       opens the named file as the kernel would for the caller, but through no magic link (O_PATH)
                       finds out where that file lies, and opens it again below a writable root, through no link
                       compares both, asks whether the caller still waits, acts on the second descriptor, and answers

The proof is the second opening: RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS from the root's own descriptor. Therefore it does
not matter how a program names a file, what it renames meanwhile, and what it writes to its memory. The broker has the
job's user and no capability, so that the kernel checks ownership as it would for the job.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import socket
import stat
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, NoReturn, Self

from paddock.sandbox.child import lockdown
from paddock.sandbox.child.paths import open_itself, open_without_magic

_SEND, _IS_VALID = 0xC0182101, 0x80082102
"""Requests of ioctl(2): SECCOMP_IOCTL_NOTIF_SEND, and _ID_VALID as every kernel accepts it."""
_NOTIFICATION, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
"""struct seccomp_notif and seccomp_notif_resp (linux/seccomp.h)."""
NOTIFICATION_BYTES = _NOTIFICATION.size

_AT_FDCWD, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_PATH_BYTES, _NAME_BYTES, _VALUE_BYTES = 4096, 256, 65536
"""Limits of the kernel, with the NUL: PATH_MAX, XATTR_NAME_MAX and XATTR_SIZE_MAX."""
_NO_CHANGE = 0xFFFFFFFF
_OWN_DESCRIPTOR = re.compile(rb"/(?:proc/(?:self|thread-self)|dev)/fd/(\d{1,9})")
"""Paths of the caller's own descriptors. C libraries use them where the kernel lacks fchmodat2."""
_LIBC = ctypes.CDLL(None, use_errno=True)

Action = Callable[[str], object]
"""Does a call to the file that a path of /proc/self/fd leads to."""


class Notification(NamedTuple):
    """A system call that waits for its answer."""

    id: int
    thread: int
    number: int
    arguments: tuple[int, ...]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what SECCOMP_IOCTL_NOTIF_RECV returned."""
        cookie, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(data)
        return cls(cookie, thread, number, tuple(arguments))

    def answer(self, listener: int, error: int) -> None:
        """End the call with an error number, or with success for 0. A caller that waits no more is none."""
        with contextlib.suppress(FileNotFoundError):
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(self.id, 0, -error, 0))

    def check(self, listener: int) -> None:
        """Raise FileNotFoundError if the caller waits no more. Its number may then be that of another process."""
        fcntl.ioctl(listener, _IS_VALID, struct.pack("=Q", self.id))


class Memory:
    """The memory of a caller; None if it cannot be read."""

    def __init__(self, file: int | None) -> None:
        self._file = file

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes. Raises OSError."""
        data = self._read(address, size)
        if len(data) < size:
            raise OSError(errno.EFAULT, "argument")
        return data

    def read_text(self, address: int, size: int, too_long: int = errno.ENAMETOOLONG) -> bytes:
        """Return the bytes before the first NUL, which must be among the first `size`. Raises OSError."""
        data = self._read(address, size)
        text, end, _ = data.partition(b"\0")
        if not end:
            raise OSError(too_long if len(data) == size else errno.EFAULT, "argument")
        return text

    def _read(self, address: int, size: int) -> bytes:
        if self._file is None:
            raise PermissionError(errno.EPERM, "the memory of the caller cannot be read")
        try:
            return os.pread(self._file, size, address)
        except (OSError, OverflowError) as error:
            raise OSError(errno.EFAULT, "argument") from error


class Call(NamedTuple):
    """How a system call names its file, as positions of arguments, and what it does to it."""

    prepare: Callable[[Memory, Sequence[int]], Action]
    """Reads the arguments that follow those that name the file."""
    rest: int
    """Position of the first of them."""
    path: int | None = None
    folder: int | None = None
    """Without a `path`, the descriptor of the file itself; else the directory of relative paths."""
    flags: int | None = None
    follows: bool = True
    """Whether a link at the end of the path is followed."""
    may_lack_path: bool = False
    """Whether a null pointer as path means the `folder` itself."""


def _prepare_mode(_: Memory, arguments: Sequence[int]) -> Action:
    mode = arguments[0] & 0o7777
    if mode & stat.S_ISUID:
        raise PermissionError(errno.EPERM, "set-user-id")
    return partial(os.chmod, mode=mode)


def _prepare_owner(_: Memory, arguments: Sequence[int]) -> Action:
    user, group = (ctypes.c_int32(number).value for number in arguments[:2])
    return partial(os.chown, uid=user, gid=group)


def _prepare_times(unit: str, memory: Memory, arguments: Sequence[int]) -> Action:
    """Prepare utimensat(2); `unit` is that of the second number of each time, "" if there is none."""
    address = arguments[0]
    if not address:
        return partial(_set_times, times=None)
    if not unit:
        accessed, modified = struct.unpack("=qq", memory.read(address, 16))
        return partial(_set_times, times=struct.pack("=qqqq", accessed, 0, modified, 0))
    times = memory.read(address, 32)
    if unit == "us":
        numbers = struct.unpack("=qqqq", times)
        if not all(0 <= micros < 1_000_000 for micros in numbers[1::2]):
            raise OSError(errno.EINVAL, "times")
        times = struct.pack("=qqqq", numbers[0], numbers[1] * 1000, numbers[2], numbers[3] * 1000)
    return partial(_set_times, times=times)


def _set_times(path: str, times: bytes | None) -> None:
    if _LIBC.utimensat(_AT_FDCWD, path.encode(), times, 0):
        raise OSError(ctypes.get_errno(), "utimensat")


def _prepare_attribute(memory: Memory, arguments: Sequence[int]) -> Action:
    name, value, size, flags = arguments[:4]
    if size > _VALUE_BYTES:
        raise OSError(errno.E2BIG, "value")
    text = _read_attribute_name(memory, name)
    data = memory.read(value, size) if size else b""
    return partial(os.setxattr, attribute=text, value=data, flags=ctypes.c_int32(flags).value)


def _prepare_removal(memory: Memory, arguments: Sequence[int]) -> Action:
    return partial(os.removexattr, attribute=_read_attribute_name(memory, arguments[0]))


def _read_attribute_name(memory: Memory, address: int) -> bytes:
    if not (name := memory.read_text(address, _NAME_BYTES, errno.ERANGE)):
        raise OSError(errno.ERANGE, "name")
    return name


_nanoseconds, _microseconds, _seconds = (partial(_prepare_times, unit) for unit in ("ns", "us", ""))

CALLS = {
    "chmod": Call(_prepare_mode, 1, path=0),
    "fchmod": Call(_prepare_mode, 1, folder=0),
    "fchmodat": Call(_prepare_mode, 2, folder=0, path=1),
    "fchmodat2": Call(_prepare_mode, 2, folder=0, path=1, flags=3),
    "chown": Call(_prepare_owner, 1, path=0),
    "lchown": Call(_prepare_owner, 1, path=0, follows=False),
    "fchown": Call(_prepare_owner, 1, folder=0),
    "fchownat": Call(_prepare_owner, 2, folder=0, path=1, flags=4),
    "utime": Call(_seconds, 1, path=0),
    "utimes": Call(_microseconds, 1, path=0),
    "futimesat": Call(_microseconds, 2, folder=0, path=1, may_lack_path=True),
    "utimensat": Call(_nanoseconds, 2, folder=0, path=1, flags=3, may_lack_path=True),
    "setxattr": Call(_prepare_attribute, 1, path=0),
    "lsetxattr": Call(_prepare_attribute, 1, path=0, follows=False),
    "fsetxattr": Call(_prepare_attribute, 1, folder=0),
    "removexattr": Call(_prepare_removal, 1, path=0),
    "lremovexattr": Call(_prepare_removal, 1, path=0, follows=False),
    "fremovexattr": Call(_prepare_removal, 1, folder=0),
}
CALL_NUMBERS = {
    "x86_64": {
        "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "lchown": 94, "fchown": 93,
        "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "setxattr": 188,
        "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199,
    },
    "aarch64": {
        "fchmod": 52, "fchmodat": 53, "fchmodat2": 452, "fchown": 55, "fchownat": 54, "utimensat": 88, "setxattr": 5,
        "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
    },
}  # fmt: skip
"""Numbers of the calls on each architecture (the kernel's syscall tables); aarch64 lacks the older ones."""
_BY_NUMBER = {
    number: CALLS[name] for name, number in CALL_NUMBERS.get(os.uname().machine, CALL_NUMBERS["x86_64"]).items()
}


class Broker:
    """Does the supervised calls of one job."""

    def __init__(self, listener: int, roots: Sequence[str]) -> None:
        """Open the writable `roots`, of which those that are gone are left out."""
        self._listener = listener
        self._roots: list[tuple[str, int]] = []
        for root in roots:
            with contextlib.suppress(OSError):
                self._roots.append((root, open_itself(root)))

    def answer(self, notification: Notification, memory: int | None) -> None:
        """Do one call, or refuse it, and end it."""
        opened: list[int] = []
        try:
            self._carry_out(notification, Memory(memory), opened)
            error = 0
        except OSError as failure:
            error = failure.errno or errno.EPERM
        except ValueError:  # a NUL, or a number out of range
            error = errno.EINVAL
        finally:
            for file in opened:
                os.close(file)
        notification.answer(self._listener, error)

    def _carry_out(self, notification: Notification, memory: Memory, opened: list[int]) -> None:
        call = _BY_NUMBER[notification.number]
        named = _open_named_file(call, notification, memory)
        opened.append(named)
        action = call.prepare(memory, notification.arguments[call.rest :])
        target = self._open_below_root(named)
        opened.append(target)
        notification.check(self._listener)
        action(f"/proc/self/fd/{target}")

    def _open_below_root(self, named: int) -> int:
        """Return a descriptor of the same file, opened below a root. Raises PermissionError if it is below none."""
        facts = os.fstat(named)
        if stat.S_ISREG(facts.st_mode) and not facts.st_nlink:  # without a name, as a memory file: it is the job's own
            return os.dup(named)
        path = os.readlink(f"/proc/self/fd/{named}")
        for root, folder in self._roots:
            below = root.rstrip("/") + "/"
            if f"{path}/".startswith(below):
                with contextlib.suppress(OSError):
                    target = open_itself(path[len(below) :] or ".", folder, flags=os.O_NOFOLLOW)
                    if os.path.samestat(os.fstat(target), facts):
                        return target
                    os.close(target)
        raise PermissionError(errno.EPERM, "outside")


def _open_named_file(call: Call, notification: Notification, memory: Memory) -> int:
    """Return a descriptor (O_PATH) of the file that a call names. Raises OSError."""
    arguments = notification.arguments
    folder = _AT_FDCWD if call.folder is None else ctypes.c_int32(arguments[call.folder]).value
    flags = 0 if call.flags is None else arguments[call.flags] & 0xFFFFFFFF
    if flags & ~(_NO_FOLLOW | _EMPTY_PATH):
        raise OSError(errno.EINVAL, "flags")
    if call.path is None or (call.may_lack_path and not arguments[call.path]):
        if folder < 0:
            raise OSError(errno.EBADF if call.path is None or folder != _AT_FDCWD else errno.EFAULT, "descriptor")
        return _open_of_caller(notification.thread, folder)
    path = memory.read_text(arguments[call.path], _PATH_BYTES)
    if not path:
        if not flags & _EMPTY_PATH:
            raise FileNotFoundError(errno.ENOENT, "path")
        return _open_of_caller(notification.thread, folder)
    follows = call.follows and not flags & _NO_FOLLOW
    if follows and (own := _OWN_DESCRIPTOR.fullmatch(path)):
        return _open_of_caller(notification.thread, int(own[1]))
    if path.startswith(b"/"):
        return open_without_magic(path, follows=follows)
    base = _open_of_caller(notification.thread, folder)
    try:
        return open_without_magic(path, base, follows=follows)
    finally:
        os.close(base)


def _open_of_caller(thread: int, descriptor: int) -> int:
    """Return a descriptor (O_PATH) of the file behind one of the caller's, or of its directory. Raises OSError."""
    name = "cwd" if descriptor == _AT_FDCWD else f"fd/{descriptor}"
    try:
        return os.open(f"/proc/{thread}/{name}", os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise OSError(errno.EBADF, "descriptor") from error


def serve_calls(channel: socket.socket, listener: int, roots: Sequence[str], user: int | None) -> NoReturn:
    """Turn this forked process into the broker of a job: answer each call that arrives, until the channel is closed."""
    try:
        lockdown.close_all_except(channel.fileno(), listener)
        broker = Broker(listener, roots)
        if user is not None and os.geteuid() != user:
            lockdown.become_user(user)
        lockdown.drop_capabilities()
        lockdown.refuse_new_privileges()
        lockdown.make_undumpable()
        lockdown.die_with_parent()
        while True:
            data, files, _, _ = socket.recv_fds(channel, NOTIFICATION_BYTES, 1)
            if not data:
                break
            broker.answer(Notification.from_bytes(data), files[0] if files else None)
            for file in files:
                os.close(file)
    finally:  # nothing may return into the supervisor's code
        os._exit(0)
