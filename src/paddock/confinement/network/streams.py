"""A connected socket as a stream of bytes, with what was read ahead; and what several streams share."""

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import socket
import sys
import threading
from collections.abc import Callable

CHUNK_BYTES = 64 * 1024
"""Maximum size of one read, in bytes. Larger strings cost page faults: malloc would map memory for each of them."""
_BUFFER_BYTES = 256 * 1024
"""Size of the buffer of a bulk transfer, in bytes."""
_PIPE_BYTES = 1024 * 1024
"""Size of the pipe of a bulk transfer, in bytes: the largest that every user may have (pipe(7))."""
_MIN_SPLICED_BYTES = 256 * 1024
"""Fewer bytes at once are copied. A pipe has a slot for each page, and small packets hold more memory than bytes: with
this minimum, each page in a full pipe has 1 KiB."""
_free_pipes = threading.BoundedSemaphore(8)
"""The pipes that this process may still open: together they take an eighth of what a user has by default, after which
the kernel makes all other pipes of the user small (pipe-user-pages-soft). Other transfers are copied."""
_SPLICE_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
_CANNOT_SPLICE = frozenset({errno.EAGAIN, errno.EINVAL, errno.ENOSYS, errno.EPERM})
MAX_HEAD_BYTES = 64 * 1024
"""Maximum size of the head of an HTTP message, in bytes."""
_MAX_DROPPED_BYTES = 16 * 1024 * 1024
_HEAD_END = b"\r\n\r\n"
_BARE_LINE_FEED_PATTERN = re.compile(rb"(?<!\r)\n")


class BadHeadError(Exception):
    """The head of an HTTP message is invalid or too long; the text says why and contains none of it."""


class SourceResetError(ConnectionResetError):
    """The peer from which bytes are copied has reset its connection."""


class IdleTimer:
    """Ends a connection when no byte has passed for a while. Traffic and pauses move its deadline."""

    def __init__(self, idle_s: float) -> None:
        self.idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self.timeout = asyncio.timeout(idle_s)

    def restart(self) -> None:
        """Note that bytes have passed."""
        self._move(self._loop.time() + self.idle_s)

    def pause(self) -> None:
        """Stop the time until the next `restart`: something that has its own timeout runs."""
        self._move(None)

    def _move(self, when: float | None) -> None:
        if not self.timeout.expired():
            self.timeout.reschedule(when)


