"""The pipes of a child as streams for the MCP library: one JSON message per line.

No task and no queue lies between the pipe and the library, so that a call costs no extra wake-up.
"""

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from paddock.engines.servers.calls.call_errors import TRACE
from paddock.engines.servers.calls.stdio_rpc import (
    EMPTY_ANSWER,
    is_answer,
    parse_slowly,
    render_line,
    wait_for_room,
)
from paddock.engines.servers.output import ServerOutput
from paddock.model.numbers import may_lose, unmark_text


class PipeStream:
    """Common to both directions: the process owns the pipes, so that closing a stream closes nothing."""

    async def aclose(self) -> None:
        """Do nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class MessageReader(PipeStream):
    """Messages of the other side, one after another."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class PipeReader(MessageReader):
    """Messages of the child. Lines without a message are skipped, because some servers print banners.

    `on_other` is called with each skipped line.
    """

    size = 0
    """Size of the last message, in bytes."""

    def __init__(
        self, stdout: ServerOutput, on_end: Callable[[str], None], on_other: Callable[[bytes], None]
    ) -> None:
        self._stdout = stdout
        self._on_end = on_end
        self._on_other = on_other

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream when the child closed its stdout or exceeded the limit."""
        while True:
            line = await self._stdout.next_line()
            if line is None:
                self._on_end(self._stdout.fault)
                raise anyio.EndOfStream
            self.size = len(line)
            if (message := parse_message(line)) is not None:
                return message
            self._on_other(line)


class PipeWriter(PipeStream):
    """Messages to the child."""

    def __init__(self, stdin: asyncio.StreamWriter) -> None:
        self._stdin = stdin

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message. Raises BrokenResourceError when the child no longer reads."""
        message = item.message
        # The result of an answer is JSON already and may be large: it is not copied.
        fields = (
            {"jsonrpc": message.jsonrpc, "id": message.id, "result": message.result}
            if isinstance(message, JSONRPCResponse)
            else message.model_dump(by_alias=True, exclude_unset=True)
        )
        data = unmark_text(render_line(fields))
        try:
            await wait_for_room(self._stdin)
            if self._stdin.is_closing():
                raise anyio.BrokenResourceError
            if (trace := TRACE.get()) is not None:
                trace.sent = True
            self._stdin.write(data)
            await self._stdin.drain()
        except ConnectionError:
            raise anyio.BrokenResourceError from None


def parse_message(line: bytes) -> SessionMessage | None:
    """Return the message in a line, or None.

    An answer that breaks JSON-RPC is accepted without a version, and with a result or an error of another type.
    """
    try:
        if may_lose(line) and (document := parse_slowly(line)) is not None:
            return SessionMessage(jsonrpc_message_adapter.validate_python(document, by_name=False))
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError:
        fields = parse_slowly(line) or {}
    number = fields.get("id")
    if isinstance(number, bool) or not isinstance(number, int | str) or "method" in fields:
        return None
    if "result" in fields:
        return SessionMessage(
            JSONRPCResponse.model_construct(jsonrpc="2.0", id=number, result=fields["result"])
        )
    if is_answer(fields):
        error = fields.get("error", EMPTY_ANSWER)
        message = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else error
        text = message if isinstance(message, str) else json.dumps(message)
        return SessionMessage(
            JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=INTERNAL_ERROR, message=text))
        )
    return None
