"""The standard streams as the streams that the MCP library reads and writes: one JSON message per line."""

import asyncio
import json
import os
import re
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from paddock.hub.wire import PipeStream, PipeWriter
from paddock.model.errors import ConfigurationError
from paddock.model.nesting import MAX_DEPTH
from paddock.surfaces.terminal_text import encodable

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of one message."""
_ID = rb'"id"\s*:\s*("[^"\\\x00-\x1f\x80-\xff]{0,200}"|-?[0-9]{1,18})'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*,")
_LAST = re.compile(rb",\s*" + _ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*\Z")
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
                await self._refuse(None, INVALID_REQUEST, f"a message is longer than {LINE_LIMIT} bytes")
                continue
            except (asyncio.IncompleteReadError, ConnectionError):
                raise anyio.EndOfStream from None
            if not line.strip():
                continue
            try:
                message = _message(line)
            except ValidationError:
                await self._refuse(*_fault(line))
                continue
            if isinstance(message.message, JSONRPCNotification) and _has_id(line):
                # Read without its id, a request would never be answered.
                await self._refuse(None, INVALID_REQUEST, "the id of a request is a text or a whole number")
                continue
            return message

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

    async def _refuse(self, number: str | int | None, code: int, text: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=text))
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
        return encodable(json.dumps(json.loads(line), ensure_ascii=False))
    except (ValueError, RecursionError):
        return None


def _has_id(line: bytes) -> bool:
    """Tell whether a message has an id of any kind."""
    return b'"id"' in line and "id" in cast("dict[str, object]", json.loads(line))


def _fault(line: bytes) -> tuple[str | int | None, int, str]:
    """Return the id of a line that is no message, as far as it has one, its error code, and what to tell."""
    try:
        document: object = from_json(line)
    except ValueError as error:
        if "recursion" not in str(error):
            return None, PARSE_ERROR, f"this line is not JSON: {error}"
        return _outer_id(line), INVALID_REQUEST, f"this message is nested more than {MAX_DEPTH} deep"
    number = cast("dict[str, object]", document).get("id") if isinstance(document, dict) else None
    known = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    return known, INVALID_REQUEST, "this line is not a JSON-RPC 2.0 message; send one object per line"


def _outer_id(line: bytes) -> str | int | None:
    """Return the id of a message that no reader takes, where it stands first or last in it, as clients write it."""
    found = _FIRST.match(line) or _LAST.search(line[-1024:])
    return cast("str | int", from_json(found[1])) if found else None


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
