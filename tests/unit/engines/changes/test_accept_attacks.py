"""Attacks on accepting: a workspace that changes at the same time, and change sets that no program can have made."""

import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.support.change_sets import make_change_set, read_tree

from paddock.engines.changes import lock
from paddock.engines.changes.accept import Acceptor, AcceptReport
from paddock.engines.changes.plan import STAGING_PREFIX, PathNote
from paddock.engines.changes.tree import Folder
from paddock.model.change_set import Change, ChangeSet, FileFacts
from paddock.model.errors import ChangesCorrupted, ChangesError
from paddock.record.changes.state import ChangesState
from paddock.record.changes.store import ChangeStore

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[4]


class Attack:
    """A workspace with a change set, and a directory outside that must stay as it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace, self.changed, self.outside = (
            folder / "workspace",
            folder / "changed",
            folder / "outside",
        )
        for root in (self.workspace, self.outside):
            (root / "d").mkdir(parents=True)
            (root / "d/a").write_text("old a\n")
            (root / "b").write_text("old b\n")
        self.store = ChangeStore(folder / "store")
        shutil.copytree(self.workspace, self.changed)
        (self.changed / "d/a").write_text("new a\n")
        (self.changed / "b").write_text("new b\n")
        (self.changed / "d/new").mkdir()
        (self.changed / "d/new/c").write_text("c\n")
        self.set_id = make_change_set(self.store, self.workspace, self.changed)
        self.outside_tree = read_tree(self.outside)

    def accept(self) -> AcceptReport:
        acceptor = Acceptor(self.store, self.workspace)
        with acceptor.open():
            report = acceptor.accept(self.set_id)
        assert read_tree(self.outside) == self.outside_tree
        assert not [each for each in self.workspace.iterdir() if each.name.startswith(STAGING_PREFIX)]
        return report


@pytest.fixture
def attack(tmp_path: Path) -> Attack:
    return Attack(tmp_path)


def test_a_link_in_place_of_a_file_or_a_directory_is_a_conflict(attack: Attack) -> None:
    shutil.rmtree(attack.workspace / "d")
    (attack.workspace / "d").symlink_to(attack.outside / "d")
    (attack.workspace / "b").unlink()
    (attack.workspace / "b").symlink_to(attack.outside / "b")
    assert attack.accept() == AcceptReport(
        conflicts=(
            PathNote("b", "it is a link now"),
            PathNote("d/a", "the way to it leads through a link or a file"),
            PathNote("d/new", "the way to it leads through a link or a file"),
        )
    )


def test_a_pipe_in_place_of_a_file_is_a_conflict(attack: Attack) -> None:
    (attack.workspace / "b").unlink()
    os.mkfifo(attack.workspace / "b")
    assert attack.accept().conflicts == (PathNote("b", "it is a pipe now"),)


@pytest.mark.parametrize(("method", "moment"), [("exchange", 1), ("exchange", 2), ("move", 1)])
def test_a_directory_that_becomes_a_link_during_the_steps_undoes_all(
    attack: Attack, monkeypatch: pytest.MonkeyPatch, method: str, moment: int
) -> None:
    real: Callable[..., None] = getattr(Folder, method)
    seen = 0

    def swap(self: Folder, *given: object) -> None:
        nonlocal seen
        seen += 1
        if seen == moment:
            (attack.workspace / "d").rename(attack.folder / "aside")
            (attack.workspace / "d").symlink_to(attack.outside / "d")
        real(self, *given)

    monkeypatch.setattr(Folder, method, swap)
    told: list[str] = []
    try:
        report = attack.accept()
    except ChangesError as error:
        told.append(str(error))
    else:
        assert (report.accepted, len(report.conflicts)) == ((), 1)
    # A step cannot be undone where the directory no longer is; then the text names it.
    assert all("except for d/a" in text for text in told)
    assert (attack.workspace / "b").read_text() == "old b\n"
    assert read_tree(attack.outside) == attack.outside_tree


def test_a_file_that_is_written_between_the_check_and_the_exchange_undoes_all(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Folder.exchange

    def write_first(self: Folder, path: str, target: Folder, name: str) -> None:
        if name == "d/a" and (attack.workspace / "d/a").read_text() == "old a\n":
            (attack.workspace / "d/a").write_text("a person's\n")
        real(self, path, target, name)

    monkeypatch.setattr(Folder, "exchange", write_first)
    assert attack.accept() == AcceptReport(conflicts=(PathNote("d/a", "it was changed at the same time"),))
    assert (attack.workspace / "d/a").read_text() == "a person's\n"
    assert (attack.workspace / "b").read_text() == "old b\n"
    assert not (attack.workspace / "d/new").exists()


def test_what_appears_at_a_free_path_undoes_all(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Folder.move

    def make_first(self: Folder, path: str, target: Folder, name: str) -> None:
        if name == "d/new":
            (attack.workspace / "d/new").symlink_to(attack.outside)
        real(self, path, target, name)

    monkeypatch.setattr(Folder, "move", make_first)
    assert attack.accept() == AcceptReport(conflicts=(PathNote("d/new", "it exists already"),))
    assert (attack.workspace / "d/a").read_text() == "old a\n"


def test_contents_that_were_edited_in_the_store_change_nothing(attack: Attack) -> None:
    old = read_tree(attack.workspace)
    for content in (attack.store.directory / attack.set_id / "contents").iterdir():
        if content.read_text() == "c\n":
            content.write_text("C\n")
    with pytest.raises(ChangesCorrupted) as caught:
        attack.accept()
    assert str(caught.value) == (
        f"The change set {attack.set_id} cannot be used: its contents were changed; remove it: "
        f"paddock changes discard {attack.set_id}"
    )
    assert read_tree(attack.workspace) == old


def test_a_state_that_was_edited_in_the_store_makes_no_undo_of_its_own(attack: Attack) -> None:
    old = read_tree(attack.workspace)
    attack.store.write_state(attack.set_id, ChangesState(accepted=("b", "d/a", "../outside/b")))
    acceptor = Acceptor(attack.store, attack.workspace)
    with acceptor.open():
        report = acceptor.undo(attack.set_id)
    assert report.unchanged == ("b", "d/a")
    (attack.workspace / "b").write_text("mine\n")
    attack.store.write_state(attack.set_id, ChangesState(accepted=("b",)))
    with acceptor.open():
        assert acceptor.undo(attack.set_id).conflicts == (
            PathNote("b", "it was changed since it was accepted"),
        )
    assert read_tree(attack.workspace).keys() == old.keys()


def store_changes(attack: Attack, *changes: Change) -> str:
    with attack.store.begin() as new:
        return new.finish(
            ChangeSet(
                request="run-1",
                workspace=str(attack.workspace),
                opened_ns=1,
                ended_ns=2,
                method="copy",
                changes=changes,
            )
        )


_LINK = FileFacts(type="link", mode=0o777, target="b")


@pytest.mark.parametrize(
    "path",
    [
        "../outside/x",
        "/etc/x",
        "d/../../outside/x",
        "d//x",
        "d/./x",
        "",
        ".",
        "d/",
        "d/x\0y",
        "x" * 256,
        "/".join(["x" * 200] * 25),
        "\ud800x",
        f"{STAGING_PREFIX}0123456789abcdef/x",
    ],
)
def test_a_path_that_is_none_in_the_workspace_is_refused(attack: Attack, path: str) -> None:
    attack.set_id = store_changes(attack, Change(path=path, kind="added", after=_LINK))
    old = read_tree(attack.workspace)
    with pytest.raises(ChangesCorrupted, match="cannot be accepted"):
        attack.accept()
    assert read_tree(attack.workspace) == old


@pytest.mark.parametrize(
    "changes",
    [
        (Change(path="x", kind="added", after=_LINK), Change(path="x", kind="added", after=_LINK)),
        (Change(path="x", kind="added"),),
        (Change(path="x", kind="added", after=FileFacts(type="file", mode=0o644)),),
        (Change(path="x", kind="added", after=FileFacts(type="link", mode=0o777)),),
        (Change(path="x", kind="added", after=_LINK), Change(path="x/y", kind="added", after=_LINK)),
        (Change(path="x/y", kind="added", after=_LINK),),
    ],
)
def test_changes_that_contradict_each_other_change_nothing(
    attack: Attack, changes: tuple[Change, ...]
) -> None:
    attack.set_id = store_changes(attack, *changes)
    old = read_tree(attack.workspace)
    try:
        report = attack.accept()
    except ChangesError:
        pass
    else:
        assert report.accepted == ()
        assert report.conflicts != ()
    assert read_tree(attack.workspace) == old


def test_names_that_differ_in_case_are_two_files(attack: Attack) -> None:
    attack.set_id = store_changes(
        attack,
        Change(path="Link", kind="added", after=_LINK),
        Change(path="link", kind="added", after=_LINK),
        Change(path="new\nline", kind="added", after=_LINK),
    )
    assert attack.accept().accepted == ("Link", "link", "new\nline")


def test_a_protected_path_is_protected_in_any_case_whatever_the_set_says(attack: Attack) -> None:
    attack.set_id = store_changes(attack, Change(path=".MCP.json", kind="added", after=_LINK))
    acceptor = Acceptor(attack.store, attack.workspace, protected=lambda: [".mcp.json"])
    with acceptor.open():
        assert acceptor.accept(attack.set_id) == AcceptReport(
            left=(PathNote(".MCP.json", "protected; name it to accept it"),)
        )


def test_two_sets_at_once_change_a_file_once(attack: Attack) -> None:
    (attack.changed / "b").write_text("another b\n")
    other = make_change_set(attack.store, attack.workspace, attack.changed)
    reports: list[AcceptReport] = []

    def accept(set_id: str) -> None:
        acceptor = Acceptor(ChangeStore(attack.store.directory), attack.workspace)
        with acceptor.open():
            reports.append(acceptor.accept(set_id, ["b"]))

    threads = [threading.Thread(target=accept, args=(each,)) for each in (attack.set_id, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(report.accepted for report in reports) == [(), ("b",)]
    assert [report.conflicts for report in reports if report.conflicts] == [
        (PathNote("b", "it was changed since the run"),)
    ]


def test_one_store_at_a_time_accepts_into_a_workspace(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_MAX_WAIT_S", 0.0)
    old = read_tree(attack.workspace)
    with Acceptor(ChangeStore(attack.folder / "other"), attack.workspace).open():
        with pytest.raises(ChangesError) as caught:
            attack.accept()
        assert str(caught.value) == (
            f"Another process holds the lock of the workspace {attack.workspace} (flock); wait for the programs that run "
            "there, or end them, and run the command again"
        )
        assert read_tree(attack.workspace) == old
    assert attack.accept().conflicts == ()


def test_a_file_system_without_locks_of_directories_is_no_obstacle(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_file: int, _how: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(lock, "fcntl", SimpleNamespace(flock=refuse, LOCK_EX=2, LOCK_NB=4))
    assert attack.accept().conflicts == ()


def test_a_workspace_that_is_another_directory_now_is_compared_anew(attack: Attack) -> None:
    attack.workspace.rename(attack.folder / "elsewhere")
    attack.workspace.mkdir()
    report = attack.accept()
    assert {note.path for note in report.conflicts} == {"b", "d/a", "d/new"}
    assert list(attack.workspace.iterdir()) == []
    attack.workspace.rmdir()
    attack.workspace.symlink_to(attack.outside)
    with pytest.raises(ChangesError):
        attack.accept()


def test_a_link_in_place_of_a_directory_above_the_workspace_leads_nowhere(attack: Attack) -> None:
    above = attack.folder / "above"
    above.mkdir()
    workspace = attack.workspace.rename(above / "workspace")
    set_id = make_change_set(attack.store, workspace, attack.changed)
    above.rename(attack.folder / "before")
    attack.outside.rename(attack.folder / "workspace")
    above.symlink_to(".")  # the path leads to the directory outside, which has the same files
    for use in (lambda acceptor: acceptor.find_texts(set_id), lambda acceptor: acceptor.open().__enter__()):
        with pytest.raises(ChangesError) as caught:
            use(Acceptor(attack.store, workspace))
        assert str(caught.value).endswith(f"Too many levels of symbolic links ({workspace})")
    assert read_tree(attack.folder / "workspace") == attack.outside_tree


_FULL = """
import shutil, subprocess, sys
from pathlib import Path
from tests.support.change_sets import make_change_set, read_tree
from paddock.engines.changes.accept import Acceptor
from paddock.model.errors import ChangesError
from paddock.record.changes.store import ChangeStore

folder, full = Path(sys.argv[1]), sys.argv[2]
for name in ("workspace", "store"):
    (folder / name).mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", folder / name], check=True)
workspace, changed = folder / "workspace", folder / "changed"
(workspace / "a").write_bytes(b"a" * 100_000)
(workspace / "b").write_text("b")
shutil.copytree(workspace, changed)
(changed / "a").write_bytes(b"n" * 200_000)
(changed / "b").unlink()
old = read_tree(workspace)
store = ChangeStore(folder / "store")
set_id = make_change_set(store, workspace, changed)
filler = folder / full / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        pass
acceptor = Acceptor(store, workspace)
try:
    with acceptor.open():
        acceptor.accept(set_id)
except ChangesError as error:
    print(error)
filler.unlink()
assert read_tree(workspace) == old, read_tree(workspace)
with acceptor.open() as recovery:
    assert recovery is None, recovery
    assert read_tree(workspace) == old
    assert acceptor.accept(set_id).accepted == ("a", "b")
assert read_tree(workspace) == read_tree(changed)
"""


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("full", ["workspace", "store"])
def test_a_full_disk_leaves_the_old_tree(tmp_path: Path, full: str) -> None:
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", _FULL, tmp_path, full],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "No space left on device" in done.stdout
