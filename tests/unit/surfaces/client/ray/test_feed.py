"""The programs of a batch before they are sent: read ahead within bounds, grouped, given back, refused."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from paddock import Checker, Program, RequestError
from paddock.surfaces.client.ray.feed import MAX_AHEAD, MAX_TASK_BYTES, Feed, Item, ProgramGroup

PYTHON = ProgramGroup(frozenset({"python"}), reads=False)


def program(code: str = "", language: str = "python", **fields: object) -> Program:
    return Program.model_validate({"language": language, "code": code, **fields})


def numbers(taken: tuple[ProgramGroup, list[Item]] | None) -> list[int]:
    return [item.number for item in taken[1]] if taken else []


async def take_all(feed: Feed) -> None:
    while not feed.is_exhausted:
        await feed.wait()
        feed.take(64, 1)


def allow(_program: Program) -> bool:
    return True


def test_the_end_of_the_input_is_spread_over_the_tasks() -> None:
    async def go() -> list[list[int]]:
        feed = Feed([program()] * 7, allow)
        await feed.wait()
        return [numbers(feed.take(64, free)) for free in (3, 2, 1, 1)]

    assert asyncio.run(go()) == [[0, 1, 2], [3, 4], [5, 6], []]


def test_no_more_is_read_than_the_bound() -> None:
    read: list[int] = []

    def endless() -> Iterator[Program]:
        while True:
            read.append(1)
            yield program()

    async def go() -> list[int]:
        feed = Feed(endless(), allow)
        await feed.wait()
        counts = [len(read)]
        feed.take(10, 1)
        await asyncio.sleep(0)
        counts.append(len(read))
        await feed.close()
        return counts

    assert asyncio.run(go()) == [MAX_AHEAD + 1, MAX_AHEAD + 11]


def test_large_programs_go_into_small_tasks() -> None:
    async def go() -> list[list[int]]:
        feed = Feed([program(stdin=bytes(MAX_TASK_BYTES // 2))] * 3, allow)
        await feed.wait()
        return [numbers(feed.take(64, 1)) for _ in range(3)]

    assert asyncio.run(go()) == [[0, 1], [2], []]


def test_programs_of_one_task_need_the_same() -> None:
    given = [
        program(),
        program(access="read-only"),
        program(language="c"),
        program(),
        program(tests=({},), checker=Checker(language="c", code="")),
    ]

    async def go() -> list[tuple[ProgramGroup, list[int]]]:
        feed = Feed(given, allow)
        await feed.wait()
        found: list[tuple[ProgramGroup, list[int]]] = []
        while taken := feed.take(64, 1):
            found.append((taken[0], numbers(taken)))
        return found

    assert asyncio.run(go()) == [
        (PYTHON, [0, 3]),
        (PYTHON._replace(reads=True), [1]),
        (PYTHON._replace(languages=frozenset({"c"})), [2]),
        (PYTHON._replace(languages=frozenset({"c", "python"})), [4]),
    ]


def test_programs_that_did_not_run_come_first_again_and_alone_if_their_task_died() -> None:
    async def go() -> list[list[int]]:
        feed = Feed([program()] * 5, allow)
        await feed.wait()
        _, items = feed.take(3, 1) or (PYTHON, [])
        feed.give_back(items[1:])
        found = [numbers(feed.take(64, 1))]
        feed.give_back(items[:2], alone=True)
        found += [numbers(feed.take(64, 1)), numbers(feed.take(64, 1))]
        assert feed.is_exhausted
        return found

    assert asyncio.run(go()) == [[1, 2, 3, 4], [0], [1]]


def test_what_policy_refuses_is_not_sent() -> None:
    async def go() -> tuple[list[int], list[str | None]]:
        feed = Feed([program(), program("no"), program()], lambda each: each.code != "no")
        await feed.wait()
        refused = [feed.take_refused(), feed.take_refused()]
        return numbers(feed.take(64, 1)), [each and each.program.code for each in refused]

    assert asyncio.run(go()) == ([0, 2], ["no", None])


def test_errors_of_the_input_and_of_a_check_are_raised() -> None:
    def fails() -> Iterator[Program]:
        yield program()
        raise OSError("torn")

    async def fails_later() -> AsyncIterator[Program]:
        yield program()
        raise OSError("torn")

    def refuse(_program: Program) -> bool:
        raise RequestError("effects")

    async def go() -> None:
        for given, check, error in (
            (fails(), allow, OSError),
            (fails_later(), allow, OSError),
            ([program()], refuse, RequestError),
        ):
            feed = Feed(given, check)
            with pytest.raises(error):
                await take_all(feed)
            assert not feed.is_exhausted

    asyncio.run(go())
