"""The broker of one job: it does system calls for which Landlock has no rule, below the job's roots alone.

    caller -> broker   one supervised call: `Notification`, with the caller's memory if it can be read
    broker             copies every argument out of the memory once
                       opens the named file as the kernel would for the caller, but through no magic link (O_PATH)
                       finds out where that file lies, and opens it again below a root, through no link
                       compares both, asks whether the caller still waits, acts on the second descriptor, and answers

The proof is the second opening: RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS from the root's own descriptor. Therefore it
does not matter how a program names a file, what it renames meanwhile, and what it writes to its memory. The broker has
the job's user and no capability, so that the kernel checks ownership as it would for the job.
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

from paddock.confinement.sandbox.child import lockdown
from paddock.confinement.sandbox.child.messages import JobSpec
from paddock.confinement.sandbox.child.paths import open_itself, open_without_magic
from paddock.confinement.sandbox.child.system_calls import LIBC, check_result, copy_descriptor

_SEND, _IS_VALID = 0xC0182101, 0x80082102
"""Requests of ioctl(2): SECCOMP_IOCTL_NOTIF_SEND, and _ID_VALID as every kernel accepts it."""
RECEIVE = 0xC0502100
"""SECCOMP_IOCTL_NOTIF_RECV, whose buffer must be zero."""
_NOTIFICATION, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
"""struct seccomp_notif and seccomp_notif_resp (linux/seccomp.h)."""
NOTIFICATION_BYTES = _NOTIFICATION.size

_AT_FDCWD, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_PATH_BYTES, _NAME_BYTES, _VALUE_BYTES = 4096, 256, 65536
"""Limits of the kernel, with the NUL: PATH_MAX, XATTR_NAME_MAX and XATTR_SIZE_MAX."""
_MAX_RENAMES = 64
"""Maximum number of names that a file may have, one after another, while it is looked for."""
_DONT_FOLLOW = 0x02000000
"""IN_DONT_FOLLOW of inotify(7)."""
_OWN_DESCRIPTOR = re.compile(rb"/(?:proc/(?:self|thread-self)|dev)/fd/(\d{1,9})")
"""Paths of the caller's own descriptors. C libraries use them where the kernel lacks fchmodat2."""

Action = Callable[[str], int | None]
"""Does a call to the file that a path of /proc/self/fd leads to. Returns what the call returns; None for 0."""


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

    def answer(self, listener: int, error: int, value: int = 0) -> None:
        """End the call with an error number, or with `value` for 0. A caller that waits no more is none."""
        with contextlib.suppress(FileNotFoundError):
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(self.id, value, -error, 0))

    def check(self, listener: int) -> None:
        """Raise FileNotFoundError if the caller waits no more. Its number may then be that of another process."""
        fcntl.ioctl(listener, _IS_VALID, struct.pack("=Q", self.id))


class CallingProcess:
    """The process that waits for a call: its memory, if that can be read, and its descriptors."""

    def __init__(self, thread: int, memory: int | None, processes: int | None = None) -> None:
        """Serve a thread; `processes` is a descriptor of /proc where that is not at its usual place."""
        self._folder = f"{thread}" if processes is not None else f"/proc/{thread}"
        self._processes = processes
        self._memory = memory
        self._opened: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._opened:
            os.close(file)

    def keep(self, file: int) -> int:
        """Return a descriptor, which is closed with the call."""
        self._opened.append(file)
        return file

    def open_file(self, descriptor: int) -> int:
        """Return a descriptor (O_PATH) of the file behind one of the caller's, or of its directory. Raises OSError."""
        try:
            return self._open_link(_name_link(descriptor))
        except FileNotFoundError as error:
            raise OSError(errno.EBADF, "descriptor") from error

    def open_root(self) -> int:
        """Return a descriptor (O_PATH) of the caller's root directory. Raises OSError."""
        return self._open_link("root")

    def read_link(self, descriptor: int) -> str:
        """Return the path of the file behind one of the caller's descriptors, or of its directory. Raises OSError."""
        return os.readlink(f"{self._folder}/{_name_link(descriptor)}", dir_fd=self._processes)

    def _open_link(self, name: str) -> int:
        return self.keep(os.open(f"{self._folder}/{name}", os.O_PATH | os.O_CLOEXEC, dir_fd=self._processes))

    def copy_descriptor(self, descriptor: int) -> int:
        """Return a copy of one of the caller's descriptors (pidfd_getfd(2)). Raises OSError if that is forbidden."""
        with open(f"{self._folder}/status", "rb") as file:  # a pidfd is one of a whole process
            process = int(file.read().partition(b"\nTgid:")[2].split(None, 1)[0])
        handle = self.keep(os.pidfd_open(process))
        return self.keep(copy_descriptor(handle, descriptor))

    def open_path(self, path: bytes, folder: int, *, follows: bool) -> int:
        """Return a descriptor (O_PATH) of what a path leads to, from one of its directories. Raises OSError."""
        base = None if path.startswith(b"/") else self.open_file(folder)
        return self.keep(open_without_magic(path, base, follows=follows))

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
        if self._memory is None:
            raise PermissionError(errno.EPERM, "the memory of the caller cannot be read")
        try:
            return os.pread(self._memory, size, address)
        except (OSError, OverflowError) as error:
            raise OSError(errno.EFAULT, "argument") from error


