"""Searching the ledger: the index answers as reading everything would, and whatever becomes of it shows nothing false."""

import fcntl
import json
import os
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger import index as ledger_index
from paddock.record.ledger.index import INDEX_FILE_NAME
from paddock.record.ledger.read import read
from paddock.record.ledger.search import RecordFilter, find
from paddock.record.ledger.sink import AuditRecord
from paddock.record.ledger.writer import Ledger

NOON = 1_772_366_400.0
"""2026-03-01, 12:00 UTC."""
DAY = 86_400


def by_reading(directory: Path, wanted: RecordFilter, *, newest_first: bool = True) -> list[AuditRecord]:
    return [record for record in read(directory, newest_first=newest_first) if wanted.matches(record)]


def no_index(directory: Path) -> bool:
    return not any(path.name.startswith(INDEX_FILE_NAME) for path in directory.iterdir())


@pytest.fixture
def ledger(directory: Path) -> Path:
    """Make a ledger of two days: a program that calls two servers, one of them in vain, and a script tool."""
    now = [NOON]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        for day in range(2):
            now[0] = NOON + day * DAY
            program = new_id(now[0])
            ledger.claim(program, {"actor": "ada", "kind": "guest", "name": "program"})
            for server, status in (("git", "ok"), ("time", "failed")):
                call = new_id(now[0])
                facts = {"actor": "ada", "kind": "server", "name": f"{server}/now"}
                ledger.claim(call, facts, parent=program)
                ledger.append("finished", call, {**facts, "status": status}, parent=program)
            facts = {"actor": "bob", "kind": "tool", "name": "word_count", "status": "denied"}
            ledger.append("decided", new_id(now[0]), facts)
            ledger.append("finished", program, {"actor": "ada", "kind": "guest", "status": "ok"})
    return directory


WANTED = [
    (RecordFilter(), 14),
    (RecordFilter(event="started"), 6),
    (RecordFilter(actor="ada"), 12),
    (RecordFilter(actor="nobody"), 0),
    (RecordFilter(status="failed"), 2),
    (RecordFilter(server="git"), 4),
    (RecordFilter(server="git", status="ok"), 2),
    (RecordFilter(server="git", status="failed"), 0),
    (RecordFilter(tool="now"), 8),
    (RecordFilter(tool="git/now"), 4),
    (RecordFilter(tool="git.now", status="ok"), 2),
    (RecordFilter(tool="git/now", server="time"), 0),
    (RecordFilter(tool="/word_count"), 0),
    (RecordFilter(tool="word_count"), 2),
    (RecordFilter(since=datetime(2026, 3, 2, tzinfo=UTC)), 7),
    (RecordFilter(since=datetime(2026, 3, 2, tzinfo=UTC), tool="now", event="finished"), 2),
    (RecordFilter(since=datetime(2026, 3, 3, tzinfo=UTC)), 0),
    (RecordFilter(until=datetime(2026, 3, 2, tzinfo=UTC)), 7),
    (RecordFilter(until=datetime(2026, 3, 2, tzinfo=UTC), actor="bob"), 1),
    (RecordFilter(since=datetime(2026, 3, 2, tzinfo=UTC), until=datetime(2026, 3, 3, tzinfo=UTC)), 7),
    (RecordFilter(until=datetime(2026, 3, 1, tzinfo=UTC)), 0),
]


@pytest.mark.parametrize(("wanted", "count"), WANTED)
def test_records_are_found_by_what_they_say(ledger: Path, wanted: RecordFilter, count: int) -> None:
    found = list(find(ledger, wanted))
    assert found == by_reading(ledger, wanted)
    assert len(found) == count
    assert list(find(ledger, wanted, newest_first=False)) == found[::-1]
    assert list(find(ledger, wanted, limit=1)) == found[:1]
    assert list(find(ledger, wanted, limit=0)) == []
    assert list(find(ledger, wanted, limit=2**64)) == found


