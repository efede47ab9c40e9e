"""A command that is killed while it accepts leaves the old tree or the new one, after the next command at the latest."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.change_sets import make_change_set, read_tree

from paddock.engines.changes.accept import Acceptor, Recovery
from paddock.engines.changes.plan import STAGING_PREFIX
from paddock.model.errors import ChangesError
from paddock.record.changes.store import ChangeStore

RUNS = int(os.environ.get("PADDOCK_KILL_RUNS", "20"))
ROOT = Path(__file__).resolve().parents[4]


def run_killed(
    store: ChangeStore, workspace: Path, set_id: str, action: str, moment: int | str
) -> tuple[int, str]:
    """Return the exit code of a process that accepts, and what it printed."""
    command = [
        sys.executable,
        "-m",
        "tests.support.accept_killed",
        store.directory,
        workspace,
        set_id,
        action,
    ]
    done = subprocess.run(
        [*map(str, command), str(moment)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode, done.stdout


def make_old(root: Path) -> None:
    for name in ("a", "gone", "kept"):
        (root / name).mkdir(parents=True)
        for number in range(4):
            (root / name / f"{number}.txt").write_text(f"{name} {number}\n")
    (root / "swap").write_text("a file\n")
    (root / "kept").chmod(0o555)


def make_new(root: Path) -> None:
    for number in range(4):
        (root / "a" / f"{number}.txt").write_text(f"new {number}\n")
    shutil.rmtree(root / "gone")
    (root / "swap").unlink()
    (root / "swap/deep").mkdir(parents=True)
    (root / "swap/deep/file").write_text("new\n")
    (root / "swap/deep").chmod(0o500)
    (root / "kept/0.txt").chmod(0o700)
    (root / "kept/1.txt").unlink()
    (root / "link").symlink_to("a")


def test_after_a_kill_at_any_moment_the_next_command_finishes_or_undoes(tmp_path: Path) -> None:
    workspace, changed = tmp_path / "workspace", tmp_path / "changed"
    make_old(workspace)
    shutil.copytree(workspace, changed, symlinks=True)
    make_new(changed)
    old, new = read_tree(workspace), read_tree(changed)
    store = ChangeStore(tmp_path / "store")
    set_id = make_change_set(store, workspace, changed)
    _, printed = run_killed(store, workspace, set_id, "accept", 0)
    moments = int(printed)
    assert read_tree(workspace) == new
    dice = random.Random(RUNS)
    ends: set[object] = set()
    for _ in range(RUNS):
        is_new = read_tree(workspace) == new
        action = "undo" if is_new else "accept"
        code, _ = run_killed(store, workspace, set_id, action, dice.randrange(1, moments))
        acceptor = Acceptor(store, workspace)
        with acceptor.open() as recovery:
            tree = read_tree(workspace)
            accepted = bool(store.read_state(set_id).accepted)
        goal, start = (old, new) if is_new else (new, old)
        if recovery is None:
            assert tree == (goal if code == 0 or tree == goal else start)
        else:
            assert recovery == Recovery(set_id, action, recovery.finished)
            assert tree == (goal if recovery.finished else start)
        assert accepted == (tree == new)
        assert not [each for each in workspace.iterdir() if each.name.startswith(STAGING_PREFIX)]
        assert not list(store.directory.glob("*.journal"))
        ends.add(None if recovery is None else recovery.finished)
    assert False in ends


def kill_before_the_end(tmp_path: Path) -> tuple[ChangeStore, Path, str]:
    """Return a workspace in which a process was killed after its last step, before it wrote that."""
    workspace, changed = tmp_path / "workspace", tmp_path / "changed"
    make_old(workspace)
    shutil.copytree(workspace, changed, symlinks=True)
    make_new(changed)
    store = ChangeStore(tmp_path / "store")
    set_id = make_change_set(store, workspace, changed)
    code, _ = run_killed(store, workspace, set_id, "accept", "write_applied")
    assert code == -signal.SIGKILL
    return store, workspace, set_id


def test_what_a_person_changed_after_the_kill_is_never_lost(tmp_path: Path) -> None:
    store, workspace, set_id = kill_before_the_end(tmp_path)
    (workspace / "a/0.txt").write_text("mine\n")
    (workspace / "a/1.txt").unlink()
    (workspace / "a/1.txt").write_text("mine, too\n")
    with Acceptor(store, workspace).open() as recovery:
        assert recovery is not None
        assert recovery[:3] == (set_id, "accept", False)
        assert {note.path for note in recovery.kept} == {"a/0.txt", "a/1.txt"}
        folder = workspace / recovery.folder
    # A new file may have the inode of the one that it replaced, and is then moved aside itself.
    both = {
        (workspace / "a/1.txt").read_text(),
        *(each.read_text() for each in folder.iterdir() if each.is_file()),
    }
    assert both >= {"mine\n", "mine, too\n", "a 1\n"}
    assert (workspace / "a/0.txt").read_text() == "a 0\n"
    assert (workspace / "a/2.txt").read_text() == "a 2\n"


def test_a_staging_directory_that_is_gone_is_reported_once(tmp_path: Path) -> None:
    store, workspace, set_id = kill_before_the_end(tmp_path)
    staging = next(each for each in workspace.iterdir() if each.name.startswith(STAGING_PREFIX))
    shutil.rmtree(staging)
    with pytest.raises(ChangesError) as caught, Acceptor(store, workspace).open():
        pass
    assert str(caught.value).startswith(
        f"A command was killed while it accepted {set_id}, and the replaced files are gone with {staging.name}: "
        "some of these paths may be old and others new: "
    )
    with Acceptor(store, workspace).open() as recovery:
        assert recovery is None


def test_a_damaged_journal_is_reported(tmp_path: Path) -> None:
    store, workspace, _ = kill_before_the_end(tmp_path)
    journal = next(store.directory.glob("*.journal"))
    for text in ("{}\n", "no\n", "[]\n", '{"set_id": 1}\n'):
        journal.write_text(text)
        with pytest.raises(ChangesError, match="its journal is damaged"), Acceptor(store, workspace).open():
            pass
    journal.write_text('{"set_id"')  # nothing had happened yet
    with Acceptor(store, workspace).open() as recovery:
        assert recovery is None
    assert not journal.exists()
