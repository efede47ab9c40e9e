"""When each schedule last ran, and the turn that only one process has at a time. One small file for each."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from paddock.model.errors import SdkError

_LENGTH = 100


class Moments:
    """The schedules of one workspace, in a directory of its own. Names must be file names without a dot in front."""

    def __init__(self, state: Path, workspace: Path) -> None:
        self._directory = state / hashlib.sha256(str(workspace.absolute()).encode()).hexdigest()[:16]

    @contextmanager
    def turn(self, name: str) -> Generator[bool]:
        """Hold the one turn of a schedule; yields False at once when somebody holds it. Raises SdkError."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = (self._directory / f"{name}.lock").open("ab")
        except OSError as problem:
            raise SdkError(f"{self._directory}: cannot be written: {problem.strerror}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def last(self, name: str) -> datetime | None:
        """Return when a schedule was last run or first seen; None when never. Raises SdkError for a damaged file."""
        path = self._directory / name
        try:
            with path.open("rb") as file:
                moment = datetime.fromisoformat(file.read(_LENGTH).decode().strip())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as problem:
            raise SdkError(f"{path}: this is no moment ({problem}); remove the file to begin anew") from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def note(self, name: str, moment: datetime) -> None:
        """Note when a schedule runs; call it in its turn. It is on the disk when this returns. Raises SdkError."""
        try:
            with tempfile.NamedTemporaryFile("w", dir=self._directory, prefix=".", delete=False) as file:
                file.write(moment.isoformat() + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(self._directory / name)
        except OSError as problem:
            raise SdkError(f"{self._directory}: cannot be written: {problem.strerror}") from None