def test_an_id_finds_its_record_its_request_and_what_that_called(ledger: Path) -> None:
    (program, *_) = find(ledger, RecordFilter(event="started"), newest_first=False)
    assert [record.seq for record in find(ledger, RecordFilter(name=program.request))] == [7, 5, 4, 3, 2, 1]
    assert [record.seq for record in find(ledger, RecordFilter(request=program.request))] == [7, 1]
    assert [record.seq for record in find(ledger, RecordFilter(name=program.id))] == [1]
    assert [record.seq for record in find(ledger, RecordFilter(name=program.request, server="git"))] == [3, 2]
    assert list(find(ledger, RecordFilter(name="nothing"))) == []
    assert list(find(ledger, RecordFilter(name="\ud800"))) == []


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("wanted", [RecordFilter(), RecordFilter(actor="ada"), RecordFilter(event="started")])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_search_continues_after_a_record(
    ledger: Path, wanted: RecordFilter, *, newest_first: bool, indexed: bool
) -> None:
    ledger.chmod(0o700 if indexed else 0o777)  # a directory that others may write to has no index
    everything = by_reading(ledger, wanted, newest_first=newest_first)
    for number, record in enumerate(everything, 1):
        found = find(ledger, wanted, limit=3, newest_first=newest_first, beyond=record.id)
        assert list(found) == everything[number : number + 3]
    assert list(find(ledger, wanted, newest_first=newest_first, beyond=new_id())) == []


def test_without_a_ledger_nothing_is_found_and_nothing_made(directory: Path) -> None:
    assert list(find(directory, RecordFilter(status="ok"))) == []
    assert not directory.exists()


def test_a_time_without_a_zone_is_refused(ledger: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        find(ledger, RecordFilter(since=datetime(2026, 3, 2)))  # noqa: DTZ001
    assert (
        str(caught.value)
        == "`since` has no time zone, so that its time is not known. Pass an aware datetime."
    )


def test_writers_do_not_touch_the_index(directory: Path, write: Callable[..., None]) -> None:
    write(3)
    assert no_index(directory)
    assert len(list(find(directory, RecordFilter(event="decided")))) == 3
    before = (directory / INDEX_FILE_NAME).stat().st_mtime_ns
    write(2)
    assert (directory / INDEX_FILE_NAME).stat().st_mtime_ns == before
    assert len(list(find(directory, RecordFilter(event="decided")))) == 5


def test_only_what_is_new_is_read_into_the_index(
    directory: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(20)
    assert len(list(find(directory, RecordFilter(event="decided")))) == 20
    parsed: list[bytes] = []
    loads = ledger_index.orjson.loads
    monkeypatch.setattr(ledger_index.orjson, "loads", lambda line: parsed.append(line) or loads(line))
    assert len(list(find(directory, RecordFilter(event="decided")))) == 20
    assert len(parsed) == 0
    write(2)
    write(3, day=1)
    assert len(list(find(directory, RecordFilter(event="decided")))) == 25
    assert len(parsed) == 5


def test_progress_is_told_between_batches(
    directory: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(50)
    monkeypatch.setattr(ledger_index, "_BATCH_BYTES", 1000)
    told: list[tuple[int, int]] = []
    size = (directory / "2026-03-01.ndjson").stat().st_size
    assert (
        len(list(find(directory, RecordFilter(event="decided"), on_progress=lambda *each: told.append(each))))
        == 50
    )
    assert told[-1] == (size, size)
    assert len(told) > size // 1000
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_line_longer_than_a_batch_hides_no_record_behind_it(
    directory: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1)
    with (directory / "2026-03-01.ndjson").open("ab") as file:
        file.write(b"x" * 200_000 + b"\n")
    write(1)
    monkeypatch.setattr(ledger_index, "_BATCH_BYTES", 1000)
    assert len(list(find(directory, RecordFilter(event="decided")))) == 2


def test_an_interrupted_build_goes_on_where_it_was(
    directory: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(50)
    monkeypatch.setattr(ledger_index, "_BATCH_BYTES", 1000)

    def interrupt(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(find(directory, RecordFilter(event="decided"), on_progress=interrupt))
    told: list[int] = []
    found = list(
        find(directory, RecordFilter(event="decided"), on_progress=lambda _, total: told.append(total))
    )
    assert len(found) == 50
    assert told[0] < (directory / "2026-03-01.ndjson").stat().st_size / 2


def test_what_is_shown_is_read_in_the_ledger(ledger: Path) -> None:
    """The index names the old record; a forged one in its place is shown only if it is intact and asked for."""
    assert len(list(find(ledger, RecordFilter(server="git")))) == 4
    file = ledger / "2026-03-01.ndjson"
    facts = file.stat()
    file.write_bytes(file.read_bytes().replace(b"git/now", b"gut/now"))
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert [record.ts[:10] for record in find(ledger, RecordFilter(server="git"))] == ["2026-03-02"] * 2
    assert list(find(ledger, RecordFilter(server="gut"))) == []


def _shorter(file: Path) -> None:
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))


def _other(file: Path) -> None:
    copy = file.read_bytes()
    file.unlink()
    (file.parent / "keeps-the-inode").touch()
    file.write_bytes(copy)


def _changed(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"git/now", b"gut/now"))


def _changed_and_longer(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:-1], lines[-1].upper(), lines[0]]))


