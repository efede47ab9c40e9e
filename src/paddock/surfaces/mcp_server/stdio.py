"""Serve one client over the standard streams: one JSON message per line."""

import asyncio
import json
import os
import re
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from paddock.engines.servers.calls.stdio import MessageReader, PipeWriter
from paddock.foundation.large_json import MIN_SLICED_VALUES, count_in_slices, decode_in_slices
from paddock.model.errors import ConfigurationError
from paddock.model.json_meter import COUNTED_BYTES
from paddock.model.nesting import MAX_DEPTH, is_deeper
from paddock.model.numbers import NumberTooLongError, decoder_for, dumps, loads, may_lose
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server
    from mcp_types import JSONRPCMessage

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Maximum size of one message, in bytes."""
MAX_CLIENT_VALUES = 200_000
"""Maximum number of values in one message. Over HTTP the library decodes it in one step, 40 ms for that many."""
_ID_SYNTAX = rb'"id"\s*:\s*("[^"\\\x00-\x1f\x80-\xff]{0,200}"|-?[0-9]{1,18})'
_VERSION_SYNTAX = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID_FIRST_PATTERN = re.compile(rb"\s*\{\s*(?:" + _VERSION_SYNTAX + rb"\s*,\s*)?" + _ID_SYNTAX + rb"\s*,")
_ID_LAST_PATTERN = re.compile(rb",\s*" + _ID_SYNTAX + rb"\s*(?:,\s*" + _VERSION_SYNTAX + rb"\s*)?\}\s*\Z")
_PROBE_METHOD = "server/discover"
_HANDSHAKE_METHOD = "initialize"
SURROGATE_ESCAPE = b"\\ud"
"""The beginning of an escaped surrogate in JSON."""


class LineWriter(PipeWriter):
    """Messages to the client."""

    def __init__(self, stdout: asyncio.StreamWriter) -> None:
        super().__init__(stdout)
        self.in_flight: set[str] = set()
        """Ids of the client's unanswered requests."""

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message like `PipeWriter.send`. The id of an answered request may be used again."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self.in_flight.discard(str(item.message.id))
        await super().send(item)


class LineReader(MessageReader):
    """Messages of the client. A line that is not a message gets an error as its answer.

    A request whose id is in flight gets one, too, because the library would answer both. The error has no id: the
    client would take it for the answer to the first request.
    """

    def __init__(self, stdin: asyncio.StreamReader, writer: LineWriter) -> None:
        self._stdin = stdin
        self._writer = writer

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream when the client has closed its end."""
        while True:
            try:
                line = await self._stdin.readuntil(b"\n")
            except asyncio.LimitOverrunError as overrun:
                await self._skip_line(overrun.consumed)
                await self._send_refusal(
                    None, INVALID_REQUEST, f"a message is longer than {MAX_LINE_BYTES} bytes"
                )
                continue
            except (asyncio.IncompleteReadError, ConnectionError):
                raise anyio.EndOfStream from None
            if not line.strip():
                continue
            try:
                return self._check_id(await read_message(line, "line"))
            except UnreadableError as fault:
                await self._send_refusal(fault.number, fault.code, fault.text)

    def _check_id(self, item: SessionMessage) -> SessionMessage:
        """Return a message, and keep its id until it is answered or cancelled. Raises UnreadableError."""
        message, in_flight = item.message, self._writer.in_flight
        if isinstance(message, JSONRPCRequest):
            number = str(message.id)
            if number in in_flight:
                raise UnreadableError(None, INVALID_REQUEST, explain_double_id(number))
            in_flight.add(number)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            in_flight.discard(str((message.params or {}).get("requestId")))
        return item

    async def _skip_line(self, consumed: int) -> None:
        """Skip to the end of a line that is too long, without storing it."""
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

    async def _send_refusal(self, number: str | int | None, code: int, text: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=text))
        await self._writer.send(SessionMessage(cast("JSONRPCMessage", error)))


def explain_double_id(number: str) -> str:
    """Return the error for a request with the id of another unanswered request."""
    return f"the request id {number[:100]} is in flight in this session; use another one"


async def _parse_any_message(line: bytes) -> SessionMessage:
    """Return the message in a line. Raises UnreadableError, and ValueError for a line without a message."""
    if len(line) <= COUNTED_BYTES:
        return _parse_message(line)
    meter = await count_in_slices(line, MAX_CLIENT_VALUES)
    if meter.values > MAX_CLIENT_VALUES:
        text = f"a message has more than {MAX_CLIENT_VALUES} values; send less at once"
        raise UnreadableError(_outer_id(line), INVALID_REQUEST, text)
    if meter.values <= MIN_SLICED_VALUES or meter.too_deep or SURROGATE_ESCAPE in line.lower():
        return _parse_message(line)
    document = await decode_in_slices(line.decode(), decoder_for(line).raw_decode)
    return SessionMessage(jsonrpc_message_adapter.validate_python(document, by_name=False))


class UnreadableError(Exception):
    """Bytes that are no message: the request's id if known, the error code, and the error text."""

    def __init__(self, number: str | int | None, code: int, text: str) -> None:
        super().__init__(text)
        self.number = number
        self.code = code
        self.text = text


