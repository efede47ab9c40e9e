"""Notice a database that was restored from a backup, and keep it from doing harm.

A restored database has forgotten what happened since the backup: a key that ran is new, a revoked token is valid.

    what a replica remembers            where                  compared with the database
    last renewal of its lease (`beat`)  memory                 in each renewal and claim, before tokens are accepted
    process of the database             memory                 the same
    generation                          file `generation`      the same
    head of its chain as shipped        file `generation`      after a start, after an outage, before lines are shipped
    claims that are not shipped yet     its ledger             after a start, after an outage

Another process of the database may be a standby, or a restored copy, that lacks what came after the last renewal. Each
replica then compares its ledger, and claims wait until each other one has had time to do so: `settle`.

The row `generation` also says where it was made, so that each replica recognizes a copy by pg_restore. A replica that
finds the database behind marks that row with a `fence`, which all replicas see in their next renewal:

    fence     no request with effects starts; of the tokens, only those count that have not changed
    report    each replica enters what its ledger knows: keys that ran become lost, revoked tokens are removed
    accept    an operator accepts the database: requests that were running become lost, the row gets a new generation
    adopt     each replica reports once more, and goes on

A replica that comes back later finds a newer generation. It reports, too, before it starts anything.
"""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paddock.cluster.database import MAX_STATEMENT_S, STATEMENT_S, Database, clean_text
from paddock.cluster.ledger_lines import LedgerLines, Position
from paddock.cluster.runs import KEY_PREFIX, hash_key
from paddock.cluster.seals import NO_SEALS, Seals
from paddock.foundation.files import make_private, replace_file
from paddock.foundation.own_files import read_own
from paddock.model.errors import DatabaseRestored, LedgerError, StoreUnavailable
from paddock.model.ids import new_id
from paddock.model.printable import make_printable
from paddock.record.ledger.line_format import (
    GENESIS_HASH,
    LedgerHead,
    find_record,
    list_dated_files,
    read_lines,
    read_published_head,
)
from paddock.record.ledger.sink import REVOKED, STARTED, AuditRecord, timestamp

if TYPE_CHECKING:
    from psycopg import AsyncConnection

FILE_NAME: Final = "generation"
"""Name of the file with what a replica has seen of the database, in the directory of its ledger."""
PURPOSE: Final = "generation"
"""Purpose of the seal of a generation: a stranger who can write to the database accepts no restore."""
ROW: Final = (
    "(select jsonb_build_object('number', number, 'id', id, 'seal', seal, 'moved', place <> paddock_place(), "
    "'fence', fence, 'why', why) from generation)"
)
"""The present generation as an expression of SQL; see `GenerationRow`."""
INSTANCE: Final = "extract(epoch from pg_postmaster_start_time())::text"
"""What tells two processes of the database apart, as an expression of SQL."""
SETTLE_S: Final = 3.0
"""Time in which every living replica renews its lease, in seconds, and compares a new process of the database."""
CLAIM_FACT: Final = "claim_sha256"
"""Fact of a started request whose key was claimed: the hash of its caller and its key."""
TOKEN_FACT: Final = "token_sha256"  # noqa: S105 - a name
"""Fact of a revoked token: the hash of its entry."""
KEY_AGE_S: Final = 25 * 3600.0
"""Age up to which starts in a ledger are entered, in seconds: keys are remembered for 24 hours."""
_KEEP_S = 5.0
"""Minimum time between two writes of the file for the head of the chain, in seconds."""
_ENTERED_ROWS = 5000
"""Maximum number of starts that are entered in one statement."""
_MAX_FILE_BYTES = 4096
_MAX_WHY_CHARS = 300

_log = logging.getLogger("paddock.cluster")


class GenerationRow(NamedTuple):
    """The row `generation`."""

    number: int
    id: str
    seal: str | None
    moved: bool
    """Whether the row was made in another database: this one is a copy."""
    fence: str | None
    """Id of the finding that the database was restored; None if it is sound."""
    why: str | None

    def is_sealed(self, seals: Seals) -> bool:
        """Return whether somebody with a key made it. The first generation has no seal."""
        given = None
        with suppress(ValueError):
            given = bytes.fromhex(self.seal or "")
        return self.number == 1 or seals.accepts(given, PURPOSE, str(self.number), self.id)


class _Memory(NamedTuple):
    """What the file of a replica says."""

    number: int = 0
    id: str = ""
    """The generation; empty if this replica has used no database yet."""
    chain: str = ""
    seq: int = 0
    hash: str = GENESIS_HASH
    """The head of the chain that the database had last; `chain` is empty before the first one."""


class _Start(NamedTuple):
    """A request that a ledger says was started."""

    request: str
    actor: str
    key: str
    ts: str


class _Known(NamedTuple):
    """What a ledger knows that a restored database may have forgotten."""

    starts: list[_Start]
    revoked: set[str]
    """Hashes of the entries of tokens."""


