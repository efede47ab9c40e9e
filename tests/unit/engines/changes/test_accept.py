"""Accepting a change set gives the changed tree, and undoing it the old one; a conflict writes nothing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.change_sets import make_change_set, read_tree

from paddock.engines.changes.accept import Acceptor, AcceptReport
from paddock.engines.changes.merge import MergeTexts
from paddock.engines.changes.plan import PathNote
from paddock.model.errors import ChangesError
from paddock.record.changes.store import ChangeStore

Alter = Callable[[Path], object]


class Case:
    """A workspace, a copy that a program changed, and a store."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.changed = folder / "changed"
        self.store = ChangeStore(folder / "store")
        (self.workspace / "src").mkdir(parents=True)
        (self.workspace / "src/a.py").write_text("one\ntwo\nthree\nfour\nfive\n")
        (self.workspace / "src/b.py").write_text("b\n")
        (self.workspace / "README").write_text("read me\n")

    def change(self, alter: Alter) -> str:
        shutil.copytree(self.workspace, self.changed, symlinks=True)
        alter(self.changed)
        return make_change_set(self.store, self.workspace, self.changed)

    def accept(self, set_id: str, *named: str, merge: bool = False) -> AcceptReport:
        acceptor = Acceptor(self.store, self.workspace)
        merges = (
            {each.key: merge_lines(each) for each in acceptor.find_texts(set_id, named)} if merge else None
        )
        with acceptor.open() as recovery:
            assert recovery is None
            return acceptor.accept(set_id, named, merges)

    def undo(self, set_id: str, *named: str) -> AcceptReport:
        acceptor = Acceptor(self.store, self.workspace)
        with acceptor.open() as recovery:
            assert recovery is None
            return acceptor.undo(set_id, named)


def merge_lines(texts: MergeTexts) -> bytes | None:
    """Merge texts with as many lines as before; git does it in a sandbox."""
    merged: list[bytes] = []
    for ours, base, theirs in zip(*(text.splitlines(keepends=True) for text in texts), strict=True):
        if base not in {ours, theirs} and ours != theirs:
            return None
        merged.append(theirs if ours == base else ours)
    return b"".join(merged)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def refactor(root: Path) -> None:
    (root / "src/a.py").write_text("one\nTWO\nthree\nfour\nfive\n")
    (root / "src/b.py").unlink()
    (root / "src/new/deep").mkdir(parents=True)
    (root / "src/new/deep/c.py").write_text("c\n")
    (root / "README").chmod(0o600)
    (root / "link").symlink_to("src/a.py")


def test_accept_gives_the_changed_tree_and_undo_the_old_one(case: Case) -> None:
    old = read_tree(case.workspace)
    set_id = case.change(refactor)
    paths = ("README", "link", "src/a.py", "src/b.py", "src/new", "src/new/deep", "src/new/deep/c.py")
    assert case.accept(set_id) == AcceptReport(accepted=paths)
    assert read_tree(case.workspace) == read_tree(case.changed)
    assert case.store.read_state(set_id).describe(len(paths)) == "accepted"
    assert case.accept(set_id) == AcceptReport(unchanged=paths)
    assert case.undo(set_id) == AcceptReport(accepted=paths)
    assert read_tree(case.workspace) == old
    assert case.store.read_state(set_id).describe(len(paths)) == "undone"
    assert case.accept(set_id) == AcceptReport(accepted=paths)
    assert read_tree(case.workspace) == read_tree(case.changed)
    assert sorted(each.suffix for each in case.store.directory.iterdir()) == ["", ".lock"]


def test_a_named_path_takes_the_added_directories_above_it(case: Case) -> None:
    set_id = case.change(refactor)
    report = case.accept(set_id, "src/new/deep/c.py")
    assert report.accepted == ("src/new", "src/new/deep", "src/new/deep/c.py")
    assert case.accept(set_id, "src").accepted == ("src/a.py", "src/b.py")
    assert case.undo(set_id, "src/new").accepted == ("src/new", "src/new/deep", "src/new/deep/c.py")
    assert sorted(each.name for each in (case.workspace / "src").iterdir()) == ["a.py"]
    with pytest.raises(ChangesError) as caught:
        case.accept(set_id, "sr")
    assert (
        str(caught.value) == "Nothing changed at 'sr'; `paddock changes show` lists the paths of a change set"
    )