async def read_message(data: bytes, what: Literal["line", "body"]) -> SessionMessage:
    """Return the message in a line, or in the body of a request. Raises UnreadableError."""
    try:
        message = await _parse_any_message(data)
    except NumberTooLongError as problem:
        raise UnreadableError(_outer_id(data), INVALID_REQUEST, f"this message contains {problem}") from None
    except ValueError:
        raise _describe_fault(data, what) from None
    if (
        isinstance(message.message, JSONRPCNotification)
        and b'"id"' in data
        and "id" in cast("dict[str, object]", json.loads(data))
    ):  # an id of another type: without its id, a request would never be answered
        raise UnreadableError(None, INVALID_REQUEST, "the id of a request is a text or a whole number")
    return message


def _parse_message(line: bytes) -> SessionMessage:
    """Return the message in a line, with all digits of its numbers. Raises ValidationError and NumberTooLongError."""
    if may_lose(line):
        try:
            document = loads(line.decode())
        except NumberTooLongError:
            raise
        except (ValueError, RecursionError):
            document = None  # the library reports the fault
        if document is not None and not is_deeper(document, MAX_DEPTH):
            return SessionMessage(jsonrpc_message_adapter.validate_python(document, by_name=False))
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError:
        if (spelled := _replace_surrogates(line)) is None:
            raise
        return SessionMessage(jsonrpc_message_adapter.validate_json(spelled, by_name=False))


def _replace_surrogates(line: bytes) -> str | None:
    """Return a line without escaped surrogates; None if it has none.

    JSON allows them, and programs in JavaScript may cut strings there; the parser rejects them.
    """
    if SURROGATE_ESCAPE not in line.lower():
        return None
    try:
        return make_encodable(dumps(loads(line.decode()), ensure_ascii=False))
    except (ValueError, RecursionError):
        return None


def _describe_fault(line: bytes, what: Literal["line", "body"]) -> UnreadableError:
    """Return the fault of bytes that are no message."""
    try:
        document: object = from_json(line)
    except ValueError as error:
        if "recursion" not in str(error):
            return UnreadableError(None, PARSE_ERROR, f"this {what} is not JSON: {error}")
        deep = f"this message is nested more than {MAX_DEPTH} deep"
        return UnreadableError(_outer_id(line), INVALID_REQUEST, deep)
    number = cast("dict[str, object]", document).get("id") if isinstance(document, dict) else None
    known = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    text = f"this {what} is not a JSON-RPC 2.0 message; send one object per {what}"
    return UnreadableError(known, INVALID_REQUEST, text)


def _outer_id(line: bytes) -> str | int | None:
    """Return the id of a message that cannot be parsed, if it is the first or the last member, as clients write it."""
    found = _ID_FIRST_PATTERN.match(line) or _ID_LAST_PATTERN.search(line[-1024:])
    return cast("str | int", from_json(found[1])) if found else None


@asynccontextmanager
async def standard_streams() -> AsyncGenerator[tuple[LineReader, LineWriter]]:
    """Take over the standard streams: other output goes to stderr, and no other code reads stdin.

    Raises ConfigurationError if they are no pipes, because then there is no client.
    """
    loop = asyncio.get_running_loop()
    for number, name in enumerate(("input", "output")):
        mode = os.fstat(number).st_mode
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode) and not os.isatty(number):
            raise ConfigurationError(
                f"standard {name} is not a pipe: an MCP client must start this command and talk to it"
            )
    incoming, outgoing = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230 - opens at once
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    stdin = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), incoming)
    writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, outgoing)
    writer = LineWriter(asyncio.StreamWriter(writing, protocol, None, loop))
    try:
        yield LineReader(stdin, writer), writer
    finally:
        reading.close()
        writing.close()


class ProbedReader(MessageReader):
    """Messages of a client. They end before an `initialize` that follows only probes, and start again with it.

    Some clients probe for the newest revision with `server/discover`, and wait a second for its answer. If the answer
    comes later, they send `initialize` on the same connection. The protocol library chooses the revision of a
    connection by its first request, and refuses `initialize` after that. Therefore a connection with only probes is
    served anew.
    """

    def __init__(self, reader: LineReader) -> None:
        self._reader = reader
        self._methods: set[str] = set()
        """Methods of the requests before the first that is no probe."""
        self.handshake: SessionMessage | None = None
        """The `initialize` before which the messages ended."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream when the client has closed its end, or starts again."""
        if self.handshake is not None:
            message, self.handshake = self.handshake, None
            return message
        message = await self._reader.receive()
        if self._methods <= {_PROBE_METHOD} and isinstance(message, SessionMessage):
            request = message.message
            if isinstance(request, JSONRPCRequest):
                probed = bool(self._methods)
                self._methods.add(request.method)
                if probed and request.method == _HANDSHAKE_METHOD:
                    self.handshake = message
                    raise anyio.EndOfStream
        return message


async def serve_client(server: "Server[None]", reader: LineReader, writer: PipeWriter) -> None:
    """Serve one client until it closes its end."""
    options = server.create_initialization_options()
    messages = ProbedReader(reader)
    await server.run(messages, writer, options)
    if messages.handshake is not None:
        await server.run(messages, writer, options)
