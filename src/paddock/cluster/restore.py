"""Accept a database that was restored from a backup; `generation` describes what replicas did before."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cluster.database import MAX_STATEMENT_S, STATEMENT_S, Database
from paddock.cluster.generation import KEY_AGE_S, PURPOSE
from paddock.cluster.runs import KEY_PREFIX
from paddock.cluster.seals import Seals
from paddock.cluster.status import LEASE_S
from paddock.model.base import Value
from paddock.model.errors import ConfigurationError
from paddock.model.ids import new_id

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_POLL_S = 0.2


class RestorePlan(Value):
    """What accepting a restored database does."""

    generation: int
    """Number of the present generation."""
    next: int
    """Number of the generation that follows."""
    fence: str | None
    """Id of the finding that the database was restored; None if no replica has found that."""
    why: str | None
    noticed: datetime | None
    reported: tuple[str, ...]
    """Replicas that have entered what their ledgers know."""
    silent: tuple[str, ...]
    """Replicas that ran when the backup was made, or run now, and have not: their keys could start again."""
    keys: int
    """Number of requests that ran since the backup, from the ledgers. Their keys stay lost."""
    running: int
    """Number of requests that the database calls running. They become lost."""
    tokens: tuple[str, ...]
    """Names of the tokens that are valid afterwards."""
    removed_tokens: tuple[str, ...]
    """Names of tokens in the backup that were revoked after it. The reports have removed them."""
    damaged_tokens: tuple[str, ...]
    """Names of the tokens that no replica accepts: no key of `cluster.key_file` has sealed them."""


class _Report(NamedTuple):
    """A replica, and what it has reported."""

    node: str
    seen: datetime
    is_alive: bool
    fence: str
    number: int
    tokens: tuple[str, ...]


async def read_plan(database: Database, seals: Seals) -> RestorePlan:
    """Return what accepting the database would do now. Raises StoreUnavailable."""
    async with database.begin(MAX_STATEMENT_S, snapshot=True) as connection:
        return await _plan(connection, seals)


async def await_reports(database: Database, patience_s: float) -> None:
    """Wait until each living replica has reported, up to some seconds. Raises StoreUnavailable."""
    query = (
        "select count(*) from node, generation where node.state = 'serving' "
        f"and node.seen > now() - interval '{LEASE_S} s' "
        "and generation.fence is distinct from node.report ->> 'fence'"
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            while await database.fetch(query, timeout_s=STATEMENT_S) != [(0,)]:  # noqa: ASYNC110 - others write it
                await asyncio.sleep(_POLL_S)


async def accept_restore(
    database: Database, seals: Seals, planned: RestorePlan, without: Sequence[str] = ()
) -> RestorePlan:
    """Accept a restored database as `planned`, and return what was done. `without` names replicas that may be silent.

    Raises StoreUnavailable, and ConfigurationError if the state is not the planned one any more, or a replica is
    silent.
    """
    async with database.begin(MAX_STATEMENT_S) as connection:
        await connection.execute("select 1 from generation for update")
        plan = await _plan(connection, seals)
        if plan.fence is None or (plan.fence, plan.generation) != (planned.fence, planned.generation):
            raise ConfigurationError(
                f"the database is not in the state that was found before: it has generation {plan.generation} now, "
                "because another operator accepted it, or it was restored again; look at it with: "
                "paddock cluster accept-restore --dry-run"
            )
        if silent := [each for each in plan.silent if each not in without]:
            raise ConfigurationError(
                f"these replicas have not reported what they ran since the backup: {', '.join(silent)}; start them and "
                "run this again, or name each one that will not come back with --without: keys that it ran could then "
                "start again"
            )
        await connection.execute("update run set state = 'lost', ended = now() where state = 'started'")
        id_ = new_id()
        seal = seals.seal(PURPOSE, str(plan.next), id_)
        await connection.execute(
            "update generation set number = %s, id = %s, seal = %s, place = paddock_place(), accepted = now(), "
            "fence = null, fenced = null, why = null",
            (plan.next, id_, None if seal is None else seal.hex()),
        )
    return plan


async def _plan(connection: "AsyncConnection[tuple[Any, ...]]", seals: Seals) -> RestorePlan:
    cursor = await connection.execute("select number, fence, fenced, why from generation")
    [(number, fence, noticed, why)] = await cursor.fetchall()
    cursor = await connection.execute(
        "select id, seen, seen > now() - make_interval(secs => %s), report from node "
        "where state = 'serving' order by id",
        (LEASE_S,),
    )
    reports = [_read_report(*row) for row in await cursor.fetchall()]
    done = [each for each in reports if fence is not None and each.fence == fence]
    cursor = await connection.execute(
        "select count(*) filter (where state = 'started'), "
        "count(*) filter (where state = 'lost' and starts_with(key, %s) and ended >= %s) from run",
        (KEY_PREFIX, noticed),
    )
    [(running, keys)] = await cursor.fetchall()
    cursor = await connection.execute(
        "select name, body ->> 'token', body ->> 'seal' from kept where kind = 'token' order by name"
    )
    sound: list[str] = []
    damaged: list[str] = []
    for name, text, seal in await cursor.fetchall():
        with suppress(ValueError):
            if seals.accepts(bytes.fromhex(seal or ""), "token", name, text or ""):
                sound.append(name)
                continue
        damaged.append(name)
    return RestorePlan(
        generation=number,
        next=1 + max(number, *(each.number for each in done), 0),
        fence=fence,
        why=why,
        noticed=noticed,
        reported=tuple(each.node for each in done),
        silent=_select_silent([each for each in reports if each not in done]),
        keys=keys,
        running=running,
        tokens=tuple(sound),
        removed_tokens=tuple(sorted({name for each in done for name in each.tokens})),
        damaged_tokens=tuple(damaged),
    )


def _read_report(node: str, seen: datetime, is_alive: bool, report: dict[str, Any] | None) -> _Report:
    if report is None:
        return _Report(node, seen, is_alive, "", 0, ())
    return _Report(node, seen, is_alive, report["fence"], report["number"], tuple(report["tokens"]))


def _select_silent(others: Sequence[_Report]) -> tuple[str, ...]:
    """Return those of the replicas without a report that live, or lived in the last day before the backup.

    The newest renewal of a replica that is away shows when the backup was made.
    """
    ended = [each.seen for each in others if not each.is_alive]
    since = max(ended) - timedelta(seconds=KEY_AGE_S) if ended else datetime.max.replace(tzinfo=UTC)
    return tuple(each.node for each in others if each.is_alive or each.seen >= since)
