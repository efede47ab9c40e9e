"""Waiting awake: the event loop does not sleep while a program is about to say something, and only then."""

import asyncio
import os
import selectors
import socket
from collections.abc import Callable

import pytest

from paddock.engines.javascript.busy_poll import SOON_S, BusyPoll


class Clock:
    """A clock that goes on when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Selector(selectors.DefaultSelector):
    """A selector that remembers how long it was to wait, and does something just before it looks for the last time."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[float | None] = []
        self.before: dict[int, Callable[[], object]] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.looks.append(timeout)
        self.before.get(len(self.looks), lambda: None)()
        return super().select(timeout)


def looks(
    busy_poll: BusyPoll, said_at: int, before: dict[int, Callable[[], object]] | None = None
) -> list[float | None]:
    """Return how long the loop was to wait at each look for what is said at the last of them."""
    selector = Selector()
    loop = asyncio.SelectorEventLoop(selector)

    async def main() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            heard = loop.create_future()
            loop.add_reader(ours, lambda: heard.done() or heard.set_result(None))
            await asyncio.sleep(0)
            selector.looks.clear()
            selector.before = {**(before or {}), said_at: lambda: theirs.send(b"x")}
            busy_poll.begin()
            await heard
            selector.before.clear()
            loop.remove_reader(ours)
            busy_poll.end()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not busy_poll.awake

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    return selector.looks[:said_at]


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def alone(clock: Clock | None = None) -> BusyPoll:
    busy_poll = BusyPoll(clock or Clock())
    busy_poll.programs = 1
    return busy_poll


def test_the_loop_does_not_sleep_until_it_has_come():
    assert looks(alone(), 5) == [0, 0, 0, 0, 0]


def test_the_loop_sleeps_when_it_has_not_come_soon():
    clock = Clock()

    def late() -> None:
        clock.now += SOON_S

    assert looks(alone(clock), 4, {3: late}) == [0, 0, 0, None]


def test_what_is_waited_for_anew_is_waited_for_as_long():
    clock = Clock()
    busy_poll = alone(clock)

    def pass_half() -> None:
        clock.now += 0.5 * SOON_S

    def begin_anew() -> None:
        pass_half()
        busy_poll.begin()

    assert looks(busy_poll, 5, {2: begin_anew, 3: pass_half, 4: pass_half}) == [0, 0, 0, 0, None]


@pytest.mark.parametrize("programs", [0, 2])
def test_of_several_programs_none_is_waited_for_awake(programs: int):
    busy_poll = alone()
    busy_poll.programs = programs
    assert looks(busy_poll, 1) == [None]


def test_nobody_waits_awake_on_the_only_processor(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert looks(alone(), 1) == [None]
