"""Claims in PostgreSQL. The time is always that of the database."""

from typing import Any

from paddock.cluster.database import STATEMENT_S, Database
from paddock.cluster.generation import INSTANCE, Generation
from paddock.cluster.node import ClusterNode
from paddock.cluster.runs import KEY_PREFIX, Claim, OnSend, RunRow, Started, StoredEnd, hash_key
from paddock.cluster.status import LEASE_S

ALIVE = f"""exists (select from node where node.id = run.node and case when node.boot = run.boot
    then node.state <> 'ended' and node.seen + interval '{LEASE_S} s' > now() else node.others_until > now() end)"""
"""Whether the process that started a row of `run` may still be alive."""
_NAME = "tenant = %s and key = %s and attempt = %s"

# It makes no row for a process that another one of the same name has replaced, for a key that a ledger knows to have
# run, and in a database that was restored, or was not compared yet: the check must be in the same statement.
_INSERT = f"""
insert into run (tenant, key, attempt, request, digest, node, boot, state)
select %s, %s, %s, %s, %s, node.id, node.boot, 'started' from node where id = %s and boot = %s and beat >= %s
    and (%s::text is null or exists (select from generation where id = %s and fence is null and {INSTANCE} = %s))
    and not exists (select from run where tenant = %s and key = %s)
on conflict do nothing returning 1"""
_READ = f"""
select attempt, request, digest, coalesce(node, ''), state, status, outcome, {ALIVE} from run
where tenant = %s and ((key = %s and (%s::int is null or attempt = %s::int)) or key = %s)
order by key = %s desc, attempt desc limit 1"""
_LOSE = f"""
update run set state = 'lost', ended = now()
where {_NAME} and state = 'started' and not {ALIVE} returning 1"""
_FINISH = f"""
update run set state = 'finished', status = %s, outcome = %s, ended = now()
where {_NAME} and node = %s and boot = %s
    and (state = 'started' or (state = 'finished' and status = %s and outcome is not distinct from %s)) returning 1"""
_FENCE = """
insert into run (tenant, key, attempt, request, digest, state, ended) values (%s, %s, %s, %s, %s, 'fenced', now())
on conflict (tenant, key, attempt) do update set state = 'fenced', ended = now()
where run.state = 'fenced' or (run.state = 'started' and run.request = excluded.request) returning 1"""


class PostgresRunStore:
    """Rows in the table `run`, for the runs of one process."""

    def __init__(self, database: Database, node: ClusterNode, generation: Generation | None = None) -> None:
        """Claim nothing in a database that is not the one that `generation` knows."""
        self._database = database
        self._node = node
        self._generation = generation

    async def insert(self, claim: Claim, attempt: int, on_send: OnSend) -> bool:
        """Follow `RunStore`."""
        known = self._generation
        if known is not None:
            await known.settle()
        beat, generation, instance = (
            (0, None, None) if known is None else (known.beat, known.id, known.instance)
        )
        values = (
            *(claim.tenant, claim.key, attempt, claim.request, claim.digest),
            *(self._node.id, self._node.boot, beat, generation, generation, instance),
            *(claim.tenant, KEY_PREFIX + claim.sha256),
        )
        return bool(await self._send(_INSERT, values, on_send))

    async def read(self, tenant: str, key: str, attempt: int | None) -> RunRow | None:
        """Follow `RunStore`."""
        entered = KEY_PREFIX + hash_key(tenant, key)
        rows = await self._send(_READ, (tenant, key, attempt, attempt, entered, entered))
        if not rows:
            return None
        [(number, request, digest, node, state, status, outcome, alive)] = rows
        told = None if outcome is None else outcome.encode()
        return RunRow(number, request, bytes(digest), node, state, status, told, alive)

    async def lose(self, claim: Claim, row: RunRow) -> bool:
        """Follow `RunStore`."""
        return bool(await self._send(_LOSE, (claim.tenant, claim.key, row.attempt)))

    async def finish(self, run: Started, end: StoredEnd) -> bool:
        """Follow `RunStore`."""
        name = (run.claim.tenant, run.claim.key, run.attempt)
        outcome = None if end.outcome is None else end.outcome.decode()
        told, own = (end.status, outcome), (self._node.id, self._node.boot)
        return bool(await self._send(_FINISH, (*told, *name, *own, *told)))

    async def fence(self, claim: Claim, attempt: int) -> bool:
        """Follow `RunStore`."""
        values = (claim.tenant, claim.key, attempt, claim.request, claim.digest)
        return bool(await self._send(_FENCE, values))

    async def _send(
        self, query: str, values: tuple[object, ...], on_send: OnSend | None = None
    ) -> list[tuple[Any, ...]]:
        async with self._database.connect(STATEMENT_S) as connection:
            if on_send is not None:
                on_send()
            cursor = await connection.execute(query.encode(), values)
            return await cursor.fetchall()
