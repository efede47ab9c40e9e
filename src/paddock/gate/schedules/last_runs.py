"""The last run of each schedule, and whose turn it is to run it: in small files, or in rows that machines share."""

import hashlib
import json
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from paddock.foundation.files import hold_lock, replace_file
from paddock.foundation.own_files import NotOursError, check_directory, read_own
from paddock.model.errors import SdkError, StoreUnavailable
from paddock.model.ids import new_id
from paddock.policy.settings.schema import Settings

if TYPE_CHECKING:
    from paddock.cluster.blocking import BlockingDatabase

_MAX_FILE_BYTES = 100
KIND = "schedule"
HOLD_S = 30.0
"""Time after which a holder that does not renew its hold is taken for dead, in seconds."""
RENEW_S = 10.0
"""Time between two renewals, in seconds."""
_MAX_ROW_CHARS = 1000
_TAKE = (
    "insert into kept as row (kind, name, body) "
    "values (%s, %s, jsonb_build_object('holder', %s::text, 'until', extract(epoch from now()) + %s)) "
    "on conflict (kind, name) do update set body = row.body || excluded.body, version = row.version + 1 "
    "where row.body ->> 'holder' is null or case jsonb_typeof(row.body -> 'until') "
    "when 'number' then (row.body -> 'until')::numeric < extract(epoch from now()) else true end returning 1"
)
_RENEW = (
    "update kept set body = body || jsonb_build_object('until', extract(epoch from now()) + %s) "
    "where kind = %s and name = %s and body ->> 'holder' = %s"
)
_NOTE = (
    "update kept set body = body || jsonb_build_object('last', %s::text), version = version + 1 "
    "where kind = %s and name = %s and body ->> 'holder' = %s returning 1"
)
_RELEASE = (
    "update kept set body = body || jsonb_build_object('holder', null) "
    "where kind = %s and name = %s and body ->> 'holder' = %s"
)


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

    return partial(SharedLastRuns, BlockingDatabase(settings.cluster.url, name="paddock temporal"), state)


class LastRuns:
    """The last runs of a workspace: in its own directory, a small file and a lock for each schedule.

    Names of schedules are file names without a leading dot.
    """

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


class SharedLastRuns:
    """The last runs of a workspace, which has the same path on all machines, in rows of their database.

        {"last": "2030-01-01T03:00:00+00:00", "holder": "01JD...", "until": 1893466830.5}

    The process that runs a schedule holds its row for `HOLD_S` by the clock of the database, and renews that while the
    run lasts. A holder that died loses the row by then. Only the holder can record a run, which happens before it
    starts. So each due time runs once.
    """

    def __init__(self, database: "BlockingDatabase", state: Path, workspace: Path) -> None:
        """`state` is the directory where a single machine would keep them; users of a server have one each."""
        self._database = database
        place = f"{state.absolute()}\0{workspace.absolute()}"
        self._key = hashlib.sha256(place.encode()).hexdigest()[:32]
        self._holder = new_id()

    @contextmanager
    def turn(self, name: str) -> Generator[bool]:
        """Hold a schedule; yields False at once if another process holds it. Raises SdkError."""
        row = self._name_row(name)
        if not self._fetch(_TAKE, KIND, row, self._holder, HOLD_S):
            yield False
            return
        over = threading.Event()
        renewing = threading.Thread(target=self._keep_renewing, args=(row, over), daemon=True)
        renewing.start()
        try:
            yield True
        finally:
            over.set()
            renewing.join()
            with suppress(SdkError):  # then it ends by itself
                self._fetch(_RELEASE, KIND, row, self._holder)

    def last(self, name: str) -> datetime | None:
        """Return when a schedule last ran or was first seen; None for never. Raises SdkError for a damaged row."""
        rows = self._fetch(
            "select left(body::text, %s) from kept where kind = %s and name = %s",
            *(_MAX_ROW_CHARS, KIND, self._name_row(name)),
        )
        if not rows:
            return None
        try:
            last: object = json.loads(rows[0][0]).get("last")
            moment = None if last is None else datetime.fromisoformat(str(last))
        except (ValueError, AttributeError, RecursionError):
            message = f"the row of the temporal {name} in the database has no time; delete it to start again"
            raise SdkError(message) from None
        return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def note(self, name: str, moment: datetime) -> None:
        """Record a run; call it while holding the schedule. Raises SdkError, also if another process holds it now."""
        if not self._fetch(_NOTE, moment.isoformat(), KIND, self._name_row(name), self._holder):
            raise SdkError(
                f"temporal {name} did not run: another machine took over while this one did not answer"
            )

    def _name_row(self, name: str) -> str:
        return f"{self._key}/{name}"

    def _keep_renewing(self, row: str, over: threading.Event) -> None:
        while not over.wait(RENEW_S):
            with suppress(SdkError):  # the next renewal may succeed; meanwhile the hold may end
                self._fetch(_RENEW, HOLD_S, KIND, row, self._holder)

    def _fetch(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._database.fetch(query, values)
        except StoreUnavailable as error:
            raise SdkError(str(error)) from None
