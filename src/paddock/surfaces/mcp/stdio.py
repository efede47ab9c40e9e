"""The standard streams as the streams that the MCP library reads and writes: one JSON message per line."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from paddock.hub.wire import PipeStream, PipeWriter
from paddock.model.errors import ConfigurationError
from paddock.surfaces import render

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of one message."""
_HALF = b"\\ud"
"""How JSON begins to spell half of a character."""


class LineReader(PipeStream):
    """Messages of the client. A line that is no message is answered with what is wrong with it."""

    def __init__(self, stdin: asyncio.StreamReader, writer: PipeWriter) -> None:
        self._stdin = stdin
        self._writer = writer

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream when the client has closed its end."""
        while True:
            try:
                line = await self._stdin.readuntil(b"\n")
            except asyncio.LimitOverrunError as overrun:
                await self._skip(overrun.consumed)
                await self._refuse(INVALID_REQUEST, f"a message is longer than {LINE_LIMIT} bytes")
                continue
            except (asyncio.IncompleteReadError, ConnectionError):
                raise anyio.EndOfStream from None
            if not line.strip():
                continue
            try:
                return _message(line)
            except ValidationError:
                await self._refuse(*_fault(line))

    async def _skip(self, consumed: int) -> None:
        """Read on to the end of a line that is too long, keeping nothing."""
        while True:
            await self._stdin.readexactly(consumed)
            try:
                await self._stdin.readuntil(b"\n")
            except asyncio.LimitOverrunError as overrun:
                consumed = overrun.consumed
            except asyncio.IncompleteReadError:
                return
            else:
                return

    async def _refuse(self, code: int, text: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=text))
        await self._writer.send(SessionMessage(cast("JSONRPCMessage", error)))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def _message(line: bytes) -> SessionMessage:
    """Return the message in a line. Raises ValidationError."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError:
        if (spelled := _without_halves(line)) is None:
            raise
        return SessionMessage(jsonrpc_message_adapter.validate_json(spelled, by_name=False))


def _without_halves(line: bytes) -> str | None:
    """Return a line without the halves of characters that it spells out; None for one that spells none.

    JSON has them, and programs in JavaScript cut texts there; the parser takes none.
    """
    if _HALF not in line.lower():
        return None
    try:
        return render.encodable(json.dumps(json.loads(line), ensure_ascii=False))
    except (ValueError, RecursionError):
        return None


def _fault(line: bytes) -> tuple[int, str]:
    """Return the error code of a line that is no message, and what to tell."""
    try:
        from_json(line)
    except ValueError as error:
        return PARSE_ERROR, f"this line is not JSON: {error}"
    return INVALID_REQUEST, "this line is not a JSON-RPC 2.0 message; send one object per line"


@asynccontextmanager
async def standard_streams() -> AsyncGenerator[tuple[LineReader, PipeWriter]]:
    """Take the standard streams over: what else is printed goes to standard error, and nobody else reads.

    Raises ConfigurationError when they are no pipes: then there is no client.
    """
    loop = asyncio.get_running_loop()
    for number, name in enumerate(("input", "output")):
        mode = os.fstat(number).st_mode
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode) and not os.isatty(number):
            raise ConfigurationError(
                f"standard {name} is no pipe: an MCP client starts this command and talks to it"
            )
    incoming, outgoing = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 - opens at once
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    stdin = asyncio.StreamReader(limit=LINE_LIMIT)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), incoming)
    writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, outgoing)
    writer = PipeWriter(asyncio.StreamWriter(writing, protocol, None, loop))
    try:
        yield LineReader(stdin, writer), writer
    finally:
        reading.close()
        writing.close()
