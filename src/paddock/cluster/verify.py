"""Verify the record of a cluster: the chains, the checkpoints, and the one against the other.

What is found, by anybody who has the public key of the checkpoints: a line that was changed, removed, inserted or moved
although a checkpoint covers it; a chain that was cut or replaced by an older copy; a checkpoint that was changed,
removed, forked or signed by another key. A user of the database who has no private key can do anything to its tables,
and cannot make this check succeed for what was signed.

What is *not* found: changes to records that are newer than the last checkpoint, if the attacker computes the rest
of their chain again. `unsigned` counts these records. Also not found is a database that is restored as a whole
from an older copy, by itself: the last note that a node or the bucket has seen must be compared, and is, if it is
there. The key decides whom to trust: a replica that has it can sign anything.

Memory is bounded: by the number of chains, and by `MAX_FINDINGS` findings. One snapshot of the database is read.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

import orjson
from pydantic import computed_field

from paddock.cluster.checkpoint import EMPTY_ROOT, ChainHead, Checkpoint, add_heads
from paddock.cluster.database import Database
from paddock.cluster.ledger_lines import LedgerLines
from paddock.cluster.merkle import MerkleTree
from paddock.cluster.signed_note import MAX_NOTE_CHARS, NoteError, VerificationKey, open_note
from paddock.cluster.verify_chain import LocalComparison, OnFinding, RecordRow, RowCheck
from paddock.model.base import Value, count
from paddock.record.ledger.verify import add_finding

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from paddock.cluster.bucket import CheckpointBucket

_FETCHED_ROWS: Final = 200
"""Number of rows that are fetched at a time: with lines of the maximum length they take 13 MB."""
_GRACE: Final = timedelta(seconds=60)
"""Time within which a record is shipped and signed, unless something is wrong."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_HEAD_CHUNK: Final = 1000
_MAX_HEADS_CHARS: Final = 4 * 1024 * 1024


class RecordFinding(Value):
    """One problem or note."""

    node: str | None = None
    chain: str | None = None
    seq: int | None = None
    """Number of the record concerned, or of the first missing one."""
    checkpoint: int | None = None
    """Number of the checkpoint concerned."""
    message: str
    """What is wrong, worded to follow node, record or checkpoint."""


_MORE_FINDINGS: Final = RecordFinding(message="there are more than are listed here")


class RecordReport(Value):
    """The result of `verify_record`."""

    nodes: int
    chains: int
    records: int
    """Number of intact records."""
    unsigned: int
    """Number of records that are newer than the last checkpoint. Nothing protects them."""
    checkpoints: int
    last: int | None
    """Number of the last checkpoint."""
    root: str | None
    """Its root, in hexadecimal digits."""
    time: str | None
    """When it was made, by the clock of its maker."""
    compared: str | None
    """Name of the chain that was compared with the ledger of this machine; None if the database has none of it."""
    problems: tuple[RecordFinding, ...]
    notes: tuple[RecordFinding, ...]

    @computed_field
    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


class KnownNote(NamedTuple):
    """A checkpoint that somebody kept outside of the database."""

    source: str
    note: str


async def verify_record(
    database: Database,
    keys: Sequence[VerificationKey],
    *,
    directory: Path | None = None,
    known: Sequence[KnownNote] = (),
    bucket: "CheckpointBucket | None" = None,
) -> RecordReport:
    """Check the whole record and report everything that is wrong with it.

    Compare it with the ledger in `directory`, with `known` notes and with the notes in `bucket`. Raises
    StoreUnavailable and ArtifactError, and LedgerError for a ledger that cannot be read. Wrong content is a finding.
    """
    async with database.begin(snapshot=True) as connection:
        return await check_record(connection, keys, directory=directory, known=known, bucket=bucket)


async def check_record(
    connection: "AsyncConnection[tuple[Any, ...]]",
    keys: Sequence[VerificationKey],
    *,
    directory: Path | None = None,
    known: Sequence[KnownNote] = (),
    bucket: "CheckpointBucket | None" = None,
) -> RecordReport:
    """Do the work of `verify_record` within the transaction of a connection."""
    findings = _Findings()
    signed = _CheckpointPass(connection, tuple(keys), findings)
    await signed.read_all(known)
    if bucket is not None:
        await signed.compare_bucket(bucket)
    chains = _RecordPass(connection, findings, signed, directory)
    await chains.read_all()
    if chains.records and not signed.count:
        findings.add_problem(message="the record has no checkpoint: nothing is signed")
    last = signed.last
    return RecordReport(
        nodes=len(chains.nodes),
        chains=chains.chains,
        records=chains.records,
        unsigned=chains.unsigned,
        checkpoints=signed.count,
        last=None if last is None else last.number,
        root=None if last is None else last.root.hex(),
        time=None if last is None else last.time,
        compared=chains.compared,
        problems=tuple(findings.problems),
        notes=tuple(findings.notes),
    )


