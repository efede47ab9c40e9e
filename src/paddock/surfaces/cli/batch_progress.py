"""Progress of `paddock batch`, for a person who watches standard error."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NamedTuple

from paddock.model.base import count

_TERMINAL_S, _PIPE_S = 0.2, 10.0
"""Time between two reports of progress, in seconds."""


class Tally(NamedTuple):
    """How many programs were answered, and how."""

    answered: int = 0
    ok: int = 0
    unanswered: int = 0
    invalid: int = 0

    def render(self) -> str:
        """Return it as a line for a person."""
        others = self.answered - self.ok - self.unanswered
        parts = [f"{self.ok} ok", f"{others} failed"]
        parts += [f"{self.unanswered} not run to an end"] if self.unanswered else []
        parts += [count(self.invalid, "invalid line")] if self.invalid else []
        return f"{count(self.answered, 'program')}: {', '.join(parts)}"


class BatchProgress:
    """Reports progress on standard error: one line that changes on a terminal, else a line now and then."""

    def __init__(self, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._live = stream.isatty()
        self._next = clock() + self._period
        self._drawn = False

    @property
    def _period(self) -> float:
        return _TERMINAL_S if self._live else _PIPE_S

    def report(self, tally: Tally) -> None:
        """Report progress, unless it was reported a moment ago."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + self._period
        end = "" if self._live else "\n"
        self._write(f"{tally.render()}{end}")
        self._drawn = self._live

    def end(self, tally: Tally, kept: int) -> None:
        """Report the end."""
        before = f"; {count(kept, 'answer')} kept from before" if kept else ""
        self._write(f"{tally.render()}{before}\n")

    def _write(self, text: str) -> None:
        erase = "\r\x1b[K" if self._drawn else ""
        with suppress(OSError):  # progress that nobody reads must not end the batch
            self._stream.write(erase + text)
            self._stream.flush()
