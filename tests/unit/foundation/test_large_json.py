"""What is decoded in slices is what the decoder makes of it at once, and others have their turn in between."""

import asyncio
import contextlib
import gc
import json
import time
import weakref
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.foundation import large_json

DECODE = json.JSONDecoder().raw_decode
TEXTS = st.text(alphabet='ab"\\[]{},: \u00e9\U0001f600', max_size=300)
VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXTS, inner, max_size=8),
    max_leaves=60,
)


def at_once(text: str) -> object:
    generator = large_json.decode_sliced(text, DECODE)
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value


@given(VALUES, st.sampled_from([None, 1]))
def test_slices_make_the_same_value(value, indent):
    text = json.dumps(value, indent=indent)
    assert at_once(text) == value
    assert at_once(f" {text}\n") == value


@given(st.text(alphabet='[]{}",:1x \n', max_size=30), st.integers(0, 400))
def test_slices_refuse_what_the_decoder_refuses(text, width):
    for each in (text, f"[{' ' * width}{text}]", f'{{"a":{" " * width}{text}}}'):
        try:
            expected = json.loads(each)
        except ValueError:
            with pytest.raises(ValueError):  # noqa: PT011 - the reader's fault has no text
                at_once(each)
        else:
            assert at_once(each) == expected


@pytest.mark.parametrize(
    "value",
    [
        [[] for _ in range(50_000)],
        [{"id": n, "name": f"name {n}", "tags": ["a", "b"]} for n in range(10_000)],
        {f"key {n}": {"a": [n, n]} for n in range(10_000)},
        [[[[n] * 3] * 20] * 5 for n in range(500)],
        ["x" * 100_000] * 20,
    ],
)
def test_others_have_their_turn_while_a_large_text_is_decoded(value):
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def use() -> object:
        others = asyncio.create_task(take_turns())
        found = await large_json.decode_in_slices(json.dumps(value), DECODE)
        others.cancel()
        return found

    assert asyncio.run(use()) == value
    assert turns >= 1


def test_no_slice_is_long():
    text = json.dumps([[[]] * 10 for _ in range(20_000)])
    slices = sum(1 for _ in large_json.decode_sliced(text, DECODE))
    assert slices >= len(text) / 5_000


def test_large_texts_are_decoded_one_after_the_other():
    begun: list[str] = []

    def decode(text: str, at: int) -> tuple[object, int]:
        begun.append(text[1:2])
        return DECODE(text, at)

    async def use() -> list[object]:
        texts = [f"[{digit}," + "1," * 100_000 + "1]" for digit in "23"]
        return await asyncio.gather(*(large_json.decode_in_slices(text, decode) for text in texts))

    first, second = asyncio.run(use())
    assert (first[0], second[0], len(first)) == (2, 3, 100_002)
    assert [each for each in begun if each in "23"] == ["2"] * begun.count("2") + ["3"] * begun.count("3")


def test_counting_ends_where_there_is_too_much():
    async def use() -> tuple[int, bool]:
        counted = await large_json.count_in_slices(b"[" + b"1," * 1_000_000 + b"1]", 100_000)
        deep = await large_json.count_in_slices(b"[" * 200_000, 1_000_000)
        return counted.values, deep.too_deep

    values, too_deep = asyncio.run(use())
    assert 100_000 < values < 200_000
    assert too_deep


@pytest.mark.parametrize(
    ("value", "large"),
    [
        ({}, False),
        ({"a": [[1] * 100] * 100}, False),
        ({"a": [0] * 20_000}, True),
        ([[1] * 100] * 300, True),
        (dict.fromkeys(map(str, range(20_001))), True),
        ("x" * 1_000_000, False),
    ],
)
def test_a_value_is_large_by_the_number_of_its_parts(value, large):
    assert large_json.is_large(value) is large


@pytest.mark.parametrize("text", ["[" + "1," * 100_000 + "1]", "[" + "1," * 100_000])
def test_the_collector_rests_while_a_text_is_decoded_and_works_on_afterwards(text):
    seen: set[bool] = set()

    def decode(part: str, at: int) -> tuple[object, int]:
        seen.add(gc.isenabled())
        return DECODE(part, at)

    with contextlib.suppress(ValueError):
        asyncio.run(large_json.decode_in_slices(text, decode))
    assert (seen, gc.isenabled()) == ({False}, True)


def test_other_work_in_slices_is_done_at_once_where_it_is_short_and_gives_others_their_turn_where_it_is_long():
    turns = 0

    def work(milliseconds: int) -> Generator[None, None, int]:
        for _ in range(milliseconds):
            until = time.perf_counter() + 0.001
            while time.perf_counter() < until:
                pass
            yield
        return milliseconds

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def use() -> None:
        others = asyncio.create_task(take_turns())
        assert await large_json.run_in_slices(work(0)) == 0
        assert turns == 0
        assert await large_json.run_in_slices(work(10)) == 10
        assert turns >= 9
        others.cancel()

    asyncio.run(use())


def test_a_decoded_value_is_old_before_the_collector_goes_on(monkeypatch):
    young: list[int] = []
    enable = gc.enable

    def enable_after_a_look() -> None:
        young.append(len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1)))
        enable()

    monkeypatch.setattr(gc, "enable", enable_after_a_look)
    value = asyncio.run(large_json.decode_in_slices("[" + "[]," * 100_000 + "[]]", DECODE))
    assert (len(value), len(young)) == (100_001, 1)
    assert young[0] < 1000


def test_what_others_drop_while_texts_are_decoded_is_collected_in_the_end():
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    dropped: list[weakref.ref[Cycle]] = []

    def decode(part: str, at: int) -> tuple[object, int]:
        dropped.append(weakref.ref(Cycle()))
        return DECODE(part, at)

    async def use(count: int, decode: large_json.Decode) -> None:
        for _ in range(count):
            await large_json.decode_in_slices("[]", decode)

    asyncio.run(use(1, decode))
    asyncio.run(use(100, DECODE))
    assert [each() for each in dropped] == [None]


@pytest.mark.parametrize(("ready", "had"), [(3, 3), (100, 8)])
def test_others_have_all_the_turns_that_they_need_before_the_next_slice_but_not_endlessly(
    monkeypatch, ready, had
):
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        for _ in range(ready):
            turns += 1
            await asyncio.sleep(0)

    async def use() -> int:
        others = asyncio.create_task(take_turns())
        monkeypatch.setattr(large_json.time, "perf_counter", lambda: turns)  # a turn of theirs takes a second
        await large_json.let_others_run()
        others.cancel()
        return turns

    assert asyncio.run(use()) == had
