"""Verify a ledger in a thread, one verification at a time, and keep the last result."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from paddock.model.errors import LedgerError
from paddock.record.ledger.verify import Report, verify


class Progress(NamedTuple):
    """How far a verification is."""

    done: int
    """Number of bytes that were checked."""
    total: int


class Verdict(NamedTuple):
    """The result of a verification."""

    began_at: float
    """In seconds since the epoch."""
    seconds: float
    """How long it took."""
    report: Report | None
    """None if the ledger could not be read."""
    problem: str = ""
    """Why it could not be read."""


class LedgerVerification:
    """The verifications of one ledger by this process."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns seconds since the epoch."""
        self._directory = directory
        self._clock = clock
        self._lock = threading.Lock()
        self.progress: Progress | None = None
        """How far the present verification is; None if there is none."""
        self.last: Verdict | None = None
        """The last result; None before the first one."""

    def start(self) -> bool:
        """Begin a verification; return False if one is under way. Its thread does not keep the process alive."""
        with self._lock:
            if self.progress is not None:
                return False
            self.progress = Progress(0, 0)
        threading.Thread(target=self._verify, name="paddock-verify", daemon=True).start()
        return True

    def _verify(self) -> None:
        began_at, began = self._clock(), time.monotonic()
        report, problem = None, "the verification failed; the log of the server has the details"
        try:
            report, problem = verify(self._directory, self._report_progress), ""
        except LedgerError as error:
            problem = str(error)
        finally:
            self.last = Verdict(began_at, time.monotonic() - began, report, problem)
            self.progress = None

    def _report_progress(self, done: int, total: int) -> None:
        self.progress = Progress(done, total)
