"""Whatever is done to a workspace, its protected paths are as before."""

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.confine import protected

PATHS = (
    ".git",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/config",
    ".mcp.json",
    ".vscode",
    ".vscode/tasks.json",
)
DEEDS = ("file", "directory", "link", "other link", "fifo", "remove", "mode")


def do(root, outside, deed, name):
    """Do one deed to a path, never through a link; what cannot be done is not done."""
    path = root / name
    if any(parent.is_symlink() for parent in path.parents if parent != root and root in parent.parents):
        return
    try:
        if deed != "mode" and os.path.lexists(path):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if deed == "mode" and not path.is_symlink():
            path.chmod(0o700)
        elif deed not in {"remove", "mode"}:
            path.parent.mkdir(parents=True, exist_ok=True)
            {
                "file": lambda: path.write_text(deed),
                "directory": path.mkdir,
                "link": lambda: path.symlink_to(outside),
                "other link": lambda: path.symlink_to("nowhere"),
                "fifo": lambda: os.mkfifo(path),
            }[deed]()
    except OSError:
        pass


def state(root):
    """Return kind, mode and content of every protected path and all below it."""
    found = {}
    for top in protected.PROTECTED:
        path = root / top
        if path.parent.is_symlink() or not os.path.lexists(path):
            continue
        below = [] if path.is_symlink() else sorted(path.rglob("*"))
        for each in (path, *below):
            facts = each.lstat()
            content = each.read_text() if stat.S_ISREG(facts.st_mode) else None
            target = each.readlink() if stat.S_ISLNK(facts.st_mode) else None
            found[str(each.relative_to(root))] = (facts.st_mode, content, target)
    return found


deeds = st.lists(st.tuples(st.sampled_from(DEEDS), st.sampled_from(PATHS)), max_size=8)


@given(before=deeds, after=deeds)
@example(before=[("link", ".git")], after=[("other link", ".git")])
def test_restore_undoes_everything_says_so_and_touches_nothing_through_links(before, after):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
        root, outside = Path(folder), Path(elsewhere)
        for name in (".git/hooks/pre-commit", "hooks/pre-commit", "config", "tasks.json", "pre-commit"):
            (outside / name).parent.mkdir(parents=True, exist_ok=True)
            (outside / name).write_text("somebody's own")
        untouched = everything(outside)
        for deed, name in before:
            if deed != "fifo":
                do(root, outside, deed, name)
        wanted = state(root)
        record = protected.record(folder)
        for deed, name in after:
            do(root, outside, deed, name)
        changed = state(root) != wanted
        violations = protected.restore(folder, record)
        assert everything(outside) == untouched
        assert state(root) == wanted
        assert bool(violations) or not changed
        assert protected.restore(folder, record) == []


def everything(folder):
    return {
        path: path.read_text() if path.is_file() else path.stat().st_mode
        for path in [folder, *folder.rglob("*")]
    }


def test_too_much_to_record_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(protected, "MOST_BYTES", 10)
    (tmp_path / ".mcp.json").write_text("x" * 20)
    with pytest.raises(protected.TooLargeError, match="the protected paths hold more than 10 bytes"):
        protected.record(str(tmp_path))


def test_nothing_is_put_back_through_a_link_that_another_job_makes_meanwhile(tmp_path, monkeypatch):
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / ".vscode").mkdir(parents=True)
    (root / ".vscode" / "tasks.json").write_text("mine")
    (root / ".envrc").write_text("mine")
    outside.mkdir()
    before = protected.record(str(root))
    shutil.rmtree(root / ".vscode")
    (root / ".envrc").write_text("theirs")
    mkdir = os.mkdir

    def swap(path, *how, **where):
        mkdir(path, *how, **where)
        (root / ".vscode").rename(root / "away")
        (root / ".vscode").symlink_to(outside)

    monkeypatch.setattr(os, "mkdir", swap)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        protected.restore(str(root), before)
    assert list(outside.iterdir()) == []
    assert (root / ".envrc").read_text() == "mine"
    monkeypatch.undo()
    assert protected.restore(str(root), before) == [".vscode"]
    assert (root / ".vscode" / "tasks.json").read_text() == "mine"


def test_a_record_reads_nothing_through_a_link(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
    (outside / "config").write_text("somebody's own")
    (root / ".git").symlink_to(outside)
    assert [*protected.record(str(root))] == [".git"]
