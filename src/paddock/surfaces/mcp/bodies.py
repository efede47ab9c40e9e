"""Requests over HTTP whose JSON holds too many values are refused before the library decodes them."""

from collections import deque
from collections.abc import MutableMapping
from typing import Any

from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError

from paddock.model.json_meter import JsonMeter
from paddock.surfaces.mcp.abandoned import App, Receive, Scope, Send
from paddock.surfaces.mcp.stdio import CLIENT_VALUES, LINE_LIMIT, TooManyValuesError


class CountedBodies:
    """An ASGI application that answers 413 for such a request, and passes any other on as it came."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body of a request, count its values, and pass it on."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        held: deque[MutableMapping[str, Any]] = deque()
        meter, size, more = JsonMeter(), 0, True
        while more and size <= LINE_LIMIT:  # one that is longer, the library refuses
            message = await receive()
            held.append(message)
            body: bytes = message.get("body", b"")
            meter.feed(body)
            if meter.values > CLIENT_VALUES:
                await _refuse(send)
                return
            size, more = size + len(body), bool(message.get("more_body", False))

        async def replay() -> MutableMapping[str, Any]:
            return held.popleft() if held else await receive()

        await self._app(scope, replay, send)


async def _refuse(send: Send) -> None:
    fault = ErrorData(code=INVALID_REQUEST, message=str(TooManyValuesError()))
    text = (
        JSONRPCError(jsonrpc="2.0", id=None, error=fault)
        .model_dump_json(by_alias=True, exclude_unset=True)
        .encode()
    )
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": text})