@pytest.mark.parametrize("change", [Path.unlink, _shorter, _other, _changed, _changed_and_longer])
@pytest.mark.parametrize("name", ["2026-03-01.ndjson", "2026-03-02.ndjson"])
def test_an_index_that_disagrees_with_the_files_is_made_anew(
    ledger: Path, change: Callable[[Path], object], name: str
) -> None:
    assert len(list(find(ledger, RecordFilter(server="git")))) == 4
    change(ledger / name)
    for wanted, _ in WANTED:
        assert list(find(ledger, wanted)) == by_reading(ledger, wanted)


def _garbage(index: Path) -> None:
    index.write_bytes(b"not a database" * 1000)


def _cut(index: Path) -> None:
    os.truncate(index, index.stat().st_size // 2)


def _empty(index: Path) -> None:
    index.write_bytes(b"")


def _gone(index: Path) -> None:
    index.unlink()


def _sql(statement: str) -> Callable[[Path], None]:
    def change(index: Path) -> None:
        with sqlite3.connect(index) as database:
            database.executescript(statement)
        database.close()

    change.__name__ = statement[:20]
    return change


_DAMAGE = [
    _garbage,
    _cut,
    _empty,
    _gone,
    _sql("PRAGMA user_version = 2"),
    _sql("DROP TABLE name"),
    _sql("DROP INDEX record_facts"),
    _sql("ALTER TABLE record ADD COLUMN more TEXT"),
    _sql("CREATE TRIGGER t AFTER INSERT ON file BEGIN DELETE FROM record; END"),
    _sql("CREATE VIEW v AS SELECT 1"),
    _sql("DROP TABLE record; CREATE VIEW record AS SELECT 1 AS place, 1 AS facts, 1 AS ms"),
    _sql("DELETE FROM file"),
]


@pytest.mark.parametrize("damage", _DAMAGE)
def test_a_damaged_index_is_made_anew(ledger: Path, damage: Callable[[Path], None]) -> None:
    list(find(ledger, RecordFilter(server="git")))
    damage(ledger / INDEX_FILE_NAME)
    for wanted, _ in WANTED:
        assert list(find(ledger, wanted)) == by_reading(ledger, wanted)
    with Ledger(ledger, clock=lambda: NOON + 2 * DAY) as writer:
        writer.append("finished", "r", {"kind": "server", "name": "git/log"})
    assert len(list(find(ledger, RecordFilter(server="git")))) == 5


@pytest.mark.parametrize(
    "name",
    [INDEX_FILE_NAME, f"{INDEX_FILE_NAME}-wal", f"{INDEX_FILE_NAME}-shm", f"{INDEX_FILE_NAME}-journal"],
)
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "other name", "open to others"])
def test_what_is_planted_in_place_of_the_index_is_removed_and_not_opened(
    ledger: Path, tmp_path: Path, name: str, kind: str
) -> None:
    aside, planted = tmp_path / "aside", ledger / name
    aside.write_bytes(b"kept" * 2000)
    match kind:
        case "link":
            planted.symlink_to(aside)
        case "dangling":
            planted.symlink_to(tmp_path / "nowhere")
        case "pipe":
            os.mkfifo(planted)
        case "other name":
            planted.hardlink_to(aside)
        case _:
            planted.touch()
            planted.chmod(0o666)
    assert len(list(find(ledger, RecordFilter(server="git")))) == 4
    assert aside.read_bytes() == b"kept" * 2000
    assert not (tmp_path / "nowhere").exists()
    assert (ledger / INDEX_FILE_NAME).is_file()
    assert (ledger / INDEX_FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_an_index_of_another_user_is_removed(ledger: Path, as_root: None) -> None:
    list(find(ledger, RecordFilter(server="git")))
    os.chown(ledger / INDEX_FILE_NAME, 65534, 65534)
    assert len(list(find(ledger, RecordFilter(server="git")))) == 4
    assert (ledger / INDEX_FILE_NAME).stat().st_uid == os.geteuid()


def test_where_there_can_be_no_index_the_ledger_is_read(ledger: Path) -> None:
    (ledger / INDEX_FILE_NAME).mkdir()
    for wanted, count in WANTED:
        assert len(list(find(ledger, wanted))) == count
    assert list((ledger / INDEX_FILE_NAME).iterdir()) == []


def test_a_link_to_the_directory_of_the_ledger_has_its_index(ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ledger)
    assert len(list(find(tmp_path / "link", RecordFilter(server="git")))) == 4
    assert (ledger / INDEX_FILE_NAME).is_file()


def test_there_is_no_index_in_a_directory_that_others_may_write(ledger: Path) -> None:
    ledger.chmod(0o770)
    for wanted, count in WANTED:
        assert len(list(find(ledger, wanted))) == count
    assert no_index(ledger)


def test_while_another_process_uses_the_index_the_ledger_is_read(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_index, "_LOCK_WAIT_S", 0)
    holder = os.open(ledger, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    for wanted, count in WANTED:
        assert len(list(find(ledger, wanted))) == count
    os.close(holder)
    assert no_index(ledger)


def test_a_search_goes_on_without_the_index_when_that_is_lost(
    directory: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(60)
    found = find(directory, RecordFilter(event="decided"), limit=50)
    seqs = [next(found).seq for _ in range(3)]
    monkeypatch.setattr("paddock.record.ledger.search._MAX_OFFSETS", 1)
    some = find(directory, RecordFilter(event="decided"))
    (directory / INDEX_FILE_NAME).unlink()
    (directory / INDEX_FILE_NAME).mkdir()
    assert [*seqs, *(record.seq for record in found)] == list(range(60, 10, -1))
    assert [record.seq for record in some] == list(range(60, 0, -1))


def test_a_false_index_shows_nothing_that_is_not_asked_for(ledger: Path) -> None:
    """Places of other records, of the middle of lines, and of nothing at all; each is what the index says of it."""
    list(find(ledger, RecordFilter(server="git")))
    with sqlite3.connect(ledger / INDEX_FILE_NAME) as database:
        base = database.execute("SELECT min(place) FROM record").fetchone()[0]
        size = (ledger / "2026-03-01.ndjson").stat().st_size
        query = "SELECT id FROM facts WHERE server = 'git' AND status = 'ok'"
        facts = database.execute(query).fetchone()[0]
        places = (*range(base, base + size, 7), base + size, -5, 2**62, 1 << 40, (9**6) << 40)
        database.execute("UPDATE record SET facts = ?", (facts,))
        database.executemany(
            "INSERT OR IGNORE INTO record VALUES (?, ?, 0)", [(each, facts) for each in places]
        )
    database.close()
    wanted = RecordFilter(server="git", status="ok")
    assert list(find(ledger, wanted)) == by_reading(ledger, wanted)


def test_a_line_that_ends_in_a_record_is_none(ledger: Path) -> None:
    file = ledger / "2026-03-02.ndjson"
    record = file.read_bytes().splitlines(keepends=True)[1]
    with file.open("ab") as more:
        more.write(b"torn" + record)
    list(find(ledger, RecordFilter(server="git")))
    with sqlite3.connect(ledger / INDEX_FILE_NAME) as database:
        base = database.execute(
            "SELECT min(place) FROM record WHERE place >= ?", (739_677 << 40,)
        ).fetchone()[0]
        place = (base >> 40 << 40) + file.stat().st_size - len(record)
        database.execute("INSERT INTO record SELECT ?, facts, ms FROM record LIMIT 1", (place,))
    database.close()
    wanted = RecordFilter(server="git")
    assert list(find(ledger, wanted)) == by_reading(ledger, wanted)


_texts = st.sampled_from(["git", "time", "a/b", "", "é\u2028", "ok", "failed", "x" * 100])
_step = st.one_of(
    st.tuples(
        st.just("write"),
        st.fixed_dictionaries(
            {
                "actor": _texts,
                "kind": st.sampled_from(["server", "tool", "guest", 7, None]),
                "name": st.one_of(_texts, st.tuples(_texts, _texts).map("/".join), st.none()),
                "status": st.one_of(_texts, st.integers(0, 3), st.lists(_texts, max_size=2)),
            }
        ),
    ),
    st.tuples(st.just("damage"), st.binary(min_size=1, max_size=30)),
    st.tuples(st.just("clock"), st.sampled_from([-DAY, -1, 1, 3600, DAY])),
    st.tuples(st.just("index"), st.sampled_from([_garbage, _cut, _empty, _gone])),
    st.tuples(st.just("find"), st.just(None)),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(steps=st.lists(_step, max_size=25), ask=st.lists(st.tuples(_texts, _texts), min_size=2, max_size=4))
def test_the_index_answers_as_reading_everything_does(
    steps: list[tuple[str, object]], ask: list[tuple[str, str]]
) -> None:
    """Whatever is written, torn or changed between the questions, and whatever happens to the index."""
    with TemporaryDirectory() as made:
        directory = Path(made) / "ledger"
        now = [NOON]
        # The thread that syncs in batches would account for damage between the two answers that are compared.
        with Ledger(directory, sync="always", clock=lambda: now[0]) as ledger:
            ledger.append("decided", "first", {})
            for step, value in steps:
                index = directory / INDEX_FILE_NAME
                if step == "write":
                    ledger.append("finished", new_id(now[0]), value)
                elif step == "clock":
                    now[0] += value
                elif step == "damage":
                    with max(directory.glob("*.ndjson")).open("ab") as file:
                        file.write(value)
                elif step == "index" and index.exists():
                    value(index)
                elif step == "find":
                    list(find(directory, RecordFilter(event="finished")))
            since = datetime.fromtimestamp(NOON + 10, UTC)
            wanted = [
                RecordFilter(event="finished"),
                RecordFilter(since=since),
                *(RecordFilter(server=one, tool=two) for one, two in ask),
                *(RecordFilter(tool=f"{one}{sign}{two}") for one, two in ask for sign in "/."),
                *(RecordFilter(status=one) for one, _ in ask),
                *(RecordFilter(actor=one, since=since) for one, _ in ask),
            ]
            for each in wanted:
                for newest_first in (True, False):
                    found = list(find(directory, each, newest_first=newest_first))
                    assert found == by_reading(directory, each, newest_first=newest_first)


@settings(deadline=None, max_examples=60)
@given(flips=st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=20))
def test_any_bytes_in_the_index_show_nothing_false(flips: list[tuple[int, int]]) -> None:
    with TemporaryDirectory() as made:
        directory = Path(made) / "ledger"
        with Ledger(directory, clock=lambda: NOON) as ledger:
            for number in range(20):
                facts = {"kind": "server", "name": f"s{number % 3}/t", "status": "ok"}
                ledger.append("finished", new_id(NOON), facts)
        list(find(directory, RecordFilter(server="s1")))
        index = bytearray((directory / INDEX_FILE_NAME).read_bytes())
        for place, mask in flips:
            index[place % len(index)] ^= mask
        (directory / INDEX_FILE_NAME).write_bytes(index)
        known = {json.dumps(record.model_dump()) for record in read(directory)}
        for wanted in (
            RecordFilter(server="s1"),
            RecordFilter(status="ok"),
            RecordFilter(name="x"),
            RecordFilter(since=datetime.now(UTC)),
        ):
            found = list(find(directory, wanted))
            assert {json.dumps(record.model_dump()) for record in found} <= known
            assert all(map(wanted.matches, found))
            assert len({record.seq for record in found}) == len(found)
