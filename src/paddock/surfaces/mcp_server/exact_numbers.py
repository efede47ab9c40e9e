"""Preserve numbers that no double represents while they pass the library over HTTP, which parses doubles.

Only arguments are marked: elsewhere the library checks that numbers are numbers.
"""

import json
from collections.abc import MutableMapping
from typing import Any, cast

from paddock.model.numbers import NumberTooLongError, loads, mark_numbers, may_lose, unmark_text
from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send


class AllDigits:
    """An ASGI application whose requests and answers keep the digits of numbers. Bodies of requests come whole."""

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