class ByteStream:
    """One connected socket. The callbacks are called with the number of bytes of each read and write."""

    def __init__(
        self, connected: socket.socket, on_read: Callable[[int], None], on_write: Callable[[int], None]
    ) -> None:
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._ahead = bytearray()
        self._on_read = on_read
        self._on_write = on_write
        connected.setblocking(False)
        if connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def read(self, max_bytes: int = CHUNK_BYTES) -> bytes:
        """Return the next bytes, at least one; b"" at the end."""
        if self._ahead:
            taken = bytes(self._ahead[:max_bytes])
            del self._ahead[:max_bytes]
            return taken
        return await self._receive(max_bytes)

    async def read_exactly(self, number: int) -> bytes:
        """Return the next `number` bytes. Raises EOFError if the stream ends before."""
        while len(self._ahead) < number:
            received = await self._receive(CHUNK_BYTES)
            if not received:
                raise EOFError
            self._ahead += received
        return await self.read(number)

    async def read_head(self) -> bytes:
        """Return the head of an HTTP message with its empty line, or b"" at the end. Raises BadHeadError, EOFError."""
        start = 0
        while True:
            end = self._ahead.find(_HEAD_END, max(start - len(_HEAD_END), 0))
            head_bytes = end + len(_HEAD_END) if end >= 0 else len(self._ahead)
            if _BARE_LINE_FEED_PATTERN.search(self._ahead, max(start - 1, 0), head_bytes):
                raise BadHeadError("a line ends without a carriage return")
            if head_bytes > MAX_HEAD_BYTES:
                raise BadHeadError(f"the head has more than {MAX_HEAD_BYTES} bytes")
            if end >= 0:
                return await self.read(head_bytes)
            start = len(self._ahead)
            received = await self._receive(MAX_HEAD_BYTES)
            if not received:
                if self._ahead:
                    raise EOFError
                return b""
            self._ahead += received

    def unread(self, data: bytes) -> None:
        """Put bytes back: they are the next to be read."""
        self._ahead[:0] = data

    async def end_gracefully(self, timeout_s: float) -> None:
        """Send the end, then read and drop what the peer still sends, within a time and up to a size.

        Closing a socket with unread bytes resets it, and the peer may lose what was sent (RFC 9112, 9.6).
        """
        self.end_writing()
        left = _MAX_DROPPED_BYTES
        with contextlib.suppress(OSError):
            async with asyncio.timeout(timeout_s):
                while left > 0 and (received := await self._receive(CHUNK_BYTES)):
                    left -= len(received)

    async def _receive(self, max_bytes: int) -> bytes:
        received = await self._loop.sock_recv(self._socket, max_bytes)
        self._on_read(len(received))
        return received

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes. Raises OSError."""
        await self._loop.sock_sendall(self._socket, data)
        self._on_write(len(data))

    async def copy_to(self, target: "ByteStream", *, splices: bool = False) -> None:
        """Copy everything to another stream until the end, and end that stream in this direction. Raises OSError.

        With `splices`, the kernel moves the pages of bulk traffic instead.
        """
        await self._copy(target, sys.maxsize, splices=splices)
        target.end_writing()

    async def copy_exactly(self, target: "ByteStream", number: int, *, splices: bool = False) -> None:
        """Copy the next `number` bytes to another stream. Raises OSError, and EOFError if the stream ends before."""
        if await self._copy(target, number, splices=splices):
            raise EOFError

    async def _copy(self, target: "ByteStream", number: int, *, splices: bool) -> int:
        """Copy at most so many bytes, and return how many are left at the end. Raises OSError."""
        left = number
        if self._ahead:
            data = await self.read(min(left, len(self._ahead)))
            await target.write(data)
            left -= len(data)
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        while received := await self._receive_into(buffer[:left]):
            self._on_read(received)
            await target.write(buffer[:received])
            left -= received
            await asyncio.sleep(0)  # calls on a socket that is ready do not let other tasks run
            if splices and received >= CHUNK_BYTES:
                left -= await self._splice_to(target, left)
        return left

    async def _receive_into(self, buffer: memoryview) -> int:
        try:
            return await self._loop.sock_recv_into(self._socket, buffer)
        except ConnectionResetError:
            raise SourceResetError from None

    async def _splice_to(self, target: "ByteStream", number: int) -> int:
        """Move at most so many bytes through a pipe (splice(2)) as long as they come in bulk, and if the kernel can.

        Return how many. Raises OSError.
        """
        left = number
        rest: list[bytes] = []
        with contextlib.ExitStack() as stack:
            if not _free_pipes.acquire(blocking=False):
                return 0
            stack.callback(_free_pipes.release)
            try:
                output, entry = ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                for end in ends:
                    stack.callback(os.close, end)
                fcntl.fcntl(entry, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            except OSError:  # too many descriptors or pipes; copying needs neither
                return 0
            moved = _PIPE_BYTES
            while moved >= _MIN_SPLICED_BYTES and (moved := self._read_into(entry, left)):
                self._on_read(moved)
                left -= moved
                if rest := target.write_from(output, moved):
                    break
                await asyncio.sleep(0)
        for data in rest:  # the pipe is closed by now: the target may take its time
            await target.write(data)
        return number - left

    def _read_into(self, pipe: int, max_bytes: int) -> int:
        """Move what has arrived into a pipe, and return its number of bytes. Raises OSError."""
        try:
            return os.splice(self._socket.fileno(), pipe, min(max_bytes, _PIPE_BYTES), flags=_SPLICE_FLAGS)
        except ConnectionResetError:
            raise SourceResetError from None
        except OSError as error:
            if error.errno not in _CANNOT_SPLICE:
                raise
            return 0

    def write_from(self, pipe: int, number: int) -> list[bytes]:
        """Send bytes from a pipe without waiting, and return the rest of them in chunks. The pipe is empty then.

        Raises OSError.
        """
        left = number
        with contextlib.suppress(BlockingIOError):
            while left:
                sent = os.splice(pipe, self._socket.fileno(), left, flags=_SPLICE_FLAGS)
                self._on_write(sent)
                left -= sent
        rest: list[bytes] = []
        while left:
            rest.append(os.read(pipe, min(left, CHUNK_BYTES)))
            left -= len(rest[-1])
        return rest

    def end_writing(self) -> None:
        """Tell the peer that nothing more comes; it may still send."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def is_quiet(self) -> bool:
        """Return whether the peer has neither ended nor sent anything that was not read."""
        if self._ahead:
            return False
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