def _name_link(descriptor: int) -> str:
    return "cwd" if descriptor == _AT_FDCWD else f"fd/{descriptor}"


class SupervisedCall(NamedTuple):
    """How a system call names its file, as positions of arguments, and what it does to it."""

    prepare: Callable[[CallingProcess, Sequence[int]], Action]
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
    watches: bool = False
    """Whether it changes nothing: then the file need only be readable, and `flags` are those of inotify(7)."""


def _prepare_mode(_: CallingProcess, arguments: Sequence[int]) -> Action:
    mode = arguments[0] & 0o7777
    if mode & stat.S_ISUID:
        raise PermissionError(errno.EPERM, "set-user-id")
    return partial(_change_mode, mode=mode)


def _change_mode(path: str, mode: int) -> None:
    check_mode(os.stat(path), mode)
    os.chmod(path, mode)


def check_mode(facts: os.stat_result, mode: int) -> None:
    """Raise PermissionError if a mode gives whoever runs a file the powers of its group; folders hand on the group."""
    if mode & stat.S_ISGID and not stat.S_ISDIR(facts.st_mode):
        raise PermissionError(errno.EPERM, "set-group-id")


def _prepare_owner(_: CallingProcess, arguments: Sequence[int]) -> Action:
    user, group = (ctypes.c_int32(number).value for number in arguments[:2])
    return partial(os.chown, uid=user, gid=group)


def _prepare_times(unit: str, caller: CallingProcess, arguments: Sequence[int]) -> Action:
    """Prepare utimensat(2); `unit` is that of the second number of each time, "" if there is none."""
    address = arguments[0]
    if not address:
        return partial(_set_times, times=None)
    if not unit:
        accessed, modified = struct.unpack("=qq", caller.read(address, 16))
        return partial(_set_times, times=struct.pack("=qqqq", accessed, 0, modified, 0))
    times = caller.read(address, 32)
    if unit == "us":
        numbers = struct.unpack("=qqqq", times)
        if not all(0 <= micros < 1_000_000 for micros in numbers[1::2]):
            raise OSError(errno.EINVAL, "times")
        times = struct.pack("=qqqq", numbers[0], numbers[1] * 1000, numbers[2], numbers[3] * 1000)
    return partial(_set_times, times=times)


def _set_times(path: str, times: bytes | None) -> None:
    if LIBC.utimensat(_AT_FDCWD, path.encode(), times, 0):
        raise OSError(ctypes.get_errno(), "utimensat")


def _prepare_attribute(caller: CallingProcess, arguments: Sequence[int]) -> Action:
    name, value, size, flags = arguments[:4]
    if size > _VALUE_BYTES:
        raise OSError(errno.E2BIG, "value")
    text = _read_attribute_name(caller, name)
    data = caller.read(value, size) if size else b""
    return partial(os.setxattr, attribute=text, value=data, flags=ctypes.c_int32(flags).value)


