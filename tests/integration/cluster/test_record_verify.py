"""Every edit of the shared record is found, and the finding says where it is."""

import asyncio
import json
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster_record import ClusterRecord, list_files, list_places, make_record, write_records
from tests.support.postgres import Postgres

from paddock.cluster.checkpoint import ChainHead, Checkpoint, add_heads
from paddock.cluster.database import Database
from paddock.cluster.merkle import MerkleTree
from paddock.cluster.signed_note import SigningKey, VerificationKey, read_note_text
from paddock.cluster.verify import KnownNote, RecordReport, check_record, verify_record
from paddock.record.ledger.line_format import encode_record, new_entry, parse_record
from paddock.record.ledger.verify import MAX_FINDINGS

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Edit = Callable[[Connection], Awaitable[None]]


async def verify_edited(
    record: ClusterRecord,
    edit: Edit,
    *,
    keys: Sequence[VerificationKey] = (),
    known: Sequence[KnownNote] = (),
) -> RecordReport:
    """Return what the verifier says after an edit, and undo that."""
    async with record.database.connect() as connection, connection.transaction(force_rollback=True):
        await edit(connection)
        return await check_record(connection, keys or [record.key.public], known=known)


Built = tuple[asyncio.Runner, ClusterRecord]


@pytest.fixture(scope="module")
def built(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """A record that tests edit and put back."""
    url = postgres.make_database("edited")
    with asyncio.Runner() as runner:
        database = Database(url)
        runner.run(database.__aenter__())
        yield runner, runner.run(make_record(database, tmp_path_factory.mktemp("edited")))
        runner.run(database.__aexit__(None, None, None))


def run_edits(
    built: Built, edit: Edit, *, keys: Sequence[VerificationKey] = (), known: Sequence[KnownNote] = ()
) -> RecordReport:
    runner, record = built
    return runner.run(verify_edited(record, edit, keys=keys, known=known))


def describe(report: RecordReport) -> list[tuple[str | None, int | None, int | None, str]]:
    return [(each.node, each.seq, each.checkpoint, each.message) for each in report.problems]


def execute(statement: str, *values: object) -> Edit:
    async def edit(connection: Connection) -> None:
        cursor = await connection.execute(statement.encode(), values)
        assert cursor.rowcount > 0

    return edit


def test_an_honest_record_has_no_problem(url: str, tmp_path: Path) -> None:
    async def run() -> RecordReport:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            return await verify_record(database, [record.key.public], directory=record.directories["b"])

    report = asyncio.run(run())
    assert (report.problems, report.notes) == ((), ())
    assert (report.nodes, report.chains, report.records, report.unsigned) == (3, 3, 15, 1)
    assert (report.checkpoints, report.last) == (3, 3)
    assert report.compared is not None


CHANGED = "has been changed: its hash does not match its content"
LINE = "node = 'b' and seq = 3"
SIGNED = "the table of chains has record {} as the last signed one, which is {}"


@pytest.mark.parametrize(
    ("statement", "problems"),
    [
        (
            f"update record set line = convert_to(replace(convert_from(line, 'UTF8'), 'denied', 'failed'), 'UTF8') where {LINE}",
            [("b", 3, None, CHANGED)],
        ),
        (f"update record set line = 'x' where {LINE}", [("b", 3, None, "is not a ledger record")]),
        (f"update record set line = '' where {LINE}", [("b", 3, None, "is not a ledger record")]),
        (f"delete from record where {LINE}", [("b", 3, None, "is missing")]),
        ("delete from record where node = 'b' and seq in (2, 3)", None),
        (
            "delete from record where node = 'b' and seq = 5",
            [("b", 5, 2, "is missing, and was signed"), ("b", 5, None, "is missing at the end")],
        ),
        (
            "delete from record where node = 'b' and seq > 3",
            [("b", 5, 2, "is missing, and was signed"), ("b", 4, None, "to 5 are missing at the end")],
        ),
        ("delete from record where node = 'b'", None),
        (
            f"update record set event = 'started' where {LINE}",
            [("b", 3, None, "has columns that its line does not have")],
        ),
        (
            f"update record set ts = ts + interval '1 ms' where {LINE}",
            [("b", 3, None, "has columns that its line does not have")],
        ),
        (
            f"update record set ts = 'infinity' where {LINE}",
            [("b", 3, None, "has columns that its line does not have")],
        ),
        (
            f"update record set request = 'x' where {LINE}",
            [("b", 3, None, "has columns that its line does not have")],
        ),
        (
            f"update record set parent = 'x' where {LINE}",
            [("b", 3, None, "has columns that its line does not have")],
        ),
        (f"update record set seq = 9 where {LINE}", None),
        (f"update record set seq = 0 where {LINE}", None),
        (f"update record set seq = -1 where {LINE}", None),
        (f"update record set node = 'a' where {LINE}", None),
        ("update record set node = 'd' where node = 'b'", None),
        (f"update record set chain = repeat('0', 16) where {LINE}", None),
        (
            "update chain set fault = 'the ledger was replaced' where node = 'b'",
            [("b", None, None, "reports: the ledger was replaced")],
        ),
        # The tables by which replicas ship and sign: without this check, signing could be stopped unnoticed.
        ("update chain set signed = 9 where node = 'b'", [("b", None, None, SIGNED.format(9, 5))]),
        ("update chain set signed = 0 where node = 'b'", [("b", None, None, SIGNED.format(0, 5))]),
        (
            "update chain set seq = 2 where node = 'b'",
            [("b", 3, None, "is after the last one in the table of chains")],
        ),
        ("update chain set seq = 9 where node = 'b'", [("b", 6, None, "to 9 are missing at the end")]),
        ("delete from chain where node = 'b'", [("b", None, None, "is not in the table of chains")]),
        ("update chain set node = 'd' where node = 'b'", None),
        ("update chain set chain = repeat('0', 16) where node = 'b'", None),
    ],
)
def test_an_edited_row_is_found(built: Built, statement: str, problems: list[Any] | None) -> None:
    report = run_edits(built, execute(statement))
    assert not report.ok
    assert problems is None or describe(report) == problems
    assert "b" in {each.node for each in report.problems}


def test_the_last_checkpoint_is_missed_by_the_table_of_chains(built: Built) -> None:
    remove = "delete from checkpoint where n = 3"
    report = run_edits(built, execute(remove))
    assert describe(report) == [
        ("a", None, None, SIGNED.format(6, 3)),
        ("c", None, None, SIGNED.format(3, 2)),
    ]
    assert report.unsigned == 5

    async def remove_all(connection: Connection) -> None:
        """Nothing but a note from elsewhere shows that."""
        await connection.execute(remove.encode())
        await connection.execute(
            "update chain set signed = case node when 'a' then 3 when 'b' then 5 else 2 end"
        )

    report = run_edits(built, remove_all)
    assert (report.problems, report.unsigned) == ((), 5)


CHANGES = {
    "bigint": "{0} + 1",
    "text": "coalesce({0}, '') || 'x'",
    "bytea": "coalesce({0}, '') || '\\x00'",
    "timestamp with time zone": "{0} + interval '1 s'",
    "jsonb": "'[]'",
}
UNSIGNED = {("checkpoint", "at"), ("checkpoint", "stored")}
"""The time of the database, which no note has, and what only a bucket shows."""


def test_a_change_of_any_column_is_found(built: Built) -> None:
    runner, record = built
    columns = runner.run(
        record.database.fetch(
            "select table_name, column_name, data_type from information_schema.columns "
            "where table_name in ('record', 'chain', 'checkpoint') order by 1, 2"
        )
    )
    missed: list[tuple[str, str]] = []
    for table, column, kind in columns:
        if (table, column) in UNSIGNED:
            continue
        row = {"checkpoint": "n = 3", "record": LINE, "chain": "node = 'b'"}[table]
        if (table, column) == ("record", "seq"):
            row = "node = 'b' and seq = 5"
        report = run_edits(
            built, execute(f"update {table} set {column} = {CHANGES[kind].format(column)} where {row}")
        )
        if report.ok:
            missed.append((table, column))
    assert (len(columns), missed) == (22, [])


def test_reordered_lines_are_found(built: Built) -> None:
    async def edit(connection: Connection) -> None:
        cursor = await connection.execute(
            "select seq, line from record where node = 'b' and seq in (2, 4) order by seq"
        )
        [(_, two), (_, four)] = await cursor.fetchall()
        for seq, line in ((2, four), (4, two)):
            await connection.execute("update record set line = %s where node = 'b' and seq = %s", (line, seq))

    assert describe(run_edits(built, edit)) == [
        ("b", 2, 1, "has another hash than was signed"),
        ("b", 2, None, "has the line of record 4"),
        ("b", 4, None, "has the line of record 2"),
    ]


async def forge_from(connection: Connection, node: str, seq: int) -> None:
    """Change a record and compute the rest of its chain again, as somebody does who knows the format."""
    cursor = await connection.execute("select line from record where node = %s order by seq", (node,))
    records = [parse_record(bytes(line)) for (line,) in await cursor.fetchall()]
    prev = records[seq - 1].prev
    for record in records[seq - 1 :]:
        facts = {**record.fields, "name": "forged"} if record.seq == seq else record.fields
        entry = new_entry(record.event, record.request, record.parent, facts)
        line, prev = encode_record(entry, seq=record.seq, ts=record.ts, prev=prev)
        await connection.execute(
            "update record set line = %s where node = %s and seq = %s", (line[:-1], node, record.seq)
        )


def test_a_hostile_user_of_the_database_cannot_forge_what_was_signed(built: Built) -> None:
    async def edit(connection: Connection) -> None:
        await forge_from(connection, "b", 3)

    assert describe(run_edits(built, edit)) == [("b", 5, 2, "has another hash than was signed")]


def test_records_after_the_last_checkpoint_are_not_protected(built: Built) -> None:
    async def edit(connection: Connection) -> None:
        await forge_from(connection, "c", 4)

    report = run_edits(built, edit)
    assert (report.problems, report.unsigned) == ((), 1)


async def sign_again(connection: Connection, place: int, key: SigningKey, **changes: Any) -> None:
    """Replace a note by another one, which `key` signs."""
    cursor = await connection.execute("select note from checkpoint where n = %s", (place,))
    [(note,)] = await cursor.fetchall()
    changed = Checkpoint.parse(read_note_text(note))._replace(**changes)
    await connection.execute(
        "update checkpoint set note = %s where n = %s", (key.sign(changed.render()), place)
    )


def test_a_checkpoint_of_another_key_is_found(built: Built, tmp_path: Path) -> None:
    other = SigningKey.make(tmp_path / "other.pem", "paddock")

    async def edit(connection: Connection) -> None:
        await sign_again(connection, 2, other)

    assert describe(run_edits(built, edit)) == [(None, None, 2, "is not signed by the given key")]


def test_a_forged_record_with_forged_checkpoints_is_found(url: str, tmp_path: Path) -> None:
    """A user of the database builds the whole record anew, with a key of their own."""

    async def run() -> RecordReport:
        async with Database(url) as database:
            (tmp_path / "forged").mkdir()
            await make_record(database, tmp_path / "forged")
            honest = SigningKey.make(tmp_path / "honest.pem", "paddock")
            return await verify_record(database, [honest.public])

    assert describe(asyncio.run(run())) == [
        (None, None, number, "is not signed by the given key") for number in (1, 2, 3)
    ]


def test_a_removed_checkpoint_is_found(built: Built) -> None:
    assert describe(run_edits(built, execute("delete from checkpoint where n = 2"))) == [
        (None, None, 2, "is missing")
    ]


def test_removing_all_checkpoints_is_found(built: Built) -> None:
    assert describe(run_edits(built, execute("delete from checkpoint"))) == [
        (None, None, None, "the record has no checkpoint: nothing is signed")
    ]


def test_removing_the_last_checkpoints_is_found_with_a_note_from_elsewhere(
    built: Built, tmp_path: Path
) -> None:
    runner, record = built
    [[note]] = runner.run(record.database.fetch("select note from checkpoint where n = 3"))
    known = [KnownNote("the note of march", note)]
    removed = run_edits(built, execute("delete from checkpoint where n > 1"), known=known)
    assert describe(removed) == [(None, None, 3, "is missing, and the note of march has it")]
    assert describe(run_edits(built, execute("select 1"), known=known)) == []
    other = SigningKey.make(tmp_path / "other.pem", "paddock")
    forged = [KnownNote("the note of march", other.sign(read_note_text(note)))]
    assert describe(run_edits(built, execute("select 1"), known=forged)) == [
        (None, None, None, "the checkpoint of the note of march is not signed by the given key")
    ]


def test_a_forked_checkpoint_is_found(built: Built) -> None:
    """The signer has signed two states of the log; the second one is put in the place of the first."""
    runner, record = built

    async def fork(connection: Connection) -> None:
        cursor = await connection.execute("select heads from checkpoint where n = 2")
        [(heads,)] = await cursor.fetchall()
        heads = [head for head in heads if head[0] != "b"]
        await connection.execute("delete from checkpoint where n >= 2")
        cursor = await connection.execute("select size, edge, root from checkpoint where n = 1")
        [(size, edge, previous)] = await cursor.fetchall()
        tree = MerkleTree.decode(size, edge)
        add_heads(tree, [ChainHead.parse(head) for head in heads])
        root = tree.compute_root()
        forked = Checkpoint("paddock", tree.size, root, 2, previous, "2026-11-28T18:00:00.000Z")
        await connection.execute(
            "insert into checkpoint (n, size, root, prev, edge, heads, note) values (2, %s, %s, %s, %s, %s, %s)",
            (
                *(tree.size, root, previous, tree.encode_subtrees()),
                *(json.dumps(heads), record.key.sign(forked.render())),
            ),
        )

    [[note]] = runner.run(record.database.fetch("select note from checkpoint where n = 2"))
    known = [KnownNote("the bucket", note)]
    assert describe(run_edits(built, fork, known=known)) == [
        (None, None, 2, "differs from that of the bucket")
    ]


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        (
            {"previous": bytes(32)},
            ["has columns that its note does not have", "does not continue the checkpoint before it"],
        ),
        ({"root": bytes(32)}, ["has columns that its note does not have", "signs other heads than it has"]),
        ({"size": 9}, ["has columns that its note does not have", "signs other heads than it has"]),
        ({"number": 3}, ["has columns that its note does not have"]),
    ],
)
def test_a_wrong_checkpoint_is_found_though_its_key_signed_it(
    built: Built, changes: dict[str, Any], problems: list[str]
) -> None:
    key = built[1].key
    report = run_edits(built, lambda connection: sign_again(connection, 2, key, **changes))
    assert [each.message for each in report.problems if each.checkpoint == 2] == problems


