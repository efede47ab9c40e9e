"""The broker of one jail's calls: it connects and binds sockets in a root that holds the private directories alone.

    caller -> broker   connect(2) or bind(2), held by the kernel
    broker             copies the address out of the caller's memory once
                       takes a copy of the socket, and asks whether the caller still waits
                       does the call on its copies, and answers

The proof is the broker's root. A path, whatever links and `..` it has, leads to a file of the private directories or to
nothing, so that it does not matter what a program changes meanwhile. The socket stays in the job's own network, where
addresses of the internet families and abstract names are looked up. The broker is outside of the job's PID namespace:
no process of the job can see, signal or trace it. It has the job's user and, to take sockets, CAP_SYS_PTRACE over
processes of its jail's user namespace, but no other capability.

It also changes the mode of folders to one with the bit of a group, which it refuses to files. It opens what a path
leads to in the jail's own root, and acts on that descriptor: the jail's mounts decide what a job may write.
"""

import _thread
import ctypes
import errno
import fcntl
import os
import re
import select
import socket
import struct
from collections.abc import Sequence
from typing import NoReturn

from paddock.confinement.sandbox.child import lockdown, mounts
from paddock.confinement.sandbox.child.call_broker import (
    BY_NUMBER,
    NOTIFICATION_BYTES,
    RECEIVE,
    CallingProcess,
    Notification,
    check_mode,
    open_named_file,
)
from paddock.confinement.sandbox.child.messages import JobSpec
from paddock.confinement.sandbox.child.paths import open_in_root, open_itself
from paddock.confinement.sandbox.child.system_calls import LIBC, check_result, copy_descriptor

CALL_NUMBERS = {"x86_64": {"connect": 42, "bind": 49}, "aarch64": {"connect": 203, "bind": 200}}
"""Numbers of the calls on each architecture (the kernel's syscall tables)."""
_MAX_THREADS = 256
"""Maximum number of threads of a broker. With one left, connections that may have to wait fail with EAGAIN."""
_MAX_IDLE_THREADS = 2
"""Number of waiting threads with which a thread ends that has done its call."""
_THREAD_STACK_BYTES = 256 * 1024
_MAX_ADDRESS_BYTES = 128
"""Size of sockaddr_storage, the kernel's limit."""
_FAMILY_BYTES = 2
_NEW_MOUNTS, _NEW_FILESYSTEM_STATE = 0x00020000, 0x200
"""CLONE_NEWNS, and CLONE_FS: a working directory and a umask of each thread's own (unshare(2))."""
_SYS_PTRACE = 19
_OUTSIDE = frozenset({errno.ENOENT, errno.EROFS, errno.ENOTDIR})
"""Errors of a path that leads out of the private directories."""
_STATUS_PATTERN = re.compile(rb"^(Umask|Tgid):\s*(\d+)", re.MULTILINE)
_NUMBERS = CALL_NUMBERS.get(os.uname().machine, CALL_NUMBERS["x86_64"])
_CONNECT = _NUMBERS["connect"]
_CALLS = {number: getattr(LIBC, name) for name, number in _NUMBERS.items()}


