"""Messages between a guest worker and its parent, on the side of the parent, which does not trust the worker.

A message is four bytes of length (little-endian) and that many bytes of UTF-8 JSON: an array whose first item names the
message. In either direction, a message that begins with a space may contain numbers that a double cannot hold
(bootstrap/numbers.js); reading it takes longer. A message to a worker that begins with a tab contains a string that may
be JSON with such numbers. The bootstrap script writes a guest's messages, but a program that has breached the engine
can write anything. Therefore sizes are checked before bytes are kept, and every item before it is used.
"""

import json
import math
import re
import struct
import sys
from collections.abc import Iterator
from typing import Literal, NamedTuple, cast, get_args

import orjson

from paddock.foundation.large_json import MIN_SLICED_VALUES, decode_in_slices
from paddock.model.base import Json
from paddock.model.errors import EngineError
from paddock.model.json_meter import COUNTED_BYTES, JsonMeter
from paddock.model.nesting import MAX_DEPTH, is_deeper
from paddock.model.numbers import dumps_exact, loads, may_lose, read_float
from paddock.model.outcome import ConsoleLevel, ConsoleLine
from paddock.model.request import JsonPaths

_LENGTH = struct.Struct("<I")
_START = struct.Struct("<cQI")
_LEVELS = frozenset(get_args(ConsoleLevel))
_MAX_NAME_CHARS = 256
_WRAPPER_LEVELS = 2
_MAX_ERROR_CODE = 2**53 - 1
_DATA_CHARS = 16 * 1024
_MAX_DATA_LEVELS = 32
_MAX_BYTES_ARGUMENTS = 100
"""Maximum number of byte arrays in the arguments of a call; bootstrap/arguments.js has the same number."""


class FrameError(EngineError):
    """A worker sent something that the bootstrap never sends. It is broken or breached, and must be killed."""


class TooDeepMessage(FrameError):
    """A message contains a value that is nested too deeply, which any program can make."""

    def __init__(self) -> None:
        super().__init__(f"a value nested more than {MAX_DEPTH} levels deep")


class TooManyValues(FrameError):
    """A message contains more values than allowed, which any program can make."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} values at once")


class _BareMessage:
    """A message without contents; two of the same type are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class Ready(_BareMessage):
    """The worker is locked down and waits for its program."""


class Idle(_BareMessage):
    """In a session: the program has ended, and nothing of it is left to run."""


class ConsoleCut(_BareMessage):
    """The console budget is used up; no further line follows."""


class ServerCallFrame(NamedTuple):
    """The program calls a tool of a server."""

    number: int
    server: str
    tool: str
    arguments: dict[str, Json]
    raw: bool
    size: int
    """Bytes of the message."""
    values: int = 0
    """Number of values in the message; 0 for a short one."""
    encoded: JsonPaths = ()
    """Paths of byte arrays in the arguments, which are base64 there; a path has names and indexes from the outside."""
    is_method: bool = False
    """Whether `tool` is a method that reads resources or prompts."""


class SdkCallFrame(NamedTuple):
    """The program calls a method of the SDK, such as `vault.get`."""

    number: int
    name: str
    arguments: list[Json]
    size: int
    """Bytes of the message."""
    values: int = 0
    """As above."""


class RefusedCall(NamedTuple):
    """The program makes a call whose arguments were not decoded, because they have too many values."""

    number: int
    server: str
    """`paddock` for a method of the SDK."""
    name: str


class Emitted(NamedTuple):
    """A computation emitted a string, never an empty one."""

    text: str


class Overflow(_BareMessage):
    """A computation emitted more than it may, and has stopped."""


class Done(NamedTuple):
    """The program returned; `open_calls` names the calls it did not wait for."""

    value: Json
    has_value: bool
    open_calls: tuple[str, ...]
    site: str = ""
    """The stack of the first of these calls."""


class ResultPiece(NamedTuple):
    """The next part, never empty, of a result that is over its limit."""

    text: str


class OversizedResult(NamedTuple):
    """The program returned a result over its limit. Its parts came before, unless it was too large to keep."""

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
    """Causes, the errors of an AggregateError, or the contents of a thrown object."""
    is_error: bool
    code: int | None = None
    """Code of the error that a server returned."""
    data: Json = None
    """Data of the error that a server returned."""


