"""The programs that the caller has handed over and that no task runs yet: read ahead within a bound, and checked."""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import NamedTuple

from paddock.foundation.cancellation import cancel_all
from paddock.gate.batch.program import Program
from paddock.model.errors import PaddockError
from paddock.model.limits import MIB

MAX_AHEAD = 256
"""Maximum number of programs that are read before a task needs them."""
MAX_AHEAD_BYTES = 64 * MIB
"""Size of such programs, in bytes, from which on no further one is read."""
MAX_TASK_BYTES = 16 * MIB
"""Size of the programs of a task, in bytes, from which on it gets no further one."""


class ProgramGroup(NamedTuple):
    """What programs of one task have in common."""

    languages: frozenset[str]
    """The languages that their node must have."""
    reads: bool
    """Whether they read the workspace."""
    alone: bool = False
    """Whether each runs in a separate task, because a task with it died."""


class Item(NamedTuple):
    """A program and its position in the caller's input."""

    number: int
    program: Program
    size: int
    """Size of its texts and data, in bytes or characters."""

    @property
    def group(self) -> ProgramGroup:
        """What it has in common with others of its task."""
        checker = self.program.checker
        others = {checker.language} if checker else set[str]()
        return ProgramGroup(frozenset({self.program.language, *others}), self.program.access != "none")


class Feed:
    """Reads programs in a separate task. A program that `check` raises for ends the reading, and is not sent."""

    def __init__(
        self, programs: Iterable[Program] | AsyncIterable[Program], check: Callable[[Program], bool]
    ) -> None:
        self._waiting: dict[ProgramGroup, deque[Item]] = {}
        self._refused: deque[Item] = deque()
        self._count = 0
        self._bytes = 0
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._check = check
        self._error: Exception | None = None
        self._ended = False
        self._reading = asyncio.create_task(self._read(programs))

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing waits, and nothing more will be read. False after an error, which `wait` raises."""
        return self._ended and self._error is None and not self._count and not self._refused

    async def wait(self) -> None:
        """Wait until there is something to take, or the end. Raises the error of the input or of a check."""
        while True:
            if self._error is not None:
                raise self._error
            if self._count or self._refused or self._ended:
                return
            self._changed.clear()
            await self._changed.wait()

    @property
    def _is_full(self) -> bool:
        return max(self._count, len(self._refused)) >= MAX_AHEAD or self._bytes >= MAX_AHEAD_BYTES

    def take_refused(self) -> Item | None:
        """Return a program that policy does not allow; None without one."""
        if not self._refused:
            return None
        self._taken.set()
        return self._refused.popleft()

    def take(self, most: int, free: int) -> tuple[ProgramGroup, list[Item]] | None:
        """Return up to `most` programs of one group for a task; None if none waits.

        At the end of the input, what is left is spread over `free` tasks.
        """
        if not self._waiting:
            return None
        group = next(iter(self._waiting))
        queue = self._waiting.pop(group)
        if self._ended:
            most = min(most, -(-self._count // max(1, free)))
        most = 1 if group.alone else most
        items = [queue.popleft()]  # at least one, and not many large ones
        size = items[0].size
        while queue and len(items) < most and size + queue[0].size <= MAX_TASK_BYTES:
            items.append(queue.popleft())
            size += items[-1].size
        if queue:
            self._waiting[group] = queue  # behind the other groups
        self._count -= len(items)
        self._bytes -= size
        self._taken.set()
        return group, items

    def give_back(self, items: Iterable[Item], *, alone: bool = False) -> None:
        """Put programs that did not run before the others; with `alone`, each for a separate task."""
        for item in reversed([*items]):
            group = item.group._replace(alone=alone)
            self._waiting.setdefault(group, deque()).appendleft(item)
            self._count += 1
            self._bytes += item.size
        self._changed.set()

    async def close(self) -> None:
        """End the reading, and close the iterator of the programs."""
        await cancel_all([self._reading])

    async def _read(self, programs: Iterable[Program] | AsyncIterable[Program]) -> None:
        try:
            number = 0
            async for program in _iterate(programs):
                size = len(program.code) + len(program.stdin or b"") + sum(map(len, program.files.values()))
                size += sum(len(case.stdin) + len(case.expect) for case in program.tests)
                await self._add(Item(number, program, size))
                number += 1
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self._error = error
        except asyncio.CancelledError:  # by `close`, or by what the programs come from
            self._error = PaddockError("The programs ended early: what they come from was cancelled.")
            raise
        finally:
            self._ended = True
            self._changed.set()

    async def _add(self, item: Item) -> None:
        while self._is_full:
            self._taken.clear()
            await self._taken.wait()
        if self._check(item.program):
            self._waiting.setdefault(item.group, deque()).append(item)
            self._count += 1
            self._bytes += item.size
        else:
            self._refused.append(item)
        self._changed.set()


async def _iterate(programs: Iterable[Program] | AsyncIterable[Program]) -> AsyncIterator[Program]:
    if isinstance(programs, AsyncIterable):
        async for program in programs:
            yield program
    else:
        for program in programs:
            yield program