class _Extent(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("start", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


def serve_socket_calls(files: Sequence[int], private: Sequence[str]) -> NoReturn:
    """Turn this process, which a keeper has forked, into the broker of a job's sockets.

    `files` are the listener, the jail's mounts, the job spec, the supervisor's /proc, and the job's scratch. `private`
    are further directories that each jail has for itself.
    """
    try:
        lockdown.die_with_parent()
        listener, jail, spec_file, processes, scratch = files
        lockdown.close_all_except(*files)
        spec = JobSpec.from_file(spec_file)
        _enter_private_root(jail, spec, scratch, private)
        for file in (jail, scratch):
            os.close(file)
        lockdown.keep_capability(_SYS_PTRACE)
        lockdown.refuse_new_privileges()
        lockdown.make_undumpable()
        _thread.stack_size(_THREAD_STACK_BYTES)
        SocketBroker(listener, processes, (*private, spec.scratch)).serve_calls()
    finally:  # nothing may return into the keeper's code
        os._exit(1)


def _enter_private_root(jail: int, spec: JobSpec, scratch: int, private: Sequence[str]) -> None:
    """Enter a copy of a jail's mounts that holds its private directories alone. Raises OSError.

    The program may have renamed directories above its scratch. Therefore scratch is compared with the supervisor's.
    """
    check_result("setns: mounts", LIBC.setns(jail, _NEW_MOUNTS))
    check_result("unshare: mounts", LIBC.unshare(_NEW_MOUNTS))
    mounts.mount_filesystem("", "/", mounts.PRIVATE | mounts.REC)
    own = open_itself(spec.scratch)
    if not os.path.samestat(os.fstat(own), os.fstat(scratch)):
        raise FileNotFoundError(errno.ENOENT, "scratch was replaced")
    folders = {path: open_itself(path) for path in private} | {spec.scratch: own}
    trees = {path: mounts.clone_mount(folder) for path, folder in folders.items()}
    for folder in folders.values():
        os.close(folder)
    root = private[0]
    mounts.mount_filesystem("tmpfs", root, mounts.NOSUID | mounts.NODEV, "size=64k,mode=755")
    mounts.change_root(root)
    # From here on, links of the program lead to nothing else.
    for path, tree in trees.items():
        mounts.attach_mount(path, tree)
    for path in spec.carried:  # their mount points, which a program does not see
        if os.path.isdir(path):
            mounts.mount_filesystem("tmpfs", path, mounts.RDONLY, "size=4k,mode=555")
    mounts.mount_filesystem(
        "", "/", mounts.REMOUNT | mounts.BIND | mounts.RDONLY | mounts.NOSUID | mounts.NODEV
    )


class SocketBroker:
    """Does the calls of one job that name a socket, each in a thread, so that one that waits delays no other."""

    def __init__(self, listener: int, processes: int, private: Sequence[str]) -> None:
        """Serve a listener; `processes` is a descriptor of /proc, and `private` has the directories of the root."""
        self._listener = listener
        self._processes = processes
        self._private = private
        self._lock = _thread.allocate_lock()
        self._idle = 0
        self._threads = 1

    def serve_calls(self) -> NoReturn:
        """Receive and do calls until no process is left that could make one."""
        check_result("unshare: directory", LIBC.unshare(_NEW_FILESYSTEM_STATE))
        while True:
            self._serve_call()

    def _serve_call(self) -> None:
        """Receive and do a call, after starting another thread for the next call unless one waits for it already."""
        with self._lock:
            self._idle += 1
        notification = self._receive_call()
        with self._lock:
            self._idle -= 1
            may_wait = self._idle > 0 or self._start_thread()
        if notification is not None:
            notification.answer(self._listener, self._find_error(notification, may_wait=may_wait))

    def _start_thread(self) -> bool:
        """Start another thread; return whether there can be one more."""
        if self._threads == _MAX_THREADS:
            return False
        try:
            _thread.start_new_thread(self._run_thread, ())
        except RuntimeError:  # the user has too many
            return False
        self._threads += 1
        return True

    def _run_thread(self) -> None:
        try:
            check_result("unshare: directory", LIBC.unshare(_NEW_FILESYSTEM_STATE))
            while self._is_needed():
                self._serve_call()
        except BaseException:  # noqa: BLE001 - any failure ends the broker, so that the calls fail
            os._exit(1)

    def _is_needed(self) -> bool:
        """Return whether a further thread should wait for calls; if not, count it as ended."""
        with self._lock:
            if self._idle < _MAX_IDLE_THREADS:
                return True
            self._threads -= 1
            return False

    def _receive_call(self) -> Notification | None:
        """Return the next call; None if its caller was killed meanwhile."""
        buffer = bytearray(NOTIFICATION_BYTES)
        try:
            fcntl.ioctl(self._listener, RECEIVE, buffer)
        except InterruptedError:  # stopped and continued
            return None
        except FileNotFoundError:
            poll = select.poll()
            poll.register(self._listener, select.POLLIN)
            if any(event & select.POLLHUP for _, event in poll.poll(0)):
                os._exit(0)
            return None
        return Notification.from_bytes(bytes(buffer))

    def _find_error(self, notification: Notification, *, may_wait: bool) -> int:
        """Do a call; return the number of its error, or 0. Keeps nothing of the caller open."""
        opened: list[int] = []
        try:
            return self._carry_out(notification, opened, may_wait=may_wait)
        except OSError as error:
            return error.errno or errno.EPERM
        except (ValueError, OverflowError):
            return errno.EINVAL
        finally:
            for file in opened:
                os.close(file)

    def _carry_out(self, notification: Notification, opened: list[int], *, may_wait: bool) -> int:
        if notification.number not in _CALLS:
            return self._change_mode(notification)
        caller, (descriptor, pointer, size) = notification.thread, notification.arguments[:3]
        status = dict(_STATUS_PATTERN.findall(self._read_file(f"{caller}/status")))
        opened.append(process := os.pidfd_open(int(status[b"Tgid"])))
        opened.append(copy := copy_descriptor(process, descriptor))
        if not may_wait and notification.number == _CONNECT and os.get_blocking(copy):
            raise BlockingIOError(errno.EAGAIN, "threads")
        address = _read_address(caller, pointer, ctypes.c_int32(size).value)
        folder = ""
        if (path := find_path(address)) and not path.startswith(b"/"):
            folder = os.readlink(f"{caller}/cwd", dir_fd=self._processes)
        notification.check(self._listener)  # all of it was of the caller
        os.umask(int(status[b"Umask"], 8))
        if folder:
            try:
                os.chdir(folder)
            except OSError as error:
                raise PermissionError(errno.EPERM, "outside") from error
        if not _CALLS[notification.number](copy, address, len(address)):
            return 0
        error = ctypes.get_errno()
        if path and error in _OUTSIDE:  # report another error for what is in no private directory
            whole = os.path.normpath(os.path.join(folder, os.fsdecode(path)))
            if not whole.startswith(tuple(f"{private}/" for private in self._private)):
                return errno.EPERM
        return error

    def _change_mode(self, notification: Notification) -> int:
        """Change the mode of a file as its job sees it, unless whoever runs it would get the powers of its group."""
        thread, call = notification.thread, BY_NUMBER[notification.number]
        memory = os.open(f"{thread}/mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
        with _JailedCaller(thread, memory, self._processes) as caller:
            caller.keep(memory)
            named = open_named_file(call, notification.arguments, caller)
            mode = notification.arguments[call.rest] & 0o7777
            check_mode(os.fstat(named), mode)
            notification.check(self._listener)
            os.chmod(f"self/fd/{named}", mode, dir_fd=self._processes)
        return 0

    def _read_file(self, name: str) -> bytes:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
        try:
            return os.read(file, 4096)
        finally:
            os.close(file)


class _JailedCaller(CallingProcess):
    """A caller whose root is not the broker's."""

    def open_path(self, path: bytes, folder: int, *, follows: bool) -> int:
        """Return a descriptor (O_PATH) of what a path leads to, from one of its directories. Raises OSError."""
        if not path.startswith(b"/"):
            path = os.path.join(os.fsencode(self.read_link(folder)), path)
        return self.keep(open_in_root(path, self.open_root(), follows=follows))


def find_path(address: bytes) -> bytes:
    """Return the path in a socket's address; empty for one of another family, an abstract name, or none (unix(7))."""
    if address[:_FAMILY_BYTES] != struct.pack("=H", socket.AF_UNIX):
        return b""
    return address[_FAMILY_BYTES:].partition(b"\0")[0]


def _read_address(caller: int, pointer: int, size: int) -> bytes:
    """Copy an address as the kernel does (process_vm_readv(2)). Raises OSError."""
    if not 0 <= size <= _MAX_ADDRESS_BYTES:
        raise OSError(errno.EINVAL, "address")
    if not size:
        return b""
    buffer = ctypes.create_string_buffer(size)
    here, there = _Extent(ctypes.addressof(buffer), size), _Extent(pointer, size)
    count = LIBC.process_vm_readv(caller, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if check_result("process_vm_readv", count) < size:
        raise OSError(errno.EFAULT, "address")
    return buffer.raw
