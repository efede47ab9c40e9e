"""Sign checkpoints of the record: one replica at a time, every ten seconds, if a chain has grown.

A replica signs if it has the key (`cluster.checkpoint_key_file`). It keeps the last note that it has seen in the file
`checkpoint` beside its ledger, and never signs over a database that lacks this note: the record was rolled back.
"""

import asyncio
import json
import logging
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paddock.cluster.checkpoint import EMPTY_ROOT, ChainHead, Checkpoint, add_heads
from paddock.cluster.database import Database
from paddock.cluster.merkle import MerkleTree
from paddock.cluster.signed_note import MAX_NOTE_CHARS, NoteError, SigningKey, open_note, read_note_text
from paddock.foundation.files import replace_file
from paddock.foundation.own_files import read_own
from paddock.model.errors import ArtifactError, LedgerError, StoreUnavailable
from paddock.record.ledger.sink import timestamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg import AsyncConnection

    from paddock.cluster.bucket import CheckpointBucket

INTERVAL_S: Final = 10.0
_MAX_PAUSE_S: Final = 120.0
"""Maximum time between two looks for records that are not signed, in seconds: renewals of the lease notice them."""
MAX_HEADS: Final = 10_000
"""Maximum number of heads in one checkpoint; others follow in the next one."""
ANCHOR_NAME: Final = "checkpoint"
"""Name of the file with the last note that this node has seen, in the directory of its ledger."""
_LOCK = 0x7061646431  # "padd1"
_TIMEOUT_S = 30.0
_MAX_UPLOADS = 100
"""Maximum number of notes that are put into the bucket at a time."""

_log = logging.getLogger("paddock.cluster")


class CheckpointConflict(LedgerError):
    """The database does not continue the checkpoint that this node has seen last."""


class _Last(NamedTuple):
    """The last checkpoint of the database."""

    number: int
    root: bytes
    tree: MerkleTree
    note: str


class CheckpointSigner:
    """Makes checkpoints while `run` runs."""

    def __init__(
        self,
        database: Database,
        key: SigningKey,
        directory: Path,
        bucket: "CheckpointBucket | None" = None,
        *,
        unsigned: asyncio.Event | None = None,
    ) -> None:
        """Sign with `key`, whose name is that of the log; keep the anchor in `directory`; copy notes to `bucket`.

        `unsigned` is set while there may be something to sign. By default there always may.
        """
        self._unsigned = unsigned
        self._database = database
        self._key = key
        self._anchor_file = directory / ANCHOR_NAME
        self._bucket = bucket
        self._reported: dict[str, str] = {}
        """The last failure of each part of the work; empty after its end."""

    async def run(self) -> None:
        """Make a checkpoint every `INTERVAL_S`, until cancelled. No failure of the database or the bucket ends it."""
        while True:
            if self._unsigned is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_MAX_PAUSE_S):
                        await self._unsigned.wait()
                self._unsigned.clear()
            made = await self._attempt("checkpoints are made", self.make_checkpoint)
            stored = made and await self._attempt("checkpoints are put into the bucket", self.upload_notes)
            if not stored and self._unsigned is not None:
                self._unsigned.set()
            await asyncio.sleep(INTERVAL_S)

    async def make_checkpoint(self) -> int | None:
        """Make a checkpoint and return its number; None if no chain has grown, or another replica makes one now.

        Raises StoreUnavailable, and CheckpointConflict if the record was rolled back.
        """
        async with self._database.begin(_TIMEOUT_S) as connection:
            cursor = await connection.execute("select pg_try_advisory_xact_lock(%s)", (_LOCK,))
            if await cursor.fetchall() != [(True,)]:
                return None
            number, note = await self._make(connection)
        if note is not None:
            await asyncio.to_thread(self._keep_anchor, note)
        return number

    async def upload_notes(self) -> None:
        """Put the notes that the bucket lacks into it. Raises StoreUnavailable and ArtifactError."""
        if self._bucket is None:
            return
        missing = "select n, note from checkpoint where not stored order by n limit %s"
        for number, note in await self._database.fetch(missing, (_MAX_UPLOADS,), timeout_s=_TIMEOUT_S):
            await asyncio.to_thread(self._bucket.put, number, note)
            stored = "update checkpoint set stored = true where n = %s"
            await self._database.fetch(stored, (number,), timeout_s=_TIMEOUT_S)

    async def _make(self, connection: "AsyncConnection[tuple[Any, ...]]") -> tuple[int | None, str | None]:
        """Return the number of a new checkpoint, and the note that is the anchor from now on, if there are such."""
        anchored = await self._check_anchor(connection)
        last = await _read_last(connection)
        heads = await _list_grown(connection)
        if not heads:
            return None, last.note if last.number > anchored and self._has_signed(last.note) else None
        add_heads(last.tree, heads)
        root = last.tree.compute_root()
        checkpoint = Checkpoint(
            log=self._key.public.name,
            size=last.tree.size,
            root=root,
            number=last.number + 1,
            previous=last.root,
            time=timestamp(datetime.now(UTC).timestamp()),
        )
        note = self._key.sign(checkpoint.render())
        await connection.execute(
            "insert into checkpoint (n, root, prev, heads, note, size, edge) values (%s, %s, %s, %s, %s, %s, %s)",
            (
                checkpoint.number,
                root,
                last.root,
                json.dumps(heads),
                note,
                checkpoint.size,
                last.tree.encode_subtrees(),
            ),
        )
        await connection.execute(
            "update chain set signed = head.seq from unnest(%s::text[], %s::bigint[]) as head (chain, seq) "
            "where chain.chain = head.chain",
            ([head.chain for head in heads], [head.seq for head in heads]),
        )
        return checkpoint.number, note

    def _has_signed(self, note: str) -> bool:
        try:
            open_note(note, (self._key.public,))
        except NoteError:
            return False
        return True

    async def _check_anchor(self, connection: "AsyncConnection[tuple[Any, ...]]") -> int:
        """Return the number of the last note that this node has seen; 0 without one.

        Raises CheckpointConflict if the database does not have it.
        """
        if (note := await asyncio.to_thread(read_anchor, self._anchor_file)) is None:
            return 0
        try:
            number = Checkpoint.parse(read_note_text(note)).number
        except NoteError:
            raise CheckpointConflict(
                f"{self._anchor_file} is no checkpoint. Nothing is signed. Run: paddock audit verify --cluster"
            ) from None
        cursor = await connection.execute("select note from checkpoint where n = %s", (number,))
        if await cursor.fetchall() != [(note,)]:
            raise CheckpointConflict(
                f"The database does not have checkpoint {number} as {self._anchor_file} has it: the record was rolled "
                "back or changed. Nothing is signed. Run: paddock audit verify --cluster. If you restored the "
                "database on purpose, remove that file on each replica that signs"
            )
        return number

    def _keep_anchor(self, note: str) -> None:
        with suppress(OSError):  # the next checkpoint tries again
            replace_file(self._anchor_file, note.encode())

    async def _attempt(self, what: str, work: "Callable[[], Awaitable[object]]") -> bool:
        """Do a part of the work, and return whether it succeeded. Log its failure once, and its end."""
        text, reported = "", self._reported.get(what, "")
        try:
            await work()
        except (StoreUnavailable, LedgerError, ArtifactError) as error:
            text = str(error)
        if text and text != reported:
            _log.warning("no %s: %s", what, text)
        elif reported and not text:
            _log.warning("%s again", what)
        self._reported[what] = text
        return not text