@pytest.mark.parametrize(
    "heads",
    [
        "null",
        "[]",
        "{}",
        "7",
        '"x"',
        '[["b", "0", 1, "0"]]',
        '[["b", "0123456789abcdef", 1.5, "0"]]',
        f'[["b", "0123456789abcdef", 3, "{"0" * 64}"]]',
    ],
)
def test_other_heads_than_the_signed_ones_are_found(built: Built, heads: str) -> None:
    report = run_edits(built, execute("update checkpoint set heads = %s where n = 2", heads))
    assert (None, None, 2) in list_places(report.problems)


def test_a_head_that_goes_back_is_found(url: str, tmp_path: Path) -> None:
    """A user of the database lets the signer sign an older state of a node."""

    async def run() -> RecordReport:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            await database.fetch("delete from record where node = 'b' and seq > 3")
            await database.fetch("update chain set signed = 1, seq = 3 where node = 'b'")
            await record.signer.make_checkpoint()
            return await verify_record(database, [record.key.public])

    assert ("b", 3, 4, "is a head that goes back: record 5 was signed before") in describe(asyncio.run(run()))


def test_the_ledger_of_this_machine_is_compared(url: str, tmp_path: Path) -> None:
    async def run() -> tuple[RecordReport, RecordReport]:
        async with Database(url) as database:
            record = await make_record(database, tmp_path)
            directory = record.directories["c"]
            async with database.connect() as connection:
                await forge_from(connection, "c", 4)
            changed = await verify_record(database, [record.key.public], directory=directory)
            file = list_files(directory)[-1]
            lines = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(b"".join(lines[:2]))
            (directory / "head").unlink()
            write_records(directory, 1)
            restored = await verify_record(database, [record.key.public], directory=directory)
            return changed, restored

    changed, restored = asyncio.run(run())
    assert describe(changed) == [("c", 4, None, "differs from the ledger of this machine")]
    assert ("c", 3, None, "differs from the ledger of this machine") in describe(restored)


