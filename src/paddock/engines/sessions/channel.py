"""The parent's end of the channel to a driver, which runs beside the program and can be made to write anything.

A frame is four bytes of length (little-endian) and that many bytes: JSON, an object; or a media type, a line end and a
value of that type. Sizes are checked before bytes are kept, and values are counted before they are decoded. The socket
passes no descriptors: recv(2) drops them.
"""

import asyncio
import base64
import socket
import struct
from collections.abc import Iterator
from typing import cast

import orjson

from paddock.model.base import Json
from paddock.model.json_meter import holds_more
from paddock.model.limits import MIB
from paddock.model.numbers import loads, may_lose

_LENGTH = struct.Struct("<I")
MAX_FRAME_BYTES = 16 * MIB
MAX_VALUES = 250_000
"""Maximum number of JSON values in one frame. In place of one with more, a text is shown."""
_TOO_MANY = f"a value with more than {MAX_VALUES:,} elements, which is not shown"
_CHUNK_BYTES = 256 * 1024
_TURN_BYTES, _FRAME_COST_BYTES = 16 * 1024, 64
"""Size of the frames that are read before the event loop runs other tasks; each frame counts as so many bytes more."""
_RAW_TYPES = frozenset({b"image/png"})


def pack_frame(body: bytes) -> bytes:
    """Return a frame."""
    return _LENGTH.pack(len(body)) + body


def split_frames(data: bytes) -> Iterator[dict[str, Json]]:
    """Yield the frames that a program left, up to the first that is cut off or that no driver writes."""
    while len(data) >= _LENGTH.size:
        size = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        body, data = data[_LENGTH.size : size], data[size:]
        if len(body) < size - _LENGTH.size:
            return
        try:
            yield _decode(body)
        except ChannelError:
            return


def _decode(body: bytes) -> dict[str, Json]:
    """Return the message of a frame. Raises ChannelError."""
    kind, line_end, data = body.partition(b"\n")
    if line_end and kind in _RAW_TYPES:
        return {"display": {kind.decode(): base64.b64encode(data).decode()}}
    if holds_more(body, MAX_VALUES):
        return {"display": {"text/plain": _TOO_MANY}}
    try:
        message = loads(body.decode()) if may_lose(body) else orjson.loads(body)
    except (ValueError, RecursionError):
        raise ChannelError("it sent a message that is not JSON") from None
    if not isinstance(message, dict):
        raise ChannelError("it sent a message that is not an object")
    return cast("dict[str, Json]", message)


class ChannelError(Exception):
    """The driver closed the channel, or sent what no driver sends; the text says which."""


class ChannelClosed(ChannelError):
    """The driver closed the channel: its process ends, or has ended."""


class DriverChannel:
    """A stream of frames. `theirs` is for the driver; close it once the driver has it."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._ours.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._received = 0
        """Size of the frames since the last turn."""

    async def send(self, data: bytes) -> None:
        """Send bytes. Raises ChannelError if the driver has gone."""
        try:
            await self._loop.sock_sendall(self._ours, data)
        except OSError as error:
            raise ChannelClosed(f"it reads no more ({error.strerror})") from None

    async def receive(self) -> tuple[dict[str, Json], int]:
        """Return the next frame and its size in bytes. Raises ChannelError."""
        size = _LENGTH.unpack(await self._read(_LENGTH.size))[0]
        if size > MAX_FRAME_BYTES:
            raise ChannelError(f"it sent a message of {size} bytes, and {MAX_FRAME_BYTES} are allowed")
        body = await self._read(size)
        self._received += size + _FRAME_COST_BYTES
        if self._received > _TURN_BYTES:
            self._received = 0
            await asyncio.sleep(0)  # frames that have arrived would be read without a pause
        return _decode(body), size

    async def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                data = await self._loop.sock_recv(self._ours, _CHUNK_BYTES)
            except OSError as error:
                raise ChannelClosed(f"it was cut off ({error.strerror})") from None
            if not data:
                raise ChannelClosed("it was closed")
            self._buffer += data
            await asyncio.sleep(0)  # a driver that never stops is always ready to be read
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found

    def close(self) -> None:
        """Close the parent's end."""
        self._ours.close()
