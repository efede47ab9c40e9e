"""Our requests on the pipes of a stdio server, past the MCP library.

The library spends most of a short call on its own tasks and models. What it does for one request is little: a number, a
line, the answer with that number, and a word to the server when nobody waits any more. Everything else on the pipes,
such as what the server asks of us, stays the library's.
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

from paddock.hub.call_errors import TRACE
from paddock.hub.output import MAX_DEPTH
from paddock.large_json import decode_in_slices
from paddock.model.nesting import is_deeper
from paddock.model.numbers import NumberTooLongError, decoder_for, dumps_exact, may_lose, read_float, read_int

_FIRST_ID = 1 << 30
"""The library counts its own requests from 1."""
_ID_FIRST = re.compile(r'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,18})"?\s*,')
_ID_LAST = re.compile(r'"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_ID_SEARCH_CHARS = 200
"""Where the number of an answer stands that is too deep for any reader: servers write it first or last."""
_TOO_DEEP = f"the answer is nested more than {MAX_DEPTH} deep"
EMPTY_ANSWER = "the answer has neither a result nor an error"


class OversizedAnswerError(MCPError):
    """An answer was not read: it holds too many values, or nests too deep."""


class StdioRpc:
    """Requests of ours that wait for their answers, on one pair of pipes."""

    def __init__(self, stdin: asyncio.StreamWriter) -> None:
        self._stdin = stdin
        self._numbers = itertools.count(_FIRST_ID)
        self._waiting: dict[object, asyncio.Future[dict[str, Any]]] = {}
        self._ended = False

    async def send_request(self, method: str, params: dict[str, Any], *, tell: bool) -> object:
        """Return the `result` of the answer, whatever it is. Raises MCPError as the library does.

        When the wait is cancelled after the request was sent, the server hears of it if `tell` is set.
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
        raise _make_error(answer.get("error", {"message": EMPTY_ANSWER}))

    def take_answer(self, line: bytes) -> bool:
        """Take a line that is the answer to one of our requests; tell whether it was."""
        return bool(self._waiting) and self._settle_answer(_parse_answer(line))

    async def take_large(self, line: bytes) -> bool:
        """Take a line as `take` does, without holding up others meanwhile."""
        if not self._waiting:
            return False
        try:
            document: object = await decode_in_slices(line.decode(), decoder_for(line).raw_decode)
        except ValueError:
            return self._settle_answer(parse_slowly(line))
        return self._settle_answer(_as_object(document))

    def fail_dropped(self, start: bytes, end: bytes, why: str) -> bool:
        """Fail the request that a line answers of which only both ends are known; return whether there was one."""
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
        if isinstance(number, str):  # as the library does: some servers give every number back as a text
            number = coerce_request_id(number)
        answered = self._waiting.get(number)
        if answered is None or not is_answer(answer):
            return False
        if not answered.done():
            answered.set_result(answer)
        return True

    def end_waits(self) -> None:
        """End every wait: no answer will come any more."""
        self._ended = True
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(_make_closed_error())


async def wait_for_room(stdin: asyncio.StreamWriter) -> None:
    """Wait until a process reads what was written to it before. Raises ConnectionError.

    A line that is written is kept until it is read, whoever has given up waiting for its answer. Lines for a process
    that does not read are therefore not written: they would pile up.
    """
    if stdin.transport.get_write_buffer_size():
        await stdin.drain()


def is_answer(message: dict[str, Any]) -> bool:
    """Return whether a message with a request's number answers it, rather than being a line of some log.

    A handler in JavaScript that gives undefined becomes an answer with neither a result nor an error.
    """
    return not message.keys().isdisjoint(("result", "error", "jsonrpc"))


def render_line(message: dict[str, Any]) -> bytes:
    """Return a message as a line. A lone surrogate goes as an escape: UTF-8 has no form for it, but JSON has."""
    try:
        return orjson.dumps(message) + b"\n"
    except TypeError:  # also for numbers beyond 64 bits, and those that no double equals
        return dumps_exact(message, separators=(",", ":")).encode() + b"\n"


def _parse_answer(line: bytes) -> dict[str, Any] | None:
    if may_lose(line):
        return parse_slowly(line)
    try:
        document: object = from_json(line)
    except ValueError:  # also for what is nested more than 200 deep
        return parse_slowly(line)
    return _as_object(document)


def _as_object(document: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None


def parse_slowly(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line that quicker readers do not take; None when there is none.

    One that is nested too deep is an error in its place: whoever writes it as JSON needs as deep a stack as its reader.
    So is one with a number that is too long to be read. All other numbers keep their digits.
    Bytes that are not UTF-8 are replaced, as in JavaScript, and a text may hold any control character.
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
            _find_number(text[:_ID_SEARCH_CHARS], text[-_ID_SEARCH_CHARS:]), f"the answer holds {problem}"
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
    """Return the number of an answer of which both ends are given."""
    found = _ID_FIRST.match(start) or _ID_LAST.search(end)
    return int(found[1]) if found else None


def _make_unreadable_answer(number: object, why: str) -> dict[str, Any] | None:
    return None if number is None else {"id": number, "error": {"code": INTERNAL_ERROR, "message": why}}


def _make_closed_error() -> MCPError:
    return MCPError(code=CONNECTION_CLOSED, message="Connection closed")


def _make_error(error: object) -> MCPError:
    """Return the error that a server answers with; one that breaks the rules is still an error."""
    try:
        data = ErrorData.model_validate(error)
    except ValidationError:
        told = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else None
        return MCPError(code=INTERNAL_ERROR, message=told if isinstance(told, str) else json.dumps(error))
    return MCPError(code=data.code, message=data.message, data=data.data)
