"""Sends a request on to another replica, and its answer back. Neither is kept in memory.

    client --receive--> this replica --httpx2--> the other one
    client <---send---- this replica <--httpx2--

Back pressure reaches both ends: a piece is read only when the one before was taken. A client that disconnects ends the
request to the other replica, which sees that as its own client disconnecting. A replica whose lease ends is not waited
for any longer: a frozen machine does not close its connections.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import cached_property

import httpx2

from paddock.foundation.cancellation import cancel_all
from paddock.surfaces.http_api.events import MEDIA_TYPE as EVENT_STREAM
from paddock.surfaces.http_server.asgi import Receive, Scope, Send

CONNECT_S = 2.0
"""Maximum time until another replica accepts a connection, in seconds."""
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

Headers = list[tuple[bytes, bytes]]


class NotReachedError(Exception):
    """The other replica did not accept the request: nothing started there."""


class BrokenOffError(Exception):
    """The connection ended before the answer did: whether something started is not known."""

    def __init__(self, *, whole: bool = True, begun: bool = False, between_events: bool = False) -> None:
        """`begun` tells whether a part of the answer was sent, `between_events` whether it was whole events (SSE).

        If not the `whole` request was sent, nothing started: the body is read before that.
        """
        super().__init__()
        self.whole = whole
        self.begun = begun
        self.between_events = between_events


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
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            exchange, left, _ = tasks
            if exchange.done():
                await exchange
            elif not left.done():
                raise client.make_error()
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
            await client.begin(response)
            try:
                async for piece in response.aiter_raw():
                    await client.send_piece(piece, more=True)
            except httpx2.HTTPError:
                raise client.make_error() from None
            await client.send_piece(b"", more=False)


class _RelayClient:
    """The client of one request that is passed on."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, body: bytes | None) -> None:
        self._begun = False
        self._sends_events = False
        self._last = b"\n\n"
        self.disconnected = False
        self.headers: Headers = [each for each in scope["headers"] if each[0] not in _OF_ONE_CONNECTION]
        self._receive = receive
        self._send = send
        self._read = asyncio.Event()
        names = {name for name, _ in scope["headers"]}
        self.content: bytes | AsyncGenerator[bytes] | None = body
        self._is_chunked = b"transfer-encoding" in names
        # Then a length counts for nothing (RFC 9112, section 6.3).
        if body is not None or self._is_chunked:
            self.headers = [each for each in self.headers if each[0] != b"content-length"]
        if body is None and names & {b"content-length", b"transfer-encoding"}:
            self.content = self._read_body()
            return
        self._read.set()

    @property
    def may_be_whole(self) -> bool:
        """Whether the other server may have all of its request: only a chunked body has an end that is sent last."""
        return self._read.is_set() or not self._is_chunked

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
        self._read.set()

    async def wait_for_disconnect(self) -> None:
        """Wait until the client has disconnected; its body is read first."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True

    async def begin(self, response: httpx2.Response) -> None:
        """Send status and headers of an answer."""
        kind: str = response.headers.get("content-type", "")
        self._sends_events = kind.startswith(EVENT_STREAM)
        dropped = _OF_ONE_CONNECTION | _OF_ONE_SERVER
        headers = [
            (name.lower(), value) for name, value in response.headers.raw if name.lower() not in dropped
        ]
        self._begun = True
        await self._send({"type": "http.response.start", "status": response.status_code, "headers": headers})

    async def send_piece(self, piece: bytes, *, more: bool) -> None:
        """Send a part of the body."""
        self._last = (self._last + piece)[-2:]
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    def make_error(self) -> BrokenOffError:
        """Return the error for an answer that does not end."""
        return BrokenOffError(begun=self._begun, between_events=self._sends_events and self._last == b"\n\n")


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