class Generation:
    """What one replica has seen of the database, and whether that is still there."""

    def __init__(self, database: Database, directory: Path, node: str, seals: Seals = NO_SEALS) -> None:
        """Keep the memory of the replica `node` in `directory`, that of its ledger."""
        self._database = database
        self._directory = directory
        self._node = node
        self._seals = seals
        self._memory: _Memory | None = None
        self._kept_at = float("-inf")
        self.is_doubtful = True
        """Whether the database was away since it was last compared with the ledger."""
        self._wanted: GenerationRow | None = None
        """The fence or the new generation for which a report is due."""
        self._reported = ""
        self._wake = asyncio.Event()
        self._settles_at = float("-inf")
        self.instance = ""
        """The process of the database at the last renewal; empty before the first one."""
        self.beat = 0
        """Beat of the last renewal that found the database sound."""
        self.restored = ""
        """Why requests with effects are refused: the database was restored; empty if it is sound."""

    @property
    def number(self) -> int:
        """Number of the generation that this replica uses; 0 before it has seen the database."""
        return 0 if self._memory is None else self._memory.number

    @property
    def id(self) -> str:
        """Id of the generation that this replica uses; empty before it has seen the database."""
        return "" if self._memory is None else self._memory.id

    def check(self) -> None:
        """Raise DatabaseRestored if the database was restored, and no operator has accepted that."""
        if self.restored:
            raise DatabaseRestored(self.restored)

    def doubt(self) -> None:
        """Compare the database with the ledger at the next renewal: it was away, and may be another one."""
        self.is_doubtful = True

    async def settle(self) -> None:
        """Wait until all living replicas have had time to compare a new process of the database."""
        while (left_s := self._settles_at - time.monotonic()) > 0:  # noqa: ASYNC110 - it may grow
            await asyncio.sleep(left_s)

    async def judge(self, beat: int, before: int | None, row: GenerationRow | None, instance: str) -> None:
        """Compare the database with what this replica remembers; call it with each renewal of the lease.

        `beat` is that of the renewal, and `before` the one that the database had; None without a row of this replica.
        `instance` is its process. Raises StoreUnavailable.
        """
        if self._memory is None:
            self._memory = await asyncio.to_thread(self._read_memory)
        if instance != self.instance:
            self.is_doubtful = True
            if self.instance:
                self._settles_at = time.monotonic() + SETTLE_S
            self.instance = instance
        why = self._compare(before, row)
        if not why and row is not None and row.fence is None and row.id == self.id and self.is_doubtful:
            why = await self._compare_ledger()
        if row is None:
            self._refuse(why)
            return
        if why and row.fence is None:
            self._refuse(why)
            await self._mark(row, why)
        elif row.fence is not None:
            self._refuse(make_printable(row.why or why)[:_MAX_WHY_CHARS])
            if row.fence != self._reported:
                self._want(row)
        elif row.id != self.id and (self.id or row.number > 1):
            self._note_restored(
                "This server has not yet entered what it knows into the restored database of cluster.url. "
                "It does so now: send the request again."
            )
            self._want(row)
        else:
            if row.id != self.id:
                await self._adopt(row)
            self.beat, self.is_doubtful = beat, False
            self._note_restored("")

    async def confirm(self) -> None:
        """Raise StoreUnavailable unless the database is sound now: what was read before this call counts only then."""
        beat, id_ = self.beat, self.id
        if not id_:
            raise StoreUnavailable(
                "This server has not compared the database of cluster.url with its ledger yet."
            )
        self.check()
        query = f"select (select beat from node where id = %s), {ROW}, {INSTANCE}"
        [(found, values, instance)] = await self._database.fetch(query, (self._node,), timeout_s=STATEMENT_S)
        row = None if values is None else GenerationRow(**values)
        if (
            row is None
            or row.id != id_
            or row.moved
            or row.fence is not None
            or found is None
            or found < beat
        ):
            raise DatabaseRestored(_explain_restore("it lacks what this server has seen"))
        if instance != self.instance or self.is_doubtful or time.monotonic() < self._settles_at:
            raise StoreUnavailable("The database of cluster.url was started anew, and is compared first.")

    def check_compared(self) -> None:
        """Raise StoreUnavailable before the database was compared with the ledger: shipping lines would hide a loss."""
        if self.is_doubtful and not self.restored:
            raise StoreUnavailable("The database was away. It is compared with the ledger first.")

    async def note_shipped(self, chain: str, head: Position) -> None:
        """Remember the head of the chain that the database has now."""
        if self._memory is None or not self._memory.id or self.restored or self.is_doubtful:
            return
        self._memory = self._memory._replace(chain=chain, seq=head.seq, hash=head.hash)
        if time.monotonic() - self._kept_at >= _KEEP_S:
            await asyncio.to_thread(self._keep_memory)

    async def report(self) -> None:
        """Wait until a report is due, and enter what the ledger knows. Raises StoreUnavailable and LedgerError."""
        await self._wake.wait()
        row = self._wanted
        if row is not None:
            known = await asyncio.to_thread(read_known, self._directory)
            if await self._enter(row, known):
                if row.fence is None:
                    await self._adopt(row)
                    self._note_restored("")
                else:
                    self._reported = row.fence
        self._wake.clear()

    def _compare(self, before: int | None, row: GenerationRow | None) -> str:
        """Return why the database is not the one that this replica remembers; empty if it is."""
        if row is None:
            return "it has no generation"
        if not row.is_sealed(self._seals):
            return f"no key of cluster.key_file sealed its generation {row.number}"
        if row.moved:
            return "it is a copy that was made in another place"
        if self.id and row.id != self.id:
            if row.number > self.number:
                return ""
            return (
                f"it has generation {row.number}, and this server has seen another generation {self.number}"
            )
        if self.beat and (before is None or before < self.beat):
            return "it lacks renewals of leases"
        return ""

    async def _compare_ledger(self) -> str:
        """Return what the database lacks of this replica's ledger; empty if it lacks nothing."""
        memory = self._memory
        assert memory is not None
        if memory.chain:
            query = "select seq from chain where chain = %s"
            rows = await self._database.fetch(query, (memory.chain,), timeout_s=STATEMENT_S)
            if not rows or rows[0][0] < memory.seq:
                return "it lacks records that were shipped"
        try:
            since = Position(memory.seq, memory.hash)
            starts = await asyncio.to_thread(_read_starts_after, self._directory, since)
        except LedgerError:  # without a ledger nothing with effects runs
            return ""
        query = (
            "select count(*) from unnest(%s::text[]) as id "
            "where not exists (select from run where run.request = id)"
        )
        [(missing,)] = await self._database.fetch(query, (starts,), timeout_s=STATEMENT_S)
        return "it lacks requests that were started" if missing else ""

    def _refuse(self, why: str) -> None:
        self._note_restored(_explain_restore(why))

    def _note_restored(self, text: str) -> None:
        """Refuse requests with effects for a reason, or with "" accept them; log that once."""
        if text and text != self.restored:
            _log.error("safe mode: %s", text)
        elif self.restored and not text:
            _log.warning("safe mode has ended: requests with effects are accepted again")
        self.restored = text

    def _want(self, row: GenerationRow) -> None:
        self._wanted = row
        self._wake.set()

    async def _mark(self, row: GenerationRow, why: str) -> None:
        """Let all replicas know; the next renewal tries again what fails now."""
        with suppress(StoreUnavailable):
            await mark_restored(self._database, row.number, why)

    async def _enter(self, row: GenerationRow, known: _Known) -> bool:
        """Enter what the ledger knows, in one transaction; return False if the row was changed meanwhile."""
        async with self._database.begin(MAX_STATEMENT_S) as connection:
            cursor = await connection.execute(
                "select 1 from generation where id = %s and fence is not distinct from %s for share",
                (row.id, row.fence),
            )
            if await cursor.fetchall() != [(1,)]:
                return False
            for first in range(0, len(known.starts), _ENTERED_ROWS):
                columns = zip(*known.starts[first : first + _ENTERED_ROWS], strict=True)
                await connection.execute(_ENTER.encode(), (self._node, *map(list, columns)))
            if row.fence is None:
                await _report_second_runs(connection, known.starts)
            removed = await _remove_revoked(connection, known.revoked)
            fence = row.fence or row.id
            cursor = await connection.execute("select report from node where id = %s", (self._node,))
            for (before,) in await cursor.fetchall():
                if before is not None and before["fence"] == fence:
                    removed = sorted({*removed, *map(str, before["tokens"])})
            report = {"fence": fence, "number": self.number, "tokens": removed}
            await connection.execute(
                "update node set report = %s::jsonb where id = %s", (json.dumps(report), self._node)
            )
        return True

    async def _adopt(self, row: GenerationRow) -> None:
        """Use a generation, which has all that this replica knows, from now on."""
        try:
            head = await asyncio.to_thread(read_published_head, self._directory)
        except LedgerError:
            head = LedgerHead()
        self._memory = _Memory(row.number, row.id, "", head.seq, head.hash)
        self.beat, self._wanted = 0, None
        await asyncio.to_thread(self._keep_memory)

    def _read_memory(self) -> _Memory:
        try:
            values = json.loads(read_own(self._directory / FILE_NAME, _MAX_FILE_BYTES))
            memory = _Memory(**values)
        except FileNotFoundError:
            return _Memory()
        except (OSError, ValueError, TypeError, RecursionError) as error:
            _log.warning("%s cannot be read, and is written anew: %s", self._directory / FILE_NAME, error)
            return _Memory()
        types = [type(each) for each in memory]
        return memory if types == [int, str, str, int, str] else _Memory()

    def _keep_memory(self) -> None:
        assert self._memory is not None
        self._kept_at = time.monotonic()
        try:
            make_private(self._directory)
            replace_file(self._directory / FILE_NAME, json.dumps(self._memory._asdict()).encode())
        except OSError as error:
            _log.warning(
                "%s cannot be written: %s; a restored database may not be noticed after a restart",
                *(self._directory / FILE_NAME, error.strerror or error),
            )


