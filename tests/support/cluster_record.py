"""A small record of several nodes, in a real database."""

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.processes import PATIENCE_S

from paddock.cluster.database import Database
from paddock.cluster.migrate import migrate
from paddock.cluster.ship import Shipper
from paddock.cluster.sign import CheckpointSigner
from paddock.cluster.signed_note import SigningKey
from paddock.cluster.verify import RecordFinding
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import new_id
from paddock.record.ledger.writer import Ledger


def write_records(directory: Path, count: int, *, at: float | None = None) -> None:
    """Write records to the ledger of a node, and close it."""
    with Ledger(directory) if at is None else Ledger(directory, clock=lambda: at) as ledger:
        for number in range(count):
            ledger.append("decided", new_id(), {"name": f"record {number}", "status": "denied"})


async def ship_all(shipper: Shipper) -> None:
    """Ship until nothing is left."""
    while await shipper.ship_chunk():
        pass


def read_lines(directory: Path) -> list[bytes]:
    """Return the lines of a ledger in order, without newlines."""
    return [line for file in sorted(directory.glob("*.ndjson")) for line in file.read_bytes().splitlines()]


def list_files(directory: Path) -> list[Path]:
    """Return the dated files of a ledger, oldest first."""
    return sorted(directory.glob("*.ndjson"))


def copy_ledger(directory: Path, copy: Path) -> None:
    """Copy a ledger as a backup does."""
    shutil.copytree(directory, copy)


async def wait_for(database: Database, query: str, value: object) -> None:
    """Wait until a query returns a value."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(StoreUnavailable):
                if await database.fetch(query) == [(value,)]:
                    return
            await asyncio.sleep(0.05)


async def fetch_lines(database: Database, node: str) -> list[bytes]:
    """Return the lines of a node in the database, in the order of their numbers."""
    rows = await database.fetch("select line from record where node = %s order by chain, seq", (node,))
    return [bytes(line) for (line,) in rows]


class ClusterRecord:
    """Nodes with ledgers, and a signer."""

    def __init__(self, database: Database, folder: Path, nodes: Sequence[str]) -> None:
        self.database = database
        self.nodes = tuple(nodes)
        self.directories = {node: folder / node for node in nodes}
        self.shippers = {node: Shipper(database, folder / node, node) for node in nodes}
        self.key = SigningKey.make(folder / "key.pem", "paddock")
        (folder / "signer").mkdir(mode=0o700)
        self.signer = CheckpointSigner(database, self.key, folder / "signer")

    async def grow(self, counts: Sequence[int], *, sign: bool = True) -> None:
        """Write some records on each node, ship them, and make a checkpoint."""
        for node, count in zip(self.nodes, counts, strict=True):
            if count:
                write_records(self.directories[node], count)
                await ship_all(self.shippers[node])
        if sign:
            await self.signer.make_checkpoint()


async def make_record(database: Database, folder: Path) -> ClusterRecord:
    """Return a record of three nodes: 6, 5 and 4 records, of which the last one of `c` is not signed; 3 checkpoints."""
    await migrate(database)
    record = ClusterRecord(database, folder, ["a", "b", "c"])
    await record.grow([3, 2, 1])
    await record.grow([0, 3, 1])
    await record.grow([3, 0, 1])
    await record.grow([0, 0, 1], sign=False)
    return record


def list_places(findings: Sequence[RecordFinding]) -> set[tuple[str | None, int | None, int | None]]:
    """Return node, record and checkpoint of each finding."""
    return {(each.node, each.seq, each.checkpoint) for each in findings}
