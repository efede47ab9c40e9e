"""The HTTP client below streamable HTTP: a failing request fails its own call, not the whole connection.

Answers are limited in size, because the library reads whole bodies, decoded. Requests that no caller waits for are also
limited in time. `find_request_error` explains an answer without a result, and names the remedy.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, cast

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from pydantic_core import from_json, to_json

from paddock.confinement.network.http_transport import ProxyTransport, describe_cause, find_failed_proxy
from paddock.engines.servers.calls.call_errors import TRACE, CallFailed, Trace
from paddock.engines.servers.calls.lifecycle import CallHealth
from paddock.engines.servers.calls.stdio_rpc import parse_slowly
from paddock.engines.servers.config import HttpServer
from paddock.engines.servers.output import MAX_DEPTH, MAX_LINE_BYTES
from paddock.model.errors import ConfigurationError, ServerUnavailable
from paddock.model.json_meter import MAX_VALUES, JsonMeter
from paddock.model.numbers import MARK, NumberTooLongError, loads, mark_numbers, may_lose, unmark_text
from paddock.model.urls import render_origin, strip_credentials

_UNSENT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)

_FAREWELL_S = 1.0
"""Maximum time to end a session, in seconds."""
_APART_S = 0.5
"""Minimum time between two requests for the rest of one stream, in seconds; a server may ask for no pause."""
_PLAIN_ENCODINGS = ("", "identity")
_MAX_VALUE_CHARS = 200
_LINES = re.compile(rb"\r\n|\r|\n|[^\r\n]+").findall
_MAX_CHECKED_BYTES = 64 << 10
"""Maximum size of an answer whose id is checked, in bytes: errors are short."""
_STAND_INS = frozenset({"Not Found", "Session terminated", "Server returned an error response"})
"""The library's error texts for a refusal with an empty body."""
_MEDIA_TYPE_PATTERN = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_MAX_MEDIA_TYPE_CHARS = 60
_START = "Start it, or correct its `url`"
_RETRYABLE_STATUSES = (429, 502, 503, 504)
_WRONG_URL_STATUSES = (404, 405, 406, 410, 415, 421)


def http_client(
    server: HttpServer, auth: httpx2.Auth | None = None, max_values: int = MAX_VALUES
) -> httpx2.AsyncClient:
    """Return a client with the server's headers. It has no read timeout: each call has its own.

    An answer or event with more than `max_values` values ends with an error before the library decodes it. Raises
    CallFailed for a `url` that is not valid, and when an environment variable for it names a proxy or certificates that
    cannot be used.
    """
    headers = {"accept-encoding": "identity", **server.headers}
    timeout = httpx2.Timeout(server.timeout_ms / 1000, read=None, pool=None)
    try:
        transport = ProxyTransport(httpx2.URL(server.url))
        return _ServerClient(max_values, headers=headers, timeout=timeout, auth=auth, transport=transport)
    except httpx2.InvalidURL:
        why = f"the `url` of {server.name} is not the address of a web server; correct it"
    except ConfigurationError as problem:
        why = str(problem)
    raise CallFailed(ServerUnavailable(f"{why}."), CallHealth.NEUTRAL)


