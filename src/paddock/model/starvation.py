"""Tell a program that was too slow from one that other programs kept from running.

A wall limit ends both. The second one says nothing about the program: the same program may end in time when it is run
again. The cause must lie outside of the program, or a program could avoid its verdict. Therefore only time counts in
which a thread of it waited for a processor and none of its threads had one.

An endless loop on a busy machine is slow, too, and its verdict should be that it is endless. Therefore a program counts
as starved only if it had less than a third of its share, and others took most of the rest. Not all of the rest: the
start of a program and its input take time, too.
"""

from typing import NamedTuple

_MIN_HAD = 1 / 3
"""Part of its share with which a program is not starved."""
_MAX_LOST = 1 / 2
"""Maximum part of its share that a program may lose to others without being starved."""
_MIN_LOST_MS = 250
"""Minimum time that others took. Every machine withholds less than this at times; it matters for short limits alone."""
STARVED = "ran out of time while other processes used the processors"


class Spent(NamedTuple):
    """How a program spent its wall time, in milliseconds."""

    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    """Time on processors, of all threads together."""
    stalled_ms: float = 0.0
    """Time in which it waited for a processor and had none."""

    def add(self, other: "Spent") -> "Spent":
        """Return what two steps spent together."""
        return Spent(*map(sum, zip(self, other, strict=True)))


UNSPENT = Spent()


def is_starved(spent: Spent, processors: float) -> bool:
    """Return whether a program had less than a third of its share because other processes took more than half of it.

    Its share is one processor for all of its wall time, or less where the machine has less: `processors` may be a
    fraction, because a container may have a quota. Time that the quota alone withholds is no share.
    """
    share_ms = spent.wall_ms * min(1.0, processors)
    lost_ms = min(spent.stalled_ms, share_ms - spent.cpu_ms)
    return spent.cpu_ms < share_ms * _MIN_HAD and lost_ms > max(share_ms * _MAX_LOST, _MIN_LOST_MS)


def describe_starvation(spent: Spent) -> str:
    """Return the hint for a starved program."""
    return (
        f"it waited {spent.stalled_ms:.0f} ms for a processor and had one for {spent.cpu_ms:.0f} ms; run it again when "
        "the machine is less busy"
    )
