"""For any two trees: accept gives the changed one, a partial accept exactly its paths, and undo the old one again."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.change_sets import make_change_set, read_tree
from tests.support.tree_operations import OPERATIONS, PATHS, Operation, run_operations

from paddock.engines.changes.accept import Acceptor
from paddock.engines.changes.plan import is_at_or_below, list_above
from paddock.record.changes.store import ChangeStore


@contextmanager
def make_case(
    first: Sequence[Operation], then: Sequence[Operation]
) -> Iterator[tuple[Path, Path, Acceptor, str]]:
    with tempfile.TemporaryDirectory() as made:
        workspace, changed = Path(made, "workspace"), Path(made, "changed")
        workspace.mkdir()
        run_operations(workspace, first)
        shutil.copytree(workspace, changed, symlinks=True)
        run_operations(changed, then)
        store = ChangeStore(Path(made, "store"))
        set_id = make_change_set(store, workspace, changed)
        acceptor = Acceptor(store, workspace)
        with acceptor.open():
            yield workspace, changed, acceptor, set_id


@given(OPERATIONS, OPERATIONS)
@example([("write", "a", "a", 0)], [("file_to_directory", "a", "a", 0), ("chmod", "a", "a", 0)])
def test_accept_gives_the_changed_tree_and_undo_the_old_one(
    first: list[Operation], then: list[Operation]
) -> None:
    with make_case(first, then) as (workspace, changed, acceptor, set_id):
        old, new = read_tree(workspace), read_tree(changed)
        report = acceptor.accept(set_id)
        assert (report.left, report.conflicts, report.unchanged) == ((), (), ())
        assert read_tree(workspace) == new
        if report.accepted:
            assert acceptor.undo(set_id).accepted == report.accepted
        assert read_tree(workspace) == old


@given(OPERATIONS, OPERATIONS, st.lists(st.sampled_from(PATHS), min_size=1, max_size=3))
def test_a_partial_accept_changes_exactly_its_paths(
    first: list[Operation], then: list[Operation], named: list[str]
) -> None:
    with make_case(first, then) as (workspace, changed, acceptor, set_id):
        old, new = read_tree(workspace), read_tree(changed)
        paths = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
        named = [name for name in named if any(is_at_or_below(path, name) for path in paths)]
        if not named:
            return
        report = acceptor.accept(set_id, named)
        assert report.conflicts == ()
        chosen = {path for path in paths if any(is_at_or_below(path, name) for name in named)}
        needed = {above for path in chosen if path in new for above in list_above(path) if above in paths}
        accepted = set(report.accepted)
        assert accepted <= chosen | needed
        assert chosen - accepted == {note.path for note in report.left}
        assert read_tree(workspace) == {
            path: facts
            for path in old.keys() | new.keys()
            if (facts := (new if path in accepted else old).get(path)) is not None
        }
        if accepted:
            acceptor.undo(set_id)
        assert read_tree(workspace) == old
