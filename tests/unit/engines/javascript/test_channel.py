"""How a worker waits for its parent: awake for a moment where the last message came soon, asleep otherwise."""

import os
import socket
import struct
import time
from collections.abc import Callable, Generator

import pytest

from paddock.engines.javascript.child import worker


class Parent:
    """The other end, which acts when the worker gives its processor away; time passes when it says so."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self.connection = ours
        self.channel = worker.Channel(theirs)
        self.now = 100.0
        self.yields = 0
        self.acts: dict[int, Callable[[], object]] = {}

    def sched_yield(self) -> None:
        self.yields += 1
        self.acts[self.yields]()

    def says(self, text: bytes) -> None:
        self.connection.sendall(struct.pack("<I", len(text)) + text)

    def is_late(self) -> None:
        self.now += 0.001
        self.says(b"late")


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Generator[Parent]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        parent = Parent(ours, theirs)
        monkeypatch.setattr(os, "sched_yield", parent.sched_yield)
        monkeypatch.setattr(time, "monotonic", lambda: parent.now)
        monkeypatch.setattr(worker, "_MAY_WAIT_AWAKE", True)
        yield parent


def test_after_a_message_that_came_soon_the_next_one_is_waited_for_awake(parent: Parent):
    parent.says(b"first")
    parent.acts = {1: lambda: None, 2: lambda: None, 3: lambda: parent.says(b"second")}
    assert [parent.channel.receive() for _ in range(2)] == [b"first", b"second"]
    assert parent.yields == 3


def test_what_does_not_come_soon_is_waited_for_asleep_and_so_is_the_next(parent: Parent):
    parent.says(b"first")
    parent.acts = {1: parent.is_late}
    assert [parent.channel.receive() for _ in range(2)] == [b"first", b"late"]
    parent.says(b"soon again")
    assert parent.channel.receive() == b"soon again"
    parent.acts = {2: lambda: parent.says(b"awake again")}
    assert (parent.channel.receive(), parent.yields) == (b"awake again", 2)


def test_who_waits_for_a_timer_as_well_sleeps(parent: Parent):
    parent.says(b"first")
    assert (parent.channel.receive(), parent.channel.receive(0)) == (b"first", None)
    assert parent.yields == 0


def test_on_the_only_processor_nobody_waits_awake(parent: Parent, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker, "_MAY_WAIT_AWAKE", False)
    parent.says(b"first")
    parent.channel.receive()
    parent.says(b"second")
    assert (parent.channel.receive(), parent.yields) == (b"second", 0)


def test_several_messages_at_once_are_read_one_by_one(parent: Parent):
    parent.says(b"first")
    parent.says(b"")
    parent.says(b"x" * 100_000)
    assert [parent.channel.receive() for _ in range(3)] == [b"first", b"", b"x" * 100_000]
