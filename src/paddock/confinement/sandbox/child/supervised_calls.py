"""System calls that Paddock does for the job.

`CallListener` has those for which Landlock has no rule: they change metadata of files and watch them. `SocketCalls` has
connect(2), bind(2) and modes of a jail that has a separate network, or may write outside of its scratch. The first call
starts its broker, which then receives all of them itself (`socket_broker.py`). Those of `CallListener` take this way:

    job         the kernel holds the call and notifies the listener of the filter (seccomp_unotify(2))
    supervisor  receives the call, opens the caller's memory, and passes both on (`CallListener`)
    broker      does the call below a writable root, or refuses it, and answers (`call_broker.py`)

The supervisor uses no path and no byte of the job's memory here, so that no file system delays the deadline. It opens
the memory, because Yama allows that only to an ancestor of the caller (Documentation/admin-guide/LSM/Yama.rst). The
broker is another process, because it may have to wait for a disk, and because a flood of calls must not run with the
supervisor's priority. It starts at the first call. Without a supervisor or a broker the kernel answers ENOSYS.
"""

import errno
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Sequence

from paddock.confinement.sandbox.child import seccomp
from paddock.confinement.sandbox.child.call_broker import (
    NOTIFICATION_BYTES,
    RECEIVE,
    Notification,
    serve_calls,
)
from paddock.confinement.sandbox.child.messages import JobSpec, StartError
from paddock.confinement.sandbox.child.system_calls import LIBC

METADATA_FILTER, WATCH_FILTER, SOCKET_FILTER = "supervised", "watches", "sockets"
UNHEARD = b'{"calls": false}'
"""Message of a process whose supervised calls fail with ENOSYS."""


def send_listener(channel: socket.socket, name: str, *, is_needed: bool) -> None:
    """Install a filter in this process, and pass its listener to the supervisor. Raises OSError.

    A process can have only one listener, which may be that of a container. Unless it `is_needed`, the calls then fail.
    """
    try:
        listener = seccomp.install_listener(seccomp.read_filter(name))
    except OSError:
        if is_needed:
            raise
        seccomp.install_filter(seccomp.read_filter(name))
        channel.send(UNHEARD)
        return
    try:
        socket.send_fds(channel, [b'{"calls": true}'], [listener])
    finally:
        os.close(listener)


class BrokeredCalls:
    """The supervisor's end of the supervised calls of one job, which its broker does."""

    def __init__(self, listener: int, spec: JobSpec) -> None:
        self._listener = listener
        self._spec = spec
        self.broker = 0
        """The broker's pid; 0 before the first call, and after the broker has been reaped."""
        self._is_open = True

    def fileno(self) -> int:
        """Return the number of the descriptor that becomes readable at a call; `close` does not change the number."""
        return self._listener

    def close(self) -> None:
        """Refuse all calls from now on, and kill the broker, which the caller reaps."""
        if not self._is_open:
            return
        self._is_open = False
        os.close(self._listener)
        if self.broker:
            os.kill(self.broker, signal.SIGKILL)

    def forget_broker(self) -> None:
        """Note that the broker has been reaped: its pid may become that of another process."""
        self.broker = 0
        self.close()


class CallListener(BrokeredCalls):
    """The supervisor's end of calls for which Landlock has no rule."""

    def __init__(self, listener: int, spec: JobSpec) -> None:
        super().__init__(listener, spec)
        self._channel: socket.socket | None = None

    def on_call(self) -> bool:
        """Receive the call that waits and pass it to the broker, which this starts if necessary.

        Returns whether the next call has to be passed on, too.
        """
        buffer = bytearray(NOTIFICATION_BYTES)
        try:
            fcntl.ioctl(self._listener, RECEIVE, buffer)
        except FileNotFoundError:  # the caller was killed, or interrupted by a signal
            return True
        notification = Notification.from_bytes(bytes(buffer))
        memory = self._open_memory(notification.thread)
        try:
            channel = self._channel or self._start_broker()
            socket.send_fds(channel, [buffer], memory, socket.MSG_DONTWAIT)
        except (BrokenPipeError, ConnectionResetError):  # the caller reaps the broker, and `close` follows
            notification.answer(self._listener, errno.ENOSYS)
        except OSError:  # hundreds of calls wait already, or there can be no further process
            notification.answer(self._listener, errno.EAGAIN)
        finally:
            for file in memory:
                os.close(file)
        return True

    def close(self) -> None:
        """Refuse all calls from now on, and kill the broker, which the caller reaps."""
        super().close()
        if self._channel is not None:
            self._channel.close()

    def _start_broker(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.broker = os.fork()
            if self.broker == 0:
                serve_calls(theirs, self._listener, self._spec)
        self._channel = ours
        return ours

    def _open_memory(self, thread: int) -> list[int]:
        """Return a descriptor of a caller's memory; none if it may not be read.

        Opens it as the job's user, which needs no capability (ptrace(2), PTRACE_MODE_ATTACH_FSCREDS).
        """
        user = self._spec.user
        changed = user is not None and user != os.geteuid()
        if changed:
            LIBC.setfsgid(user)
            LIBC.setfsuid(user)
        try:
            return [os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)]
        except OSError:
            return []
        finally:
            if changed:
                LIBC.setfsuid(os.geteuid())
                LIBC.setfsgid(os.getegid())


class SocketCalls(BrokeredCalls):
    """The supervisor's end of the calls of a jail that name a socket: connect(2), bind(2), and changes of modes.

    A Unix socket with a path belongs to no network, so that a network of the job's own does not keep it from sockets of
    the machine below granted directories. The keeper of the jail's mounts starts the broker, which receives all calls
    itself (`socket_broker.py`).
    """

    def __init__(
        self, listener: int, spec: JobSpec, mounts: int, fork_broker: Callable[[Sequence[int]], int]
    ) -> None:
        """Serve the calls of a jail with these `mounts`, a descriptor that must stay open until the first call."""
        super().__init__(listener, spec)
        self._mounts = mounts
        self._fork_broker = fork_broker

    def on_call(self) -> bool:
        """Start the broker, which receives this call and all later ones. Return False: listen no more."""
        files: list[int] = []
        try:
            files.append(self._spec.to_file())
            files += [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in ("/proc", self._spec.scratch)]
            self.broker = self._fork_broker([self._listener, self._mounts, *files])
        except (OSError, StartError):  # there can be no further process
            self.close()
        finally:
            for file in files:
                os.close(file)
        return False
