"""The socket at which this process tells others of its user what it runs now.

Several Paddocks of one event loop share a socket. Where none can be made, Paddock works without it.
"""

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from platformdirs import user_state_path

from paddock.foundation.files import make_private
from paddock.foundation.own_files import check_directory

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock

SUFFIX = ".sock"
STARTED = time.time()
"""When this process began to use Paddock, in seconds since the epoch."""
MAX_QUESTION_BYTES = 16 * 1024
"""Maximum size of a question, in bytes."""
_MAX_CONNECTIONS = 32
_MAX_S = 10.0
"""Maximum time of one connection, in seconds."""
_PAUSE_S = 1.0
"""Time without new connections after the kernel refused one, in seconds."""
_CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid of the process at the other end (unix(7), SO_PEERCRED)."""


def find_directory() -> Path:
    """Return the directory of the sockets."""
    return user_state_path("paddock") / "running"


class Entry(NamedTuple):
    """One opened Paddock that is shown."""

    opened: "OpenPaddock"
    workspace: Path
    user: str
    """The user of a server that it was opened for; empty for the owner's own."""


class _Endpoint:
    """The socket of one event loop."""

    def __init__(self, directory: Path) -> None:
        """Listen in a directory if that is possible; else `problem` says why not."""
        self.entries: list[Entry] = []
        self.problem = ""
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._folder = -1
        made = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._name = made + SUFFIX
        try:
            self._folder = open_directory(directory, make=True)
            os.fchmod(self._listener.fileno(), 0o600)  # bind(2) makes the file with this mode
            # The path of an address has at most 107 bytes; that of the directory may be longer (unix(7)).
            self._listener.bind(f"/proc/self/fd/{self._folder}/{made}")
            self._listener.listen(_MAX_CONNECTIONS)
            # Only now readers see it. They remove a socket at which no process listens.
            os.rename(made, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            self.problem = f"{directory}: {error.strerror}"
            self.close()
        else:
            self._accept_more()

    def close(self) -> None:
        """Remove the socket, and end its connections."""
        for task in self._tasks:
            task.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
        self._listener.close()
        if self._folder >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)
            os.close(self._folder)
            self._folder = -1

    def _accept_more(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is free
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_PAUSE_S, self._accept_more)
            return
        if len(self._tasks) >= _MAX_CONNECTIONS or not has_own_user(peer):
            peer.close()
            return
        peer.setblocking(False)
        task = self._loop.create_task(self._serve(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_MAX_S):
                line = await receive_line(peer, MAX_QUESTION_BYTES)
                from paddock.gate.live_runs.answers import answer  # most processes are never asked

                await self._loop.sock_sendall(peer, await answer(line, tuple(self.entries)))


_endpoints: dict[tuple[int, asyncio.AbstractEventLoop, Path], _Endpoint] = {}
"""By process, event loop and directory."""


@contextmanager
def show_paddock(entry: Entry) -> Generator[None]:
    """Show an opened Paddock to other processes of this user during the context."""
    directory = find_directory()
    key = os.getpid(), asyncio.get_running_loop(), directory
    if (endpoint := _endpoints.get(key)) is None:
        endpoint = _endpoints[key] = _Endpoint(directory)
    endpoint.entries.append(entry)
    try:
        yield
    finally:
        endpoint.entries.remove(entry)
        if not endpoint.entries:
            del _endpoints[key]
            endpoint.close()


def find_problem() -> str:
    """Return why other processes cannot see what this one runs; empty if they can."""
    return next((endpoint.problem for endpoint in _endpoints.values() if endpoint.problem), "")


def open_directory(directory: Path, *, make: bool = False) -> int:
    """Return a descriptor of the directory of the sockets. Raises OSError, also if others may use it."""
    if make:
        make_private(directory)
    check_directory(directory)
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def has_own_user(peer: socket.socket) -> bool:
    """Return whether the process at the other end of a Unix socket has the user of this process."""
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(found)[1] == os.geteuid()


async def receive_line(peer: socket.socket, max_bytes: int) -> bytes:
    """Return what the other end sends, up to a line end. Raises OSError if there is none within `max_bytes`."""
    loop, line = asyncio.get_running_loop(), bytearray()
    while not line.endswith(b"\n"):
        piece = await loop.sock_recv(peer, 64 * 1024)
        line += piece
        if not piece or len(line) > max_bytes:
            raise ConnectionError("there was no whole line")
    return bytes(line)