def read_anchor(path: Path) -> str | None:
    """Return the note in an anchor file; "" if it cannot be read, and None without one."""
    try:
        return read_own(path, 4 * MAX_NOTE_CHARS).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        return ""


async def _read_last(connection: "AsyncConnection[tuple[Any, ...]]") -> _Last:
    cursor = await connection.execute(
        "select n, root, size, edge, left(note, %s) from checkpoint order by n desc limit 1",
        (MAX_NOTE_CHARS + 1,),
    )
    rows = await cursor.fetchall()
    if not rows:
        return _Last(0, EMPTY_ROOT, MerkleTree(), "")
    [(number, root, size, edge, note)] = rows
    tree = MerkleTree.restore(size, edge, root)
    if tree is None:
        raise CheckpointConflict(
            f"Checkpoint {number} in the database was changed. Nothing is signed. Run: paddock audit verify --cluster"
        )
    return _Last(number, root, tree, note)


async def _list_grown(connection: "AsyncConnection[tuple[Any, ...]]") -> list[ChainHead]:
    """Return the last record of each chain that has grown since it was signed, in the order of the log."""
    cursor = await connection.execute(
        "select chain.node, chain.chain, last.seq, last.hash from chain cross join lateral ("
        "select seq, substring(line from greatest(octet_length(line) - 65, 1) for 64) as hash "
        "from record where record.node = chain.node and record.chain = chain.chain "
        "order by seq desc limit 1) as last "
        "where chain.seq > chain.signed and last.seq > chain.signed order by chain.chain limit %s",
        (MAX_HEADS,),
    )
    heads: list[ChainHead] = []
    for node, chain, seq, hash_ in await cursor.fetchall():
        with suppress(ValueError):  # a verifier reports such a row
            heads.append(ChainHead.parse([node, chain, seq, hash_.decode("latin-1")]))
    return sorted(heads, key=lambda head: (head.node.encode(), head.chain))
