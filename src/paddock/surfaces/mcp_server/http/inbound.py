"""Reject HTTP requests on which the protocol's library would fail, or which it would lose.

a header twice that may occur once       400: parsers of headers disagree on which one counts
a body that is no JSON-RPC message       400, as over stdio
an id that is in flight in its session   400: the library would answer only the second request
GET that resumes a stream                a new stream: events are not stored, so none can be sent again
any request while the server ends        503 with a retry time, except requests that continue a started call
"""

from collections.abc import MutableMapping
from contextlib import ExitStack
from math import ceil
from typing import Any, Final, Protocol, cast

from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCRequest

from paddock.model.numbers import dumps
from paddock.surfaces.http_server.asgi import (
    CLOSE_HEADER,
    App,
    Receive,
    Scope,
    Send,
    header_values,
    send_text,
)
from paddock.surfaces.http_server.endpoint import MCP_PATH
from paddock.surfaces.mcp_server.http.abandoned import SESSION_HEADER
from paddock.surfaces.mcp_server.pending_calls import find_run_to_fetch
from paddock.surfaces.mcp_server.requests import LISTEN_METHOD, SERVER_ENDING, InFlightRequests
from paddock.surfaces.mcp_server.stdio import (
    SURROGATE_ESCAPE,
    UnreadableError,
    explain_double_id,
    read_message,
)

_RESUME_HEADER = b"last-event-id"
_SINGLE_HEADERS = (
    b"content-type",
    b"host",
    b"mcp-method",
    b"mcp-name",
    b"mcp-protocol-version",
    b"origin",
    b"content-length",
    _RESUME_HEADER,
    SESSION_HEADER,
)
"""Headers that determine how a request is handled."""
_ELSEWHERE = (
    'is on another replica of the server than this MCP session; open another interpreter with the session "new", or '
    "use a client of the revision 2026-07-28"
)


FORWARDING_KEY: Final = "paddock.forwarding"
"""In the scope of a request: its `Forwarder`, if it may be about what another replica of this server has."""


class Forwarder(Protocol):
    """Finds the replicas that have what requests are about, and passes requests on to them."""

    async def find_owner(self, scope: Scope, name: str) -> Any:  # noqa: ANN401 - only `pass_on` knows it
        """Return the other replica that has the thing of this name: a handle, a `requestState` or an id; or None."""
        ...

    async def pass_on(
        self,
        owner: Any,  # noqa: ANN401 - from `find_owner`
        scope: Scope,
        receive: Receive,
        send: Send,
        body: bytes,
    ) -> None:
        """Answer a request with the answer of its owner."""
        ...


class Inbound:
    """An ASGI application that passes on the requests that another can answer, and rejects the others.

    Bodies come as one message each, as RequestBodyLimitMiddleware gives them.
    """

    def __init__(self, app: App, requests: InFlightRequests, retry_s: float = 1) -> None:
        """While the server ends, ask clients to retry after `retry_s` seconds."""
        self._app = app
        self._requests = requests
        self._retry = str(max(1, ceil(retry_s))).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http" or scope["path"] != MCP_PATH:
            await self._app(scope, receive, send)
            return
        twice = [name.decode() for name in _SINGLE_HEADERS if len(header_values(scope, name)) > 1]
        if twice:
            await _send_refusal(send, f"the header {twice[0]} occurs more than once in this request")
        elif scope["method"] == "POST":
            await self._handle_post(scope, receive, send)
        elif self._requests.ending and scope["method"] != "DELETE":
            await self._refuse_late(send)
        else:
            kept = [each for each in scope["headers"] if each[0] != _RESUME_HEADER]
            await self._app({**scope, "headers": kept}, receive, send)

    async def _handle_post(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = await receive()
        body = received.get("body", b"")
        if received["type"] == "http.disconnect" or received.get("more_body", False):
            return  # the client has gone before it had sent its body
        try:
            message = (await read_message(body, "body")).message
            if SURROGATE_ESCAPE in body.lower():
                body = dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()
        except UnreadableError as fault:
            await _send_refusal(send, fault.text, fault.code)
            return
        replay = _replay_body(body, receive)
        if not isinstance(message, JSONRPCRequest):
            await self._app(scope, replay, send)
            return
        if self._requests.ending and not _is_continuation(message):
            await self._refuse_late(send)
            return
        if await self._forward(message, scope, receive, send, body):
            return
        session = header_values(scope, SESSION_HEADER)
        key = (session[0].decode("latin-1"), str(message.id)) if session else object()
        if self._requests.has_request(key):
            await _send_refusal(send, explain_double_id(str(message.id)))
        elif message.method == LISTEN_METHOD:
            await self._app(scope, replay, send)
        else:
            with ExitStack() as flight:
                flight.enter_context(self._requests.in_flight(key))
                await self._app(scope, replay, _end_flight_on_answer(flight, send))

    async def _forward(
        self, request: JSONRPCRequest, scope: Scope, receive: Receive, send: Send, body: bytes
    ) -> bool:
        """Pass a request on if another replica has what it is about, and return whether that was so.

        In a session of 2025-11-25 it is refused: the other replica does not know that session.
        """
        forwarder: Forwarder | None = scope.get(FORWARDING_KEY)
        for name in _list_names(request) if forwarder is not None else ():
            assert forwarder is not None
            if (owner := await forwarder.find_owner(scope, name)) is None:
                continue
            if header_values(scope, SESSION_HEADER):
                await _send_refusal(send, f"{name[:64]} {_ELSEWHERE}")
                return True
            with self._requests.in_flight(object()):
                await forwarder.pass_on(owner, scope, receive, send, body)
            return True
        return False

    async def _refuse_late(self, send: Send) -> None:
        await send_text(send, 503, f"{SERVER_ENDING}\n".encode(), (b"retry-after", self._retry), CLOSE_HEADER)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns a body that was read, then what follows it."""
    given = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _end_flight_on_answer(flight: ExitStack, send: Send) -> Send:
    """Return a `send` that also ends the request's flight: with the answer, a client may use the id again."""

    async def send_and_close(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            flight.close()
        await send(message)

    return send_and_close


def _list_names(request: JSONRPCRequest) -> list[str]:
    """Return the names of what a request is about and one replica has: a paused or waiting call, a session."""
    params = request.params or {}
    arguments = params.get("arguments")
    found = [params.get("requestState")]
    if isinstance(arguments, dict):
        given = cast("dict[str, Any]", arguments)
        found += [find_run_to_fetch(str(params.get("name")), given), given.get("session")]
    return [each for each in found if isinstance(each, str)]


def _is_continuation(request: JSONRPCRequest) -> bool:
    """Return whether a request brings answers for a call that waits for them."""
    return (request.params or {}).get("requestState") is not None


async def _send_refusal(send: Send, text: str, code: int = INVALID_REQUEST) -> None:
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=text))
    body = error.model_dump_json(by_alias=True, exclude_unset=True).encode()
    await send_text(send, 400, body, kind=b"application/json")
