"""Ledgers reach the database line by line: none is lost, none is doubled."""

import asyncio
import os
import random
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.support.cluster_record import (
    copy_ledger,
    fetch_lines,
    list_files,
    read_lines,
    ship_all,
    wait_for,
    write_records,
)
from tests.support.postgres import Postgres, find_free_port

from paddock.cluster.database import Database
from paddock.cluster.ledger_lines import LedgerLines
from paddock.cluster.migrate import migrate
from paddock.cluster.ship import MAX_CHUNK_BYTES, ChainFault, Shipper
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import new_id
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger

T = TypeVar("T")
DAY_S = 86_400
NOON = 1_780_000_000.0
KILLS = int(os.environ.get("PADDOCK_RECORD_KILLS", "4"))
"""Number of times that a writer is killed: 4 in continuous integration."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "audit"


def run(url: str, work: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    """Return what `work` returns, in a database with tables."""

    async def main() -> T:
        async with Database(url) as database:
            await migrate(database)
            return await work(database)

    return asyncio.run(main())


def tear(file: Path) -> None:
    """Leave a part of a record, as a killed writer does."""
    with file.open("ab") as torn:
        torn.write(b'{"v":1,"seq":3,"id":"x')


def edit(file: Path) -> None:
    """Change a record."""
    file.write_bytes(file.read_bytes().replace(b"record 1", b"record 7"))


def test_lines_arrive_as_they_are_over_files_and_starts(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        for day in range(3):
            write_records(directory, 4, at=NOON + day * DAY_S)
            await ship_all(Shipper(database, directory, "a"))
        assert len(list_files(directory)) == 3
        lines = read_lines(directory)
        assert await fetch_lines(database, "a") == lines
        assert len(lines) == 12
        [[chains, node]] = await database.fetch("select count(*), min(node) from chain")
        assert (chains, node) == (1, "a")

    run(url, work)


def test_everything_is_shipped_that_was_written_before(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        write_records(directory, 30, at=NOON)
        write_records(directory, 20, at=NOON + DAY_S)
        await ship_all(Shipper(database, directory, "a"))
        assert await fetch_lines(database, "a") == read_lines(directory)

    run(url, work)


def test_what_a_crash_left_is_not_shipped_and_its_repair_is(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        write_records(directory, 2)
        [file] = list_files(directory)
        tear(file)
        shipper = Shipper(database, directory, "a")
        await ship_all(shipper)
        assert await fetch_lines(database, "a") == read_lines(directory)[:2]
        write_records(directory, 1)
        await ship_all(shipper)
        whole = [line for line in read_lines(directory) if line.endswith(b'"}')]
        assert await fetch_lines(database, "a") == whole
        assert [b'"recovered"' in line for line in whole] == [False, False, True, False]

    run(url, work)


def test_two_processes_ship_the_same_ledger_once(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        async with Database(url) as other:
            shippers = [Shipper(database, directory, "a"), Shipper(other, directory, "a")]
            for _ in range(10):
                write_records(directory, 5)
                await asyncio.gather(*map(ship_all, shippers))
            await asyncio.gather(*map(ship_all, shippers))
        assert await fetch_lines(database, "a") == read_lines(directory)

    run(url, work)


def test_a_renamed_node_continues_its_chain(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        write_records(directory, 2)
        await ship_all(Shipper(database, directory, "a"))
        write_records(directory, 2)
        await ship_all(Shipper(database, directory, "b"))
        assert await fetch_lines(database, "a") == read_lines(directory)
        assert await fetch_lines(database, "b") == []

    run(url, work)


def test_a_new_ledger_of_a_node_is_a_new_chain(url: str, tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        for name in ("one", "two"):
            write_records(tmp_path / name, 3)
            await ship_all(Shipper(database, tmp_path / name, "a"))
        both = sorted([*read_lines(tmp_path / "one"), *read_lines(tmp_path / "two")])
        assert sorted(await fetch_lines(database, "a")) == both
        [[chains]] = await database.fetch("select count(*) from chain where node = 'a'")
        assert chains == 2

    run(url, work)


def test_a_ledger_without_its_old_files_continues(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        write_records(directory, 3, at=NOON)
        write_records(directory, 3, at=NOON + DAY_S)
        lines = read_lines(directory)
        await ship_all(Shipper(database, directory, "a"))
        list_files(directory)[0].unlink()
        write_records(directory, 2, at=NOON + DAY_S)
        await ship_all(Shipper(database, directory, "a"))
        assert await fetch_lines(database, "a") == [*lines, *read_lines(directory)[3:]]

    run(url, work)


def test_a_restored_database_gets_what_it_lacks(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        write_records(directory, 6)
        shipper = Shipper(database, directory, "a")
        await ship_all(shipper)
        await database.fetch("delete from record where seq > 2")
        write_records(directory, 1)
        await ship_all(shipper)
        assert await fetch_lines(database, "a") == read_lines(directory)

    run(url, work)


def test_an_older_copy_of_a_ledger_is_not_shipped(url: str, directory: Path, tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        write_records(directory, 3)
        copy_ledger(directory, tmp_path / "copy")
        write_records(directory, 3)
        await ship_all(Shipper(database, directory, "a"))
        shipped = await fetch_lines(database, "a")
        write_records(tmp_path / "copy", 5)
        with pytest.raises(ChainFault) as fault:
            await ship_all(Shipper(database, tmp_path / "copy", "a"))
        assert str(fault.value) == (
            f"The ledger {tmp_path / 'copy'} of node a has no record 6 as the database has it: an older copy of it was "
            "restored, or its files were changed. It is not shipped any more. Move it away to begin a new chain."
        )
        assert await fetch_lines(database, "a") == shipped
        assert await database.fetch("select fault from chain") == [(str(fault.value),)]
        # The honest ledger goes on, and the fault is gone.
        write_records(directory, 1)
        await ship_all(Shipper(database, directory, "a"))
        assert await database.fetch("select fault from chain") == [(None,)]

    run(url, work)


def test_a_changed_line_of_the_ledger_is_a_gap_in_the_database(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        write_records(directory, 4)
        [file] = list_files(directory)
        edit(file)
        await ship_all(Shipper(database, directory, "a"))
        assert await database.fetch("select seq from record order by seq") == [(1,), (3,), (4,)]

    run(url, work)


def test_texts_that_a_database_cannot_store_reach_it_in_the_line(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        with Ledger(directory) as ledger:
            ledger.append("decided", "a\0\tb\\n\n\r\\.", {"name": "é\0"}, parent="\\N")
        await ship_all(Shipper(database, directory, "a"))
        assert await fetch_lines(database, "a") == read_lines(directory)
        assert await database.fetch("select request, parent from record") == [("a\ufffd\tb\\n\n\r\\.", "\\N")]

    run(url, work)


def test_a_batch_is_bounded(directory: Path) -> None:
    with Ledger(directory) as ledger:
        for _ in range(300):
            ledger.append("decided", "r", {f"f{number}": "x" * 512 for number in range(40)})
    lines = LedgerLines(directory)
    batches: list[int] = []
    while batch := lines.read_chunk(MAX_CHUNK_BYTES):
        batches.append(sum(len(line.data) for line in batch))
    assert max(batches) < MAX_CHUNK_BYTES + 64 * 1024
    assert sum(batches) == sum(map(len, read_lines(directory)))


def test_flush_waits_for_the_database(url: str, directory: Path) -> None:
    async def work(database: Database) -> None:
        shipper = Shipper(database, directory, "a")
        running = asyncio.create_task(shipper.run())
        await shipper.flush()
        with Ledger(directory) as ledger:
            for number in range(20):
                ledger.append("decided", new_id(), {})
                await shipper.flush()
                assert await database.fetch("select count(*) from record") == [(number + 1,)]
        running.cancel()

    run(url, work)


def test_flush_fails_without_the_database_and_shipping_goes_on_later(directory: Path) -> None:
    async def work() -> None:
        port = find_free_port()
        async with Database(f"postgresql://postgres@127.0.0.1:{port}/postgres", connect_s=0.2) as database:
            shipper = Shipper(database, directory, "a")
            running = asyncio.create_task(shipper.run())
            write_records(directory, 1)
            with pytest.raises(StoreUnavailable) as away:
                await shipper.flush()
            assert str(away.value).startswith("The database of cluster.url cannot be used: ")
            assert not running.done()
            running.cancel()

    asyncio.run(work())


def test_a_locked_table_delays_shipping_alone(url: str, directory: Path) -> None:
    """A node records and goes on while the database does not take its lines."""

    async def work(database: Database) -> None:
        running = asyncio.create_task(Shipper(database, directory, "a").run())
        async with Database(url) as other:
            async with other.connect() as connection, connection.transaction():
                await connection.execute("lock table record in exclusive mode")
                write_records(directory, 5)
                shipping = "select count(*) > 0 from pg_locks where mode = 'RowExclusiveLock' and not granted"
                await wait_for(database, shipping, value=True)
                write_records(directory, 5)
                assert await database.fetch("select count(*) from record") == [(0,)]
            await wait_for(database, "select count(*) from record", 10)
        running.cancel()

    run(url, work)


def test_an_absent_database_gets_everything_when_it_is_back(directory: Path) -> None:
    async def work(server: Postgres) -> None:
        async with Database(server.url) as database:
            await migrate(database)
            running = asyncio.create_task(Shipper(database, directory, "a").run())
            for _ in range(3):
                write_records(directory, 10)
                server.kill()
                write_records(directory, 10)
                server.start()
            await wait_for(database, "select count(*) from record", 60)
            assert await fetch_lines(database, "a") == read_lines(directory)
            running.cancel()

    with Postgres() as server:
        asyncio.run(work(server))


def test_kills_in_the_middle_lose_and_double_nothing(directory: Path) -> None:
    """Writers are killed with SIGKILL while they ship, and the database is killed as well."""
    chance = random.Random(39)

    async def work(server: Postgres) -> list[bytes]:
        async with Database(server.url) as database:
            await migrate(database)
            for number in range(KILLS):
                [[before]] = await database.fetch("select count(*) from record")
                command = [
                    sys.executable,
                    "-m",
                    "tests.support.ship_forever",
                    server.url,
                    str(directory),
                    "a",
                ]
                writer = await asyncio.create_subprocess_exec(*command)
                more = f"select count(*) > {before + chance.randrange(600)} from record"
                await wait_for(database, more, value=True)
                if number % 4 == 3:
                    server.kill()
                    server.start()
                writer.kill()
                await writer.wait()
            write_records(directory, 1)
            await ship_all(Shipper(database, directory, "a"))
            return await fetch_lines(database, "a")

    with Postgres() as server:
        shipped = asyncio.run(work(server))
        assert verify(directory).ok
        assert shipped == [line for line in read_lines(directory) if line.endswith(b'"}')]
        assert server.query("select count(*), max(seq), count(distinct chain) from record") == [
            f"{len(shipped)}|{len(shipped)}|1"
        ]
