"""What is put back is what was there, and no more; what cannot be is told."""

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.confinement.sandbox.child import protected_paths


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def workspace(tmp_path):
    root = tmp_path / "workspace"
    (root / ".vscode").mkdir(parents=True)
    (root / ".vscode" / "tasks.json").write_text("mine")
    (root / ".vscode" / "launch.json").write_text("mine too")
    return root


@pytest.fixture
def before(workspace):
    found = protected_paths.ProtectedPaths(str(workspace), os.memfd_create("known"))
    yield found
    found.close()


def test_a_file_that_is_still_the_same_is_mended_so_that_its_other_name_is_too(workspace, tmp_path):
    other = tmp_path / "other"
    other.hardlink_to(workspace / ".vscode" / "tasks.json")
    before = protected_paths.ProtectedPaths(str(workspace), os.memfd_create("known"))
    (workspace / ".vscode" / "tasks.json").write_text("theirs, and longer")
    (workspace / ".vscode" / "tasks.json").chmod(0)
    assert before.restore() == ([".vscode"], {})
    before.close()
    assert (other.read_text(), other.stat().st_nlink) == ("mine", 2)


def test_a_file_that_took_a_name_is_not_written_to(workspace, before):
    (workspace / "precious").write_text("precious")
    (workspace / ".vscode" / "tasks.json").unlink()
    (workspace / ".vscode" / "tasks.json").hardlink_to(workspace / "precious")
    assert before.restore() == ([".vscode"], {})
    assert (workspace / "precious").read_text() == "precious"
    assert (workspace / ".vscode" / "tasks.json").read_text() == "mine"


def test_what_was_not_changed_stays_the_same_file(workspace, before):
    untouched = (workspace / ".vscode" / "launch.json").stat()
    (workspace / ".vscode" / "tasks.json").unlink()
    (workspace / ".vscode" / "new").mkdir()
    assert before.restore() == ([".vscode"], {})
    now = (workspace / ".vscode" / "launch.json").stat()
    assert (now.st_ino, now.st_mtime_ns, now.st_ctime_ns) == (
        untouched.st_ino,
        untouched.st_mtime_ns,
        untouched.st_ctime_ns,
    )
    assert names(workspace / ".vscode") == ["launch.json", "tasks.json"]


def test_names_that_are_no_text_come_back(workspace):
    name = os.fsdecode(b"\xff\n.json")
    (workspace / ".vscode" / name).write_bytes(b"\xff")
    before = protected_paths.ProtectedPaths(str(workspace), os.memfd_create("known"))
    (workspace / ".vscode" / name).unlink()
    assert before.restore() == ([".vscode"], {})
    before.close()
    assert (workspace / ".vscode" / name).read_bytes() == b"\xff"


def test_a_flood_of_names_costs_one_move_before_the_result_is_out(workspace, monkeypatch):
    before = protected_paths.ProtectedPaths(str(workspace), os.memfd_create("known"))
    for number in range(1100):
        (workspace / ".vscode" / str(number)).touch()
    monkeypatch.setattr(protected_paths, "_REMOVE_WITHIN_S", -1)
    assert before.restore() == ([".vscode"], {})
    assert names(workspace / ".vscode") == ["launch.json", "tasks.json"]
    (aside,) = workspace.glob(".paddock-removed-*")
    assert len(names(aside)) == 1102
    assert before.close() == [str(aside)]


def test_a_socket_cannot_come_back_and_the_rest_does(workspace):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workspace / ".vscode" / "ipc"))
    before = protected_paths.ProtectedPaths(str(workspace), os.memfd_create("known"))
    for path in (workspace / ".vscode").iterdir():
        path.unlink()
    (workspace / ".mcp.json").mkdir()
    why = "devices and sockets cannot be restored"
    assert before.restore() == ([".mcp.json", ".vscode"], {".vscode": why})
    before.close()
    assert names(workspace / ".vscode") == ["launch.json", "tasks.json"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_what_was_put_in_its_place_makes_room_for_what_was_there(workspace, before, monkeypatch, number):
    """The disk is full as long as what the program has put there has not been removed."""
    (workspace / ".vscode").rename(workspace / "away")
    (workspace / ".vscode").mkdir()
    for each in range(1500):
        (workspace / ".vscode" / str(each)).touch()
    pwrite = os.pwrite

    def full(*how):
        if list(workspace.glob(".paddock-removed-*")):
            raise OSError(number, os.strerror(number))
        return pwrite(*how)

    monkeypatch.setattr(os, "pwrite", full)
    assert before.restore() == ([".vscode"], {})
    assert (workspace / ".vscode" / "tasks.json").read_text() == "mine"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_what_the_system_refuses_is_told_and_the_others_are_put_back(workspace, before, monkeypatch, number):
    (workspace / ".vscode" / "tasks.json").write_text("theirs")
    (workspace / ".envrc").write_text("theirs")

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", refuse)
    assert before.restore() == ([".vscode", ".envrc"], {".vscode": os.strerror(number)})
    assert not (workspace / ".envrc").exists()


def test_a_workspace_that_is_moved_meanwhile_is_put_back_where_it_is(workspace, before):
    moved = workspace.rename(workspace.parent / "moved")
    Path(workspace).mkdir()
    (moved / ".vscode" / "tasks.json").write_text("theirs")
    assert before.restore() == ([".vscode"], {})
    assert (moved / ".vscode" / "tasks.json").read_text() == "mine"
    assert names(workspace) == []


def test_what_is_closed_on_the_way_is_opened_and_closed_again_as_it_was(workspace):
    (workspace / ".git" / "hooks" / "deep").mkdir(parents=True)
    (workspace / ".git" / "hooks" / "deep" / "file").write_text("mine")
    before = protected_paths.ProtectedPaths(str(workspace), os.memfd_create("known"))
    (workspace / ".git" / "hooks" / "deep" / "file").unlink()
    for name in (".git/hooks/deep", ".git/hooks", ".git", "."):
        (workspace / name).chmod(0)
    assert before.restore() == ([".git/hooks"], {})
    before.close()
    workspace.chmod(0o700)
    assert (workspace / ".git" / "hooks" / "deep" / "file").read_text() == "mine"
    assert [(workspace / name).stat().st_mode & 0o777 for name in (".git/hooks/deep", ".git/hooks")] == [
        0o755
    ] * 2


UNREADABLE = """
import errno, os, sys
from paddock.confinement.sandbox.child import protected_paths

def refuse(*_):
    raise OSError(errno.EIO, os.strerror(errno.EIO))

protected_paths.record_paths = refuse
known = os.memfd_create("known")
held = os.listdir("/proc/self/fd")
try:
    protected_paths.ProtectedPaths(sys.argv[1], known)
except protected_paths.RecordError as error:
    print(error)
print(os.listdir("/proc/self/fd") == held)
"""


def test_a_workspace_that_cannot_be_watched_is_let_go_of(workspace):
    command = [sys.executable, "-c", UNREADABLE, str(workspace)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    told = "the protected paths of the workspace cannot be read: Input/output error\nTrue\n"
    assert (done.stdout, done.stderr) == (told, "")
