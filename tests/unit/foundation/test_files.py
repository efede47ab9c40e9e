"""Files that several processes keep together."""

import errno
import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from paddock.foundation.files import (
    hold_lock,
    make_private,
    make_temporary_directory,
    read_bounded,
    replace_file,
    strange_home,
)


def test_a_lock_is_held_by_one_at_a_time(tmp_path):
    path = tmp_path / "made" / "lock"
    with hold_lock(path) as mine, hold_lock(path, wait=False) as also:
        assert (mine, also) == (True, False)
    with hold_lock(path, wait=False) as again:
        assert again is True
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_who_waits_gets_the_lock_when_it_is_let_go(tmp_path):
    order = []

    def second():
        with hold_lock(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    with hold_lock(tmp_path / "lock"):
        thread.start()
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_a_lock_is_let_go_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), hold_lock(tmp_path / "lock"):
        raise ZeroDivisionError
    with hold_lock(tmp_path / "lock", wait=False) as mine:
        assert mine is True


def test_a_link_is_no_lock(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a link, not a regular file"), hold_lock(tmp_path / "lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_is_read_where_it_is_thought_to_be_or_not_at_all(tmp_path):
    folder, other = tmp_path / "folder", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
        (each / "file").write_bytes(each.name.encode())
    (folder / "link").symlink_to("file")
    (folder / "out").symlink_to(other)
    assert read_bounded(folder / "link", 9, within=folder) == b"folder"
    assert read_bounded(folder / "file", 9, within=folder / "file") == b"folder"
    for path, within in (
        (folder / "out" / "file", folder),
        (folder / "out" / "file", folder / "out" / "file"),
    ):
        with pytest.raises(OSError, match="it leads out of its permitted directory"):
            read_bounded(path, 9, within=within)


def test_a_file_is_replaced_whole_with_its_mode(tmp_path):
    path = tmp_path / "file"
    replace_file(path, b"one", mode=0o640)
    with path.open("rb") as reader:
        replace_file(path, b"two")
        assert reader.read() == b"one"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_what_could_not_be_written(tmp_path):
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(path, b"one")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022])
def test_nobody_else_can_replace_a_directory_that_was_made_private(tmp_path, mask):
    before = os.umask(mask)
    try:
        make_private(tmp_path / "state" / "paddock" / "audit")
        make_private(tmp_path / "state" / "paddock" / "audit")
    finally:
        os.umask(before)
    made = [tmp_path / "state", tmp_path / "state" / "paddock", tmp_path / "state" / "paddock" / "audit"]
    assert [stat.S_IMODE(each.stat().st_mode) for each in made] == [0o755, 0o755, 0o700]


def test_a_home_of_somebody_else_is_told(tmp_path, monkeypatch, as_root):
    closed, other = OSError(errno.EACCES, ""), OSError(errno.EIO, "")
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    settings = home / ".config" / "paddock.toml"
    assert strange_home(settings, closed) == ""  # there is none
    home.mkdir()
    assert strange_home(settings, closed) == ""
    os.chown(home, 12345, 12345)
    told = f"; HOME is {home}, which belongs to user 12345: set HOME to your own"
    places = (settings, closed), (settings, other), (tmp_path / "paddock.toml", closed)
    assert [strange_home(*each) for each in places] == [told, "", ""]


def test_a_file_where_a_private_directory_is_to_be_is_refused(tmp_path):
    (tmp_path / "state").write_text("")
    for place in (tmp_path / "state", tmp_path / "state" / "audit"):
        with pytest.raises(NotADirectoryError):
            make_private(place)


def test_a_new_temporary_directory_that_another_process_removes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make, made = tempfile.mkdtemp, list[str]()

    def make_and_lose(prefix: str, dir: Path) -> str:  # noqa: A002 - as tempfile names it
        made.append(make(prefix=prefix, dir=dir))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    with make_temporary_directory("paddock-test-") as folder:
        assert [str(folder)] == made[1:]
