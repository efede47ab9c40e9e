"""Answers of other replicas to requests whose body says what they are about."""

from typing import Any

from fastapi import Response

from paddock.http_api.context import Call
from paddock.mcp_server.http.abandoned import Receive, Scope, Send
from paddock.mcp_server.http.inbound import FORWARDING_KEY, Forwarder
from paddock.model.base import Json
from paddock.model.numbers import dumps


async def find_elsewhere(call: Call, session: str | None, body: Json) -> Response | None:
    """Return the answer of the other replica that has a session; None if this one must answer. Raises Problem."""
    forwarder: Forwarder | None = call.request.scope.get(FORWARDING_KEY)
    if forwarder is None or session is None:
        return None
    owner = await forwarder.find_owner(call.request.scope, session)
    return None if owner is None else _ForwardedResponse(forwarder, owner, dumps(body).encode())


class _ForwardedResponse(Response):
    def __init__(self, forwarder: Forwarder, owner: Any, content: bytes) -> None:  # noqa: ANN401 - its own value
        super().__init__()
        self._forwarder = forwarder
        self._owner = owner
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._forwarder.pass_on(self._owner, scope, receive, send, self._content)
