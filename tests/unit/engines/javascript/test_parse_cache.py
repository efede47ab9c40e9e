"""Answers of intake that outlive the process: whose they are, how many, and what a damaged one does."""

import os
from pathlib import Path

import pytest

from paddock.engines.javascript import parse_cache
from paddock.engines.javascript.parse_cache import ParseCache


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "intake"


def test_an_answer_is_there_for_the_next_process(directory: Path) -> None:
    ParseCache(directory).store("1 + 1", "auto", b"{}")
    again = ParseCache(directory)
    assert (again.has("1 + 1", "auto"), again.look_up("1 + 1", "auto")) == (True, b"{}")
    assert (again.has("1 + 1", "typescript"), again.look_up("1 + 2", "auto")) == (False, None)
    assert oct(directory.stat().st_mode & 0o777) == "0o700"


def test_another_version_of_the_reader_asks_anew(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ParseCache(directory).store("1", "auto", b"{}")
    monkeypatch.setattr(parse_cache, "_identify_parser", lambda: b"another")
    assert ParseCache(directory).look_up("1", "auto") is None


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_nothing_is_taken_from_where_others_may_write(directory: Path, mode: int) -> None:
    kept = ParseCache(directory)
    kept.store("1", "auto", b"{}")
    directory.chmod(mode)
    assert (kept.has("1", "auto"), kept.look_up("1", "auto")) == (False, None)
    kept.store("2", "auto", b"{}")
    assert len(list(directory.iterdir())) == 1


def test_nothing_is_taken_through_a_link(directory: Path, tmp_path: Path) -> None:
    ParseCache(directory).store("1", "auto", b"{}")
    (tmp_path / "link").symlink_to(directory)
    assert ParseCache(tmp_path / "link").look_up("1", "auto") is None


def test_what_is_too_large_is_neither_kept_nor_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ParseCache(directory)
    kept.store("1", "auto", b"1234")
    monkeypatch.setattr(parse_cache, "_ANSWER_BYTES", 3)
    assert kept.look_up("1", "auto") is None
    kept.store("2", "auto", b"1234")
    assert not kept.has("2", "auto")


def test_what_was_used_longest_ago_makes_room(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ParseCache(directory)
    for text in "abc":
        kept.store(text, "auto", b"{}")
    for age, entry in enumerate(sorted(directory.iterdir())):
        os.utime(entry, ns=(age, age))
    monkeypatch.setattr(parse_cache, "_MAX_ENTRIES", 3)
    recent = [text for text in "abc" if kept.look_up(text, "auto")][1:]  # looking at an answer uses it
    (directory / ".new-left").touch()
    os.utime(directory / ".new-left", ns=(0, 0))
    for entry in directory.iterdir():
        if entry.name == kept.find_entry("a", "auto").name:
            os.utime(entry, ns=(1, 1))
    kept.store("d", "auto", b"{}")
    assert sorted(path.name for path in directory.iterdir()) == sorted(
        kept.find_entry(text, "auto").name for text in [*recent, "d"]
    )


def test_a_directory_that_cannot_be_made_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = ParseCache(tmp_path / "file" / "intake")
    kept.store("1", "auto", b"{}")
    assert kept.look_up("1", "auto") is None
