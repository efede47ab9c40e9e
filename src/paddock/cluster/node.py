"""The entry of this process in the table of nodes."""

import hashlib
from typing import NamedTuple

from paddock.cluster.clock import ClockCheck
from paddock.cluster.database import Database
from paddock.cluster.generation import ROW, Generation, GenerationRow
from paddock.cluster.migrate import check_tables
from paddock.cluster.seals import NO_SEALS, Seals
from paddock.cluster.status import LEASE_S
from paddock.model.errors import ConfigurationError, StoreUnavailable

MARK_CHARS = 16
PURPOSE = "node"
"""Purpose of the seal of an address: replicas send the tokens of their users there."""
CONNECT_S = 2.0
"""Maximum time until the connection of the lease is there, in seconds."""
_STATEMENT_S = 4.0
"""Maximum time of a renewal, in seconds."""

# An earlier process of this name may run until its own lease is over. A row with an earlier beat than the last one of
# this process is that of a backup, whatever process it names.
_RENEW = f"""
insert into node (id, boot, url, seal, beat) values (%s, %s, %s, %s, nextval('node_beat'))
on conflict (id) do update set
    boot = excluded.boot, url = excluded.url, seal = excluded.seal, state = 'serving', seen = now(),
    beat = excluded.beat,
    others_until = case when node.boot = excluded.boot or node.state = 'ended' then node.others_until
        else greatest(node.others_until, node.seen + interval '{LEASE_S} s') end
where node.boot = excluded.boot or %s or node.beat < %s
returning beat, (select before.beat from node as before where before.id = node.id), {ROW},
    extract(epoch from clock_timestamp())::float8"""
_END = "update node set state = 'ended', seen = now() where id = %s and boot = %s"


class ClusterNode(NamedTuple):
    """One process of a cluster."""

    id: str
    """Name of the machine or replica: `cluster.node`."""
    boot: str
    """Id of the process."""
    url: str | None = None
    """Address at which other replicas reach it: `cluster.node_url`."""

    @property
    def mark(self) -> str:
        """What names it in handles; empty if others do not reach it."""
        return "" if self.url is None else compute_mark(self.boot)


def compute_mark(boot: str) -> str:
    """Return the mark of a process in handles: 16 hexadecimal digits."""
    return hashlib.sha256(f"mark {boot}".encode()).hexdigest()[:MARK_CHARS]


class NodeLease:
    """The row of this process, with the time of its last renewal."""

    def __init__(
        self,
        database: Database,
        node: ClusterNode,
        seals: Seals = NO_SEALS,
        generation: Generation | None = None,
    ) -> None:
        """Use `database` for nothing else. `generation` compares what each renewal finds with what it knows."""
        self._database = database
        self._node = node
        self._generation = generation
        self._seal = None if node.url is None else seals.seal(PURPOSE, node.id, node.boot, node.url)
        self._begun = False
        self.clock = ClockCheck()
        """Compares the clocks at each renewal."""

    async def renew(self) -> bool:
        """Renew the lease, and return False if another process has the name of this one now.

        The first renewal takes the name from an earlier process, which then gets no further lease. Raises
        StoreUnavailable, and ConfigurationError for a database that lacks tables or may forget what it committed.
        """
        known = self._generation
        if not self._begun or (known is not None and known.is_doubtful):
            await check_tables(self._database)
            await check_durability(self._database)
        own = (self._node.id, self._node.boot, self._node.url, self._seal)
        values = (*own, not self._begun, 0 if known is None else known.beat)
        sent = self.clock.now()
        try:
            rows = await self._database.fetch(_RENEW, values, timeout_s=_STATEMENT_S)
            for beat, before, row, at in rows:
                self._begun = True
                self.clock.compare(sent, at, self.clock.now())
                if known is not None:
                    await known.judge(beat, before, None if row is None else GenerationRow(**row))
        except StoreUnavailable:
            if known is not None:
                known.doubt()
            raise
        return bool(rows)

    async def end(self) -> None:
        """Give up the lease: nothing of this process runs any more. Raises StoreUnavailable."""
        await self._database.fetch(_END, (self._node.id, self._node.boot), timeout_s=_STATEMENT_S)


async def check_durability(database: Database) -> None:
    """Raise ConfigurationError if the database may forget a claim that it committed, so that it starts twice."""
    [[value]] = await database.fetch("show synchronous_commit", timeout_s=_STATEMENT_S)
    if value == "off":
        raise ConfigurationError(
            "the database of cluster.url has synchronous_commit = off: after a crash it would forget claims, and "
            "requests would run twice; set it to on, at least for this database: "
            "alter database NAME set synchronous_commit = on"
        )