def test_hostile_rows_take_bounded_memory_and_end_no_check(built: Built) -> None:
    async def edit(connection: Connection) -> None:
        for number in range(3):
            await connection.execute(
                "insert into record (node, chain, seq, ts, event, request, parent, line) values "
                "(repeat('n', 200), 'x', %s, '-infinity', repeat('e', 5000), '', repeat('p', 2000), %s)",
                (number, bytes(2_000_000)),
            )
        await connection.execute("update checkpoint set note = repeat('x', 1000000) where n = 1")
        await connection.execute(
            "update checkpoint set heads = (select jsonb_agg(repeat('x', 100)) from generate_series(1, 60000)) where n = 2"
        )

    report = run_edits(built, edit)
    assert {(None, None, 1), (None, None, 2)} <= list_places(report.problems)
    assert max(len(str(each.node)) for each in report.problems) <= 100


def test_a_large_record_is_read_in_pieces(built: Built) -> None:
    runner, record = built

    async def measure() -> int:
        async with record.database.connect() as connection, connection.transaction(force_rollback=True):
            await connection.execute(
                "insert into record (node, chain, seq, ts, event, request, line) "
                "select 'd', 'd', n, now(), 'x', 'x', convert_to(repeat('x', 20000), 'UTF8') "
                "from generate_series(1, 2000) as n"
            )
            tracemalloc.start()
            report = await check_record(connection, [record.key.public])
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert (len(report.problems), report.problems[-1].message) == (
                MAX_FINDINGS,
                "there are more than are listed here",
            )
            return peak

    assert runner.run(measure()) < 15_000_000  # all lines together have 40 MB


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, str, int, int]:
    node, count = draw(st.sampled_from([("a", 6), ("b", 5), ("c", 3)]))
    kind = draw(st.sampled_from(["flip", "drop", "swap", "cut", "forge", "copy", "insert"]))
    seq = draw(st.integers(1, count - (kind == "swap")))
    return kind, node, seq, draw(st.integers(0, 10_000))


