"""A command that is killed while it accepts leaves the old tree or the new one, after the next command at the latest."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.change_sets import make_change_set

from paddock.engines.changes.accept import Acceptor
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
        [*map(str, command), str(moment)], cwd=ROOT, capture_output=True, text=True, check=False
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
    (root / "kept").chmod(0o755)
    (root / "kept/0.txt").chmod(0o700)
    (root / "kept/1.txt").unlink()
    (root / "kept").chmod(0o555)
    (root / "link").symlink_to("a")


def test_after_a_kill_at_any_moment_the_next_command_finishes_or_undoes(tmp_path: Path) -> None:
    workspace, changed = tmp_path / "workspace", tmp_path / "changed"
    make_old(workspace)
    shutil.copytree(workspace, changed, symlinks=True)
    make_new(changed)
    store = ChangeStore(tmp_path / "store")
    set_id = make_change_set(store, workspace, changed)
    _, printed = run_killed(store, workspace, set_id, "many", RUNS)
    runs = [json.loads(line) for line in printed.splitlines()]
    assert len(runs) == RUNS
    for run in runs:
        after = {"accept": "new", "undo": "old"}[run["action"]]
        assert run["tree"] in {"old", "new"}
        assert run["changed"] == (run["tree"] == after)
        assert run["accepted"] == (run["tree"] == "new")
        assert run["left"] == []
        assert run["recovery"] in (None, [run["action"], run["changed"]])
    assert any(run["recovery"] == [run["action"], False] for run in runs)


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
    head = {"set_id": "x", "action": "accept", "changes": [], "steps": [], "state": {}}
    for staging in ("..", f"{STAGING_PREFIX}/../../outside"):
        journal.write_text(f"{json.dumps({**head, 'staging': staging})}\n")
        with pytest.raises(ChangesError, match="its journal is damaged"), Acceptor(store, workspace).open():
            pass
    journal.write_text('{"set_id"')  # nothing had happened yet
    with Acceptor(store, workspace).open() as recovery:
        assert recovery is None
    assert not journal.exists()
