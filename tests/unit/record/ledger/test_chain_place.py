"""The place of a record in the chain: its file, its neighbours, and whether they are linked."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.model.ids import new_id
from paddock.record.ledger.chain_place import ChainPlace, find_place
from paddock.record.ledger.read import read


@pytest.fixture(params=["with an index", "without an index"])
def days(directory: Path, write: Callable[..., None], request: pytest.FixtureRequest) -> Path:
    """A ledger of two days with three records each."""
    write(3)
    write(3, day=1)
    directory.chmod(0o700 if request.param == "with an index" else 0o777)
    return directory


def test_a_place_has_the_records_before_and_after_across_days(days: Path) -> None:
    records = list(read(days, newest_first=False))
    files = ["2026-03-01.ndjson"] * 3 + ["2026-03-02.ndjson"] * 3
    for number, record in enumerate(records):
        before = records[number - 1] if number else None
        after = records[number + 1] if number < 5 else None
        place = find_place(days, record.id)
        assert place == ChainPlace(record, files[number], before, after)
        assert place.continues is True
        assert place.is_continued is (None if after is None else True)


def test_only_the_id_of_a_record_has_a_place(days: Path) -> None:
    [newest] = read(days, limit=1)
    assert newest.request == "r2"
    for other in (newest.request, newest.id[:-1], newest.id.lower(), new_id(), "", '"', "\ud800"):
        assert find_place(days, other) is None


def test_without_a_ledger_there_is_no_place(directory: Path) -> None:
    assert find_place(directory, new_id()) is None
    assert not directory.exists()


def test_a_removed_record_leaves_a_gap_that_its_neighbours_show(days: Path) -> None:
    file = days / "2026-03-01.ndjson"
    first, second, third = file.read_bytes().splitlines(keepends=True)
    records = list(read(days, newest_first=False))
    file.write_bytes(first + third)
    before, after = find_place(days, records[0].id), find_place(days, records[2].id)
    assert before is not None
    assert after is not None
    assert (before.after, before.continues, before.is_continued) == (records[2], True, False)
    assert (after.before, after.continues, after.is_continued) == (records[0], False, True)
    assert find_place(days, records[1].id) is None
    file.write_bytes(first + b"foreign\n" + second + third[:-20])
    second_place = find_place(days, records[1].id)
    assert second_place == ChainPlace(records[1], file.name, records[0], records[3])
    assert second_place.is_continued is False


def test_without_earlier_days_the_link_before_is_not_known(days: Path) -> None:
    records = list(read(days, newest_first=False))
    (days / "2026-03-01.ndjson").unlink()
    place = find_place(days, records[3].id)
    assert place == ChainPlace(records[3], "2026-03-02.ndjson", None, records[4])
    assert place.continues is None
