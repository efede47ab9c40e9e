"""The meter of one job for what it holds outside of its address space, in short slices that delay no deadline."""

import time
from collections.abc import Iterator, Sequence

from paddock.confinement.sandbox.child import anonymous_memory, scratch
from paddock.confinement.sandbox.child.anonymous_memory import AnonymousMemory
from paddock.confinement.sandbox.child.messages import Ceilings
from paddock.confinement.sandbox.child.process_tree import Process

_EVERY_S = 0.1
"""Pause between two measurements of scratch, or of anonymous memory, in seconds."""
_SLICE_S = 0.005
"""Maximum time of one slice of measuring anonymous memory, in seconds."""


class StorageMeter:
    """Measures the files in scratch and the anonymous memory of a job, each at most every tenth of a second."""

    def __init__(self, folder: str) -> None:
        """Measure a job whose scratch is `folder`."""
        self._folder = folder
        self._scratch_walk = scratch.measure_in_slices(folder)
        self._scratch_due = 0.0
        self._scratch_bytes = 0
        self._walk: Iterator[AnonymousMemory | None] = iter(())
        self._due = 0.0
        self.anonymous = AnonymousMemory()
        """What the last complete measurement found."""
        self._lowest_gauges = AnonymousMemory()
        """The lowest values of the machine's gauges since the job began: what others release hides nothing of it."""

    def begin(self) -> None:
        """Read the machine's gauges before the job starts."""
        self._lowest_gauges = anonymous_memory.read_gauges(self._folder)

    def sample_memory(self, processes: Sequence[Process], ceilings: Ceilings) -> bool:
        """Continue measuring anonymous memory for a few milliseconds; return whether it is unfinished."""
        now, gauges = time.monotonic(), anonymous_memory.read_gauges(self._folder)
        self._lowest_gauges = self._lowest_gauges.lower(gauges)
        if now < self._due:
            return False
        try:
            while (found := next(self._walk)) is None and time.monotonic() < now + _SLICE_S:
                pass
        except StopIteration:
            self._walk = anonymous_memory.measure_in_slices(
                [process.folder for process in processes],
                self._folder,
                moved=gauges.since(self._lowest_gauges),
                limit=AnonymousMemory(ceilings.memory_bytes, ceilings.scratch_bytes),
            )
            return False
        if found is not None:
            self.anonymous, self._due = found, now + _EVERY_S
        return found is None

    def measure_disk(self) -> int:
        """Continue measuring scratch by one step; return its bytes as known, with those of removed files."""
        now = time.monotonic()
        if now >= self._scratch_due:
            try:
                total = next(self._scratch_walk)
            except StopIteration:
                self._scratch_walk, total = scratch.measure_in_slices(self._folder), None
            if total is not None:
                self._scratch_bytes, self._scratch_due = total, now + _EVERY_S
        return self._scratch_bytes + self.anonymous.disk