def test_a_path_that_was_changed_since_is_a_conflict_and_nothing_is_written(case: Case) -> None:
    set_id = case.change(refactor)
    (case.workspace / "src/a.py").write_text("mine\n")
    (case.workspace / "src/b.py").unlink()
    (case.workspace / "src/b.py").mkdir()
    (case.workspace / "src/new").write_text("a file\n")
    (case.workspace / "README").unlink()
    old = read_tree(case.workspace)
    assert case.accept(set_id) == AcceptReport(
        conflicts=(
            PathNote("README", "it was removed since the run"),
            PathNote("src/a.py", "it was changed since the run"),
            PathNote("src/b.py", "it is a directory now"),
            PathNote("src/new", "it exists already"),
        ),
        can_merge=True,
    )
    assert read_tree(case.workspace) == old
    assert case.accept(set_id, "link").accepted == ("link",)


def test_a_text_file_that_merges_cleanly_is_merged_on_demand(case: Case) -> None:
    old = read_tree(case.workspace)
    set_id = case.change(refactor)
    (case.workspace / "src/a.py").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    report = case.accept(set_id, "src/a.py", merge=True)
    assert (report.accepted, report.merged) == (("src/a.py",), ("src/a.py",))
    assert (case.workspace / "src/a.py").read_text() == "one\nTWO\nthree\nfour\nFIVE\n"
    assert case.undo(set_id).accepted == ("src/a.py",)
    assert (case.workspace / "src/a.py").read_text() == "one\ntwo\nthree\nfour\nFIVE\n"
    (case.workspace / "src/a.py").write_text("one\n2\nthree\nfour\nfive\n")
    assert case.accept(set_id, "src/a.py", merge=True).conflicts == (
        PathNote("src/a.py", "it was changed since the run, and both changed the same lines"),
    )
    assert (case.workspace / "src/a.py").read_text() == "one\n2\nthree\nfour\nfive\n"
    assert old.keys() == read_tree(case.workspace).keys()


def test_protected_paths_and_outward_links_are_accepted_only_by_name(case: Case) -> None:
    def alter(root: Path) -> None:
        (root / "out").symlink_to("/etc/passwd")
        (root / "src/up").symlink_to("../../other")
        (root / "inner").symlink_to("src/one")
        (root / "src/top").symlink_to("..")  # `beside` leads out through it
        (root / "beside").symlink_to("src/top/../other")
        (root / "hooks").mkdir()
        (root / "hooks/run").write_text("x")

    shutil.copytree(case.workspace, case.changed)
    alter(case.changed)
    set_id = make_change_set(
        case.store,
        case.workspace,
        case.changed,
        adapt=lambda change: change.replace(protected=change.path.startswith("hooks")),
    )
    report = case.accept(set_id)
    assert report.accepted == ("inner", "src/top")
    assert report.left == (
        PathNote("beside", "a link out of the workspace; name it to accept it"),
        PathNote("hooks", "protected; name it to accept it"),
        PathNote("hooks/run", "protected; name it to accept it"),
        PathNote("out", "a link out of the workspace; name it to accept it"),
        PathNote("src/up", "a link out of the workspace; name it to accept it"),
    )
    report = case.accept(set_id, "hooks/run")
    assert (report.accepted, report.left) == (
        (),
        (PathNote("hooks/run", "it needs hooks, which is left"),),
    )
    assert case.accept(set_id, "beside", "hooks", "hooks/run", "out", "src/up").left == ()
    assert read_tree(case.workspace) == read_tree(case.changed)


def test_a_hidden_file_is_never_removed_or_replaced(case: Case) -> None:
    (case.workspace / "src/.env").write_text("KEY=1\n")
    old = read_tree(case.workspace)

    def alter(root: Path) -> None:
        shutil.rmtree(root / "src")

    shutil.copytree(case.workspace, case.changed)
    (case.workspace / "src/.env").unlink()  # the program did not see it
    alter(case.changed)
    set_id = make_change_set(case.store, case.workspace, case.changed)
    (case.workspace / "src/.env").write_text("KEY=1\n")
    acceptor = Acceptor(case.store, case.workspace, lambda: {"src/.env"})
    with acceptor.open():
        report = acceptor.accept(set_id)
    assert report == AcceptReport(
        conflicts=(
            PathNote("src", "workspace.hide hides a file there, which is never removed, replaced or shown"),
        )
    )
    assert case.accept(set_id).conflicts == (
        PathNote("src", "it holds .env, which the change set does not have"),
    )
    assert read_tree(case.workspace) == old


