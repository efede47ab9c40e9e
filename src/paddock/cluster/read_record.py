"""Read the record of a cluster: the records of all nodes in the order of their times."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paddock.cluster.database import Database
from paddock.model import ids
from paddock.model.base import Json
from paddock.record.ledger.line_format import find_record
from paddock.record.ledger.search import RecordFilter
from paddock.record.ledger.sink import AuditRecord

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_FETCHED_ROWS: Final = 200
_FOLLOWED_ROWS: Final = 1000
"""Maximum number of new records of a chain in one round of `follow_records`."""
_ID_WINDOW_S: Final = 10.0
"""Maximum distance of a record's time from the time in its id, in seconds."""


class NodeRecord(NamedTuple):
    """A record and the node that wrote it."""

    node: str
    record: AuditRecord

    def dump(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {"node": self.node, **self.record.model_dump(mode="json")}


class _Key(NamedTuple):
    """Place of a record in the order of time."""

    ts: datetime
    node: str
    chain: str
    seq: int


class RecordReader:
    """Reads one state of the record; see `open_record`."""

    def __init__(self, connection: "AsyncConnection[tuple[Any, ...]]") -> None:
        self._connection = connection

    async def read(self, wanted: RecordFilter, *, limit: int | None = None) -> AsyncGenerator[NodeRecord]:
        """Yield the newest `limit` matching records, the oldest of them first. Memory does not depend on the limit.

        Lines that are not intact records are skipped, because they prove nothing; the verifier reports them.
        """
        first = None
        if limit is not None:
            passed = 0
            async for key, _ in self._scan(wanted, newest_first=True):
                first = key
                passed += 1
                if passed == limit:
                    break
            if first is None:
                return
        async for _, found in self._scan(wanted, newest_first=False, first=first):
            yield found

    async def _scan(
        self, wanted: RecordFilter, *, newest_first: bool, first: _Key | None = None
    ) -> AsyncIterator[tuple[_Key, NodeRecord]]:
        query, values = _make_query(wanted, newest_first=newest_first, first=first)
        async with self._connection.cursor(name="down" if newest_first else "up") as cursor:
            cursor.itersize = _FETCHED_ROWS
            await cursor.execute(query.encode(), values)
            async for ts, node, chain, seq, line in cursor:
                if (record := find_record(line)) is not None and wanted.matches(record):
                    yield _Key(ts, node, chain, seq), NodeRecord(node, record)


@asynccontextmanager
async def open_record(database: Database) -> AsyncGenerator[RecordReader]:
    """Yield a reader of the present state of the record. Raises StoreUnavailable."""
    async with database.begin(snapshot=True) as connection:
        yield RecordReader(connection)


class RecordFollower:
    """Yields the records that come into the database from now on, each once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, int] | None = None
        """The last seen record of each chain."""

    async def start(self) -> None:
        """Begin at the present end of all chains. Raises StoreUnavailable."""
        self._known = {chain: seq for chain, _, seq in await self._list_chains()}

    async def read_new(self) -> list[NodeRecord]:
        """Return what came since the last call, in the order of time. Raises StoreUnavailable."""
        assert self._known is not None
        found: list[NodeRecord] = []
        for chain, node, seq in await self._list_chains():
            known = self._known.get(chain, 0)
            if seq <= known:
                continue
            rows = await self._database.fetch(
                "select seq, substring(line for 70000) from record where node = %s and chain = %s and seq > %s "
                "order by seq limit %s",
                (node, chain, known, _FOLLOWED_ROWS),
            )
            records = (find_record(line) for _, line in rows)
            found += (NodeRecord(node, record) for record in records if record is not None)
            self._known[chain] = rows[-1][0] if rows else seq
        return sorted(found, key=lambda each: (each.record.ts, each.node, each.record.seq))

    async def _list_chains(self) -> list[tuple[str, str, int]]:
        return [
            (chain, node, seq)
            for chain, node, seq in await self._database.fetch("select chain, node, seq from chain")
        ]


def _make_query(
    wanted: RecordFilter, *, newest_first: bool, first: _Key | None
) -> tuple[str, tuple[object, ...]]:
    """Return a query for the rows that may match, and its values. The query contains no value."""
    conditions = [
        "ts between '0002-01-01' and '9998-01-01'"
    ]  # others cannot be converted, and no record has them
    values: list[object] = []

    def add(condition: str, *given: object) -> None:
        conditions.append(condition)
        values.extend(given)

    if wanted.event is not None:
        add("event = %s", wanted.event)
    if wanted.since is not None:
        add("ts >= %s", wanted.since)
    if wanted.until is not None:
        add("ts <= %s", wanted.until)
    if wanted.request is not None:
        add("request = %s", wanted.request)
    if (name := wanted.name) is not None:  # of a record, its request, or its parent
        minted = ids.find_mint_time(name)
        if minted is None:
            add("(request = %s or parent = %s)", name, name)
        else:
            add(
                "(request = %s or parent = %s or (ts between to_timestamp(%s) and to_timestamp(%s) "
                "and position(convert_to(%s, 'UTF8') in line) > 0))",
                *(name, name, minted - _ID_WINDOW_S, minted + _ID_WINDOW_S, f'"id":"{name}"'),
            )
    if first is not None:
        add("(ts, node, chain, seq) >= (%s, %s, %s, %s)", *first)
    order = " desc" if newest_first else ""
    where = " and ".join(conditions)
    query = (
        f"select ts, node, chain, seq, substring(line for 70000) from record where {where} "
        f"order by ts{order}, node{order}, chain{order}, seq{order}"
    )
    return query, tuple(values)
