"""What the database knows about the machines of a cluster."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from paddock.cluster.database import Database
from paddock.cluster.migrate import list_migrations, read_applied
from paddock.model.base import Value

LEASE_S = 10.0
"""Time after which a node that did not renew its lease is taken for dead, in seconds."""


class NodeStatus(Value):
    """One replica."""

    id: str
    url: str | None
    state: str
    """serving, draining, ended, or expired if its lease is over."""
    seen: datetime
    """When it renewed its lease last, by the clock of the database."""
    running: int
    """Number of its requests that are claimed and have not ended."""


class ClusterStatus(Value):
    """The state of the store."""

    applied: int
    """Number of the last applied migration; 0 for a database without tables."""
    newest: int
    """Number of the last migration that this version of Paddock has."""
    nodes: tuple[NodeStatus, ...] = ()
    runs: Mapping[str, int] = Field(default_factory=dict)
    """Number of requests by state."""
    records: int = 0
    """Number of shipped lines of ledgers."""
    checkpoint: int | None = None
    """Number of the last checkpoint."""


async def read_status(database: Database) -> ClusterStatus:
    """Return the state of the store. Raises StoreUnavailable."""
    applied, newest = await read_applied(database), list_migrations()[-1].number
    if applied < newest:
        return ClusterStatus(applied=applied, newest=newest)
    nodes = await database.fetch(
        "select id, url, case when state <> 'ended' and seen < now() - make_interval(secs => %s) then 'expired' "
        "else state end, seen, (select count(*) from run where run.node = node.id and run.state = 'started') "
        "from node order by id",
        (LEASE_S,),
    )
    runs = await database.fetch("select state, count(*) from run group by state order by state")
    [[records, checkpoint]] = await database.fetch(
        "select (select count(*) from record), (select max(n) from checkpoint)"
    )
    return ClusterStatus(
        applied=applied,
        newest=newest,
        nodes=tuple(
            NodeStatus(id=id_, url=url, state=state, seen=seen, running=running)
            for id_, url, state, seen, running in nodes
        ),
        runs=dict(runs),
        records=records,
        checkpoint=checkpoint,
    )
