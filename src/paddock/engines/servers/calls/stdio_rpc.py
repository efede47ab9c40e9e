"""Paddock's requests on the pipes of a stdio server, without the MCP library.

The library spends most of a short call on its own tasks and models. A request needs little of it: a number, a line, the
answer with that number, and a cancellation when the caller leaves. The library handles everything else on the pipes,
such as the server's own requests.
"""

import asyncio
import itertools
import json
import re
from typing import Any, cast

import orjson
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, ErrorData
from pydantic import ValidationError
from pydantic_core import from_json

from paddock.engines.servers.calls.call_errors import TRACE
from paddock.engines.servers.output import MAX_DEPTH
from paddock.foundation.large_json import decode_in_slices
from paddock.model.nesting import is_deeper
from paddock.model.numbers import NumberTooLongError, decoder_for, dumps_exact, may_lose, read_float, read_int

_FIRST_ID = 1 << 30
"""The library numbers its own requests from 1."""
_ID_FIRST = re.compile(r'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,18})"?\s*,')
_ID_LAST = re.compile(r'"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_ID_SEARCH_CHARS = 200
"""Searched for the number of an answer that is too deep to parse: servers write it first or last."""
_TOO_DEEP = f"the answer is nested more than {MAX_DEPTH} deep"
EMPTY_ANSWER = "the answer has neither a result nor an error"


class OversizedAnswerError(MCPError):
    """An answer was not read: it has too many values, or is nested too deeply."""


class StdioRpc:
    """Paddock's requests that wait for answers, on one pair of pipes."""

    def __init__(self, stdin: asyncio.StreamWriter) -> None:
        self._stdin = stdin
        self._numbers = itertools.count(_FIRST_ID)
        self._waiting: dict[object, asyncio.Future[dict[str, Any]]] = {}
        self._ended = False

    async def send_request(self, method: str, params: dict[str, Any], *, tell: bool) -> object:
        """Return the `result` of the answer, whatever it is. Raises MCPError like the library.

        If the wait is cancelled after the request was sent and `tell` is set, the server gets a cancellation.
        """
        try:
            await wait_for_room(self._stdin)
        except ConnectionError:
            raise _make_closed_error() from None
        if self._ended or self._stdin.is_closing():
            raise _make_closed_error()
        number = next(self._numbers)
        line = render_line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            if (trace := TRACE.get()) is not None:
                trace.sent = True
            self._stdin.write(line)
            await self._stdin.drain()
            answer = await answered
        except ConnectionError:
            raise _make_closed_error() from None
        except asyncio.CancelledError:
            if tell and not self._stdin.is_closing():
                ended = {"requestId": number, "reason": "caller cancelled"}
                self._stdin.write(
                    render_line({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": ended})
                )
            raise
        finally:
            del self._waiting[number]
        if "result" in answer:
            return answer["result"]
        error: object = answer.get("error", {"message": EMPTY_ANSWER})
        try:
            data = ErrorData.model_validate(error)
        except ValidationError:  # it breaks the rules, and is an error nevertheless
            message = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else None
            text = message if isinstance(message, str) else json.dumps(error)
            raise MCPError(code=INTERNAL_ERROR, message=text) from None
        raise MCPError(code=data.code, message=data.message, data=data.data)

    def take_answer(self, line: bytes) -> bool:
        """Use a line that answers one of our requests; return whether it did."""
        if not self._waiting:
            return False
        if may_lose(line):
            return self._settle_answer(parse_slowly(line))
        try:
            document: object = from_json(line)
        except ValueError:  # also for more than 200 levels
            return self._settle_answer(parse_slowly(line))
        return self._settle_answer(_as_object(document))

    async def take_large(self, line: bytes) -> bool:
        """Do the same without blocking other tasks."""
        if not self._waiting:
            return False
        try:
            document: object = await decode_in_slices(line.decode(), decoder_for(line).raw_decode)
        except ValueError:
            return self._settle_answer(parse_slowly(line))
        return self._settle_answer(_as_object(document))

    def fail_dropped(self, start: bytes, end: bytes, why: str) -> bool:
        """Fail the request that a dropped line answers, given its head and tail; return whether there was one."""
        number = _find_number(start.decode("utf-8-sig", "replace"), end.decode("utf-8", "replace"))
        answered = self._waiting.get(number)
        if answered is None:
            return False
        if not answered.done():
            answered.set_exception(OversizedAnswerError(code=INTERNAL_ERROR, message=why))
        return True

    def _settle_answer(self, answer: dict[str, Any] | None) -> bool:
        if answer is None:
            return False
        number = answer.get("id")
        if "method" in answer or isinstance(number, (bool, dict, list)):
            return False
        if isinstance(number, str):  # like the library: some servers return every number as a string
            number = coerce_request_id(number)
        answered = self._waiting.get(number)
        if answered is None or not is_answer(answer):
            return False
        if not answered.done():
            answered.set_result(answer)
        return True

    def end_waits(self) -> None:
        """End every wait: no answer can arrive any more."""
        self._ended = True
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(_make_closed_error())


async def wait_for_room(stdin: asyncio.StreamWriter) -> None:
    """Wait until a process has read what was written to it before. Raises ConnectionError.

    A written line is kept until it is read, even if its caller has left. For a process that does not read, lines would
    accumulate; therefore they are not written.
    """
    if stdin.transport.get_write_buffer_size():
        await stdin.drain()


def is_answer(message: dict[str, Any]) -> bool:
    """Return whether a message with a request's number is an answer, and not a line of a log.

    A JavaScript handler that returns undefined produces an answer with neither a result nor an error.
    """
    return not message.keys().isdisjoint(("result", "error", "jsonrpc"))


def render_line(message: dict[str, Any]) -> bytes:
    """Return a message as a line. A lone surrogate becomes an escape: UTF-8 cannot encode it, but JSON can."""
    try:
        return orjson.dumps(message) + b"\n"
    except TypeError:  # also for numbers beyond 64 bits, and numbers that no double represents
        return dumps_exact(message, separators=(",", ":")).encode() + b"\n"


def _as_object(document: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None


def parse_slowly(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line that faster parsers reject; None if there is none.

    An object that is nested too deeply becomes an error: whoever writes it as JSON needs as deep a stack as its reader.
    An object with a number that is too long to be parsed becomes one, too. All other numbers keep their digits. Bytes
    that are not UTF-8 are replaced, as in JavaScript, and a string may contain any control character.
    """
    text = line.decode("utf-8-sig", "replace")
    try:
        document: object = json.loads(text, strict=False, parse_float=read_float, parse_int=read_int)
    except RecursionError:
        return _make_unreadable_answer(
            _find_number(text[:_ID_SEARCH_CHARS], text[-_ID_SEARCH_CHARS:]), _TOO_DEEP
        )
    except NumberTooLongError as problem:
        return _make_unreadable_answer(
            _find_number(text[:_ID_SEARCH_CHARS], text[-_ID_SEARCH_CHARS:]), f"the answer contains {problem}"
        )
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    fields = cast("dict[str, Any]", document)
    if not is_deeper(fields, MAX_DEPTH):
        return fields
    return _make_unreadable_answer(fields.get("id"), _TOO_DEEP)


def _find_number(start: str, end: str) -> int | None:
    """Return the number of an answer, given its head and tail."""
    found = _ID_FIRST.match(start) or _ID_LAST.search(end)
    return int(found[1]) if found else None


def _make_unreadable_answer(number: object, why: str) -> dict[str, Any] | None:
    return None if number is None else {"id": number, "error": {"code": INTERNAL_ERROR, "message": why}}


def _make_closed_error() -> MCPError:
    return MCPError(code=CONNECTION_CLOSED, message="Connection closed")