_ENTER = f"""
insert into run (tenant, key, request, digest, node, state, started, ended)
select actor, '{KEY_PREFIX}' || key, request, '', %s, 'lost', ts::timestamptz, now()
from unnest(%s::text[], %s::text[], %s::text[], %s::text[]) as known (request, actor, key, ts)
where not exists (select from run where run.request = known.request) on conflict do nothing"""


def _explain_restore(why: str) -> str:
    return (
        f"The database of cluster.url was restored from a backup: {why}. "
        "Nothing with effects starts until an operator runs: paddock cluster accept-restore"
    )


async def mark_restored(database: Database, number: int, why: str) -> None:
    """Mark a generation of the database as restored, unless it is marked. Raises StoreUnavailable."""
    query = "update generation set fence = %s, fenced = now(), why = %s where fence is null and number = %s"
    await database.fetch(query, (new_id(), why, number), timeout_s=STATEMENT_S)


async def _report_second_runs(
    connection: "AsyncConnection[tuple[Any, ...]]", starts: Sequence[_Start]
) -> None:
    """Log which keys of this ledger another replica started after the restore was accepted."""
    before = {each.key: each.request for each in starts}
    cursor = await connection.execute(
        "select tenant, key, request from run where started >= (select accepted from generation) "
        "and not starts_with(key, %s)",
        (KEY_PREFIX,),
    )
    for tenant, key, request in await cursor.fetchall():
        if before.get(hash_key(tenant, key), request) != request:
            _log.error(
                "one key ran twice: as %s before the restore of the database, and as %s after it was accepted "
                "without this replica",
                *(before[hash_key(tenant, key)], request),
            )


