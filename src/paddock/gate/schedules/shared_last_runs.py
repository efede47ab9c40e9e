"""The last run of each schedule, and whose turn it is, in rows that several machines share: each due time runs once.

    {"last": "2030-01-01T03:00:00+00:00", "holder": "01JD...", "until": 1893466830.5}

The process that runs a schedule holds its row for `HOLD_S` by the clock of the database, and renews that while the run
lasts. A holder that died loses the row by then. Only the holder can record a run, which happens before it starts.
"""

import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.model.errors import SdkError, StoreUnavailable
from paddock.model.ids import new_id

if TYPE_CHECKING:
    from paddock.cluster.blocking import BlockingDatabase

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


class SharedLastRuns:
    """The last runs of a workspace, which has the same path on all machines; see `ScheduleRuns`."""

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
