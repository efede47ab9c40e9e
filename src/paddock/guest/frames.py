"""What travels between a guest worker and its parent, seen from the parent, which trusts none of it.

A message is four bytes of length (little-endian) and that many bytes of UTF-8 JSON: an array whose first item names the
message. The guest's own glue writes them, but a program that has broken the engine can write anything: so sizes are
checked before bytes are kept, and every item of a message is checked before it is used.
"""

import json
import math
import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple, cast, get_args

import orjson

from paddock.model.base import Json
from paddock.model.errors import EngineError
from paddock.model.nesting import MAX_DEPTH, is_deeper
from paddock.model.outcome import ConsoleLevel, ConsoleLine

_LENGTH = struct.Struct("<I")
_START = struct.Struct("<cQI")
_LEVELS = frozenset(get_args(ConsoleLevel))
_NAME_LENGTH = 256
_MESSAGE_LEVELS = 2


class FrameError(EngineError):
    """A worker sent something that the glue never sends: it is broken or breached, and must be killed."""


class TooDeep(FrameError):  # noqa: N818 - reads as the fact it states
    """A message holds a value that is nested too deeply, which any program can make."""

    def __init__(self) -> None:
        super().__init__(f"a value nested more than {MAX_DEPTH} levels deep")


class _Word:
    """A message that says no more than its name: two of a kind are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class Ready(_Word):
    """The worker is locked down and waits for its program."""


class ConsoleCut(_Word):
    """The console budget is used up; no further line will come."""


class Call(NamedTuple):
    """The program calls a tool of a server."""

    number: int
    server: str
    tool: str
    arguments: dict[str, Json]
    raw: bool
    size: int
    """Bytes of the message."""


class SdkCall(NamedTuple):
    """The program calls a method of the SDK, such as `vault.get`."""

    number: int
    name: str
    arguments: list[Json]
    size: int
    """Bytes of the message."""


class Emitted(NamedTuple):
    """A computation emitted a text, never an empty one."""

    text: str


class Overflow(_Word):
    """A computation emitted more than it may, and stands still."""


class Done(NamedTuple):
    """The program returned; `open_calls` names the calls it did not wait for."""

    value: Json
    has_value: bool
    open_calls: tuple[str, ...]
    site: str = ""
    """The stack of the first of them."""


class ResultPiece(NamedTuple):
    """The next piece, never an empty one, of a result that is over its limit."""

    text: str


class Oversized(NamedTuple):
    """The program returned a result over its limit; its pieces came before, if it was not too large to keep."""

    characters: int
    """Length of its JSON."""
    kept: bool


class Failed(NamedTuple):
    """The program threw."""

    name: str
    message: str
    thrown: str
    stack: str
    causes: tuple[str, ...]
    """What it carries besides its text: causes, the errors of an AggregateError, or what is in a thrown object."""
    is_error: bool


class Unhandled(NamedTuple):
    """A promise was rejected, and nobody has asked about it."""

    reason: Failed


class Stuck(_Word):
    """The program waits for a promise that nothing can settle any more."""


class Broken(NamedTuple):
    """The engine could not evaluate the program at all; `text` is V8's message."""

    text: str


Message = (
    Ready
    | ConsoleLine
    | ConsoleCut
    | Call
    | SdkCall
    | Emitted
    | Overflow
    | Done
    | ResultPiece
    | Oversized
    | Failed
    | Unhandled
    | Stuck
    | Broken
)


class FrameReader:
    """Cuts a stream of bytes into messages of at most `limit` bytes each."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that `data` completes, in order. Raises FrameError at the first bad one."""
        if not self._pending and len(data) >= _LENGTH.size:
            length = _LENGTH.unpack_from(data)[0]
            if len(data) == _LENGTH.size + length <= _LENGTH.size + self._limit:
                yield decode(data[_LENGTH.size :])  # one message and nothing else, as most calls come
                return
        self._pending += data
        while len(self._pending) >= _LENGTH.size:
            length = _LENGTH.unpack_from(self._pending)[0]
            if length > self._limit:
                raise FrameError(f"a message of {length} bytes where at most {self._limit} are allowed")
            end = _LENGTH.size + length
            if len(self._pending) < end:
                break
            frame = bytes(self._pending[_LENGTH.size : end])
            del self._pending[:end]
            yield decode(frame)


def encode(text: bytes) -> bytes:
    """Return `text` as one frame."""
    return _LENGTH.pack(len(text)) + text


WAKE = encode(b'["wake"]')
"""Wakes a worker that waits for its program: it goes through one task that does nothing."""


