"""When each schedule last ran, and the turn that only one process has at a time. One small file for each."""

import hashlib
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from paddock.files import hold_lock, replace_file
from paddock.model.errors import SdkError
from paddock.own_files import NotOursError, check_directory, read_own

_MAX_FILE_BYTES = 100


class LastRuns:
    """The last runs of a workspace, in a directory of its own. Schedules have names of files without a dot in front."""

    def __init__(self, state: Path, workspace: Path) -> None:
        self._directory = state / hashlib.sha256(str(workspace.absolute()).encode()).hexdigest()[:16]

    @contextmanager
    def turn(self, name: str) -> Generator[bool]:
        """Hold the one turn of a schedule; yields False at once when somebody holds it. Raises SdkError."""
        with ExitStack() as held:
            try:
                mine = held.enter_context(hold_lock(self._directory / f"{name}.lock", wait=False))
            except OSError as problem:
                where = problem.filename or self._directory
                raise SdkError(f"{where}: cannot be written: {problem.strerror}") from None
            yield mine

    def last(self, name: str) -> datetime | None:
        """Return when a schedule was last run or first seen; None when never. Raises SdkError for a damaged file."""
        path = self._directory / name
        try:
            check_directory(self._directory)
            moment = datetime.fromisoformat(read_own(path, _MAX_FILE_BYTES).decode().strip())
        except FileNotFoundError:
            return None
        except NotOursError as problem:
            raise SdkError(f"{problem.filename}: cannot be read: {problem.strerror}") from None
        except (OSError, ValueError) as problem:
            raise SdkError(f"{path}: this is no moment ({problem}); remove the file to begin anew") from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def note(self, name: str, moment: datetime) -> None:
        """Note when a schedule runs; call it in its turn. It is on the disk when this returns. Raises SdkError."""
        try:
            replace_file(self._directory / name, (moment.isoformat() + "\n").encode())
        except OSError as problem:
            raise SdkError(f"{self._directory}: cannot be written: {problem.strerror}") from None
