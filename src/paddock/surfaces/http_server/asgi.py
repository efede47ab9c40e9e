"""ASGI: the types of applications, and short answers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CLOSE_HEADER = (b"connection", b"close")
"""Closes the connection after the answer. A client that is still sending its body may not read the answer."""


async def send_text(
    send: Send, status: int, text: bytes, *headers: tuple[bytes, bytes], kind: bytes = b"text/plain"
) -> None:
    """Answer with a text of a media type."""
    sent = [*headers, (b"content-type", kind), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": text})


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Return all values of a header."""
    return [value for each, value in scope.get("headers", ()) if each == name]