def _prepare_removal(caller: CallingProcess, arguments: Sequence[int]) -> Action:
    return partial(os.removexattr, attribute=_read_attribute_name(caller, arguments[0]))


def _read_attribute_name(caller: CallingProcess, address: int) -> bytes:
    if not (name := caller.read_text(address, _NAME_BYTES, errno.ERANGE)):
        raise OSError(errno.ERANGE, "name")
    return name


def _prepare_watch(caller: CallingProcess, arguments: Sequence[int]) -> Action:
    descriptor, _, mask = arguments[:3]
    return partial(_add_watch, watcher=caller.copy_descriptor(descriptor), mask=mask)


def _add_watch(path: str, watcher: int, mask: int) -> int:
    watch = LIBC.inotify_add_watch(watcher, path.encode(), ctypes.c_uint32(mask & ~_DONT_FOLLOW))
    return check_result("inotify_add_watch", watch)


_nanoseconds, _microseconds, _seconds = (partial(_prepare_times, unit) for unit in ("ns", "us", ""))

CALLS = {
    "chmod": SupervisedCall(_prepare_mode, 1, path=0),
    "fchmod": SupervisedCall(_prepare_mode, 1, folder=0),
    "fchmodat": SupervisedCall(_prepare_mode, 2, folder=0, path=1),
    "fchmodat2": SupervisedCall(_prepare_mode, 2, folder=0, path=1, flags=3),
    "chown": SupervisedCall(_prepare_owner, 1, path=0),
    "lchown": SupervisedCall(_prepare_owner, 1, path=0, follows=False),
    "fchown": SupervisedCall(_prepare_owner, 1, folder=0),
    "fchownat": SupervisedCall(_prepare_owner, 2, folder=0, path=1, flags=4),
    "utime": SupervisedCall(_seconds, 1, path=0),
    "utimes": SupervisedCall(_microseconds, 1, path=0),
    "futimesat": SupervisedCall(_microseconds, 2, folder=0, path=1, may_lack_path=True),
    "utimensat": SupervisedCall(_nanoseconds, 2, folder=0, path=1, flags=3, may_lack_path=True),
    "setxattr": SupervisedCall(_prepare_attribute, 1, path=0),
    "lsetxattr": SupervisedCall(_prepare_attribute, 1, path=0, follows=False),
    "fsetxattr": SupervisedCall(_prepare_attribute, 1, folder=0),
    "removexattr": SupervisedCall(_prepare_removal, 1, path=0),
    "lremovexattr": SupervisedCall(_prepare_removal, 1, path=0, follows=False),
    "fremovexattr": SupervisedCall(_prepare_removal, 1, folder=0),
    "inotify_add_watch": SupervisedCall(_prepare_watch, 0, path=1, flags=2, watches=True),
}
MODE_CALLS = ("chmod", "fchmod", "fchmodat", "fchmodat2")
CALL_NUMBERS = {
    "x86_64": {
        "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "lchown": 94, "fchown": 93,
        "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "setxattr": 188,
        "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199,
        "inotify_add_watch": 254,
    },
    "aarch64": {
        "fchmod": 52, "fchmodat": 53, "fchmodat2": 452, "fchown": 55, "fchownat": 54, "utimensat": 88, "setxattr": 5,
        "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
        "inotify_add_watch": 27,
    },
}  # fmt: skip
"""Numbers of the calls on each architecture (the kernel's syscall tables); aarch64 lacks the older ones."""
BY_NUMBER = {
    number: CALLS[name]
    for name, number in CALL_NUMBERS.get(os.uname().machine, CALL_NUMBERS["x86_64"]).items()
}


