"""A request over HTTP whose JSON swells is refused before anybody decodes it; any other goes on as it came."""

import asyncio
import json
from typing import Any

import pytest
from paddock.surfaces.mcp.bodies import CountedBodies

from paddock.surfaces.mcp import bodies

POST = {"type": "http", "method": "POST"}


class App:
    """Keeps what it receives."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    async def __call__(self, _scope: Any, receive: Any, _send: Any) -> None:
        while (message := await receive()) is not None:
            self.received.append(message)


def asked(scope: dict[str, Any], *chunks: bytes) -> tuple[list[Any], list[Any], int]:
    """Return what the application received, what was sent back, and how many messages were not read."""
    parts: list[Any] = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, 1)
    ]
    coming, sent, app = [*parts, None], list[Any](), App()

    async def receive() -> Any:
        return coming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(CountedBodies(app)(scope, receive, send))
    assert app.received in ([], parts)
    return app.received, sent, len(coming)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "CLIENT_VALUES", 3)


def test_a_body_within_its_bounds_goes_on_as_it_came() -> None:
    received, sent, _ = asked(POST, b"[1,", b'"[[[[,', b'"]')
    assert (len(received), sent) == (3, [])


def test_a_body_with_too_many_values_is_refused_without_reading_on() -> None:
    received, sent, left = asked(POST, b"[1,", b"2,3,", b"4]")
    assert (received, left) == ([], 2)
    assert sent[0]["status"] == 413
    assert json.loads(sent[1]["body"]) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": "a message holds more than 200000 values; send less at once"},
    }


def test_what_is_no_post_is_not_read() -> None:
    received, sent, _ = asked({"type": "http", "method": "GET"}, b"[1,2,3,4]")
    assert (len(received), sent) == (1, [])


def test_a_body_beyond_all_bounds_is_left_to_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LINE_LIMIT", 4)
    received, sent, _ = asked(POST, b'"123', b'456"', b"[[[[[[")
    assert (len(received), sent) == (3, [])
