"""Preserve numbers that no double represents while they pass the library over HTTP, which parses doubles.

Only arguments are marked: elsewhere the library checks that numbers are numbers.
"""

import json
from collections.abc import MutableMapping
from typing import Any, cast

from paddock.mcp_server.http.abandoned import App, Receive, Scope, Send
from paddock.model.numbers import NumberTooLongError, loads, mark_numbers, may_lose, unmark_text


class AllDigits:
    """An ASGI application that preserves the digits of numbers; a request has at most `max_bytes` bytes."""

    def __init__(self, app: App, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and return its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held: list[MutableMapping[str, Any]] = []
        begun = False

        async def receive_marked() -> MutableMapping[str, Any]:
            nonlocal begun
            if not begun:
                begun = True
                held.extend(await self._receive_body(receive))
            return held.pop(0) if held else await receive()

        async def send_unmarked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body" and "body" in message:
                message = {**message, "body": unmark_text(message["body"], as_long=True)}
            await send(message)

        await self._app(scope, receive_marked, send_unmarked)

    async def _receive_body(self, receive: Receive) -> list[MutableMapping[str, Any]]:
        """Return the body as one message if it is complete and small enough, otherwise the messages as they arrived."""
        messages = [await receive()]
        size = len(messages[0].get("body", b""))
        while (
            messages[-1]["type"] == "http.request"
            and messages[-1].get("more_body")
            and size <= self._max_bytes
        ):
            messages.append(await receive())
            size += len(messages[-1].get("body", b""))
        if messages[-1]["type"] != "http.request" or messages[-1].get("more_body"):
            return messages
        body = b"".join(message.get("body", b"") for message in messages)
        return (
            [{"type": "http.request", "body": _mark_arguments(body), "more_body": False}]
            if may_lose(body)
            else messages
        )


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
