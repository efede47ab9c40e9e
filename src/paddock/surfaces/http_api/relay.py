"""Sends a request on to another replica, and its answer back. Neither is kept in memory.

    client --receive--> this replica --httpx2--> the other one
    client <---send---- this replica <--httpx2--

Back pressure reaches both ends: a piece is read only when the one before was taken. A client that disconnects ends the
request to the other replica, which sees that as its own client disconnecting.

A link that hangs closes no connection. Therefore an answer is waited for only while there are signs of life:

    before it begins    the other replica is asked every few seconds whether it still handles the request
    while it arrives    bytes; a stream of events has a comment every 15 seconds (`events.PING_S`)
    always              the lease of the other replica
"""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import cached_property

import httpx2

from paddock.cluster.hops import OFFSET_HEADER
from paddock.foundation.cancellation import cancel_all
from paddock.surfaces.http_api.events import MEDIA_TYPE as EVENT_STREAM
from paddock.surfaces.http_server.asgi import Receive, Scope, Send

CONNECT_S = 2.0
"""Maximum time until another replica accepts a connection, in seconds."""
MAX_SILENCE_S = 15.0
"""Maximum time without a sign of life before an answer begins, in seconds. The lease of a dead machine ends before."""
MAX_PAUSE_S = 35.0
"""Maximum time without a byte within an answer, in seconds: two comments of a stream of events may be missing."""
_FIRST_LOOK_S = 1.0
"""Time until the other replica is asked for the first time whether it handles a request, in seconds."""
_LOOK_S = 3.0
"""Time between two of these questions, in seconds. After the last one, the answer may still be on its way."""
_IDLE_S = 20.0
"""Time for which an unused connection is kept, in seconds: shorter than the servers keep theirs."""
_WRITE_S = 30.0
_MAX_IDLE = 64
_OF_ONE_CONNECTION = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    }
)
"""Headers of one connection (RFC 9110, section 7.6.1)."""
_OF_ONE_SERVER = frozenset({b"date", b"server"})
"""Headers that each server adds itself."""

_OFFSET = re.compile(r"-?\d{1,12}", re.ASCII)

Headers = list[tuple[bytes, bytes]]
Handles = Callable[[], Awaitable[bool | None]]
"""Asks the other replica whether it still handles a request; None if it does not answer."""


class NotReachedError(Exception):
    """The other replica did not accept the request: nothing started there."""


class OffsetError(NotReachedError):
    """The other replica did not accept the request, because the clocks differ."""

    def __init__(self, offset_s: int) -> None:
        """`offset_s` tells how many seconds this clock is ahead of the other one; behind it if negative."""
        super().__init__()
        self.offset_s = offset_s


class BrokenOffError(Exception):
    """The answer did not come, or not all of it: whether something started is not known."""

    def __init__(
        self, *, whole: bool = True, begun: bool = False, between_events: bool = False, ended: bool = False
    ) -> None:
        """`begun` tells whether a part of the answer was sent, `between_events` whether it was whole events (SSE).

        If not the `whole` request was sent, nothing started: the body is read before that. `ended` tells whether the
        lease of the other replica has ended.
        """
        super().__init__()
        self.whole = whole
        self.begun = begun
        self.between_events = between_events
        self.ended = ended