def start(
    settings: Json, program: str, memory_bytes: int, *, world: Literal["run", "compute"] = "run"
) -> bytes:
    """Return the frame that starts a program: memory budget, settings of the glue, source."""
    body = _written([world, settings])
    return encode(
        _START.pack(b"R", memory_bytes, len(body)) + body + program.encode("utf-8", "surrogatepass")
    )


def reply(number: int, *, ok: bool, value: Json) -> bytes:
    """Return the frame that answers a call; what UTF-8 has no form for, lone surrogates, goes as escapes.

    What is no finite number is null, as in JavaScript.
    """
    return encode(_written(["reply", number, ok, value]))


def _written(parts: list[Json]) -> bytes:
    try:
        return orjson.dumps(parts)
    except TypeError:  # also for integers beyond 64 bits and deep nesting
        text = json.dumps(parts)
        if "Infinity" in text or "NaN" in text:
            text = json.dumps(json.loads(text, parse_constant=lambda _: None))
        return text.encode()


def decode(frame: bytes) -> Message:
    """Return the message in `frame`. Raises TooDeep, and FrameError on anything the glue does not send."""
    try:
        text = frame.decode("utf-8", "surrogatepass")
        items, end = _DECODER.raw_decode(text)
    except RecursionError:
        raise TooDeep from None
    except ValueError as error:
        raise FrameError(f"a message that is not JSON ({type(error).__name__})") from None
    if end < len(text):
        raise FrameError("a message with more behind its end")
    brackets = frame.count(b"[") + frame.count(b"{")
    if brackets > MAX_DEPTH and is_deeper(items, MAX_DEPTH + _MESSAGE_LEVELS):
        raise TooDeep
    if not isinstance(items, list) or not items:
        raise FrameError("a message that is not a list")
    parts = cast("list[Json]", items)
    try:
        return _message(parts[0], parts[1:], len(frame))
    except (TypeError, ValueError, KeyError):
        raise FrameError(f"a message {str(parts[0])[:32]!r} with wrong contents") from None


def _message(kind: Json, parts: list[Json], size: int) -> Message:  # noqa: PLR0911 (a table)
    if kind == "call":
        return _call(*parts, size=size)
    match kind, parts:
        case "ready" | "cut" | "overflow", []:
            return _WORDLESS[kind]
        case "console", [str(level), str(text)] if level in _LEVELS:
            return ConsoleLine(level=cast("ConsoleLevel", level), text=text)
        case "sdk", [int(number), str(name), list()] if len(name) <= _NAME_LENGTH and not isinstance(
            number, bool
        ):
            return SdkCall(number, name, cast("list[Json]", parts[2]), size)
        case "emit" | "piece" | "oversized", [body]:
            return _output(kind, body)
        case "done", [dict()]:
            body = cast("dict[str, Json]", parts[0])
            names = cast("list[Json]", body["open"])
            site = _text(body.get("site", ""))
            return Done(body.get("value"), "value" in body, tuple(_text(name) for name in names), site)
        case "failed" | "unhandled", [dict()]:
            failed = _failed(cast("dict[str, Json]", parts[0]))
            return failed if kind == "failed" else Unhandled(failed)
        case "stuck", [dict()]:
            return Stuck()
        case "broken", [str(text)]:
            return Broken(text)
        case _:
            raise ValueError


def _call(number: Json, server: Json, tool: Json, arguments: Json, raw: Json, *, size: int) -> Call:
    """Return a call. A match statement would take longer than all else that a frame needs."""
    kinds = tuple(map(type, (number, server, tool, arguments, raw)))
    if kinds != _CALL or len(server) > _NAME_LENGTH or len(tool) > _NAME_LENGTH:
        raise ValueError
    return Call(number, server, tool, arguments, raw, size)


def _output(kind: str, body: Json) -> Message:
    match kind, body:
        case "emit", str(text) if text:
            return Emitted(text)
        case "piece", str(text) if text:
            return ResultPiece(text)
        case "oversized", {"characters": int(characters), "kept": bool(kept)}:
            return Oversized(int(characters), kept)
        case _:
            raise ValueError


def _failed(body: dict[str, Json]) -> Failed:
    texts = [_text(body[key]) for key in ("name", "message", "thrown", "stack")]
    if not isinstance(body["causes"], list):
        raise TypeError
    causes = tuple(map(_text, cast("list[Json]", body["causes"])))
    return Failed(*texts, causes=causes, is_error=body["error"] is True)


_CALL = (int, str, str, dict, bool)
_WORDLESS = {"ready": Ready(), "cut": ConsoleCut(), "overflow": Overflow()}


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _no_constant(name: str) -> Json:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(digits)
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
