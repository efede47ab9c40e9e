"""Decode large JSON texts in slices, so that the event loop can run other tasks in between.

A thread would not help: the decoders hold the interpreter's lock from the first byte to the last. This module walks a
large array or object itself and calls the decoder for small values only. That takes at most three times as long as one
call, and never holds the loop for more than a millisecond. One text is decoded at a time. Secrets are removed from
large answers in the same way.
"""

import asyncio
import gc
import itertools
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from json import JSONDecoder
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from paddock.model.json_meter import JsonMeter
from paddock.model.nesting import MAX_DEPTH
from paddock.model.numbers import decoder_for

MIN_SLICED_VALUES = 20_000
"""Texts with at least this many values are decoded in slices; fewer take about a millisecond in one call."""
_SLICE_S = 0.000_5
_IDLE_TURN_S = 0.000_08
"""Maximum duration of a turn of the event loop in which no other task was ready, in seconds."""
_MAX_TURNS = 8
_COLLECT_INTERVAL = 100
_BETWEEN_CHARS = 512
_COUNTED_BYTES = 64 * 1024
_MIN_SLICE_CHARS, _MAX_SLICE_CHARS = 256, 4096
_CLOSERS = {"[": "]", "{": "}"}
_VALUE_ENDS = {"[": "],", "{": "},", '"': '",'}
"""How a value of an array ends if another one follows, by the character that it begins with."""
_SKIP_SPACE = re.compile(r"[ \t\r\n]*").match

Container = list[Any] | dict[str, Any]
Decode = Callable[[str, int], tuple[Any, int]]
"""`raw_decode` of a `json.JSONDecoder`: the value that begins at an index, and where it ends."""

Value = TypeVar("Value")

_decoded = itertools.count(1)
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class JsonLimitError(ValueError):
    """A JSON text has too many values, or is nested too deep. It was not decoded. The message follows its subject."""

    def __init__(self, message: str, *, too_deep: bool) -> None:
        super().__init__(message)
        self.too_deep = too_deep


async def read_json(
    data: bytes,
    max_values: int,
    max_depth: int,
    decoder: JSONDecoder | None = None,
    *,
    errors: str = "strict",
) -> tuple[Any, int]:
    """Return the value of a JSON text, and the number of values in it. A large text is decoded in slices.

    Without a `decoder` all numbers keep their digits. `errors` is that of `bytes.decode`. Raises JsonLimitError, and
    another ValueError for bytes that are not JSON.
    """
    meter = await count_in_slices(data, max_values, max_depth)
    if meter.values > max_values:
        raise JsonLimitError(f"has more than {max_values} values", too_deep=False)
    if meter.too_deep:
        raise JsonLimitError(f"is nested more than {max_depth} levels deep", too_deep=True)
    decoder, text = decoder or decoder_for(data), data.decode("utf-8", errors)
    if meter.values < MIN_SLICED_VALUES:
        return decoder.decode(text), meter.values
    return await decode_in_slices(text, decoder.raw_decode), meter.values


