"""Bodies of requests: the memory of all together is bounded, and given back."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from fastapi import Request

from paddock.http_api.bodies import BodyBuffer
from paddock.http_api.problems import BODY_TOO_LARGE, MALFORMED_BODY, SERVER_BUSY, Problem, ProblemType


def make_request(*pieces: bytes, ends: bool = True) -> Request:
    """Return a request whose body arrives in pieces; then its client disconnects, if it does not end."""
    messages: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    last = {"type": "http.request", "body": b"", "more_body": False} if ends else {"type": "http.disconnect"}
    messages.append(last)

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop(0)

    return Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)


def refusal(buffer: BodyBuffer, request: Request, most: int = 100) -> ProblemType:
    async def main() -> None:
        async with buffer.read(request, most):
            pass

    with pytest.raises(Problem) as raised:
        asyncio.run(main())
    return raised.value.kind


def test_a_body_has_a_maximum() -> None:
    buffer = BodyBuffer()
    assert refusal(buffer, make_request(b"a" * 60, b"a" * 60)) is BODY_TOO_LARGE
    assert refusal(buffer, make_request(b"a", ends=False)) is MALFORMED_BODY


def test_all_bodies_together_have_a_maximum() -> None:
    async def main() -> tuple[bytes, bytes]:
        buffer = BodyBuffer(max_bytes=100)
        async with buffer.read(make_request(b"a" * 60), 100) as first:
            with pytest.raises(Problem) as raised:
                async with buffer.read(make_request(b"b" * 60), 100):
                    pass
            assert raised.value.kind is SERVER_BUSY
            assert raised.value.headers["Retry-After"] == "1"
        async with buffer.read(make_request(b"c" * 60, b"c" * 40), 100) as second:
            return first, second

    assert asyncio.run(main()) == (b"a" * 60, b"c" * 100)
