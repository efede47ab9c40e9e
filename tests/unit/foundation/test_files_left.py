"""What a killed process has left beside a file goes at the next writing; what a living one is at stays."""

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from paddock.foundation.files import make_temporary_directory, read_bounded, replace_file


def test_what_a_dead_writer_left_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    dead, living = tmp_path / ".state.json.aaaaaaaa.new", tmp_path / ".state.json.bbbbbbbb.new"
    others = [tmp_path / name for name in (".state.json.local", ".state.json.cccccccc", ".x.dddddddd.new")]
    for path in (dead, living, *others):
        path.touch()
    with living.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        replace_file(tmp_path / "state.json", b"{}")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "state.json", living, *others])
    replace_file(tmp_path / "state.json", b"[]")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "state.json", *others])


def test_passing_directories_of_the_dead_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, link, kept = tmp_path / "bait-aaaaaaaa", tmp_path / "bait-bbbbbbbb", tmp_path / "kept"
    (dead / "within").mkdir(parents=True)
    kept.mkdir()
    link.symlink_to(kept)
    with make_temporary_directory("bait-") as first, make_temporary_directory("bait-") as second:
        (second / "file").touch()
        assert sorted(tmp_path.iterdir()) == sorted([first, second, link, kept])
    assert sorted(tmp_path.iterdir()) == sorted([link, kept])


def test_only_a_regular_file_of_bounded_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    os.mkfifo(tmp_path / "pipe")
    assert read_bounded(tmp_path / "file", 5) == b"12345"
    for name, most, why in (
        ("file", 4, "larger than 4 bytes"),
        ("pipe", 4, "it is not a regular file"),
        (".", 4, "Is a directory"),
        ("missing", 4, "No such file or directory"),
    ):
        with pytest.raises(OSError, match=why):
            read_bounded(tmp_path / name, most)