async def decode_in_slices(text: str, decode: Decode) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text. Raises ValueError for a text that is not JSON.

    The caller checks with a `JsonMeter` that the text does not nest deeper than `decode` allows.
    """
    async with _turn_lock():
        with _no_collection():
            return await _run_slices(decode_sliced(text, decode))


async def run_in_slices(slices: Generator[None, None, Value]) -> Value:
    """Return the value of a generator that yields a few times in a millisecond.

    Work that takes no longer than one slice does not wait for its turn.
    """
    until = time.perf_counter() + _SLICE_S
    try:
        while time.perf_counter() < until:
            next(slices)
    except StopIteration as end:
        return end.value
    async with _turn_lock():
        return await _run_slices(slices)


async def _run_slices(slices: Generator[None, None, Value]) -> Value:
    until = time.perf_counter() + _SLICE_S
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value
        if time.perf_counter() >= until:
            await let_others_run()
            until = time.perf_counter() + _SLICE_S


async def let_others_run() -> None:
    """Wait until the event loop has nothing else to do, for a few turns at most.

    A short request takes a dozen turns. If a slice followed each turn, the request would take several times as long.
    """
    for _ in range(_MAX_TURNS):
        left = time.perf_counter()
        await asyncio.sleep(0)
        if time.perf_counter() < left + _IDLE_TURN_S:
            return


def _turn_lock() -> asyncio.Lock:
    return _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())


@contextmanager
def _no_collection() -> Generator[None]:
    """Keep the cyclic garbage collector from traversing a growing value, which has no cycles, again and again.

    For a million empty arrays the collector takes longer than the decoder, in pauses of up to 50 ms. The
    finished value is moved to the oldest generation, or the next collection would traverse it. Garbage of other tasks
    moves there as well; a full collection before every hundredth value finds it.
    """
    enabled = gc.isenabled()
    gc.disable()
    if enabled and next(_decoded) % _COLLECT_INTERVAL == 0:
        gc.collect()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()  # with `unfreeze`: moves all objects to the oldest generation without traversing them
            gc.unfreeze()
            gc.enable()


async def count_in_slices(data: bytes, max_values: int, max_depth: int = MAX_DEPTH) -> JsonMeter:
    """Return the counts of a JSON text; counting stops as soon as it has too many values or levels."""
    meter, until = JsonMeter(max_depth), time.perf_counter() + _SLICE_S
    for start in range(0, len(data), _COUNTED_BYTES):
        meter.feed(data[start : start + _COUNTED_BYTES])
        if meter.values > max_values or meter.too_deep:
            break
        if time.perf_counter() >= until:
            await let_others_run()
            until = time.perf_counter() + _SLICE_S
    return meter


def is_large(value: object) -> bool:
    """Return whether a decoded value has so many values that visiting all of them takes milliseconds."""
    level: list[Any] = [value]
    left = MIN_SLICED_VALUES
    while level and left > 0:
        left -= len(level)
        below: list[Any] = []
        for item in level:
            if isinstance(item, list):
                below += cast("list[Any]", item)
            elif isinstance(item, dict):
                below += cast("dict[str, Any]", item).values()
            if len(below) > left:
                return True
        level = below
    return left <= 0


def decode_sliced(text: str, decode: Decode) -> Generator[None, None, Any]:
    """Return the value of a JSON text, and yield every few hundred characters. Raises ValueError."""
    walk, since = _SliceDecoder(text, decode), 0
    while not walk.step():
        if walk.at - since > _BETWEEN_CHARS:
            since = walk.at
            yield
    return walk.value


class _SliceDecoder:
    """Decodes a text one small value at a time."""

    def __init__(self, text: str, decode: Decode) -> None:
        self.at = _after_space(text, 0)
        self.value: Any = None
        """The whole value, after `step` has returned true."""
        self._text = text
        self._decode = decode
        self._into: Container | None = None
        self._name = ""
        """Name of the next member, if `_into` is an object."""
        self._around: list[tuple[Container, str]] = []
        self._reach = _MIN_SLICE_CHARS
        self._alone_until = 0
        """Index up to which the values of an array are read one by one."""

    def step(self) -> bool:
        """Read a small value, or the start of a large one; return whether the whole text has been read."""
        opener = self._text[self.at : self.at + 1]
        if (
            isinstance(self._into, list)
            and self.at >= self._alone_until
            and self._read_some(self._into, opener)
        ):
            return False
        if opener in _CLOSERS:
            return self._read_container(opener)
        value, self.at = self._decode(self._text, self.at)
        return self._put_value(value)

    def _read_some(self, into: list[Any], opener: str) -> bool:
        """Read the next values of an array in one decoder call; return False if that failed.

        The call gets the text up to the last place where a value of the first one's type may end.
        """
        some = self._text[self.at : self.at + _MAX_SLICE_CHARS]
        end = _VALUE_ENDS.get(opener, ",")
        size = some.rfind(end) + len(end) - 1
        some = f"[{some[:size]}]"
        values: list[Any] = []
        if size >= len(end):
            with suppress(ValueError):
                values, read = self._decode(some, 0)
                # That place may have been within a nested value or a string.
                values = values if read == len(some) else []
        if not values:
            self._alone_until = self.at + _MAX_SLICE_CHARS
            return False
        into += values
        self.at = _after_space(self._text, self.at + size + 1)
        return True

    def _read_container(self, opener: str) -> bool:
        # A failed attempt costs no more than what was decoded since the last failed attempt.
        try:
            value, size = self._decode(self._text[self.at : self.at + self._reach], 0)
        except ValueError:
            return self._enter_container(opener)
        self.at += size
        self._reach = min(self._reach + size, _MAX_SLICE_CHARS)
        return self._put_value(value)

    def _enter_container(self, opener: str) -> bool:
        if self._into is not None:
            self._around.append((self._into, self._name))
        self._into, self._reach = [] if opener == "[" else {}, _MIN_SLICE_CHARS
        self._skip_space(opener)
        if self._text[self.at : self.at + 1] == _CLOSERS[opener]:
            self.at += 1
            return self._put_value(self._leave_container())
        self._read_name()
        return False

    def _leave_container(self) -> Container | None:
        left = self._into
        self._into, self._name = self._around.pop() if self._around else (None, "")
        return left

    def _put_value(self, value: object) -> bool:
        while self._into is not None:
            if isinstance(self._into, dict):
                self._into[self._name] = value
            else:
                self._into.append(value)
            self.at = _after_space(self._text, self.at)
            if self._text[self.at : self.at + 1] == ",":
                self._skip_space(",")
                self._read_name()
                return False
            self._skip_space("]" if isinstance(self._into, list) else "}")
            value = self._leave_container()
        self.value, self.at = value, _after_space(self._text, self.at)
        if self.at != len(self._text):
            raise ValueError(self.at)
        return True

    def _read_name(self) -> None:
        if not isinstance(self._into, dict):
            return
        if self._text[self.at : self.at + 1] != '"':
            raise ValueError(self.at)
        self._name, at = self._decode(self._text, self.at)
        self.at = _after_space(self._text, at)
        self._skip_space(":")

    def _skip_space(self, mark: str) -> None:
        if self._text[self.at : self.at + 1] != mark:
            raise ValueError(self.at)
        self.at = _after_space(self._text, self.at + 1)


def _after_space(text: str, at: int) -> int:
    space = _SKIP_SPACE(text, at)
    assert space is not None
    return space.end()