async def _remove_revoked(connection: "AsyncConnection[tuple[Any, ...]]", revoked: set[str]) -> list[str]:
    """Delete the tokens that a ledger says were revoked, and return their names."""
    removed: list[str] = []
    if revoked:
        cursor = await connection.execute(
            "select name, version, body ->> 'token' from kept where kind = 'token' order by name"
        )
        for name, version, text in await cursor.fetchall():
            if text is not None and hash_token_entry(str(text)) in revoked:
                removed.append(str(name))
                await connection.execute(
                    "delete from kept where kind = 'token' and name = %s and version = %s", (name, version)
                )
    return removed


def read_known(directory: Path) -> _Known:
    """Return the recent starts and all revocations in a ledger. Raises LedgerError."""
    since = timestamp(time.time() - KEY_AGE_S)
    known = _Known([], set())
    for name in list_dated_files(directory):
        for line in read_lines(directory, name):
            is_start = _STARTED in line.data and _CLAIM in line.data and name[:10] >= since[:10]
            if not is_start and _REVOKED not in line.data:
                continue
            record = find_record(line.data, whole=line.whole)
            if record is None:
                continue
            if record.event == REVOKED and isinstance(entry := record.fields.get(TOKEN_FACT), str):
                known.revoked.add(entry)
            elif (start := _find_start(record, since)) is not None:
                known.starts.append(start)
    return known


_STARTED = b'"event":"started"'
_REVOKED = b'"event":"revoked"'
_CLAIM = f'"{CLAIM_FACT}":'.encode()


def _find_start(record: AuditRecord, since: str) -> _Start | None:
    """Return the start of a claimed request, if it is new enough."""
    key = record.fields.get(CLAIM_FACT)
    if record.event != STARTED or record.ts < since or not isinstance(key, str):
        return None
    return _Start(clean_text(record.request), clean_text(str(record.fields.get("actor"))), key, record.ts)


def _read_starts_after(directory: Path, position: Position) -> list[str]:
    """Return the ids of claimed requests that a ledger has after a position; none if it does not contain that."""
    since = timestamp(time.time() - KEY_AGE_S + 7200)  # rows of older ones may have been removed
    lines = LedgerLines(directory)
    found: list[str] = []
    if not lines.seek(position):
        return []
    while chunk := lines.read_chunk(1024 * 1024):
        found += [start.request for line in chunk if (start := _find_start(line.record, since)) is not None]
    return found


def hash_token_entry(text: str) -> str:
    """Return the hash of a token's entry, given as JSON. The ledger has it once the token was revoked."""
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
