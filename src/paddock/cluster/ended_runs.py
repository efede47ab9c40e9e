"""What became of a request with effects whose replica does not have it any more."""

from datetime import datetime
from typing import NamedTuple

from paddock.cluster.database import Database
from paddock.cluster.runs import State

_STATEMENT_S = 2.0
_QUERY = "select state, started, status, outcome from run where tenant = %s and request = %s"


class EndedRun(NamedTuple):
    """The row of a request."""

    state: State
    started: datetime
    status: str | None
    outcome: str | None
    """The outcome as JSON; None if it was too large, or there is none yet."""


async def read_run(database: Database, tenant: str, request: str) -> EndedRun | None:
    """Return the row of a request of a caller, by its id; None without one. Raises StoreUnavailable."""
    rows = await database.fetch(_QUERY, (tenant, request), timeout_s=_STATEMENT_S)
    return EndedRun(*rows[0]) if rows else None
