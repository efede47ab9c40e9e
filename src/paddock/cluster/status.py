"""What the database knows about the machines of a cluster."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import Field

from paddock.cluster.database import Database
from paddock.cluster.migrate import list_migrations, read_applied, select_missing
from paddock.model.base import Value

State = Literal["started", "finished", "lost", "fenced"]
"""State of a request; `fenced` is one that never starts."""
LEASE_S = 10.0
"""Time after which a node that did not renew its lease is taken for dead, in seconds."""
_RUN_S = 2.0
"""Maximum time of a look for one request, in seconds."""
OWN_VERSION = "node.version_boot is not distinct from node.boot"
"""Whether the process of a row of `node` has described itself. A process of an older version may have taken it over."""
LIST_OLDER = f"""
select id from node where state = 'serving' and seen + interval '{LEASE_S} s' > now()
    and not ({OWN_VERSION} and coalesce(migration, 0) >= %s) order by id limit 100"""
"""Selects the living replicas that do not have the migration of a number."""


class NodeStatus(Value):
    """One replica."""

    id: str
    url: str | None
    state: str
    """serving, ended, or expired if its lease is over."""
    seen: datetime
    """When it renewed its lease last, by the clock of the database."""
    running: int
    """Number of its requests that are claimed and have not ended."""
    version: str | None = None
    """Version of Paddock that it runs; None for one before versions were kept."""


class ClusterStatus(Value):
    """The state of the store."""

    applied: int
    """Number of the last applied migration; 0 for a database without tables."""
    newest: int
    """Number of the last migration that this version of Paddock has."""
    missing: tuple[str, ...] = ()
    """Migrations that this version needs and the tables lack."""
    contracts: tuple[str, ...] = ()
    """Contract steps that are not applied: older versions can use the tables until then."""
    waits_for: tuple[str, ...] = ()
    """Living replicas of older versions, at most 100. While there are any, no contract step can be applied."""
    nodes: tuple[NodeStatus, ...] = ()
    runs: Mapping[str, int] = Field(default_factory=dict)
    """Number of requests by state."""
    records: int = 0
    """Number of shipped lines of ledgers."""
    checkpoint: int | None = None
    """Number of the last checkpoint."""
    restored: str | None = None
    """Why replicas call the database restored, until an operator accepts it."""


class RunStatus(Value):
    """A request that was claimed."""

    request: str
    """Its id in the record of its node."""
    tenant: str
    """Its caller."""
    key: str
    """What the caller calls it; its id without an `Idempotency-Key`."""
    attempt: int
    state: State
    status: str | None
    """Status of its outcome, once it has finished."""
    node: str | None
    """The replica that started it."""
    started: datetime
    ended: datetime | None
    """When it ended, or was found to be lost."""


class EndedRun(NamedTuple):
    """What became of a request with effects whose replica does not have it any more."""

    state: State
    started: datetime
    status: str | None
    outcome: str | None
    """The outcome as JSON; None if it was too large, or there is none yet."""


async def read_runs(database: Database, state: State | None, limit: int) -> list[RunStatus]:
    """Return the newest requests in a state, or in any for None. Raises StoreUnavailable."""
    rows = await database.fetch(
        "select request, tenant, key, attempt, state, status, node, started, ended from run "
        "where %s::text is null or state = %s::text order by started desc limit %s",
        (state, state, limit),
    )
    names = [*RunStatus.model_fields]
    return [RunStatus(**dict(zip(names, row, strict=True))) for row in rows]


async def read_run(database: Database, tenant: str, request: str) -> EndedRun | None:
    """Return the row of a request of a caller, by its id; None without one. Raises StoreUnavailable."""
    rows = await database.fetch(
        "select state, started, status, outcome from run where tenant = %s and request = %s",
        (tenant, request),
        timeout_s=_RUN_S,
    )
    return EndedRun(*rows[0]) if rows else None


async def read_status(database: Database) -> ClusterStatus:
    """Return the state of the store. Raises StoreUnavailable."""
    known = await read_applied(database)
    applied, newest = max(known, default=0), list_migrations()[-1].number
    lacking = select_missing(known)
    missing = tuple(each.name for each in lacking if not each.is_contract)
    steps = [each for each in lacking if each.is_contract]
    contracts = tuple(each.name for each in steps)
    if missing:
        return ClusterStatus(applied=applied, newest=newest, missing=missing, contracts=contracts)
    nodes = await database.fetch(
        "select id, url, case when state <> 'ended' and seen < now() - make_interval(secs => %s) then 'expired' "
        "else state end, seen, (select count(*) from run where run.node = node.id and run.state = 'started'), "
        f"case when {OWN_VERSION} then version end from node order by id",
        (LEASE_S,),
    )
    older = await database.fetch(LIST_OLDER, (steps[-1].number,)) if steps else []
    runs = await database.fetch("select state, count(*) from run group by state order by state")
    [[records, checkpoint, restored]] = await database.fetch(
        "select (select count(*) from record), (select max(n) from checkpoint), "
        "(select why from generation where fence is not null)"
    )
    return ClusterStatus(
        applied=applied,
        newest=newest,
        contracts=contracts,
        waits_for=tuple(id_ for (id_,) in older),
        nodes=tuple(
            NodeStatus(id=id_, url=url, state=state, seen=seen, running=running, version=version)
            for id_, url, state, seen, running, version in nodes
        ),
        runs=dict(runs),
        records=records,
        checkpoint=checkpoint,
        restored=restored,
    )