class _Findings:
    def __init__(self) -> None:
        self.problems: list[RecordFinding] = []
        self.notes: list[RecordFinding] = []

    def add_problem(self, **facts: str | int | None) -> None:
        add_finding(self.problems, RecordFinding.model_validate(facts), _MORE_FINDINGS)

    def add_note(self, **facts: str | int | None) -> None:
        add_finding(self.notes, RecordFinding.model_validate(facts), _MORE_FINDINGS)


class _CheckpointRow(NamedTuple):
    n: int
    size: int
    root: bytes
    prev: bytes | None
    edge: bytes
    heads: str | None
    note: str


class _CheckpointPass:
    """Reads the checkpoints in order, and compares the heads that they sign with the records."""

    def __init__(
        self,
        connection: "AsyncConnection[tuple[Any, ...]]",
        keys: tuple[VerificationKey, ...],
        findings: _Findings,
    ) -> None:
        self.count = 0
        self.last: Checkpoint | None = None
        """The last one that its key has signed."""
        self.intact = True
        """Whether all of them are, so that `heads` are known."""
        self.heads: dict[tuple[str, str], ChainHead] = {}
        """The last signed head of each chain, by node and chain."""
        self._connection = connection
        self._keys = keys
        self._findings = findings
        self._tree: MerkleTree | None = MerkleTree()
        """None if its heads are not known."""
        self._number = 0
        self._root: bytes | None = EMPTY_ROOT
        """Root of the last checkpoint; None if it is not known."""
        self._unchecked: list[tuple[int, ChainHead]] = []
        self._reported: set[tuple[str, str]] = set()

    async def read_all(self, known: Sequence[KnownNote]) -> None:
        """Check every checkpoint, and find the known ones among them."""
        async for columns in _stream(
            self._connection,
            "checkpoints",
            "select n, size, substring(root for 33), substring(prev for 33), substring(edge for 2049), "
            "case when octet_length(heads::text) <= %s then heads::text end, left(note, %s) from checkpoint order by n",
            (_MAX_HEADS_CHARS, MAX_NOTE_CHARS + 1),
        ):
            self._check(_CheckpointRow(*columns))
            if len(self._unchecked) >= _HEAD_CHUNK:
                await self._compare_heads()
        await self._compare_heads()
        for each in known:
            await self._compare_known(each)

    async def compare_bucket(self, bucket: "CheckpointBucket") -> None:
        """Compare the last note in the bucket: its root commits to all earlier ones."""
        begin = max(0, self._number - _HEAD_CHUNK)
        newest = await asyncio.to_thread(bucket.find_last, begin)
        cursor = await self._connection.execute(
            "select min(n) from checkpoint where stored and n > %s", (begin if newest is None else newest,)
        )
        [(unstored,)] = await cursor.fetchall()
        if unstored is not None:
            self._problem(unstored, "is marked as stored in the bucket, which does not have it")
        if newest is None:
            if self.count:
                self._findings.add_note(message="the bucket has none of the last checkpoints")
            return
        note = await asyncio.to_thread(bucket.read, newest)
        await self._compare_known(KnownNote("the bucket", note or ""))
        if newest < self._number:
            self._findings.add_note(
                checkpoint=newest, message="is the last one in the bucket: later ones are not there yet"
            )

    def _check(self, row: "_CheckpointRow") -> None:
        """Check one row, which follows the one before it."""
        self.count += 1
        number, tree, previous = row.n, self._tree, self._root
        if number != self._number + 1:
            self._problem(self._number + 1, "is missing")
            tree = previous = None
        self._number = number
        heads = self._parse_heads(number, row.heads)
        if heads is None:
            tree = None
        elif tree is not None:
            add_heads(tree, heads)
        try:
            checkpoint = Checkpoint.parse(open_note(row.note, self._keys))
        except NoteError as error:
            self._problem(number, str(error))
            self._tree, self._root = tree, tree and tree.compute_root()
            return
        if (checkpoint.number, checkpoint.size, checkpoint.root, checkpoint.previous) != row[:4]:
            self._problem(number, "has columns that its note does not have")
        if previous is not None and checkpoint.previous != previous:
            self._problem(number, "does not continue the checkpoint before it")
        if tree is not None and (tree.size, tree.compute_root()) != (checkpoint.size, checkpoint.root):
            self._problem(number, "signs other heads than it has")
            tree = None
        if tree is not None and tree.encode_subtrees() != row.edge:
            self._problem(number, "has columns that its note does not have")
        # After a checkpoint that is missing or wrong, the next signed root allows to go on.
        self._tree = tree or MerkleTree.restore(checkpoint.size, row.edge, checkpoint.root)
        self._root = checkpoint.root
        self.last = checkpoint
        for head in heads or ():
            self._check_head(number, head)

    def _parse_heads(self, number: int, heads: str | None) -> list[ChainHead] | None:
        try:
            parsed = [ChainHead.parse(each) for each in orjson.loads(heads or "")]
        except (ValueError, TypeError):
            self._problem(number, "has no heads that can be read")
            return None
        if [(head.node, head.chain) for head in parsed] != sorted(
            {(head.node, head.chain) for head in parsed}
        ):
            self._problem(number, "has heads that are out of order")
        return parsed

    def _check_head(self, number: int, head: ChainHead) -> None:
        place = head.node, head.chain
        before = self.heads.get(place)
        if before is not None and head.seq < before.seq:
            self._findings.add_problem(
                node=head.node,
                chain=head.chain,
                seq=head.seq,
                checkpoint=number,
                message=f"is a head that goes back: record {before.seq} was signed before",
            )
            return
        self.heads[place] = head
        self._unchecked.append((number, head))

    async def _compare_heads(self) -> None:
        """Compare signed heads with the records of their numbers."""
        heads, self._unchecked = self._unchecked, []
        if not heads:
            return
        cursor = await self._connection.execute(
            "select head.n, head.node, head.chain, head.seq, record.seq is null "
            "from unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::text[]) "
            "as head (n, node, chain, seq, hash) left join record "
            "on record.node = head.node and record.chain = head.chain and record.seq = head.seq "
            "where record.seq is null or "
            "substring(record.line from greatest(octet_length(record.line) - 65, 1) for 64) "
            "<> convert_to(head.hash, 'UTF8') order by head.n, head.node, head.chain",
            (
                [number for number, _ in heads],
                [head.node for _, head in heads],
                [head.chain for _, head in heads],
                [head.seq for _, head in heads],
                [head.hash for _, head in heads],
            ),
        )
        for number, node, chain, seq, absent in await cursor.fetchall():
            if (node, chain) in self._reported:
                continue
            self._reported.add((node, chain))
            message = "is missing, and was signed" if absent else "has another hash than was signed"
            self._findings.add_problem(node=node, chain=chain, seq=seq, checkpoint=number, message=message)

    async def _compare_known(self, known: KnownNote) -> None:
        """Report a note that the database does not have."""
        try:
            checkpoint = Checkpoint.parse(open_note(known.note, self._keys))
        except NoteError as error:
            self._findings.add_problem(message=f"the checkpoint of {known.source} {error}")
            return
        cursor = await self._connection.execute(
            "select left(note, %s) from checkpoint where n = %s", (MAX_NOTE_CHARS + 1, checkpoint.number)
        )
        rows = await cursor.fetchall()
        if not rows:
            self._problem(checkpoint.number, f"is missing, and {known.source} has it")
        elif rows != [(known.note,)]:
            self._problem(checkpoint.number, f"differs from that of {known.source}")

    def _problem(self, number: int, message: str) -> None:
        self.intact = False
        self._findings.add_problem(checkpoint=number, message=message)


