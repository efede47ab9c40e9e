"""The clock of a run: what is left of a limit when it stands still is there when it goes on."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from paddock.engines.run_clock import RunClock


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time goes on when it is told to."""

    now = 100.0

    def time(self) -> float:
        return self.now


class Worker:
    def __init__(self) -> None:
        self.signals: list[str] = []

    def pause(self) -> None:
        self.signals.append("pause")

    async def ready(self) -> None:
        self.signals.append("ready")

    def resume(self) -> None:
        self.signals.append("resume")


def run(main: Callable[[Loop], Awaitable[None]]) -> None:
    loop = Loop()
    try:
        loop.run_until_complete(main(loop))
    finally:
        loop.close()


async def passes(loop: Loop, seconds: float) -> None:
    loop.now += seconds
    for _ in range(3):
        await asyncio.sleep(0)


def test_time_that_a_person_takes_does_not_count() -> None:
    async def main(loop: Loop) -> None:
        clock, worker = RunClock(), Worker()

        async def work() -> None:
            async with clock.limit(10, worker):
                await passes(loop, 6)
                with clock.pause():
                    await passes(loop, 1000)
                await passes(loop, 3)
                worker.signals.append("still there")
                await passes(loop, 2)

        with pytest.raises(TimeoutError):
            await work()
        assert worker.signals == ["pause", "resume", "still there"]

    run(main)


def test_pauses_within_pauses_and_limits_that_begin_within() -> None:
    async def main(loop: Loop) -> None:
        clock, first, second = RunClock(), Worker(), Worker()
        async with clock.limit(10, first), clock.limit(20):
            with clock.pause():
                with clock.pause():
                    await passes(loop, 50)
                async with clock.limit(5, second):
                    await passes(loop, 50)
                assert (first.signals, second.signals) == (["pause"], ["pause", "resume"])
            assert first.signals == ["pause", "resume"]
            await passes(loop, 9)

    run(main)


def test_a_limit_that_has_passed_is_left_alone() -> None:
    async def main(loop: Loop) -> None:
        clock, worker = RunClock(), Worker()

        async def work() -> None:
            async with clock.limit(1, worker):
                try:
                    await passes(loop, 2)
                finally:
                    with clock.pause():
                        pass

        with pytest.raises(TimeoutError):
            await work()
        assert worker.signals == []

    run(main)


def test_what_is_paused_gets_ready_while_the_clock_stands() -> None:
    async def main(loop: Loop) -> None:
        clock, worker, free = RunClock(), Worker(), Worker()
        async with clock.limit(10, worker), clock.limit(20):
            await clock.ready()
            with clock.pause():
                await passes(loop, 50)
                await clock.ready()
                await passes(loop, 50)
            assert worker.signals == ["pause", "ready", "resume"]
            async with clock.limit(5, free):
                await clock.ready()
            assert free.signals == []

    run(main)


def test_processes_with_limits_of_their_own_are_paused_too() -> None:
    async def main(loop: Loop) -> None:
        clock, first, second, third = RunClock(), Worker(), Worker(), Worker()
        clock.add(first)
        clock.add(third)
        clock.remove(third)
        clock.remove(third)
        with clock.pause():
            with clock.pause():
                clock.add(second)
            await clock.ready()
            clock.remove(first)
        assert first.signals == ["pause", "ready", "resume"]
        assert second.signals == ["pause", "ready", "resume"]
        assert third.signals == []

    run(main)