class _ServerClient(httpx2.AsyncClient):
    """Records in the call's trace how the request ended, and turns a network failure into an answer."""

    def __init__(self, max_values: int, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self._max_values = max_values

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401
        trace = TRACE.get() or Trace()
        if request.method == "DELETE":
            return await self._end_session(request, options)
        if request.method == "GET":  # a stream that ends at once is not requested again without a pause
            now = asyncio.get_running_loop().time()
            trace.reopens = max(now, trace.reopens + _APART_S)
            await asyncio.sleep(trace.reopens - now)
        request = _unmark_numbers(request)
        before, trace.sent = trace.sent, True  # also counts if the caller is cancelled
        try:
            response = await super().send(request, **options)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            # The library's transport would end with all its calls. A 502 is what a gateway would answer.
            trace.sent = before or not isinstance(error, _UNSENT_ERRORS)
            trace.cause, proxy = describe_cause(error), find_failed_proxy(request.url, error)
            if proxy is not None:
                trace.cause, trace.remedy = proxy.explain_failure(trace.cause), proxy.remedy
            return httpx2.Response(502, request=request)
        trace.status, trace.cause = response.status_code, ""
        trace.kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.headers.get("content-encoding", "").strip().lower() not in _PLAIN_ENCODINGS:
            # The library would decode it: a few bytes could fill the memory.
            await response.aclose()
            trace.cause = "it compresses its answers, although it is asked not to"
            return httpx2.Response(502, request=request)
        if response.is_redirect:
            # Without its body: the library would read it without a limit.
            await response.aclose()
            bare = httpx2.Response(response.status_code, request=response.request)
            bare.next_request = response.next_request
            if response.next_request is not None:
                trace.place = strip_credentials(str(response.next_request.url))[:_MAX_VALUE_CHARS]
            return bare
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if trace.kind == "text/event-stream":
            response.stream = _ExactEvents(_BoundedEvents(response.stream, trace, self._max_values))
        else:
            response.stream = _BoundedDocument(response.stream, trace, self._max_values)
            if response.is_success and request.method == "POST" and trace.kind == "application/json":
                response.stream = _MatchingAnswer(response.stream, request.content, trace)
        return response

    async def _end_session(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """End a session; the wait for the answer is short, and the answer is not read."""
        try:
            async with asyncio.timeout(_FAREWELL_S):
                response = await super().send(request, **options)
                await response.aclose()
        except (TimeoutError, httpx2.TransportError):
            return httpx2.Response(502, request=request)
        return httpx2.Response(response.status_code, request=request)


class _ChangedBody(httpx2.AsyncByteStream):
    """A body that is checked or changed while it is read."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedBody(_ChangedBody):
    """A body that ends with an error when it exceeds a limit."""

    def __init__(self, stream: httpx2.AsyncByteStream, trace: Trace, max_values: int) -> None:
        super().__init__(stream)
        self._trace = trace
        self._max_values = max_values

    def _check_limits(self, meter: JsonMeter) -> None:
        if meter.too_deep:
            raise _make_oversize_error(self._trace, f"it is nested more than {MAX_DEPTH} deep")
        if meter.values > self._max_values:
            values = f"it has more than {self._max_values} values"
            raise _make_oversize_error(
                self._trace, f"{values}; ask for less at once, or raise `servers.answer_values`"
            )


class _BoundedDocument(_BoundedBody):
    """One JSON document, with the limits of a stdio server's message."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, meter = 0, JsonMeter(MAX_DEPTH)
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > MAX_LINE_BYTES:
                    raise _make_oversize_error(
                        self._trace, f"it is larger than {MAX_LINE_BYTES} bytes; ask for less at once"
                    )
                meter.feed(chunk)
                self._check_limits(meter)
                yield chunk
        except httpx2.TransportError as error:
            raise _make_stream_error(self._trace, describe_cause(error)) from None


class _BoundedEvents(_BoundedBody):
    """Server-sent events; each contains a document. The library limits their bytes.

    A JSON string contains no line break. Therefore the count of a `data` field starts outside of strings, whatever
    quotes the other fields of the event contain.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        meter, blank, half = JsonMeter(MAX_DEPTH), False, False
        async for chunk in self._stream:
            for line in _LINES(chunk[half and chunk[:1] == b"\n" :]):
                if line[:1] not in b"\r\n":
                    meter.feed(line)
                    self._check_limits(meter)
                    blank = False
                    continue
                if blank:
                    meter = JsonMeter(MAX_DEPTH)
                meter.end_line()
                blank = True
            half = chunk[-1:] == b"\r"
            yield chunk


class _MatchingAnswer(_ChangedBody):
    """A JSON answer that must belong to its request: with another id, the callers would wait until their timeouts.

    If the server could not read the id (JSON-RPC 2.0, section 5: `id` is null), its error gets the id of the request.
    """

    def __init__(self, stream: httpx2.AsyncByteStream, request: bytes, trace: Trace) -> None:
        super().__init__(stream)
        self._request = request
        self._trace = trace

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = b"".join([chunk async for chunk in self._stream])
        yield _mark_numbers(self._restore_id(body) if len(body) <= _MAX_CHECKED_BYTES else body)

    def _restore_id(self, body: bytes) -> bytes:
        try:
            asked, answer = from_json(self._request), from_json(body)
            number, other = asked["id"], answer["id"]
        except (ValueError, LookupError, TypeError):
            return body  # no caller waits for it, or the library reports the fault
        if other is None and "error" in answer:
            return to_json({**answer, "id": number})
        if str(other) != str(number):
            raise _make_stream_error(
                self._trace,
                f"it answers another request, {str(other)[:_MAX_VALUE_CHARS]!r} instead of {number!r}",
            )
        return body


def _make_oversize_error(trace: Trace, text: str) -> httpx2.StreamError:
    trace.oversize = True
    return _make_stream_error(trace, text)


class _ExactEvents(_ChangedBody):
    """Events whose numbers keep their digits while they pass the library (`paddock.model.numbers`)."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        line = bytearray()
        async for chunk in self._stream:
            whole, end, rest = chunk.rpartition(b"\n")
            if not end and len(line) + len(rest) <= MAX_LINE_BYTES:
                line += rest
                continue
            lines = bytes(line) + whole + end
            line[:] = rest
            yield b"".join(map(_mark_event, lines.splitlines(keepends=True))) if may_lose(lines) else lines
        yield bytes(line)


def _mark_event(line: bytes) -> bytes:
    if not line.startswith(b"data:") or not may_lose(line):
        return line
    data = line[len(b"data:") :].strip()
    return b"data: " + _mark_numbers(data) + b"\n"


def _mark_numbers(body: bytes) -> bytes:
    """Return an answer with marked numbers in its result. The library checks the others; they contain no data."""
    if not may_lose(body):
        return body
    try:
        answer = cast("dict[str, Any]", loads(body.decode()))
        answer["result"] = mark_numbers(answer["result"])
        return json.dumps(answer).encode()
    except NumberTooLongError as problem:  # no reader accepts this answer: an error takes its place
        fault = {"code": INTERNAL_ERROR, "message": f"the answer contains {problem}"}
        return to_json({"jsonrpc": "2.0", **(parse_slowly(body) or {"id": None, "error": fault})})
    except (ValueError, RecursionError, LookupError, TypeError):
        return body  # no answer, or the library reports the fault


def _unmark_numbers(request: httpx2.Request) -> httpx2.Request:
    """Return a request with numbers in place of marked strings, in its body and its headers."""
    if MARK.encode() not in request.content:
        return request
    kept = [
        (name, value) for name, value in request.headers.multi_items() if name.lower() != "content-length"
    ]
    headers = [(name, value.replace(MARK, "")) for name, value in kept]
    content = unmark_text(request.content)
    return httpx2.Request(
        request.method, request.url, headers=headers, content=content, extensions=request.extensions
    )


def _make_stream_error(trace: Trace, text: str) -> httpx2.StreamError:
    trace.fault = text
    return httpx2.StreamError(text)


def find_request_error(server: HttpServer, error: MCPError, trace: Trace) -> ServerUnavailable | None:
    """Return the error for a request without an answer of the protocol; None if `error` is the server's own answer."""
    name, status = server.name, trace.status
    if trace.cause:
        retryable = not trace.sent
        if trace.sent:
            text = f"Server {name} at {render_origin(server.url)} sent no answer: {trace.cause}."
        else:
            where = f"{name} at {render_origin(server.url)}"
            text = f"no connection to server {where}: {trace.cause}. {trace.remedy or _START}."
        return ServerUnavailable(text, retryable=retryable, sent=trace.sent)
    if trace.fault:
        return ServerUnavailable(f"Server {name} sent no complete answer: {trace.fault}.", sent=True)
    if status is None or (why := _explain_status(error, trace, status)) is None:
        return None
    sent = status < HTTPStatus.MULTIPLE_CHOICES or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return ServerUnavailable(f"Server {name} {why}", retryable=status in _RETRYABLE_STATUSES, sent=sent)


def _explain_status(error: MCPError, trace: Trace, status: int) -> str | None:
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        leads = f" and leads to {trace.place}" if trace.place else ""
        return f"answers HTTP {status}{leads}; correct its `url`."
    if status >= HTTPStatus.BAD_REQUEST:
        return f"answers HTTP {status}{_suggest_remedy(status)}." if error.message in _STAND_INS else None
    if error.code == PARSE_ERROR and error.message.startswith("Failed to parse"):
        return "answers with something other than a message of the protocol."
    if error.code == INVALID_REQUEST and error.message.startswith("Unexpected content type"):
        # A server may write anything there.
        known = _MEDIA_TYPE_PATTERN.fullmatch(trace.kind) and len(trace.kind) <= _MAX_MEDIA_TYPE_CHARS
        kind = trace.kind if known else "something else"
        return f"answers with {kind}, which is not MCP; correct its `url`."
    if status == HTTPStatus.ACCEPTED and error.code == INVALID_REQUEST:
        return "accepts the request, but sends no answer (HTTP 202)."
    return None


def _suggest_remedy(status: int) -> str:
    if status in _WRONG_URL_STATUSES:
        return "; correct its `url`"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return ": too many requests; wait before the next call"
    if status in _RETRYABLE_STATUSES:
        return ": it cannot answer now; try again later"
    return "; see its own log"
