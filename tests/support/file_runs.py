"""Claims in a file of one machine, or in the memory of one process, by SQLite."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, Self

from paddock.cluster.node import ClusterNode
from paddock.cluster.runs import Claim, OnSend, RunRow, Started, StoredEnd
from paddock.cluster.status import LEASE_S
from paddock.model.errors import StoreUnavailable

_BUSY_S = 5.0
"""Maximum time of waiting for another process, in seconds."""
_SCHEMA = """
pragma journal_mode = wal;
pragma synchronous = full;
create table if not exists node (boot text primary key, seen real not null);
create table if not exists run (
    tenant text not null, key text not null, attempt int not null, request text not null unique, digest blob not null,
    node text not null, boot text not null, state text not null, status text, outcome blob, primary key (tenant, key, attempt)
);
"""
_ALIVE = "exists (select 1 from node where node.boot = run.boot and node.seen > :now - :lease)"
_NAME = "tenant = :tenant and key = :key and attempt = :attempt"

_INSERT = """
insert into run (tenant, key, attempt, request, digest, node, boot, state)
values (:tenant, :key, :attempt, :request, :digest, :node, :boot, 'started')
on conflict do nothing returning 1"""
_READ = f"""
select attempt, request, digest, node, state, status, outcome, {_ALIVE} from run
where tenant = :tenant and key = :key and attempt = coalesce(:attempt, attempt) order by attempt desc limit 1"""
_LOSE = f"""
update run set state = 'lost'
where {_NAME} and state = 'started' and not {_ALIVE} returning 1"""
_FINISH = f"""
update run set state = 'finished', status = :status, outcome = :outcome
where {_NAME} and boot = :boot
    and (state = 'started' or (state = 'finished' and status = :status and outcome is :outcome)) returning 1"""
_FENCE = """
insert into run (tenant, key, attempt, request, digest, node, boot, state)
values (:tenant, :key, :attempt, :request, :digest, :node, :boot, 'fenced')
on conflict (tenant, key, attempt) do update set state = 'fenced'
where run.state = 'fenced' or (run.state = 'started' and run.request = excluded.request) returning 1"""
_RENEW = "insert into node values (:boot, :now) on conflict (boot) do update set seen = :now returning 1"


class FileRunStore:
    """Rows in a file, for the runs of one process; without a path in memory. Processes share the machine's clock."""

    def __init__(self, path: Path | None, node: ClusterNode, clock: Callable[[], float] = time.time) -> None:
        """Open or make the file. `clock` returns seconds. Raises StoreUnavailable."""
        self.node = node
        self._clock = clock
        self._turn = asyncio.Lock()
        try:
            if path is not None:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            self._database = sqlite3.connect(
                path or ":memory:", timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._database.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(_describe(error)) from None

    def share(self, node: ClusterNode) -> Self:
        """Return the same rows as another process sees them. They are closed together."""
        other = copy(self)
        other.node = node
        return other

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    async def renew(self) -> bool:
        """Renew the lease of this process. Raises StoreUnavailable."""
        return bool(await self._send(_RENEW, {}))

    async def insert(self, claim: Claim, attempt: int, on_send: OnSend) -> bool:
        """Follow `RunStore`."""
        return bool(await self._send(_INSERT, {**claim._asdict(), "attempt": attempt}, on_send))

    async def read(self, tenant: str, key: str, attempt: int | None) -> RunRow | None:
        """Follow `RunStore`."""
        rows = await self._send(_READ, {"tenant": tenant, "key": key, "attempt": attempt})
        if not rows:
            return None
        [(number, request, digest, node, state, status, outcome, alive)] = rows
        return RunRow(number, request, digest, node, state, status, outcome, bool(alive))

    async def lose(self, claim: Claim, row: RunRow) -> bool:
        """Follow `RunStore`."""
        return bool(await self._send(_LOSE, _name_row(claim, row)))

    async def finish(self, run: Started, end: StoredEnd) -> bool:
        """Follow `RunStore`."""
        name = {**run.claim._asdict(), "attempt": run.attempt}
        return bool(await self._send(_FINISH, {**name, **end._asdict()}))

    async def fence(self, claim: Claim, attempt: int) -> bool:
        """Follow `RunStore`."""
        return bool(await self._send(_FENCE, {**claim._asdict(), "attempt": attempt}))

    async def _send(
        self, query: str, values: dict[str, Any], on_send: OnSend | None = None
    ) -> list[tuple[Any, ...]]:
        async with self._turn:
            if on_send is not None:
                on_send()
            own = {"now": self._clock(), "lease": LEASE_S, "boot": self.node.boot, "node": self.node.id}
            try:
                return await asyncio.to_thread(
                    lambda: self._database.execute(query, {**values, **own}).fetchall()
                )
            except sqlite3.Error as error:
                raise StoreUnavailable(_describe(error)) from None


def _name_row(claim: Claim, row: RunRow) -> dict[str, Any]:
    return {**claim._asdict(), "attempt": row.attempt}


def _describe(error: Exception) -> str:
    return f"The file of claims cannot be used: {error}. Check its directory and the disk."