async def carry_out(connection: Connection, kind: str, node: str, seq: int, at: int) -> None:
    place = node, seq
    cursor = await connection.execute("select line from record where node = %s and seq = %s", place)
    [(line,)] = await cursor.fetchall()
    match kind:
        case "flip":
            changed = bytearray(line)
            changed[at % len(line)] ^= 1 + at % 255
            await connection.execute(
                "update record set line = %s where node = %s and seq = %s", (changed, *place)
            )
        case "drop":
            await connection.execute("delete from record where node = %s and seq = %s", place)
        case "cut":
            await connection.execute("delete from record where node = %s and seq >= %s", place)
        case "swap":
            await connection.execute(
                "update record set line = other.line from record as other where record.node = other.node "
                "and record.node = %s and (record.seq, other.seq) in ((%s, %s), (%s, %s))",
                (node, seq, seq + 1, seq + 1, seq),
            )
        case "forge":
            await forge_from(connection, node, seq)
        case "copy":
            await connection.execute(
                "update record set line = %s where node = %s and seq = %s", (line, node, 1 if seq > 1 else 2)
            )
        case _:
            await connection.execute("update record set seq = -seq where node = %s and seq >= %s", place)
            await connection.execute("update record set seq = 1 - seq where node = %s and seq < 0", (node,))
            await connection.execute(
                "insert into record (node, chain, seq, ts, event, request, line) "
                "select node, chain, %s, ts, event, request, %s from record where node = %s limit 1",
                (seq, line, node),
            )


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(edit=edits())
def test_every_edit_of_a_signed_record_is_found(built: Built, edit: tuple[str, str, int, int]) -> None:
    kind, node, seq, at = edit
    report = run_edits(built, lambda connection: carry_out(connection, kind, node, seq, at))
    assert not report.ok
    assert {each.node for each in report.problems} == {node}
    # The first finding is at the record, or, where the rest of the chain was computed again, at the signed head.
    seqs = [each.seq for each in report.problems if each.seq is not None]
    signed = {"a": (3, 6), "b": (2, 5), "c": (1, 2, 3)}[node]
    other = 1 if seq > 1 else 2
    head = next(head for head in signed if head >= seq)
    expected = {"copy": other, "forge": head if seq > 1 else 1}.get(kind, seq)
    # A second copy of record 1 in its own place is record 1: the next one is the first that is wrong.
    assert min(seqs) in {expected, expected + (kind == "insert")} or (kind == "cut" and min(seqs) in signed)
