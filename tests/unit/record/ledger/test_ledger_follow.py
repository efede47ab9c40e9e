"""Following the ledger: each record once, over midnight, torn lines and files that come and go."""

import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.record.ledger.read import Follower
from paddock.record.ledger.writer import Ledger

NOON = 1_772_366_400.0
DAY = 86_400


def seqs(follower: Follower) -> list[int]:
    return [record.seq for record in follower.new_records()]


def test_records_come_once_as_they_are_written(directory: Path) -> None:
    before = Follower(directory)
    assert seqs(before) == []
    now = [NOON]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        ledger.append("decided", "r", {})
        follower = Follower(directory)
        assert seqs(follower) == []
        ledger.append("decided", "r", {})
        assert seqs(follower) == [2]
        assert seqs(follower) == []
        ledger.append("decided", "r", {})
        now[0] += DAY
        ledger.append("decided", "r", {})
        now[0] += 3 * DAY
        ledger.append("decided", "r", {})
        assert seqs(follower) == [3, 4, 5]
    assert seqs(before) == [1, 2, 3, 4, 5]


def test_a_line_is_given_when_it_is_whole_and_damaged_ones_are_left_out(directory: Path) -> None:
    with Ledger(directory, clock=lambda: NOON) as ledger:
        follower = Follower(directory)
        ledger.append("decided", "r", {})
    [file] = directory.glob("*.ndjson")
    line = file.read_bytes()
    file.write_bytes(line[:100])
    assert seqs(follower) == []
    file.write_bytes(line)
    assert seqs(follower) == [1]
    with file.open("ab") as more:
        more.write(b"x" * 200_000 + b"\n" + line.replace(b"decided", b"changed") + line)
    assert seqs(follower) == [1]


def test_a_file_that_is_gone_or_none_is_passed_over(directory: Path) -> None:
    with Ledger(directory, clock=lambda: NOON) as ledger:
        follower = Follower(directory)
        ledger.append("decided", "r", {})
    [file] = directory.glob("*.ndjson")
    file.unlink()
    os.mkfifo(directory / "2026-03-05.ndjson")
    assert seqs(follower) == []
    (directory / "2026-03-05.ndjson").unlink()
    with Ledger(directory, clock=lambda: NOON + 9 * DAY) as ledger:
        ledger.append("decided", "r", {})  # the second record accounts for the file that is gone
        assert seqs(follower) == [3]


@settings(deadline=None, max_examples=50)
@given(steps=st.lists(st.sampled_from(["write", "day", "look", "open"]), max_size=30))
def test_nothing_is_lost_or_given_twice(tmp_path_factory, steps: list[str]) -> None:
    directory = tmp_path_factory.mktemp("follow") / "ledger"
    now, found, written = [NOON], list[int](), 0
    ledger = Ledger(directory, clock=lambda: now[0])
    follower = Follower(directory)
    for step in steps:
        if step == "write":
            ledger.append_soon("finished", "r", {})
            ledger.append("decided", "r", {})
            written += 2
        elif step == "day":
            now[0] += DAY
        elif step == "open":
            ledger.close()
            ledger = Ledger(directory, clock=lambda: now[0])
        else:
            found += seqs(follower)
    ledger.close()
    assert [*found, *seqs(follower)] == list(range(1, written + 1))