class Unhandled(NamedTuple):
    """A promise was rejected and has no handler."""

    reason: Failed


class UnsettledPromise(_BareMessage):
    """The program waits for a promise that nothing can settle."""


class Waits(NamedTuple):
    """The program of a worker without a clock waits for a message; its next timer is due at `due`."""

    due: float | None
    """Milliseconds since the program began; None without a timer."""


class EngineFailure(NamedTuple):
    """The engine could not evaluate the program at all; `text` is V8's message."""

    text: str


Message = (
    Ready
    | Idle
    | ConsoleLine
    | ConsoleCut
    | ServerCallFrame
    | SdkCallFrame
    | RefusedCall
    | Emitted
    | Overflow
    | Done
    | ResultPiece
    | OversizedResult
    | Failed
    | Unhandled
    | UnsettledPromise
    | Waits
    | EngineFailure
)


class LargeMessage(NamedTuple):
    """A message to be decoded in slices."""

    frame: bytes
    values: int

    async def decode(self) -> Message:
        """Return the message. Raises FrameError as `decode` does."""
        try:
            text = self.frame.decode("utf-8", "surrogatepass")
            items = await decode_in_slices(text, (_EXACT_DECODER if text[:1] == " " else _DECODER).raw_decode)
        except ValueError as error:
            raise _not_json(error) from None
        return _read_items(items, len(self.frame), self.values)


class FrameReader:
    """Splits a stream of bytes into messages of at most `limit` bytes and `max_values` values each."""

    def __init__(self, limit: int, max_values: int) -> None:
        self._limit = limit
        self._max_values = max_values
        self._pending = bytearray()
        self._meter: JsonMeter | None = None
        """Counts a long message as it arrives."""
        self._counted = 0
        self._skip = 0
        """Remaining bytes of a rejected message; none of them is kept."""

    @property
    def pending_bytes(self) -> int:
        """Size of the part of a message that has arrived so far."""
        return len(self._pending)

    def feed(self, data: bytes) -> Iterator[Message | LargeMessage]:
        """Yield the messages that `data` completes, in order. Raises FrameError at the first bad one."""
        if not self._pending and _LENGTH.size <= len(data) <= COUNTED_BYTES and not self._skip:
            length = _LENGTH.unpack_from(data)[0]
            if len(data) == _LENGTH.size + length <= _LENGTH.size + self._limit:
                yield decode_frame(data[_LENGTH.size :])  # exactly one message, as for most calls
                return
        self._pending += data[self._skip :]
        self._skip = max(0, self._skip - len(data))
        while len(self._pending) >= _LENGTH.size:
            length = _LENGTH.unpack_from(self._pending)[0]
            if length > self._limit:
                raise FrameError(f"a message of {length} bytes where at most {self._limit} are allowed")
            end = _LENGTH.size + length
            if length > COUNTED_BYTES and self._swells(end):
                head = bytes(self._pending[_LENGTH.size : _LENGTH.size + _HEAD_BYTES])
                self._skip = max(0, end - len(self._pending))
                del self._pending[:end]
                self._meter = None
                yield self._find_swelling_call(head)
                continue
            if len(self._pending) < end:
                break
            frame = bytes(self._pending[_LENGTH.size : end])
            del self._pending[:end]
            values, self._meter = self._meter.values if self._meter else 0, None
            yield LargeMessage(frame, values) if values > MIN_SLICED_VALUES else decode_frame(frame, values)

    def _swells(self, end: int) -> bool:
        """Count the values of the first message so far; return whether they are too many. Raises TooDeepMessage."""
        if self._meter is None:
            self._meter, self._counted = JsonMeter(MAX_DEPTH + _WRAPPER_LEVELS), _LENGTH.size
        self._meter.feed(bytes(self._pending[self._counted : end]))
        self._counted = min(len(self._pending), end)
        if self._meter.too_deep:
            raise TooDeepMessage
        return self._meter.values > self._max_values

    def _find_swelling_call(self, head: bytes) -> RefusedCall:
        """Return the call with too many values. Raises TooManyValues for another message, such as the result."""
        if (call := _CALL_HEAD.match(head)) is not None:
            return RefusedCall(int(call[1]), call[2].decode(), call[3].decode())
        if (call := _SDK_HEAD.match(head)) is not None:
            return RefusedCall(int(call[1]), "paddock", call[2].decode())
        raise TooManyValues(self._max_values)


