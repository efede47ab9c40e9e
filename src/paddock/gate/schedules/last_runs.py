"""The last run of each schedule, and a lock that one process holds during a run. One small file for each schedule."""

import hashlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from paddock.foundation.files import hold_lock, replace_file
from paddock.foundation.own_files import NotOursError, check_directory, read_own
from paddock.model.errors import SdkError
from paddock.policy.settings.schema import Settings

_MAX_FILE_BYTES = 100


class ScheduleRuns(Protocol):
    """When the schedules of a workspace last ran, and whose turn it is to run one. Its methods may block."""

    def turn(self, name: str) -> AbstractContextManager[bool]:
        """Hold a schedule during the context; yields False at once if another process holds it. Raises SdkError."""
        ...

    def last(self, name: str) -> datetime | None:
        """Return when a schedule last ran or was first seen; None for never. Raises SdkError."""
        ...

    def note(self, name: str, moment: datetime) -> None:
        """Record a run; call it while holding the schedule. Raises SdkError."""
        ...


FindRuns = Callable[[Path], ScheduleRuns]
"""Returns the last runs of a workspace."""


def choose_runs(settings: Settings) -> FindRuns:
    """Return where last runs are kept: in files, or in a database that several machines share."""
    state = settings.sdk.temporals
    if settings.cluster.url is None:
        return partial(LastRuns, state)
    from paddock.cluster.blocking import BlockingDatabase
    from paddock.gate.schedules.shared_last_runs import SharedLastRuns

    return partial(SharedLastRuns, BlockingDatabase(settings.cluster.url, name="paddock temporal"), state)


class LastRuns:
    """The last runs of a workspace, in its own directory. Names of schedules are file names without a leading dot."""

    def __init__(self, state: Path, workspace: Path) -> None:
        self.directory = state / hashlib.sha256(str(workspace.absolute()).encode()).hexdigest()[:16]

    @contextmanager
    def turn(self, name: str) -> Generator[bool]:
        """Hold the lock of a schedule; yields False at once if another process holds it. Raises SdkError."""
        with ExitStack() as held:
            try:
                mine = held.enter_context(hold_lock(self.directory / f"{name}.lock", wait=False))
            except OSError as problem:
                where = problem.filename or self.directory
                raise SdkError(f"{where}: cannot be written: {problem.strerror}") from None
            yield mine

    def last(self, name: str) -> datetime | None:
        """Return when a schedule last ran or was first seen; None for never. Raises SdkError for a damaged file."""
        path = self.directory / name
        try:
            check_directory(self.directory)
            moment = datetime.fromisoformat(read_own(path, _MAX_FILE_BYTES).decode().strip())
        except FileNotFoundError:
            return None
        except NotOursError as problem:
            raise SdkError(f"{problem.filename}: cannot be read: {problem.strerror}") from None
        except (OSError, ValueError) as problem:
            raise SdkError(
                f"{path}: this is not a time ({problem}); remove the file to start again"
            ) from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def note(self, name: str, moment: datetime) -> None:
        """Record a run; call it while holding the lock. Returns after the record is on disk. Raises SdkError."""
        try:
            replace_file(self.directory / name, (moment.isoformat() + "\n").encode())
        except OSError as problem:
            raise SdkError(f"{self.directory}: cannot be written: {problem.strerror}") from None
