"""The entry of this process in the table of nodes."""

import asyncio
import hashlib
from typing import Any, NamedTuple

from paddock._version import __version__
from paddock.cluster.clock import ClockCheck
from paddock.cluster.database import Statements
from paddock.cluster.generation import INSTANCE, ROW, Generation, GenerationRow
from paddock.cluster.migrate import check_tables, list_migrations
from paddock.cluster.seals import NO_SEALS, Seals
from paddock.cluster.status import LEASE_S
from paddock.model.errors import ConfigurationError, StoreUnavailable

MARK_CHARS = 16
PURPOSE = "node"
"""Purpose of the seal of an address: replicas send the tokens of their users there."""
_STATEMENT_S = 3.0
"""Maximum time of a renewal, in seconds: after it there is time for another one on a new connection."""

# An earlier process of this name may run until its own lease is over. A row with an earlier beat than the last one of
# this process is that of a backup, whatever process it names.
_RENEW = f"""
with renewed as (
    insert into node (id, boot, url, seal, version, migration, version_boot, beat)
    values (%s, %s, %s, %s, %s, %s, %s, nextval('node_beat'))
    on conflict (id) do update set
        boot = excluded.boot, url = excluded.url, seal = excluded.seal, state = 'serving', seen = now(),
        version = excluded.version, migration = excluded.migration, version_boot = excluded.version_boot,
        beat = excluded.beat,
        others_until = case when node.boot = excluded.boot or node.state = 'ended' then node.others_until
            else greatest(node.others_until, node.seen + interval '{LEASE_S} s') end
    where node.boot = excluded.boot or %s or node.beat < %s returning id, beat)
select exists (select from node where state = 'serving' and seen <= now() - interval '{LEASE_S} s'
    and id <> renewed.id), exists (select from chain where seq > signed),
    renewed.beat, (select before.beat from node as before where before.id = renewed.id), {ROW},
    extract(epoch from clock_timestamp())::float8, {INSTANCE} from renewed"""
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


class Renewal(NamedTuple):
    """What a replica reads with each renewal of its lease, which is the only statement that it repeats all the time."""

    has_expired: bool
    """Whether the lease of another replica is over, and its requests are not marked as lost yet."""
    has_unsigned: bool
    """Whether the database has records that no checkpoint covers."""
    beat: int
    """Number of this renewal; those of a database only grow."""
    beat_before: int | None
    """Number of the renewal before it of a process with this name."""
    generation: dict[str, Any] | None
    """Fields of `GenerationRow`."""
    at: float
    """Time of the database, in seconds since the epoch."""
    instance: str
    """The process of the database; see `Generation.judge`."""


class NodeLease:
    """The row of this process, with the time of its last renewal."""

    def __init__(
        self,
        database: Statements,
        node: ClusterNode,
        seals: Seals = NO_SEALS,
        generation: Generation | None = None,
    ) -> None:
        """Use `database` for nothing else. `generation` compares what each renewal finds with what it knows."""
        self._database = database
        self._newest = list_migrations()[-1].number
        self.others_expired = asyncio.Event()
        """Set by a renewal while the lease of another replica is over; its reader clears it."""
        self.records_unsigned = asyncio.Event()
        """Set by a renewal while there are records that no checkpoint covers; its reader clears it."""
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
        values = (
            *own,
            __version__,
            self._newest,
            self._node.boot,
            not self._begun,
            0 if known is None else known.beat,
        )
        sent = self.clock.now()
        try:
            rows = await self._database.fetch(_RENEW, values, timeout_s=_STATEMENT_S)
            if not rows:
                return False
            self._begun = True
            renewal = Renewal(*rows[0])
            self.clock.compare(sent, renewal.at, self.clock.now())
            await self._note(renewal)
        except StoreUnavailable:
            if known is not None:
                known.doubt()
            raise
        return True

    async def _note(self, renewal: Renewal) -> None:
        if renewal.has_expired:
            self.others_expired.set()
        if renewal.has_unsigned:
            self.records_unsigned.set()
        if self._generation is not None:
            row = None if renewal.generation is None else GenerationRow(**renewal.generation)
            await self._generation.judge(renewal.beat, renewal.beat_before, row, renewal.instance)

    async def end(self) -> None:
        """Give up the lease: nothing of this process runs any more. Raises StoreUnavailable."""
        await self._database.fetch(_END, (self._node.id, self._node.boot), timeout_s=_STATEMENT_S)


async def check_durability(database: Statements) -> None:
    """Raise ConfigurationError if the database may forget a claim that it committed, so that it starts twice."""
    [[value]] = await database.fetch("show synchronous_commit", timeout_s=_STATEMENT_S)
    if value == "off":
        raise ConfigurationError(
            "the database of cluster.url has synchronous_commit = off: after a crash it would forget claims, and "
            "requests would run twice; set it to on, at least for this database: "
            "alter database NAME set synchronous_commit = on"
        )
