"""Who makes checkpoints, and what is refused."""

import asyncio
from pathlib import Path

import pytest
from tests.support.cluster_record import make_record, ship_all, wait_for, write_records

from paddock.cluster.bucket import CheckpointBucket
from paddock.cluster.database import Database
from paddock.cluster.sign import ANCHOR_NAME, CheckpointConflict, CheckpointSigner
from paddock.cluster.verify import RecordFinding, verify_record
from paddock.model.errors import ArtifactError


def test_signers_take_turns(url: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with Database(url) as database, Database(url) as other:
            record = await make_record(database, tmp_path)
            (tmp_path / "two").mkdir(mode=0o700)
            signers = [record.signer, CheckpointSigner(other, record.key, tmp_path / "two")]
            made: list[int | None] = []
            for _ in range(5):
                await record.grow([1, 1, 1], sign=False)
                made += await asyncio.gather(*(signer.make_checkpoint() for signer in signers))
            assert [number for number in made if number is not None] == [4, 5, 6, 7, 8]
            assert (await verify_record(database, [record.key.public])).problems == ()

    asyncio.run(run())


def test_an_idle_cluster_makes_no_checkpoint(url: str, tmp_path: Path) -> None:
    async def run() -> list[int | None]:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            return [await record.signer.make_checkpoint() for _ in range(3)]

    assert asyncio.run(run()) == [4, None, None]


@pytest.mark.parametrize(
    "edit",
    [
        "delete from checkpoint where n = 3",
        "delete from checkpoint",
        "update checkpoint set note = note || 'x' where n = 3",
    ],
)
def test_a_signer_does_not_continue_a_record_that_lacks_its_last_note(
    url: str, tmp_path: Path, edit: str
) -> None:
    async def run() -> None:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            await database.fetch(edit)
            again = CheckpointSigner(database, record.key, tmp_path / "signer")  # after a restart
            await again.make_checkpoint()

    with pytest.raises(CheckpointConflict) as refused:
        asyncio.run(run())
    assert str(refused.value) == (
        f"The database does not have checkpoint 3 as {tmp_path / 'signer' / ANCHOR_NAME} has it: the record was rolled "
        "back or changed. Nothing is signed. Run: paddock audit verify --cluster. If you restored the database on "
        "purpose, remove that file on each replica that signs"
    )


@pytest.mark.parametrize("edit", ["root = '\\x00'", "size = 9", "edge = ''"])
def test_a_signer_does_not_continue_a_changed_checkpoint(url: str, tmp_path: Path, edit: str) -> None:
    async def run() -> None:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            await database.fetch(f"update checkpoint set {edit} where n = 3")
            await record.signer.make_checkpoint()

    with pytest.raises(CheckpointConflict) as refused:
        asyncio.run(run())
    assert str(refused.value) == (
        "Checkpoint 3 in the database was changed. Nothing is signed. Run: paddock audit verify --cluster"
    )


def test_a_signer_keeps_the_notes_of_others_too(url: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            (tmp_path / "two").mkdir(mode=0o700)
            other = CheckpointSigner(database, record.key, tmp_path / "two")
            await record.signer.make_checkpoint()
            assert await other.make_checkpoint() is None

    asyncio.run(run())
    assert (tmp_path / "two" / ANCHOR_NAME).read_bytes() == (tmp_path / "signer" / ANCHOR_NAME).read_bytes()


def test_the_bucket_keeps_each_note_once(url: str, tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    bucket = CheckpointBucket(f"file://{tmp_path / 'bucket'}")

    async def run() -> list[tuple[RecordFinding, ...]]:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            signer = CheckpointSigner(database, record.key, tmp_path / "signer", bucket)
            await signer.upload_notes()
            await signer.upload_notes()
            rows = await database.fetch("select n, note, stored from checkpoint order by n")
            assert [(bucket.read(n), True) for n, _, _ in rows] == [
                (note, stored) for _, note, stored in rows
            ]
            reports = [await verify_record(database, [record.key.public], bucket=bucket)]
            await database.fetch("delete from checkpoint where n > 1")
            reports.append(await verify_record(database, [record.key.public], bucket=bucket))
            return [report.problems for report in reports]

    honest, removed = asyncio.run(run())
    assert honest == ()
    assert removed == (RecordFinding(checkpoint=3, message="is missing, and the bucket has it"),)


def test_a_note_that_is_kept_from_the_bucket_is_found(url: str, tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    bucket = CheckpointBucket(f"file://{tmp_path / 'bucket'}")

    async def run() -> list[tuple[RecordFinding, ...]]:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            signer = CheckpointSigner(database, record.key, tmp_path / "signer", bucket)
            found: list[tuple[RecordFinding, ...]] = []
            for marked in (1, 5):
                await database.fetch("update checkpoint set stored = true where n >= %s", (marked,))
                report = await verify_record(database, [record.key.public], bucket=bucket)
                found.append(report.problems)
                await database.fetch("update checkpoint set stored = false")
                await record.grow([1, 1, 1])
                await signer.upload_notes()
                await record.grow([1, 1, 1])
            return found

    text = "is marked as stored in the bucket, which does not have it"
    assert asyncio.run(run()) == [
        (RecordFinding(checkpoint=1, message=text),),
        (RecordFinding(checkpoint=5, message=text),),
    ]


def test_the_bucket_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    bucket = CheckpointBucket(f"file://{tmp_path / 'bucket'}")
    bucket.put(7, "one")
    bucket.put(7, "one")
    with pytest.raises(ArtifactError) as refused:
        bucket.put(7, "two")
    assert str(refused.value) == (
        "The bucket has another checkpoint 7 than the database: one of them was changed. "
        "Run: paddock audit verify --cluster"
    )
    assert (bucket.read(7), bucket.read(8), bucket.find_last(0), bucket.find_last(7)) == (
        "one",
        None,
        7,
        None,
    )


def test_checkpoints_are_made_while_run_runs(url: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            running = asyncio.create_task(record.signer.run())
            write_records(record.directories["a"], 1)
            await ship_all(record.shippers["a"])
            await wait_for(database, "select max(n) from checkpoint", 4)
            running.cancel()

    asyncio.run(run())
