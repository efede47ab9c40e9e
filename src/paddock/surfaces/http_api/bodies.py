"""Read the bodies of requests: bounded, and hostile until checked."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Generic, NamedTuple, TypeVar, cast

from fastapi import Request
from pydantic import ValidationError

from paddock.foundation.large_json import JsonLimitError, read_json
from paddock.model.base import Json, Value
from paddock.model.json_meter import MAX_VALUES
from paddock.model.limits import MIB
from paddock.model.nesting import MAX_DEPTH
from paddock.model.numbers import NumberTooLongError, read_finite, read_int
from paddock.model.work_files import INPUT_BYTES
from paddock.surfaces.http_server.problems import (
    BODY_TOO_LARGE,
    MALFORMED_BODY,
    SERVER_BUSY,
    UNSUPPORTED_MEDIA_TYPE,
    Problem,
    reject_invalid,
)

MAX_JSON_BYTES = 96 * MIB
"""Maximum size of a JSON body, in bytes: it has room for the input files of one program in base64."""
MAX_FILE_BYTES = INPUT_BYTES
"""Maximum size of a body that is a file, in bytes."""
_VALUE_BYTES = 64
"""Memory of one decoded JSON value without its text, in bytes: an empty array and its place in another one."""
MAX_BUFFERED_BYTES = 256 * MIB
"""Maximum size of all bodies that are in memory at the same time, in bytes."""

MAX_DISCARDED_BYTES = 4 * MAX_JSON_BYTES
"""Maximum size of the rest of a rejected body that is received, in bytes."""
MAX_DISCARD_S = 10
"""Maximum time in which the rest of a rejected body is received, in seconds."""

B = TypeVar("B", bound=Value)


class ReadBody(NamedTuple, Generic[B]):
    """The JSON body of a request."""

    model: B
    value: dict[str, Json]
    """What it is without its model."""
    size: int
    """How much memory it takes, in bytes; a rough estimate."""


class BodyBuffer:
    """Memory for bodies, shared by all requests of a server."""

    def __init__(self, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._used = 0

    @asynccontextmanager
    async def read(self, request: Request, max_bytes: int) -> AsyncGenerator[bytes]:
        """Yield the body of a request, which is counted during the context. Raises Problem."""
        taken = 0
        body = bytearray()
        too_large = Problem(
            BODY_TOO_LARGE,
            f"The body has more than {max_bytes} bytes, the maximum here. Send less.",
            headers={"Connection": "close"},
        )
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > max_bytes and "expect" in request.headers:
            raise too_large  # the client waits for permission to send it (RFC 9110, section 10.1.1)
        try:
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":  # nobody reads the answer
                    raise Problem(MALFORMED_BODY, "The connection ended before the body did.")
                piece, more = message.get("body", b""), message.get("more_body", False)
                taken += len(piece)
                self._used += len(piece)
                if taken > max_bytes:
                    await _discard_rest(request, more=more)
                    raise too_large
                if self._used > self._max_bytes:
                    await _discard_rest(request, more=more)
                    raise Problem(
                        SERVER_BUSY,
                        "The bodies of all requests together are too large just now. Send it again later.",
                        headers={"Connection": "close"},
                    )
                body += piece
            yield bytes(body)
        finally:
            self._used -= taken


async def _discard_rest(request: Request, *, more: bool) -> None:
    """Receive what a client still sends, within bounds; most clients read no answer before they have sent everything.

    A connection that is closed before that is reset, and the answer is lost.
    """
    left = MAX_DISCARDED_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(MAX_DISCARD_S):
            while more and left > 0:
                message = await request.receive()
                left -= len(message.get("body", b""))
                more = message.get("more_body", False)


async def read_model(request: Request, buffer: BodyBuffer, model: type[B]) -> ReadBody[B]:
    """Return the JSON body of a request. Raises Problem; an empty body is an empty object."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(
            UNSUPPORTED_MEDIA_TYPE,
            "The body must be JSON. Send the header `Content-Type: application/json`.",
        )
    async with buffer.read(request, MAX_JSON_BYTES) as body:
        value, size = await _read_json(body)
        if not isinstance(value, dict):
            raise Problem(MALFORMED_BODY, "The body must be a JSON object, such as {}.")
        members = cast("dict[str, Json]", value)
        try:
            return ReadBody(model.model_validate(members), members, size)
        except ValidationError as problem:
            raise reject_invalid(problem, model) from None


async def _read_json(body: bytes) -> tuple[Json, int]:
    """Return the value of a JSON text, by default {}, and an estimate of its memory in bytes. Raises Problem."""
    if not body.strip():
        return {}, 0
    try:
        value, values = await read_json(body, MAX_VALUES, MAX_DEPTH, _DECODER)
    except JsonLimitError as fault:
        if fault.too_deep:
            raise Problem(MALFORMED_BODY, f"The body {fault}.") from None
        raise Problem(BODY_TOO_LARGE, f"The body has more than {MAX_VALUES} JSON values.") from None
    except UnicodeDecodeError:
        raise Problem(MALFORMED_BODY, "The body is not UTF-8 (RFC 8259, section 8.1).") from None
    except NumberTooLongError as fault:
        raise Problem(MALFORMED_BODY, f"In the body, {fault}.") from None
    except json.JSONDecodeError as fault:
        why = f"{fault.msg} at line {fault.lineno}, column {fault.colno}"
        raise Problem(MALFORMED_BODY, f"The body is not JSON: {why}.") from None
    except (ValueError, RecursionError) as fault:
        raise Problem(MALFORMED_BODY, f"The body is not JSON: {str(fault)[:200]}.") from None
    if b"\\ud" in body.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Problem(
                MALFORMED_BODY,
                "A string of the body has half of a surrogate pair, which is not Unicode. Replace it by U+FFFD.",
            ) from None
    return value, len(body) + _VALUE_BYTES * values


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_float=read_finite, parse_int=read_int, parse_constant=_refuse_constant)