class StreamRelay:
    """Sends requests to other replicas. It follows no redirect, and uses no proxy. `close` it."""

    @cached_property
    def _transport(self) -> httpx2.AsyncHTTPTransport:
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=_MAX_IDLE, keepalive_expiry=_IDLE_S
        )
        return httpx2.AsyncHTTPTransport(verify=ssl.create_default_context(), trust_env=False, limits=limits)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def fetch(
        self, url: str, path: bytes, headers: Headers, timeout_s: float, max_bytes: int
    ) -> tuple[int, bytes]:
        """Return status and body of an answer to GET. Raises NotReachedError for any failure."""
        request = _make_request(url, "GET", path, headers, None)
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._transport.handle_async_request(request)
                body = bytearray()
                async with aclosing(response):
                    _check_offset(response)
                    async for piece in response.aiter_raw():
                        body += piece
                        if len(body) > max_bytes:
                            raise NotReachedError
                return response.status_code, bytes(body)
        except (httpx2.HTTPError, TimeoutError):
            raise NotReachedError from None

    async def pass_on(
        self,
        url: str,
        scope: Scope,
        headers: Headers,
        receive: Receive,
        send: Send,
        *,
        body: bytes | None,
        ended: Callable[[], Awaitable[None]],
        handles: Handles,
    ) -> None:
        """Answer a request with the answer of the server at `url`. Raises NotReachedError and BrokenOffError.

        `headers` are added to those of the request. `body` is its body, if that was read. `ended` returns once the
        server is known to have ended. Returns early if the client disconnects.
        """
        client = _RelayClient(scope, receive, send, body)
        request = _make_request(url, scope["method"], read_target(scope), headers, client)
        tasks = [
            asyncio.create_task(self._exchange(request, client)),
            asyncio.create_task(client.wait_for_disconnect()),
            asyncio.ensure_future(ended()),
            asyncio.create_task(_wait_for_silence(client, handles)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            exchange, left, end, _ = tasks
            if exchange.done():
                await exchange
            elif not left.done():
                raise client.make_error(ended=end.done())
        finally:
            await cancel_all(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.exception()  # it was raised above, or nobody is left to hear of it

    async def _exchange(self, request: httpx2.Request, client: "_RelayClient") -> None:
        try:
            response = await self._transport.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            raise NotReachedError from None
        except httpx2.HTTPError:
            if client.disconnected:
                return
            raise BrokenOffError(whole=client.may_be_whole) from None
        async with aclosing(response):
            _check_offset(response)
            await client.begin(response)
            pieces = response.aiter_raw()
            while (piece := await _read_piece(pieces, client)) is not None:
                await client.send_piece(piece, more=True)
            await client.send_piece(b"", more=False)


async def _read_piece(pieces: AsyncIterator[bytes], client: "_RelayClient") -> bytes | None:
    """Return the next piece of an answer; None at its end. Raises BrokenOffError."""
    try:
        async with asyncio.timeout(MAX_PAUSE_S):
            return await anext(pieces, None)
    except (httpx2.HTTPError, TimeoutError):
        raise client.make_error() from None


async def _wait_for_silence(client: "_RelayClient", handles: Handles) -> None:
    """Return if there is no sign of life before the answer begins, or if the answer was lost on its way."""
    await client.read.wait()
    loop = asyncio.get_running_loop()
    alive_at, missing, pause = loop.time(), 0, _FIRST_LOOK_S
    while not await client.begins_within(pause):
        handled = await handles()
        if handled:
            alive_at, missing = loop.time(), 0
        elif handled is None:
            if loop.time() - alive_at >= MAX_SILENCE_S:
                return
        else:
            missing += 1
            if missing > 1:  # the first time, its answer may have been on its way
                return
        pause = _LOOK_S
    await asyncio.Event().wait()  # `_read_piece` limits the silence from now on


def _check_offset(response: httpx2.Response) -> None:
    """Raise OffsetError for an answer that says that the clocks differ."""
    offset: str | None = response.headers.get(OFFSET_HEADER)
    if offset is not None and _OFFSET.fullmatch(offset):
        raise OffsetError(int(offset))


class _RelayClient:
    """The client of one request that is passed on."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, body: bytes | None) -> None:
        self._begun = asyncio.Event()
        self._sends_events = False
        self._last = b"\n\n"
        self.disconnected = False
        self.headers: Headers = [each for each in scope["headers"] if each[0] not in _OF_ONE_CONNECTION]
        self._receive = receive
        self._send = send
        self.read = asyncio.Event()
        """Set when the whole request was read."""
        names = {name for name, _ in scope["headers"]}
        self.content: bytes | AsyncGenerator[bytes] | None = body
        self._is_chunked = b"transfer-encoding" in names
        # Then a length counts for nothing (RFC 9112, section 6.3).
        if body is not None or self._is_chunked:
            self.headers = [each for each in self.headers if each[0] != b"content-length"]
        if body is None and names & {b"content-length", b"transfer-encoding"}:
            self.content = self._read_body()
            return
        self.read.set()

    @property
    def may_be_whole(self) -> bool:
        """Whether the other server may have all of its request: only a chunked body has an end that is sent last."""
        return self.read.is_set() or not self._is_chunked

    async def _read_body(self) -> AsyncGenerator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.disconnected = True
                raise httpx2.ReadError("the client has disconnected")
            if piece := message.get("body", b""):
                yield piece
            more = message.get("more_body", False)
        self.read.set()

    async def wait_for_disconnect(self) -> None:
        """Wait until the client has disconnected; its body is read first."""
        await self.read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True

    async def begins_within(self, seconds: float) -> bool:
        """Wait until the answer begins, and return whether it has; return False after some seconds."""
        try:
            async with asyncio.timeout(seconds):
                return await self._begun.wait()
        except TimeoutError:
            return False

    async def begin(self, response: httpx2.Response) -> None:
        """Send status and headers of an answer."""
        kind: str = response.headers.get("content-type", "")
        self._sends_events = kind.startswith(EVENT_STREAM)
        dropped = _OF_ONE_CONNECTION | _OF_ONE_SERVER
        headers = [
            (name.lower(), value) for name, value in response.headers.raw if name.lower() not in dropped
        ]
        self._begun.set()
        await self._send({"type": "http.response.start", "status": response.status_code, "headers": headers})

    async def send_piece(self, piece: bytes, *, more: bool) -> None:
        """Send a part of the body."""
        self._last = (self._last + piece)[-2:]
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    def make_error(self, *, ended: bool = False) -> BrokenOffError:
        """Return the error for an answer that does not end."""
        between_events = self._sends_events and self._last == b"\n\n"
        return BrokenOffError(begun=self._begun.is_set(), between_events=between_events, ended=ended)


def read_target(scope: Scope) -> bytes:
    """Return path and query of a request, as its client sent them."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    return path + b"?" + query if query else path


def _make_request(
    url: str, method: str, target: bytes, headers: Headers, client: _RelayClient | None
) -> httpx2.Request:
    """Return a request to a server. What its client sent is never parsed as an address."""
    timeout = {"connect": CONNECT_S, "read": None, "write": _WRITE_S, "pool": CONNECT_S}
    given = [] if client is None else client.headers
    return httpx2.Request(
        method,
        url,
        headers=[*given, *headers],
        content=None if client is None else client.content,
        extensions={"timeout": timeout, "target": target},
    )