def encode_frame(text: bytes) -> bytes:
    """Return `text` as one frame."""
    return _LENGTH.pack(len(text)) + text


WAKE = encode_frame(b'["wake"]')
"""Wakes a worker that waits for its program, by one task that does nothing."""


StartKind = Literal[b"R", b"S", b"T"]
"""Of a program: the only one of its worker, one of a session, or one whose clock the parent has."""


def encode_start(
    settings: Json,
    program: str,
    memory_bytes: int,
    *,
    world: Literal["run", "compute"] = "run",
    kind: StartKind = b"R",
) -> bytes:
    """Return the frame that starts a program: memory budget, settings of the bootstrap, source."""
    body, text = _with_digits_noted(encode_value([world, settings])), program.encode("utf-8", "surrogatepass")
    if body[:1] == b"[" and may_lose(text):
        body = b"\t" + body
    return encode_frame(_START.pack(kind, memory_bytes, len(body)) + body + text)


END = encode_frame(b'["end"]')
"""Ends the program of a session, after the signal that stops its JavaScript."""


def encode_reply(number: int, *, ok: bool, value: Json, at: float | None = None) -> bytes:
    """Return the frame that answers a call. Lone surrogates, which UTF-8 cannot encode, become escapes.

    Numbers that are not finite become null, as in JavaScript. `at` is the time, for a program without a clock.
    """
    parts: list[Json] = ["reply", number, ok, value]
    return encode_frame(_with_digits_noted(encode_value(parts if at is None else [*parts, at])))


def encode_time(at: float) -> bytes:
    """Return the frame that moves the clock of a program, in milliseconds since it began."""
    return encode_frame(encode_value(["time", at]))


def _with_digits_noted(message: bytes) -> bytes:
    """Return a message, after a tab if one of its strings may be JSON, whose quotes have backslashes."""
    quotes = b"\\" in message and message[:1] == b"["
    return b"\t" + message if quotes and may_lose(message) else message


def encode_value(parts: Json) -> bytes:
    """Return a value as JSON, after a space if it contains numbers that a double cannot hold."""
    try:
        return orjson.dumps(parts, option=orjson.OPT_STRICT_INTEGER)
    except TypeError:  # also for deep nesting and lone surrogates
        text = dumps_exact(parts)
        if "Infinity" in text or "NaN" in text:
            text = dumps_exact(json.loads(text, parse_float=read_float, parse_constant=lambda _: None))
        return b" " + text.encode()


def decode_frame(frame: bytes, values: int = 0) -> Message:
    """Return the message in `frame`. If `values` is given, values and depth have been counted and checked.

    Raises TooDeepMessage; FrameError for anything that the bootstrap does not send.
    """
    try:
        text = frame.decode("utf-8", "surrogatepass")
        items, end = _EXACT_DECODER.raw_decode(text, 1) if text[:1] == " " else _DECODER.raw_decode(text)
    except RecursionError:
        raise TooDeepMessage from None
    except ValueError as error:
        raise _not_json(error) from None
    if end < len(text):
        raise FrameError("a message with data after its end")
    brackets = 0 if values else frame.count(b"[") + frame.count(b"{")
    if brackets > MAX_DEPTH and is_deeper(items, MAX_DEPTH + _WRAPPER_LEVELS):
        raise TooDeepMessage
    return _read_items(items, len(frame), values)


def _not_json(error: ValueError) -> FrameError:
    return FrameError(f"a message that is not JSON ({type(error).__name__})")


def _read_items(items: Json, size: int, values: int) -> Message:
    if not isinstance(items, list) or not items:
        raise FrameError("a message that is not a list")
    kind, *parts = cast("list[Json]", items)
    try:
        return _read_message(kind, parts, size, values)
    except (TypeError, ValueError, KeyError):
        raise FrameError(f"a message {str(kind)[:32]!r} with wrong contents") from None


