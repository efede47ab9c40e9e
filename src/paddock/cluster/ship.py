"""Copy the ledger of this node to the database, line by line.

Theory of operation. Nothing is queued in memory: the ledger's files are the queue, and the database knows how far it
was read. A chunk is one transaction: it locks the row of the chain, reads the last record that the database has, and
copies the lines after it. A process that is killed, or a connection that breaks, leaves the whole chunk or nothing, so
that no line is lost or doubled. Two processes with the same ledger take turns.

A line is shipped after it was synced to the disk here. Otherwise a power failure could take it back, and the next
record would get its number.

The database refuses the chain of a ledger that was replaced by an older copy: it has other records after the same
number. Then nothing is shipped, and the row of the chain gets a `fault`, which `paddock audit verify --cluster` shows.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paddock.cluster.database import Database, clean_text
from paddock.cluster.generation import Generation
from paddock.cluster.ledger_lines import ChainLine, LedgerLines, Position
from paddock.model.errors import LedgerError, StoreUnavailable
from paddock.record.ledger.sink import MAX_FIELD_CHARS, AuditRecord

if TYPE_CHECKING:
    from psycopg import AsyncConnection

INTERVAL_S: Final = 0.5
"""Interval between two looks at the ledger, in seconds."""
MAX_CHUNK_BYTES: Final = 1024 * 1024
MAX_RETRY_S: Final = 5.0
"""Maximum time between two attempts while the database is away, in seconds."""
TIMEOUT_S: Final = 30.0
"""Maximum time of one chunk, in seconds."""
FLUSH_S: Final = 10.0
"""Maximum time that a record waits to be in the database, in seconds."""
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

_log = logging.getLogger("paddock.cluster")


class ChainFault(LedgerError):
    """The ledger of this node cannot be shipped, because the database has another one under its name."""


class Shipper:
    """Ships the ledger of a directory under the name of a node, while `run` runs."""

    def __init__(
        self, database: Database, directory: Path, node: str, generation: Generation | None = None
    ) -> None:
        """Let `generation` compare a database that was away with the ledger, before lines are shipped to it."""
        self._database = database
        self._directory = directory
        self._node = node
        self._generation = generation
        self._chain, self._node_of_chain = "", node
        self._lines = LedgerLines(directory)
        self._at: Position | None = None
        """The last record in the database; None if that has to be found out."""
        self.shipped = 0
        """Number of the last record that was in the database when it was read last."""
        self._complete_at = time.monotonic()
        """When the database had the whole ledger last."""
        self._wanted = asyncio.Event()
        self._waiting: dict[asyncio.Future[None], int] = {}
        """Numbers of the records that must be in the database before their waiters go on."""
        self._reported = ""

    @property
    def lag_s(self) -> float:
        """Maximum age of a record that the database does not have, in seconds."""
        return time.monotonic() - self._complete_at

    async def run(self) -> None:
        """Ship until cancelled. No failure of the database or the ledger ends it."""
        wait = INTERVAL_S
        while True:
            try:
                shipped = await self.ship_chunk()
            except (StoreUnavailable, LedgerError) as error:
                if self._generation is not None and isinstance(error, StoreUnavailable):
                    self._generation.doubt()
                self._report(str(error))
                self._fail_waiters(error)
                wait = min(wait * 2, MAX_RETRY_S)
            else:
                self._report("")
                wait = INTERVAL_S
                if shipped:
                    continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wanted.wait()
            self._wanted.clear()

    async def flush(self, timeout_s: float = FLUSH_S) -> None:
        """Return when the database has every record that was written before this call, while `run` runs.

        Raises StoreUnavailable, after `timeout_s` seconds at most, and LedgerError.
        """
        seq = self._lines.find_end()
        if seq <= self.shipped:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = seq
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            raise StoreUnavailable(
                f"The record was not in the database of cluster.url within {timeout_s:.0f} s. "
                "Check that it can be reached."
            ) from None
        finally:
            self._waiting.pop(future, None)

    async def ship_chunk(self) -> bool:
        """Ship one chunk; return whether there may be more. Raises StoreUnavailable and LedgerError."""
        began = time.monotonic()
        if self._at is None:
            self._at = await self._find_position()
        if self._at is None:  # the ledger is empty
            self._complete_at = began
            self._free_waiters()
            return False
        chunk = await asyncio.to_thread(self._lines.read_chunk, MAX_CHUNK_BYTES)
        if not chunk:
            if await asyncio.to_thread(self._lines.went_back):
                self._at, self.shipped = None, 0
            else:
                self._complete_at = began
            self._free_waiters()
            return False
        before, self._at = self._at, None
        rows = await asyncio.to_thread(encode_rows, self._node_of_chain, self._chain, chunk)
        last = self._lines.position
        if await self._copy(rows, before, last):
            self._at, self.shipped = last, last.seq
            if sum(len(line.data) for line in chunk) < MAX_CHUNK_BYTES:
                self._complete_at = began
            if self._generation is not None:
                await self._generation.note_shipped(self._chain, last)
        self._free_waiters()
        return True

    async def _copy(self, rows: bytes, before: Position, last: Position) -> bool:
        """Copy rows after the record `before`; return False if the database has another last record."""
        from psycopg import Rollback

        async with self._database.begin(TIMEOUT_S) as connection, connection.cursor() as cursor:
            await cursor.execute(_LOCK_CHAIN, (last.seq, self._chain))
            is_locked = cursor.rowcount == 1
            if not is_locked or await _read_head(connection, self._node_of_chain, self._chain) != before:
                raise Rollback  # another process has shipped this chain
            async with cursor.copy(_COPY) as copy:
                await copy.write(rows)
            return True
        return False  # after the rollback

    async def _find_position(self) -> Position | None:
        """Find the chain of the ledger in the database, and continue after its last record there."""
        if self._generation is not None:
            self._generation.check_compared()
        if not await asyncio.to_thread(self._lines.find_end):
            return None
        self._lines = LedgerLines(self._directory)
        chain = await asyncio.to_thread(self._lines.find_chain)
        async with self._database.begin(TIMEOUT_S) as connection:
            if chain is None:
                heads = await self._list_heads(connection)
            else:
                await connection.execute(
                    "insert into chain (chain, node) values (%s, %s) on conflict do nothing",
                    (chain, self._node),
                )
                cursor = await connection.execute("select node from chain where chain = %s", (chain,))
                [(node,)] = await cursor.fetchall()
                heads = [(chain, node, await _read_head(connection, node, chain))]
        for name, node, head in heads:
            if await asyncio.to_thread(self._lines.seek, head):
                # A chain keeps the node under which it began, also if its node was renamed.
                self._chain, self._node_of_chain = name, node
                self.shipped = head.seq
                return head
        if chain is None:
            raise ChainFault(
                f"The ledger {self._directory} has no first record, and the database has no chain that it continues. "
                "It is not shipped. Move it away to begin a new chain."
            )
        fault = (
            f"The ledger {self._directory} of node {heads[0][1]} has no record {heads[0][2].seq} as the database has "
            "it: an older copy of it was restored, or its files were changed. It is not shipped any more. "
            "Move it away to begin a new chain."
        )
        async with self._database.begin(TIMEOUT_S) as connection:
            await connection.execute("update chain set fault = %s where chain = %s", (fault, chain))
        raise ChainFault(fault)

    async def _list_heads(
        self, connection: "AsyncConnection[tuple[Any, ...]]"
    ) -> list[tuple[str, str, Position]]:
        """Return name, node and last record of each chain of this node, the newest chains first."""
        cursor = await connection.execute(
            "select chain from chain where node = %s and seq > 0 order by seq desc limit 1000", (self._node,)
        )
        names = [str(name) for (name,) in await cursor.fetchall()]
        return [(name, self._node, await _read_head(connection, self._node, name)) for name in names]

    def _free_waiters(self) -> None:
        for future, seq in self._waiting.items():
            if seq <= self.shipped and not future.done():
                future.set_result(None)

    def _fail_waiters(self, error: Exception) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(StoreUnavailable(str(error)))

    def _report(self, text: str) -> None:
        """Log a failure once, and its end."""
        if text and text != self._reported:
            _log.warning("the record is not shipped: %s", text)
        elif self._reported and not text:
            _log.warning("the record is shipped again")
        self._reported = text


_LOCK_CHAIN = "update chain set seq = %s, fault = null where chain = %s"
"""Locks the row of the chain, so that the last record is read and the next ones are copied by one process."""
_COPY = "copy record (node, chain, seq, ts, event, request, parent, line) from stdin"


async def _read_head(connection: "AsyncConnection[tuple[Any, ...]]", node: str, chain: str) -> Position:
    """Return the last record of a chain in the database."""
    cursor = await connection.execute(
        "select seq, substring(line from greatest(octet_length(line) - 65, 1) for 64) from record "
        "where node = %s and chain = %s order by seq desc limit 1",
        (node, chain),
    )
    rows = await cursor.fetchall()
    return Position(rows[0][0], rows[0][1].decode("latin-1")) if rows else Position()


def encode_rows(node: str, chain: str, chunk: Iterable[ChainLine]) -> bytes:
    """Return the rows of records in PostgreSQL's text format of COPY."""
    return "".join(
        "\t".join(
            (
                node,
                chain,
                str(line.record.seq),
                columns.ts.isoformat(),
                columns.event.translate(_ESCAPED),
                columns.request.translate(_ESCAPED),
                "\\N" if columns.parent is None else columns.parent.translate(_ESCAPED),
                f"\\\\x{line.data.hex()}\n",
            )
        )
        for line in chunk
        for columns in [make_columns(line.record)]
    ).encode()


class Columns(NamedTuple):
    """What the table has of a record besides its line, for searches."""

    ts: datetime
    event: str
    request: str
    parent: str | None


_EPOCH = datetime.fromtimestamp(0, UTC)


def make_columns(record: AuditRecord) -> Columns:
    """Return the columns of a record. A text that the database cannot store has another character in its place."""
    try:
        ts = datetime.fromisoformat(record.ts)
    except ValueError:
        ts = _EPOCH
    parent = None if record.parent is None else _clean_text(record.parent)
    return Columns(
        ts if ts.tzinfo else _EPOCH, _clean_text(record.event), _clean_text(record.request), parent
    )


def _clean_text(text: str) -> str:
    return clean_text(text[:MAX_FIELD_CHARS])
