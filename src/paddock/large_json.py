"""Large JSON texts are decoded in slices on the event loop, so that others have their turn in between.

A thread would not help: the decoders hold the interpreter's lock from the first byte to the last. Here a large array or
object is walked by hand, and only what is small goes to the decoder in one call. That takes two to three times as long
as one call, and never holds the loop for more than a millisecond. One text is decoded at a time.
"""

import asyncio
import re
import time
from collections.abc import Callable, Generator
from typing import Any
from weakref import WeakKeyDictionary

SLICED_VALUES = 20_000
"""Texts with more values are decoded in slices; fewer take about a millisecond at once."""
_SLICE_S = 0.000_5
_BETWEEN_CHARS = 2048
_LEAST_REACH, _MOST_REACH = 256, 4096
_CLOSERS = {"[": "]", "{": "}"}
_RUN = re.compile(r'([^\[\]{}"]*[^\[\]{}" \t\r\n,]\s*),').match
"""Numbers and the like up to a comma."""
_SPACE = re.compile(r"[ \t\r\n]*").match

Scan = Callable[[str, int], tuple[Any, int]]
"""`scan_once` of a `json.JSONDecoder`: the value that begins at an index, and where it ends."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def decode_in_slices(text: str, scan: Scan) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text. Raises ValueError for a text that is none.

    The text must not nest deeper than `scan` can, which a `JsonMeter` knows.
    """
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        slices = sliced(text, scan)
        until = time.perf_counter() + _SLICE_S
        while True:
            try:
                next(slices)
            except StopIteration as end:
                return end.value
            if time.perf_counter() >= until:
                await asyncio.sleep(0)
                until = time.perf_counter() + _SLICE_S


def sliced(text: str, scan: Scan) -> Generator[None, None, Any]:
    """Return the value of a JSON text, and yield about every two thousand characters. Raises ValueError."""
    around: list[tuple[list[Any] | dict[str, Any], str]] = []
    into: list[Any] | dict[str, Any] | None = None
    name, at, reach, since = "", _after_space(text, 0), _LEAST_REACH, 0
    while True:
        opener = text[at : at + 1]
        if opener in _CLOSERS:
            # The cost of a try that fails is bounded by what was decoded since the last one that failed.
            value, size = _small(text[at : at + reach], scan)
            if not size and at + reach < len(text):
                if into is not None:
                    around.append((into, name))
                into, reach = ([] if opener == "[" else {}), _LEAST_REACH
                at = _after_space(text, at + 1)
                if text[at : at + 1] != _CLOSERS[opener]:
                    name, at = (name, at) if opener == "[" else _name(text, at, scan)
                    continue
                value, size = into, 0
                into, name = around.pop() if around else (None, "")
                at += 1
            elif not size:
                raise ValueError(at)
            at += size
            reach = min(reach + size, _MOST_REACH)
        elif isinstance(into, list) and (run := _RUN(text, at, at + _MOST_REACH)) is not None:
            into += _scanned(f"[{run[1]}]", 0, scan)[0]
            at = _after_space(text, run.end())
            if at - since > _BETWEEN_CHARS:
                since = at
                yield
            continue
        else:
            value, at = _scanned(text, at, scan)
        while into is not None:
            _put(into, name, value)
            at = _after_space(text, at)
            mark = text[at : at + 1]
            at = _after_space(text, at + 1)
            if mark == ",":
                if isinstance(into, dict):
                    name, at = _name(text, at, scan)
                break
            if mark != ("]" if isinstance(into, list) else "}"):
                raise ValueError(at)
            value = into
            into, name = around.pop() if around else (None, "")
        else:
            if _after_space(text, at) != len(text):
                raise ValueError(at)
            return value
        if at - since > _BETWEEN_CHARS:
            since = at
            yield


def _scanned(text: str, at: int, scan: Scan) -> tuple[Any, int]:
    try:
        return scan(text, at)
    except StopIteration:
        raise ValueError(at) from None


def _small(text: str, scan: Scan) -> tuple[Any, int]:
    """Return the value that a text begins with, and its length; 0 when the text does not hold all of it."""
    try:
        return scan(text, 0)
    except (StopIteration, ValueError):
        return None, 0


def _name(text: str, at: int, scan: Scan) -> tuple[str, int]:
    """Return the name of a member, and where its value begins."""
    if text[at : at + 1] != '"':
        raise ValueError(at)
    name, at = scan(text, at)
    at = _after_space(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(at)
    return name, _after_space(text, at + 1)


def _put(into: list[Any] | dict[str, Any], name: str, value: object) -> None:
    if isinstance(into, dict):
        into[name] = value
    else:
        into.append(value)


def _after_space(text: str, at: int) -> int:
    space = _SPACE(text, at)
    assert space is not None
    return space.end()
