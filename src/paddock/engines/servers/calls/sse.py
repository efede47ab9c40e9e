"""The transport HTTP+SSE of before 2025-03-26: one stream of events from the server, and a POST for each message to it.

    GET url      -> event `endpoint`: the address for our messages, which must have the origin of the url
                 -> events `message`: all messages of the server, until the connection ends
    POST address -> 202

Source: MCP 2024-11-05, Transports. The library's client of this transport waits for ever after a refused endpoint, and
sends nothing any more after one failed POST. Limits, login and network rules are those of the HTTP client (`http`).
"""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import anyio
import httpx2
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCRequest

from paddock.confinement.network.http_transport import describe_cause
from paddock.engines.servers.calls.call_errors import CallFailed
from paddock.engines.servers.calls.lifecycle import CallHealth
from paddock.engines.servers.calls.stdio import MessageReader, PipeStream, parse_message
from paddock.engines.servers.config import HttpServer
from paddock.engines.servers.output import MAX_LINE_BYTES
from paddock.model.errors import ServerUnavailable
from paddock.model.urls import render_origin

_REFUSED = "Server returned an error response"
"""The error text for a refused request, as the library has it: `http` explains the status."""
_MAX_IGNORED_BYTES = 4096
"""Maximum size of the body of an answer to a POST that is read, so that its connection can be used again."""


class MessageStream(NamedTuple):
    """Both directions of a connection."""

    reader: "EventReader"
    writer: "PostWriter"
    response: httpx2.Response
    """To be closed at the end."""


async def open_stream(
    client: httpx2.AsyncClient,
    server: HttpServer,
    on_end: Callable[[str], None],
    on_other: Callable[[int], bool],
    is_lost: Callable[[], bool],
) -> MessageStream:
    """Connect. `on_end` receives why the stream ended, and `on_other` the size of each event without a message.

    `on_other` returns whether the connection may continue. `is_lost` returns whether the connection has ended.

    Raises MCPError for a refused request, and CallFailed if the address sends no stream of messages, or names another
    origin for ours.
    """
    request = client.build_request(
        "GET", server.url, headers={"accept": "text/event-stream", "cache-control": "no-store"}
    )
    response = await client.send(request, stream=True)
    try:
        events = aiter(httpx2.EventSource(response, max_event_size=MAX_LINE_BYTES))
        endpoint = await _read_endpoint(server, request.url, response, events)
    except BaseException:
        await response.aclose()
        raise
    return MessageStream(
        EventReader(events, on_end, on_other), PostWriter(client, endpoint, is_lost), response
    )


async def _read_endpoint(
    server: HttpServer,
    url: httpx2.URL,
    response: httpx2.Response,
    events: AsyncIterator[httpx2.ServerSentEvent],
) -> httpx2.URL:
    """Return the address for messages. Headers and login are for the origin of `url`, and go to no other one."""
    if not response.is_success:
        raise MCPError(code=INVALID_REQUEST, message=_REFUSED)
    try:
        first = await anext(events, None)
    except (httpx2.TransportError, httpx2.StreamError):
        first = None
    if first is None or first.event != "endpoint":
        raise _make_failure(server, "sends no stream of messages; correct its `url` or its `type`")
    try:
        endpoint = url.join(first.data)
    except httpx2.InvalidURL:
        raise _make_failure(server, "names no valid address for messages; correct the server") from None
    if (endpoint.scheme, endpoint.host, endpoint.port) != (url.scheme, url.host, url.port):
        origin = render_origin(str(endpoint))
        raise _make_failure(
            server, f"wants messages at another origin, {origin}, which gets none; correct the server"
        )
    return endpoint.copy_with(userinfo=url.userinfo, fragment=None)


def _make_failure(server: HttpServer, why: str) -> CallFailed:
    return CallFailed(ServerUnavailable(f"Server {server.name} {why}."), CallHealth.FAILURE)


class EventReader(MessageReader):
    """Messages of the server, from its events."""

    size = 0
    """Size of the last message, in bytes."""

    def __init__(
        self,
        events: AsyncIterator[httpx2.ServerSentEvent],
        on_end: Callable[[str], None],
        on_other: Callable[[int], bool],
    ) -> None:
        self._events = events
        self._on_end = on_end
        self._on_other = on_other

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream at the end of the events."""
        why = ""
        try:
            async for event in self._events:
                data = event.data.encode("utf-8", "surrogatepass")
                self.size = len(data)
                if event.event == "message" and (message := parse_message(data)) is not None:
                    return message
                if not self._on_other(self.size):
                    break
        except httpx2.TransportError as error:
            why = describe_cause(error)
        except httpx2.StreamError as error:  # a limit of `http`
            why = str(error)
        self._on_end(why)
        raise anyio.EndOfStream


class PostWriter(PipeStream):
    """Messages to the server."""

    def __init__(self, client: httpx2.AsyncClient, endpoint: httpx2.URL, is_lost: Callable[[], bool]) -> None:
        self._client = client
        self._endpoint = endpoint
        self._is_lost = is_lost

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message. If the server refuses a request, its caller gets MCPError, and the connection stays."""
        body = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        request = self._client.build_request(
            "POST", self._endpoint, content=body, headers={"content-type": "application/json"}
        )
        response = await self._client.send(request, stream=True)
        left = _MAX_IGNORED_BYTES
        try:
            async for chunk in response.aiter_raw():
                left -= len(chunk)
                if left < 0:
                    break
        except (httpx2.TransportError, httpx2.StreamError):
            pass  # the answer to the message comes as an event
        finally:
            await response.aclose()
        if response.is_success:
            return
        if isinstance(item.message, JSONRPCRequest) and not self._is_lost():
            raise MCPError(code=INVALID_REQUEST, message=_REFUSED)
        raise anyio.BrokenResourceError
