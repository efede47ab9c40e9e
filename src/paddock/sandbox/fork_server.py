"""The server's ends of the fork server, of its supervisors, and of the places that these keep for one job each."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paddock.model.errors import EngineError
from paddock.sandbox import interpreter
from paddock.sandbox.child import scratch
from paddock.sandbox.child.messages import JobSpec

_START_S = 20.0


@dataclass(slots=True)
class SupervisorHandle:
    """The server's end of one supervisor, which serves one place at a time. Closing it is the order to kill."""

    socket: socket.socket
    folder: Path

    @property
    def alive(self) -> bool:
        """Tell whether it can take a job; an idle one that says something says that it never was."""
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def next_scratch(self, owner: int | None) -> Path:
        """Return a new scratch directory for the next place. Raises OSError."""
        # Jobs of the same user own each other's scratch. Its folder cannot be listed or watched, so that none finds it.
        path = self.folder / os.urandom(8).hex()
        try:
            scratch.make_scratch(str(path), owner)
        except OSError:
            with contextlib.suppress(OSError):
                scratch.remove_directory(str(path))
            raise
        return path


@dataclass(slots=True)
class Slot:
    """Where one job can start: a supervisor, and the scratch directory that goes when the place is released.

    Before the job, scratch can be filled; after it, what the job made can be read: nothing of it lives any more.
    """

    supervisor: SupervisorHandle
    scratch: Path
    take_back: Callable[[SupervisorHandle], None]
    """Gets the supervisor when it can serve another place."""
    state: Literal["empty", "prepared", "running", "ended", "released"] = "empty"
    """From `prepared` on the supervisor removes scratch. `ended`: nothing of the job is left."""
    room: JobSpec | None = None
    """What has been prepared."""
    make_next: Callable[[], None] = lambda: None
    """Has another place prepared for the next program of these grants; for callers who let this one wait."""
    on_start: Callable[[], None] = lambda: None
    """Called when the job is on its way, for what can be done beside it."""
    on_end: Callable[[], None] = lambda: None
    """Called when scratch is released after the job, for what would have taken the processor from it."""

    def prepare(self, room: JobSpec) -> None:
        """Have the supervisor prepare for a program that is not known yet. Raises OSError."""
        self._send(b"prepare", room)
        self.room, self.state = room, "prepared"

    def run(self, order: JobSpec, *files: int) -> None:
        """Have the supervisor run the job of an order with its streams and what follows them, and close them here.

        Raises OSError when nothing was sent.
        """
        self._send(b"run", order, *files)
        self.state = "running"
        self.on_start()

    def end(self, *, kept: bool) -> None:
        """Take note that nothing of the job is left. Unless it is `kept`, this releases it."""
        if self.state == "released":
            self.lose()
            return
        self.state = "ended"
        if not kept:
            self.release()

    def lose(self) -> None:
        """Have done with a supervisor that died, or that has processes left; it removes scratch if it can."""
        self.state = "released"
        self.supervisor.socket.close()

    def _send(self, word: bytes, order: JobSpec, *files: int) -> None:
        sent = [*files]
        try:
            sent.insert(0, order.to_file())
            with contextlib.suppress(
                OSError
            ):  # the supervisor is gone, which its socket tells whoever listens
                socket.send_fds(self.supervisor.socket, [word], sent)
        finally:
            for file in sent:
                os.close(file)

    def release(self) -> None:
        """Have scratch removed; harmless when it has been. A program that still runs is killed first."""
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
                self.supervisor.socket.shutdown(socket.SHUT_RDWR)  # who listens to the job closes it


class ForkServerClient:
    """The server's end of the fork server."""

    def __init__(self) -> None:
        self._up = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        with theirs:
            try:
                self._process = interpreter.start(
                    "paddock.sandbox.child.fork_server", str(theirs.fileno()), keep=theirs.fileno()
                )
            except EngineError:
                self._control.close()
                raise
        self._ready = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(self._control, 16))

    @property
    def alive(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.poll() is None

    async def ready(self) -> None:
        """Wait until it forks. Raises EngineError when it does not come up."""
        if self._up:
            return
        try:
            async with asyncio.timeout(_START_S):
                word = await asyncio.shield(self._ready)
        except (OSError, TimeoutError) as error:
            raise EngineError(f"the process zygote did not start: {error}") from error
        if word != b"ready":
            raise EngineError("the process zygote died while it started")
        self._up = True

    def start_supervisor(self, root: Path) -> SupervisorHandle:
        """Return a new supervisor, with a folder below `root`. Raises OSError, and EngineError when it is gone."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        folder = root / f"paddock-{os.urandom(8).hex()}"
        with theirs:
            try:
                folder.mkdir()
                folder.chmod(0o711)  # jobs pass through, and may do nothing else
            except OSError:
                ours.close()
                raise
            try:
                socket.send_fds(self._control, [os.fsencode(folder)], [theirs.fileno()])
            except OSError as error:
                ours.close()
                folder.rmdir()
                raise EngineError(f"the process zygote is gone ({error.strerror})") from error
        return SupervisorHandle(ours, folder)

    def forget(self) -> None:
        """Let go of a fork server that has ended by itself."""
        # Whoever waits for it hears of its end first.
        self._ready.add_done_callback(lambda _: self._control.close())

    async def close(self) -> None:
        """End the fork server; it waits a little for the last supervisors, whose sockets have to be closed."""
        if not self._ready.done():
            self._ready.cancel()
        self._control.close()
        await asyncio.to_thread(self._process.wait)
