"""What every benchmark shares: lines with targets, and rounds in which the contenders take turns.

The machine is never quiet. So whatever is compared runs in the same rounds, in an order that turns, and what counts
is the median over rounds, and for ratios the median of the ratios within a round.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure is to reach."""

    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


_TIMES, _RATES = {"us", "ms", "ms late"}, {"1/s", "runs/s"}


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. Floors and peers have no target."""

    what: str
    value: float
    unit: str
    target: Target | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.target.met(self.value)

    def there(self, slowness: float) -> float:
        """Return what this comes to on a machine that is as many times as fast: only times and rates depend on it."""
        if self.unit in _TIMES:
            return self.value / slowness
        return self.value * slowness if self.unit in _RATES else self.value

    def met_there(self, slowness: float) -> bool | None:
        """Return whether it would meet its target on that machine."""
        return None if self.target is None else self.target.met(self.there(slowness))


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: everything, or just enough to see that it can be."""

    quick: bool

    def of(self, full: int, quick: int) -> int:
        return quick if self.quick else full


def at_most(bound: float) -> Target:
    return Target(bound)


def at_least(bound: float) -> Target:
    return Target(bound, at_least=True)


def interleaved(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return each contender's figures, one per round.

    Everybody goes first in turn, and each round is followed by one in the opposite order: who comes after another finds
    its caches warm or its files in the way.
    """
    names = list(contenders)
    figures: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number // 2 % len(names)
        order = names[first:] + names[:first]
        for name in reversed(order) if number % 2 else order:
            figures[name].append(contenders[name]())
    return figures


def uncertainty(figures: list[float]) -> float:
    """Return the standard error of their median, as far as the quartiles tell of a normal distribution."""
    lower, _, upper = quantiles(figures, n=4)
    return 1.2533 * (upper - lower) / 1.349 / math.sqrt(len(figures))


def ratio(over: list[float], under: list[float]) -> float:
    """Return the median of the ratios within the rounds."""
    return median(a / b for a, b in zip(over, under, strict=True))


def milliseconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


_looking: list[float] = []
"""Processor time of each call of `cpu_seconds`: with hundreds of processes, it would be most of what it measures."""


def cpu_seconds() -> float:
    """Return the processor time of this process and of everything that descends from it, the dead included.

    What this function itself took does not count. Source: proc_pid_stat(5), fields 14 to 17; a process that was waited
    for counts at its parent.
    """
    began, looked = time.thread_time(), sum(_looking)
    ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        ticks[pid] = sum(map(int, fields[11:15]))
    used = sum(ticks[pid] for pid in descendants(parents)) / 100
    _looking.append(time.thread_time() - began)
    return used - looked


def descendants(parents: Mapping[int, int], ancestor: int | None = None) -> set[int]:
    """Return a process, by default this one, and all below it."""
    family = {ancestor or int(Path("/proc/self").readlink().name)}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family