class CallBroker:
    """Does the supervised calls of one job."""

    def __init__(self, listener: int, writable: Sequence[str], readable: Sequence[str]) -> None:
        """Open these roots, of which those that are gone, or links, are left out."""
        self._listener = listener
        self._writable = _open_roots(writable)
        self._visible = [*self._writable, *_open_roots(readable)]

    def answer(self, notification: Notification, memory: int | None) -> None:
        """Do one call, or refuse it, and end it."""
        error = value = 0
        try:
            with CallingProcess(notification.thread, memory) as caller:
                value = self._carry_out(notification, caller) or 0
        except OSError as failure:
            error = failure.errno or errno.EPERM
        except ValueError:  # a NUL, or a number out of range
            error = errno.EINVAL
        notification.answer(self._listener, error, value)

    def _carry_out(self, notification: Notification, caller: CallingProcess) -> int | None:
        call = BY_NUMBER[notification.number]
        named = open_named_file(call, notification.arguments, caller)
        action = call.prepare(caller, notification.arguments[call.rest :])
        target = caller.keep(_open_below_root(named, self._visible if call.watches else self._writable))
        notification.check(self._listener)
        return action(f"/proc/self/fd/{target}")


def _open_roots(paths: Sequence[str]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for path in paths:
        with contextlib.suppress(OSError):
            found.append((path, open_itself(path)))
    return found


def _open_below_root(named: int, roots: Sequence[tuple[str, int]]) -> int:
    """Return a descriptor of the same file, opened below a root. Raises PermissionError if it is below none."""
    for _ in range(_MAX_RENAMES):
        path, facts = os.readlink(f"/proc/self/fd/{named}"), os.fstat(named)
        # A regular file without a name, as a memory file. Some file systems in user space give no file a link.
        if stat.S_ISREG(facts.st_mode) and not facts.st_nlink and path.endswith(" (deleted)"):
            return os.dup(named)
        above = [(root, folder) for root, folder in roots if f"{path}/".startswith(root.rstrip("/") + "/")]
        if not above:
            break
        for root, folder in above:
            with contextlib.suppress(OSError):  # it was renamed, or its user may not pass
                rest = path[len(root) :].lstrip("/")
                target = open_itself(rest, folder, flags=os.O_NOFOLLOW) if rest else os.dup(folder)
                if os.path.samestat(os.fstat(target), facts):
                    return target
                os.close(target)
    raise PermissionError(errno.EPERM, "outside")


def open_named_file(call: SupervisedCall, arguments: Sequence[int], caller: CallingProcess) -> int:
    """Return a descriptor (O_PATH) of the file that a call names. Raises OSError."""
    folder = _AT_FDCWD if call.folder is None else ctypes.c_int32(arguments[call.folder]).value
    follows, may_be_empty = _read_flags(call, arguments)
    if call.path is None or (call.may_lack_path and not arguments[call.path]):
        if folder < 0:
            is_missing = call.path is not None and folder == _AT_FDCWD
            raise OSError(errno.EFAULT if is_missing else errno.EBADF, "descriptor")
        return caller.open_file(folder)
    path = caller.read_text(arguments[call.path], _PATH_BYTES)
    if not path:
        if not may_be_empty:
            raise FileNotFoundError(errno.ENOENT, "path")
        return caller.open_file(folder)
    if follows and (own := _OWN_DESCRIPTOR.fullmatch(path)):
        return caller.open_file(int(own[1]))
    return caller.open_path(path, folder, follows=follows)


def _read_flags(call: SupervisedCall, arguments: Sequence[int]) -> tuple[bool, bool]:
    """Return whether a link at the end of the path is followed, and whether the path may be empty. Raises OSError."""
    if call.flags is None:
        return call.follows, False
    flags = arguments[call.flags] & 0xFFFFFFFF
    if call.watches:
        return not flags & _DONT_FOLLOW, False
    if flags & ~(_NO_FOLLOW | _EMPTY_PATH):
        raise OSError(errno.EINVAL, "flags")
    return not flags & _NO_FOLLOW, bool(flags & _EMPTY_PATH)


def serve_calls(channel: socket.socket, listener: int, spec: JobSpec) -> NoReturn:
    """Turn this forked process into the broker of a job: answer each call, until the channel is closed."""
    try:
        lockdown.close_all_except(channel.fileno(), listener)
        broker = CallBroker(listener, [*spec.writable, *spec.written], [*spec.readable, *spec.pieces])
        if spec.user is not None and os.geteuid() != spec.user:
            lockdown.become_user(spec.user)
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
