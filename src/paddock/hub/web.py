"""The HTTP client below streamable HTTP: a failing request fails its own call, not the whole connection."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2

from paddock.hub.config import HttpServer
from paddock.hub.failure import TRACE
from paddock.hub.process import LINE_LIMIT

_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)

_FAREWELL_S = 1.0


def http_client(server: HttpServer, auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """Return a client with the server's headers. No read timeout: each call has its own."""
    headers = {"accept-encoding": "identity", **server.headers}
    timeout = httpx2.Timeout(server.timeout_ms / 1000, read=None, pool=None)
    return _Client(headers=headers, timeout=timeout, auth=auth)


class _Client(httpx2.AsyncClient):
    """Note in the call's trace what became of the request, and turn a network failure into an answer."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401
        trace = TRACE.get()
        if request.method == "DELETE":  # the polite end of a session; nobody waits long for that
            request.extensions["timeout"] = httpx2.Timeout(_FAREWELL_S).as_dict()
        try:
            response = await super().send(request, **options)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            # The library's transport would end with all its calls; a gateway in between would answer just so.
            if trace is not None:
                trace.sent = trace.sent or not isinstance(error, _UNSENT)
                trace.cause = f"{type(error).__name__}: {error}".removesuffix(": ")
            return httpx2.Response(502, request=request)
        if trace is not None:
            trace.sent, trace.status, trace.cause = True, response.status_code, ""
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream)
        return response


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error at the size where a stdio server's message would."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > LINE_LIMIT:
                raise httpx2.StreamError(f"the answer is larger than {LINE_LIMIT} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
