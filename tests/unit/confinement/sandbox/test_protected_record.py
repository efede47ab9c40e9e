"""How jobs that are at work in a workspace at the same time share the record of it."""

import errno
import fcntl
import os

import pytest

from paddock.confinement.sandbox.child import protected_paths
from paddock.confinement.sandbox.child.protected_paths import ProtectedPaths
from paddock.confinement.sandbox.child.snapshot import read_up_to


@pytest.fixture
def known():
    return os.memfd_create("known")


@pytest.fixture
def workspace(tmp_path):
    root = tmp_path / "workspace"
    root.mkdir()
    (root / ".envrc").write_text("mine")
    return root


def test_a_link_is_no_workspace(workspace, tmp_path, known):
    (tmp_path / "link").symlink_to(workspace)
    with pytest.raises(NotADirectoryError):
        ProtectedPaths(str(tmp_path / "link"), known)
    os.close(known)


def test_a_later_job_goes_by_the_record_of_the_first(workspace, known):
    first = ProtectedPaths(str(workspace), os.dup(known))
    (workspace / ".envrc").write_text("theirs")
    second = ProtectedPaths(str(workspace), os.dup(known))
    assert second.restore() == ([".envrc"], {})
    assert (workspace / ".envrc").read_text() == "mine"
    assert first.restore() == ([], {})
    for each in (first, second):
        assert each.close() == []
    os.close(known)


def test_a_record_comes_whole_however_little_is_written_at_a_time(workspace, known, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[:100], offset))
    first = ProtectedPaths(str(workspace), os.dup(known))
    second = ProtectedPaths(str(workspace), known)
    assert second.record.snapshot.nodes == first.record.snapshot.nodes
    assert [*second.record.snapshot.nodes] == [".envrc"]
    first.close()
    second.close()


def test_half_a_record_is_none(workspace, known, monkeypatch):
    pwrite = os.pwrite

    def fail_soon(file, data, offset):
        if offset > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(file, data[:10], offset)

    monkeypatch.setattr(os, "pwrite", fail_soon)
    told = "the protected paths of the workspace cannot be read: No space left on device"
    with pytest.raises(protected_paths.RecordError) as caught:
        ProtectedPaths(str(workspace), known)
    assert str(caught.value) == told
    monkeypatch.undo()
    next_one = ProtectedPaths(str(workspace), known)
    (workspace / ".envrc").write_text("theirs")
    assert next_one.restore() == ([".envrc"], {})
    assert (workspace / ".envrc").read_text() == "mine"
    next_one.close()


def test_one_at_a_time_records_and_puts_back(workspace, known, monkeypatch):
    seen = []
    record, restore = protected_paths.record_paths, protected_paths.restore_paths

    def heard(name, work):
        def go(*given):
            seen.append(name)
            return work(*given)

        return go

    def refuse(*_):
        seen.append("refuse")
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(protected_paths, "record_paths", heard("record", record))
    monkeypatch.setattr(protected_paths, "restore_paths", heard("restore", restore))
    monkeypatch.setattr(fcntl, "lockf", lambda file, how: seen.append((file, how)))
    before = ProtectedPaths(str(workspace), known)
    before.restore()
    monkeypatch.setattr(protected_paths, "restore_paths", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        before.restore()
    before.close()
    taken, given = (known, fcntl.LOCK_EX), (known, fcntl.LOCK_UN)
    assert seen == [taken, "record", given, taken, "restore", given, taken, "refuse", given]


def test_what_was_put_in_its_place_is_removed_and_all_is_let_go_of(workspace, known):
    before = ProtectedPaths(str(workspace), known)
    (workspace / ".envrc").unlink()
    (workspace / ".envrc").mkdir()
    (workspace / ".envrc" / "file").write_text("theirs")
    assert before.restore() == ([".envrc"], {})
    assert [path.name for path in workspace.iterdir()] == [".envrc"]
    assert before.close() == []
    for file in (known, before.root):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def test_a_folder_that_holds_protected_paths_comes_back_and_is_told_of(workspace, known):
    (workspace / ".git").mkdir(mode=0o750)
    before = ProtectedPaths(str(workspace), known)
    (workspace / ".git").rmdir()
    (workspace / ".git").write_text("gitdir: theirs")
    assert before.restore() == ([".git/hooks"], {})
    assert (workspace / ".git").is_dir()
    assert (workspace / ".git").stat().st_mode & 0o777 == 0o750
    before.close()


def test_a_file_in_the_place_of_such_a_folder_comes_back_and_is_told_of(workspace, known):
    (workspace / ".git").write_text("gitdir: mine")
    before = ProtectedPaths(str(workspace), known)
    (workspace / ".git").unlink()
    (workspace / ".git" / "objects").mkdir(parents=True)
    assert before.restore() == ([".git"], {})
    assert (workspace / ".git").read_text() == "gitdir: mine"
    before.close()


def test_a_file_is_read_up_to_a_bound_and_in_pieces(tmp_path):
    data = bytes(range(256)) * 1024
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file:
        assert read_up_to(file.fileno(), 100_000) == data[:100_000]
        assert read_up_to(file.fileno(), len(data)) == data[100_000:]
        assert read_up_to(file.fileno(), 1) == b""