def _read_message(kind: Json, parts: list[Json], size: int, values: int) -> Message:
    if kind in (
        "call",
        "method",
    ):  # a case of the match statement would take longer than the rest of reading a frame
        number, server, tool, arguments, raw, *encoded = parts
        kinds = tuple(map(type, parts[:5]))
        if (
            kinds != _CALL_TYPES
            or len(server) > _MAX_NAME_CHARS
            or len(tool) > _MAX_NAME_CHARS
            or len(encoded) > 1
        ):
            raise ValueError
        places = _read_places(encoded[0]) if encoded and encoded[0] is not None else ()
        return ServerCallFrame(number, server, tool, arguments, raw, size, values, places, kind == "method")
    match kind, parts:
        case "ready" | "cut" | "overflow" | "idle", []:
            return _BARE_MESSAGES[kind]
        case "console", [str(level), str(text)] if level in _LEVELS:
            return ConsoleLine(level=cast("ConsoleLevel", level), text=text)
        case "sdk", [int(number), str(name), list()] if len(name) <= _MAX_NAME_CHARS and not isinstance(
            number, bool
        ):
            return SdkCallFrame(number, name, cast("list[Json]", parts[2]), size, values)
        case "emit", [str(text)] if text:
            return Emitted(text)
        case "piece", [str(text)] if text:
            return ResultPiece(text)
        case "oversized", [{"characters": int(characters), "kept": bool(kept)}]:
            return OversizedResult(int(characters), kept)
        case "done", [dict()]:
            body = cast("dict[str, Json]", parts[0])
            names = cast("list[Json]", body["open"])
            site = _read_string(body.get("site", ""))
            return Done(body.get("value"), "value" in body, tuple(_read_string(name) for name in names), site)
        case "failed" | "unhandled", [dict()]:
            failed = _read_failure(cast("dict[str, Json]", parts[0]))
            return failed if kind == "failed" else Unhandled(failed)
        case "stuck", [dict()]:
            return UnsettledPromise()
        case "waits", [None | int() | float() as due] if (
            not isinstance(due, bool) and 0 <= (due or 0) <= sys.float_info.max
        ):
            return Waits(due)
        case "broken", [str(text)]:
            return EngineFailure(text)
        case _:
            raise ValueError


def _read_places(value: Json) -> JsonPaths:
    places = cast("list[Json]", value) if isinstance(value, list) else None
    if (
        places is None
        or len(places) > _MAX_BYTES_ARGUMENTS
        or not all(isinstance(place, list) for place in places)
    ):
        raise TypeError
    return tuple(tuple(_read_string(step) for step in place) for place in places)


def _read_failure(body: dict[str, Json]) -> Failed:
    texts = [_read_string(body[key]) for key in ("name", "message", "thrown", "stack")]
    if not isinstance(body["causes"], list):
        raise TypeError
    causes = tuple(map(_read_string, cast("list[Json]", body["causes"])))
    code = body.get("code")
    if type(code) is not int or abs(code) > _MAX_ERROR_CODE:  # absent, or the program's own property
        return Failed(*texts, causes=causes, is_error=body["error"] is True)
    data = _read_data(_read_string(body.get("data", "null")))
    return Failed(*texts, causes=causes, is_error=body["error"] is True, code=code, data=data)


def _read_data(text: str) -> Json:
    """Return the data of an error from its JSON; None if it is too large or nested too deeply."""
    if len(text) > _DATA_CHARS:
        return None
    try:
        data: Json = loads(text)
    except (ValueError, RecursionError):
        return None
    return None if is_deeper(data, _MAX_DATA_LEVELS) else data


_HEAD_BYTES = 1024
_CALL_HEAD = re.compile(
    rb'\["(?:call|method)",(\d{1,15}),"([^"\\\x80-\xff]{1,256})","([^"\\\x80-\xff]{1,256})",'
)
_SDK_HEAD = re.compile(rb'\["sdk",(\d{1,15}),"([\w.]{1,256})",')
_CALL_TYPES = (int, str, str, dict, bool)
_BARE_MESSAGES = {"ready": Ready(), "cut": ConsoleCut(), "overflow": Overflow(), "idle": Idle()}


def _read_string(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _no_constant(name: str) -> Json:
    raise ValueError(name)


def _read_finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(digits)
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_read_finite)
_EXACT_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=read_float)