def test_a_file_that_changed_during_the_run_is_a_conflict(case: Case) -> None:
    shutil.copytree(case.workspace, case.changed)
    refactor(case.changed)
    set_id = make_change_set(
        case.store, case.workspace, case.changed, adapt=lambda change: change.replace(changed_meanwhile=True)
    )
    assert case.accept(set_id, "src/a.py", merge=True).conflicts == (
        PathNote("src/a.py", "the workspace's own file was changed during the run"),
    )


def test_an_incomplete_or_a_discarded_set_is_not_accepted(case: Case) -> None:
    shutil.copytree(case.workspace, case.changed)
    refactor(case.changed)
    set_id = make_change_set(case.store, case.workspace, case.changed, incomplete="more than 3 changes")
    with pytest.raises(ChangesError) as caught:
        case.accept(set_id)
    assert str(caught.value) == (
        f"The change set {set_id} is incomplete and cannot be accepted: more than 3 changes; let the program change "
        "less, and run it again"
    )
    shutil.rmtree(case.changed)
    set_id = case.change(refactor)
    case.store.discard(set_id)
    with pytest.raises(ChangesError, match="was discarded"):
        case.accept(set_id)
    shutil.rmtree(case.changed)
    set_id = case.change(refactor)
    with pytest.raises(ChangesError, match="there is nothing to undo"):
        case.undo(set_id)


def test_modes_are_kept_and_special_bits_never_come(case: Case) -> None:
    def alter(root: Path) -> None:
        (root / "tool").write_text("x")
        (root / "tool").chmod(0o4755)
        (root / "src").chmod(0o2750)
        (root / "closed").mkdir()
        (root / "closed/inner").mkdir()
        (root / "closed/inner").chmod(0o500)
        (root / "closed").chmod(0o500)

    (case.workspace / "src").chmod(0o3755)
    set_id = case.change(alter)
    assert case.accept(set_id).conflicts == ()
    assert read_tree(case.workspace) == read_tree(case.changed)
    modes = {name: (case.workspace / name).lstat().st_mode & 0o7777 for name in ("tool", "src", "closed")}
    assert modes == {"tool": 0o755, "src": 0o3750, "closed": 0o500}


def test_hard_links_stay_links_of_each_other(case: Case) -> None:
    def alter(root: Path) -> None:
        (root / "x").write_text("x")
        os.link(root / "x", root / "src/y")

    set_id = case.change(alter)
    assert case.accept(set_id).accepted == ("src/y", "x")
    assert (case.workspace / "x").samefile(case.workspace / "src/y")


def test_contents_that_were_not_kept_cannot_be_undone(case: Case) -> None:
    case.store = ChangeStore(case.store.directory, undo_bytes=10)
    set_id = case.change(refactor)
    case.accept(set_id)
    with pytest.raises(ChangesError) as caught:
        case.undo(set_id)
    assert str(caught.value) == (
        "src/a.py cannot be undone: its contents before were not kept, because all of them together are larger than "
        "overlay.undo_bytes; name the paths to undo without it"
    )
    assert case.undo(set_id, "src/b.py").accepted == ("src/b.py",)


def test_a_path_can_be_named_as_it_is_shown(tmp_path: Path) -> None:
    case = Case(tmp_path)
    names = ["line\nend", "\u0645\u0644\u0641.txt", "same\n", "same\\u000a"]
    set_id = case.change(lambda root: [(root / name).write_text(name) for name in names])
    shown = ["line\\u000aend", "\\u0645\\u0644\\u0641.txt"]
    assert case.accept(set_id, *shown).accepted == tuple(names[:2])
    assert case.undo(set_id, shown[0]).accepted == (names[0],)
    assert case.accept(set_id, "same\\u000a").accepted == (names[3],)
    assert not (case.workspace / names[2]).exists()


def test_a_shown_name_of_two_paths_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path)
    set_id = case.change(lambda root: [(root / name).write_text(name) for name in ("\\u000a\n", "\n\\u000a")])
    with pytest.raises(ChangesError, match="Nothing changed at"):
        case.accept(set_id, "\\u000a\\u000a")


def test_undoing_a_path_that_is_not_accepted_says_why_not(tmp_path: Path) -> None:
    case = Case(tmp_path)
    set_id = case.change(lambda root: [(root / name).write_text("new\n") for name in ("README", "src/a.py")])
    case.accept(set_id, "README")
    with pytest.raises(
        ChangesError,
        match=r"Not all of these paths are accepted.*: src; `paddock changes show` marks the accepted ones",
    ):
        case.undo(set_id, "src")
    with pytest.raises(ChangesError, match="Nothing changed at 'nowhere'"):
        case.undo(set_id, "nowhere")
