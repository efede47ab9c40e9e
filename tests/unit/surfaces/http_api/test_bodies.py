"""Bodies of requests: the memory of all together is bounded, and given back."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from fastapi import Request

from paddock.surfaces.http_api.bodies import BodyBuffer, read_model
from paddock.surfaces.http_api.models import ExecutionBody
from paddock.surfaces.http_server.problems import (
    BODY_TOO_LARGE,
    MALFORMED_BODY,
    SERVER_BUSY,
    Problem,
    ProblemType,
)


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


def test_the_values_of_a_body_count_as_its_size() -> None:
    body = b'{"language": "javascript", "code": "", "input": [%s0]}' % (b"0," * 999)
    read = asyncio.run(read_model(make_request(body), BodyBuffer(), ExecutionBody))
    assert read.size == len(body) + 1004 * 64  # 1,000 numbers, an array, two texts and the object


def test_a_body_with_thousands_of_faults_has_a_single_one() -> None:
    fields = b", ".join(b'"%d": 1' % number for number in range(1001))
    with pytest.raises(Problem) as raised:
        asyncio.run(read_model(make_request(b"{%s}" % fields), BodyBuffer(), ExecutionBody))
    assert (raised.value.document["detail"], raised.value.document["errors"]) == (
        "1001 values are not valid, which are too many to list",
        [{"field": "", "message": "1001 values are not valid, which are too many to list"}],
    )


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
