"""Reject HTTP requests on which the protocol's library would fail; pass others on to the replica of their session.

a header twice that may occur once       400: parsers of headers disagree on which one counts
a body that is no JSON-RPC message       400, as over stdio
an id that is in flight in its session   400: the library would answer only the second request
any request while the server ends        503 with a retry time, except requests that continue a started call

`AllDigits` preserves numbers that it would round.
"""

import json
from collections.abc import MutableMapping
from contextlib import ExitStack
from math import ceil
from typing import Any, Final, Protocol, cast

from mcp_types import INVALID_PARAMS, INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCRequest, RequestId

from paddock.model.numbers import NumberTooLongError, dumps, loads, mark_numbers, may_lose, unmark_text
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
from paddock.surfaces.mcp_server.http.sessions import RESUME_HEADER, SESSION_HEADER
from paddock.surfaces.mcp_server.pending_calls import find_run_to_fetch
from paddock.surfaces.mcp_server.requests import LISTEN_METHOD, SERVER_ENDING, InFlightRequests
from paddock.surfaces.mcp_server.stdio import (
    SURROGATE_ESCAPE,
    UnreadableError,
    explain_double_id,
    read_message,
)
from paddock.surfaces.mcp_server.tasks import TASK_METHODS

_SINGLE_HEADERS = (
    b"content-type",
    b"host",
    b"mcp-method",
    b"mcp-name",
    b"mcp-protocol-version",
    b"origin",
    b"content-length",
    RESUME_HEADER,
    SESSION_HEADER,
)
"""Headers that determine how a request is handled."""
_ELSEWHERE = (
    'is on another replica of the server than this MCP session; open another interpreter with the session "new", or '
    "use a client of the revision 2026-07-28"
)
_ASKER_ENDED = (
    "The replica of the server that asked has ended, and the paused call with it: the answer reaches no call. "
    "Send the call again, without `requestState`"
)
_TASK_ENDED = (
    "The replica of the server that had this task has ended, and the task with it. Send the call again"
)

FORWARDING_KEY: Final = "paddock.forwarding"
"""In the scope of a request: its `Forwarder`, if it may be about what another replica of this server has."""


class Forwarder(Protocol):
    """Finds the replicas that have what requests are about, and passes requests on to them."""

    async def find_owner(self, scope: Scope, name: str) -> Any:  # noqa: ANN401 - only `pass_on` knows it
        """Return the other replica that has the thing of this name: a handle, a `requestState` or an id; or None."""
        ...

    def has_ended(self, state: str) -> bool:
        """Return whether a `requestState` is one of a replica that has ended."""
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
            await self._app(scope, receive, send)

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
        # A request with a state brings answers for a call that waits for them.
        continues = (message.params or {}).get("requestState") is not None
        if self._requests.ending and not continues:
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

                async def end_flight_and_send(message: MutableMapping[str, Any]) -> None:
                    if message["type"] == "http.response.body" and not message.get("more_body", False):
                        flight.close()  # with the answer, a client may use the id again
                    await send(message)

                flight.enter_context(self._requests.in_flight(key))
                await self._app(scope, replay, end_flight_and_send)

    async def _forward(
        self, request: JSONRPCRequest, scope: Scope, receive: Receive, send: Send, body: bytes
    ) -> bool:
        """Pass a request on if another replica has what it is about, and return whether that was so.

        In a session of 2025-11-25 it is refused: the other replica does not know that session.
        """
        forwarder: Forwarder | None = scope.get(FORWARDING_KEY)
        if forwarder is None:
            return False
        # The names of what a request is about and one replica has: a paused or waiting call, a task, a session.
        params = request.params or {}
        arguments = params.get("arguments")
        about, ended = (
            ("taskId", _TASK_ENDED) if request.method in TASK_METHODS else ("requestState", _ASKER_ENDED)
        )
        names = [params.get(about)]
        if isinstance(arguments, dict):
            given = cast("dict[str, Any]", arguments)
            names += [find_run_to_fetch(str(params.get("name")), given), given.get("session")]
        for name in names:
            if not isinstance(name, str):
                continue
            if (owner := await forwarder.find_owner(scope, name)) is None:
                if name is names[0] and forwarder.has_ended(name):
                    await _send_refusal(send, ended, INVALID_PARAMS, request.id)
                    return True
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


class AllDigits:
    """An ASGI application whose requests and answers keep the digits of numbers. Bodies of requests come whole.

    The library parses doubles over HTTP, so that numbers that no double represents pass it marked. Only arguments are
    marked: elsewhere the library checks that numbers are numbers.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and return its answer."""

        async def receive_marked() -> MutableMapping[str, Any]:
            message = await receive()
            body = message.get("body", b"")
            return {**message, "body": _mark_arguments(body)} if may_lose(body) else message

        async def send_unmarked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body" and "body" in message:
                message = {**message, "body": unmark_text(message["body"], as_long=True)}
            await send(message)

        await self._app(scope, receive_marked, send_unmarked)


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


def _mark_arguments(body: bytes) -> bytes:
    try:
        document = cast("dict[str, Any]", loads(body.decode()))
        params = document["params"]
        params["arguments"] = mark_numbers(params["arguments"])
        return json.dumps(document).encode()
    except NumberTooLongError:
        return b""  # the library reports that this is not JSON
    except (ValueError, RecursionError, LookupError, TypeError):
        return body  # the library reports the fault


async def _send_refusal(
    send: Send, text: str, code: int = INVALID_REQUEST, request: RequestId | None = None
) -> None:
    error = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=text))
    body = error.model_dump_json(by_alias=True, exclude_unset=True).encode()
    await send_text(send, 400, body, kind=b"application/json")
