"""The parent's handles of the fork server, of its supervisors, and of the jails in which jobs start."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paddock.confinement.sandbox import interpreter
from paddock.confinement.sandbox.child import scratch
from paddock.confinement.sandbox.child.messages import JobSpec
from paddock.model.errors import EngineError

_START_S = 20.0


@dataclass(slots=True)
class SupervisorHandle:
    """The parent's handle of one supervisor, which serves one jail at a time. Closing the socket kills the job."""

    socket: socket.socket
    folder: Path

    @property
    def alive(self) -> bool:
        """Return whether it can take a job. An idle supervisor sends nothing, except that it failed to start."""
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def next_scratch(self, owner: int | None) -> Path:
        """Make a scratch directory for the next jail and return its path. Raises OSError."""
        # Jobs of the same user own each other's scratch. They can neither list nor watch its folder to find its name.
        path = self.folder / os.urandom(8).hex()
        try:
            scratch.make_scratch(str(path), owner)
        except OSError:
            with contextlib.suppress(OSError):
                scratch.remove_directory(str(path))
            raise
        return path


@dataclass(slots=True)
class Jail:
    """Where one job can start: a supervisor, and a scratch directory, which is removed when the jail is released.

    The caller may put files into scratch before the job, and may read it when all processes of the job have ended.
    """

    supervisor: SupervisorHandle
    scratch: Path
    take_back: Callable[[SupervisorHandle], None]
    """Called with the supervisor when it can serve another jail."""
    state: Literal["empty", "prepared", "running", "ended", "released"] = "empty"
    """From `prepared` on, the supervisor removes scratch. `ended`: all processes of the job have ended."""
    spec: JobSpec | None = None
    """The job spec that has been prepared, without a program."""
    make_next: Callable[[], None] = lambda: None
    """Prepares a spare jail for the next program of these grants; for callers that keep this one waiting."""
    on_start: Callable[[], None] = lambda: None
    """Called when the job has been sent, for work to do while it runs."""
    on_end: Callable[[], None] = lambda: None
    """Called when scratch is released after the job, for work that would have taken processor time from it."""

    def prepare(self, spec: JobSpec) -> None:
        """Have the supervisor prepare for a program that is not yet known. Raises OSError."""
        self._send(b"prepare", spec)
        self.spec, self.state = spec, "prepared"

    def run(self, spec: JobSpec, *files: int) -> None:
        """Send the supervisor a job spec with the descriptors of the job, and close them in this process.

        Raises OSError if nothing was sent.
        """
        self._send(b"run", spec, *files)
        self.state = "running"
        self.on_start()

    def end(self, *, kept: bool) -> None:
        """Note that all processes of the job have ended. Releases the jail unless it is `kept`."""
        if self.state == "released":
            self.lose()
            return
        self.state = "ended"
        if not kept:
            self.release()

    def lose(self) -> None:
        """Give up a supervisor that died or could not kill all processes; it removes scratch if it can."""
        self.state = "released"
        self.supervisor.socket.close()

    def _send(self, word: bytes, spec: JobSpec, *files: int) -> None:
        sent = [*files]
        try:
            sent.insert(0, spec.to_file())
            with contextlib.suppress(OSError):  # the supervisor has died, which `RunningProcess` notices
                socket.send_fds(self.supervisor.socket, [word], sent)
        finally:
            for file in sent:
                os.close(file)

    def release(self) -> None:
        """Remove scratch, after killing a program that still runs. Does nothing the second time."""
        state, self.state = self.state, "released"
        if state == "empty":
            scratch.remove_directory(str(self.scratch))
            self.take_back(self.supervisor)
        elif state == "ended":
            with contextlib.suppress(OSError):
                self.supervisor.socket.send(b"release")
            self.take_back(self.supervisor)
            self.on_end()
        elif state == "prepared":
            self.supervisor.socket.close()
        elif state == "running":
            with contextlib.suppress(OSError):
                self.supervisor.socket.shutdown(socket.SHUT_RDWR)  # `RunningProcess` closes the socket


class ForkServerClient:
    """The server's handle of the fork server."""

    def __init__(self) -> None:
        self._up = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        with theirs:
            try:
                self._process = interpreter.start(
                    "paddock.confinement.sandbox.child.fork_server",
                    str(theirs.fileno()),
                    keep=theirs.fileno(),
                )
            except EngineError:
                self._control.close()
                raise
        self._ready = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(self._control, 16))

    @property
    def alive(self) -> bool:
        """Return whether the fork server runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the fork server, whose children are the supervisors."""
        return self._process.pid

    @property
    def is_connected(self) -> bool:
        """Return whether this process still holds its side of the connection."""
        return self._control.fileno() >= 0

    async def ready(self) -> None:
        """Wait until it accepts requests. Raises EngineError if it does not start."""
        if self._up:
            return
        try:
            async with asyncio.timeout(_START_S):
                word = await asyncio.shield(self._ready)
        except (OSError, TimeoutError) as error:
            raise EngineError(f"the fork server for programs did not start: {error}") from error
        if word != b"ready":
            raise EngineError("the fork server for programs died during its start")
        self._up = True

    def start_supervisor(self, root: Path) -> SupervisorHandle:
        """Start a supervisor with a folder below `root`. Raises OSError; EngineError if the fork server has died."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        folder = root / f"paddock-{os.urandom(8).hex()}"
        with theirs:
            try:
                folder.mkdir()
                folder.chmod(0o711)  # jobs may pass through it, but not list it
            except OSError:
                ours.close()
                raise
            try:
                socket.send_fds(self._control, [os.fsencode(folder)], [theirs.fileno()])
            except OSError as error:
                ours.close()
                folder.rmdir()
                raise EngineError(f"the fork server for programs has died ({error.strerror})") from error
        return SupervisorHandle(ours, folder)

    def forget(self) -> None:
        """Close the connection to a fork server that has ended by itself."""
        # After its end has been reported to the tasks that wait in `ready`.
        self._ready.add_done_callback(lambda _: self._control.close())

    async def close(self) -> None:
        """End the fork server. It waits briefly for the last supervisors, whose sockets the caller has closed."""
        if not self._ready.done():
            self._ready.cancel()
        self._control.close()
        await asyncio.to_thread(self._process.wait)
