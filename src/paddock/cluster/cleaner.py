"""Note what is over, and delete what is old. Any replica may do it; one at a time deletes."""

import time
from collections.abc import Callable
from typing import Final

from paddock.cluster.database import STATEMENT_S, Database
from paddock.cluster.postgres_runs import ALIVE
from paddock.cluster.status import LEASE_S

BATCH_ROWS: Final = 1000
"""Maximum number of rows that one statement deletes: longer ones would hold locks, and a connection, for too long."""
_LOCK = 0x7061646432  # "padd2"
_BATCH_S = 30.0
"""Maximum time of one batch, in seconds."""

_EXPIRE_LOCK = 0x7061646433  # "padd3"
# All replicas notice an expired lease in the same seconds, and one of them does this. It is one statement: a replica
# that freezes between two would keep the lock. A row that is locked is being renewed. The lease of a replica must not
# wait for this statement, nor this one for it.
_EXPIRE = f"""
with one as materialized (select pg_try_advisory_xact_lock({_EXPIRE_LOCK}) as is_this),
lost as (update run set state = 'lost', ended = now() from one
    where is_this and state = 'started' and not pure and not {ALIVE} returning request, coalesce(node, '')),
expired as (update node set state = 'expired' where id in (select id from node, one
    where is_this and state = 'serving' and seen <= now() - interval '{LEASE_S} s' for update of node skip locked))
select * from lost"""
_NOW = "least(now(), to_timestamp(%(own)s))"
"""The time by the clock of the database or of this machine, whichever is behind: a clock that jumps forward must not
make keys new again."""
# What ended a day ago has started before, so that the index `run_by_age` finds it. Without an earlier attempt, the key
# would be new: what is fenced off stays until the attempt after it is forgotten.
_FORGET = f"""
delete from run where request in (select request from run where started < {_NOW} - interval '24 h' and (
        (state = 'finished' and ended < {_NOW} - interval '24 h')
        or (state = 'lost' and ended < {_NOW} - interval '30 days')
        or (state = 'fenced' and ended < {_NOW} - interval '24 h' and not exists (select from run as later
            where later.tenant = run.tenant and later.key = run.key and later.attempt > run.attempt)))
    order by started limit {BATCH_ROWS} for update skip locked) returning 1"""
_FORGET_NODES = f"delete from node where seen < {_NOW} - interval '30 days'"


class Cleaner:
    """Cleans one database. Every method raises StoreUnavailable."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns seconds since the epoch."""
        self._database = database
        self._clock = clock

    async def expire(self) -> list[tuple[str, str]]:
        """Mark requests with effects whose leases are over as lost, and their replicas as expired.

        Return the ids of these requests with the names of the replicas; nothing if another replica does so now.
        """
        lost = await self._database.fetch(_EXPIRE, timeout_s=STATEMENT_S)
        return [(request, node) for request, node in lost]

    async def forget_old(self) -> None:
        """Delete what ended long ago, unless another replica does so now.

        Keys are remembered for 24 hours, lost requests and dead nodes for 30 days.
        """
        while await self._delete_batch() == BATCH_ROWS:
            pass

    async def _delete_batch(self) -> int:
        async with self._database.begin(_BATCH_S) as connection:
            cursor = await connection.execute("select pg_try_advisory_xact_lock(%s)", (_LOCK,))
            if await cursor.fetchall() != [(True,)]:
                return 0
            own = {"own": self._clock()}
            cursor = await connection.execute(_FORGET.encode(), own)
            deleted = len(await cursor.fetchall())
            await connection.execute(_FORGET_NODES.encode(), own)
            return deleted