class _ChainRow(NamedTuple):
    """A row of the table `chain`, which tells replicas what to ship and to sign."""

    node: str
    seq: int
    signed: int


class _RecordPass:
    """Reads all records, chain by chain."""

    def __init__(
        self,
        connection: "AsyncConnection[tuple[Any, ...]]",
        findings: _Findings,
        signed: _CheckpointPass,
        directory: Path | None,
    ) -> None:
        self.nodes: set[str] = set()
        self.chains = 0
        self.records = 0
        self.unsigned = 0
        self.compared: str | None = None
        self._connection = connection
        self._findings = findings
        self._checkpoints = signed
        self._signed = signed.heads
        self._due = _EPOCH if signed.last is None else datetime.fromisoformat(signed.last.time) - _GRACE
        """Records from before that time should be signed."""
        self._late = 0
        self._directory = directory
        self._local_chain: str | None = None
        self._local: LocalComparison | None = None
        self._check: RowCheck | None = None
        self._found: set[tuple[str, str]] = set()
        self._listed: dict[str, _ChainRow] = {}
        """The table of chains."""

    async def read_all(self) -> None:
        """Check every row, and that no signed chain is missing."""
        await self._read_list()
        self._local_chain = await self._find_local()
        async for columns in _stream(
            self._connection,
            "records",
            "select left(node, 100), left(chain, 100), seq, "
            "case when ts between '0002-01-01' and '9998-01-01' then ts end, left(event, 600), left(request, 600), "
            "left(parent, 600), substring(line for 70000) from record order by node, chain, seq",
            (),
        ):
            row = RecordRow(*columns)
            if self._check is None or (row.node, row.chain) != (self._check.node, self._check.chain):
                await self._finish_chain()
                self._begin_chain(row)
            assert self._check is not None
            self._check.check_row(row)
            if self._local is not None:
                self._local.check_row(row)
            head = self._signed.get((row.node, row.chain))
            if head is None or row.seq > head.seq:
                self.unsigned += 1
                self._late += row.ts is not None and row.ts < self._due
        await self._finish_chain()
        for place, head in self._signed.items():
            if place not in self._found:
                self._findings.add_problem(
                    node=head.node,
                    chain=head.chain,
                    seq=1,
                    message=f"to {head.seq} are missing, and were signed",
                )
        for chain, row in self._listed.items():
            if row.seq > 0 and not {(row.node, chain)} & (self._found | self._signed.keys()):
                self._findings.add_problem(
                    node=row.node, chain=chain, seq=1, message=f"to {row.seq} are missing"
                )

    def _begin_chain(self, row: RecordRow) -> None:
        on_problem, on_note = self._make_reporters(row.node, row.chain)
        self._check = RowCheck(row.node, row.chain, on_problem, on_note)
        self._found.add((row.node, row.chain))
        self.nodes.add(row.node)
        self.chains += 1
        if self._directory is not None and row.chain == self._local_chain:
            self.compared = row.chain
            self._local = LocalComparison(self._directory, on_problem, on_note)

    async def _finish_chain(self) -> None:
        check, local = self._check, self._local
        self._check = self._local = None
        if check is None:
            return
        self.records += check.records
        self._compare_list(check)
        if self._late:
            text = f"{count(self._late, 'record')} older than the last checkpoint not signed"
            self._findings.add_note(node=check.node, chain=check.chain, message=text)
        self._late = 0
        if local is not None:
            local.finish(check.seq)

    def _make_reporters(self, node: str, chain: str) -> tuple[OnFinding, OnFinding]:
        def on_problem(seq: int | None, message: str) -> None:
            self._findings.add_problem(node=node, chain=chain, seq=seq, message=message)

        def on_note(seq: int | None, message: str) -> None:
            self._findings.add_note(node=node, chain=chain, seq=seq, message=message)

        return on_problem, on_note

    async def _read_list(self) -> None:
        """Read the table of chains, and report the chains that their nodes could not continue."""
        async for chain, node, seq, signed, fault in _stream(
            self._connection,
            "chains",
            "select left(chain, 100), left(node, 100), seq, signed, left(fault, 1000) from chain order by node, chain",
            (),
        ):
            self._listed[chain] = _ChainRow(node, seq, signed)
            if fault is not None:
                self._findings.add_problem(node=node, chain=chain, message=f"reports: {fault}")

    def _compare_list(self, check: RowCheck) -> None:
        """Report what the table of chains says wrongly, so that replicas would not sign the chain any further."""
        on_problem, _ = self._make_reporters(check.node, check.chain)
        row, head = self._listed.get(check.chain), self._signed.get((check.node, check.chain))
        if row is None or row.node != check.node:
            on_problem(None, "is not in the table of chains")
            return
        if row.seq > check.seq:
            missing = "is missing" if row.seq == check.seq + 1 else f"to {row.seq} are missing"
            on_problem(check.seq + 1, f"{missing} at the end")
        elif row.seq < check.seq:
            on_problem(row.seq + 1, "is after the last one in the table of chains")
        signed = 0 if head is None else head.seq
        if row.signed != signed and self._checkpoints.count and self._checkpoints.intact:
            on_problem(
                None, f"the table of chains has record {row.signed} as the last signed one, which is {signed}"
            )

    async def _find_local(self) -> str | None:
        """Return the name of the chain in the ledger of this machine."""
        if self._directory is None:
            return None
        lines = LedgerLines(self._directory)
        chain = await asyncio.to_thread(lines.find_chain)
        if chain is not None:
            return chain
        first = next(iter(await asyncio.to_thread(lines.read_chunk, 1)), None)
        if first is None:
            return None
        cursor = await self._connection.execute(
            "select left(chain, 100) from record where ts = %s::timestamptz and line = %s limit 1",
            (first.record.ts, first.data),
        )
        rows = await cursor.fetchall()
        return rows[0][0] if rows else None


async def _stream(
    connection: "AsyncConnection[tuple[Any, ...]]",
    name: str,
    query: LiteralString,
    values: tuple[object, ...],
) -> AsyncGenerator[tuple[Any, ...]]:
    """Yield the rows of a query, a few at a time."""
    async with connection.cursor(name=name) as cursor:
        cursor.itersize = _FETCHED_ROWS
        await cursor.execute(query, values)
        async for row in cursor:
            yield row
