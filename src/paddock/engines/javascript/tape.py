"""What a recorded program did and what it received, in order, and the replies with which it is repeated.

A program of a recorded run has no clock: it begins at `ClockStart`, and each message that it receives moves its clock.
Therefore it depends only on its text and input, the start, and these messages in their order. WeakRef and
FinalizationRegistry are the exception: they depend on V8's collections.
"""

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from paddock.engines.javascript import frames
from paddock.engines.javascript.task import HostReply

if TYPE_CHECKING:
    from paddock.model.base import Json
    from paddock.model.outcome import ConsoleLine

_ENTROPY_BYTES = 32


class ClockStart(NamedTuple):
    """What a program begins with: its time, and the seeds of its random numbers."""

    instant: int
    """Milliseconds since 1970."""
    seed: tuple[int, int, int, int]
    """The seed of `Math.random`."""
    entropy: bytes
    """32 bytes, from which the random bytes of `crypto` are derived."""

    @classmethod
    def draw(cls) -> "ClockStart":
        """Return the present time with new seeds."""
        words = os.urandom(16)
        seed = tuple(int.from_bytes(words[at : at + 4], "little") for at in range(0, 16, 4))
        return cls(
            time.time_ns() // 1_000_000, (seed[0], seed[1], seed[2], seed[3]), os.urandom(_ENTROPY_BYTES)
        )

    @property
    def settings(self) -> "dict[str, Json]":
        """The settings of the bootstrap."""
        return {"seed": self.seed, "clock": {"instant": self.instant, "entropy": list(self.entropy)}}


ProgramCall = frames.ServerCallFrame | frames.SdkCallFrame


class Event(NamedTuple):
    """A message to the program."""

    number: int
    """Number of the call that it answers; 0 if it only moves the clock."""
    at: float
    """Milliseconds since the program began."""


class Tape:
    """What one run of a program did and received."""

    def __init__(self, start: ClockStart, max_bytes: int) -> None:
        """Keep nothing of a run whose calls have arguments and results of more than `max_bytes`, as JSON."""
        self.start = start
        self.calls: dict[int, ProgramCall | frames.RefusedCall] = {}
        self.replies: dict[int, HostReply] = {}
        self.events: list[Event] = []
        """The messages that the program received, in order."""
        self.actions: list[int | ConsoleLine] = []
        """What the program did, in order: numbers of calls, and lines of the console."""
        self.has_begun = False
        """Whether the program has started."""
        self.reached_end = False
        """Whether a repeated program needed a reply that the recording of an interrupted run does not have."""
        self._room = max_bytes

    @property
    def is_too_large(self) -> bool:
        """Whether the run has more than the tape may keep."""
        return self._room < 0

    def take_room(self, size: int) -> bool:
        """Count bytes; return whether the tape may keep them. One that is too large keeps nothing."""
        self._room -= size
        if self._room >= 0:
            return True
        for kept in (self.calls, self.replies, self.events, self.actions):
            kept.clear()
        return False


class RecordedReply(NamedTuple):
    """The recorded reply to a call."""

    number: int
    """Number of the recorded call; 0 if the recording has none."""
    reply: HostReply | None
    """None if the run ended before it."""


class RecordedReplies(Protocol):
    """The replies of a recording."""

    @property
    def events(self) -> Sequence[Event]:
        """The messages that the recorded program received, in order."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether the recorded program itself reached its end."""
        ...

    def find(self, call: ProgramCall) -> RecordedReply:
        """Return the reply to a call. Each recorded call answers one."""
        ...
