"""Whatever is done to a workspace, its protected paths are as before."""

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.confinement.sandbox.child import protected_paths, protection, snapshot
from paddock.confinement.sandbox.child.snapshot import Restoration


def record(folder):
    with opened(str(folder)) as root:
        return protected_paths.record_paths(root)


def restore(folder, before):
    """Put everything back; return what was changed, and what could not be put back, and why."""
    with opened(str(folder)) as root:
        way_back = Restoration(root, before.snapshot)
        found = protected_paths.restore_paths(root, before, way_back)
        way_back.discard()
    assert not [*Path(folder).glob(".paddock-removed-*")]
    return found


@contextlib.contextmanager
def opened(folder):
    root = os.open(folder, os.O_PATH)
    yield root
    os.close(root)


REMEDY = (
    "request read-only access, make them smaller, or name what need not be watched in sandbox.unprotected of the "
    "user's settings"
)
PATHS = (
    ".git",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/config",
    ".mcp.json",
    ".vscode",
    ".vscode/tasks.json",
    ".mentu",
    ".mentu/scripts",
    ".mentu/scripts/report.ts",
)
PARENTS = (".git",)
DEEDS = ("file", "directory", "link", "other link", "fifo", "remove", "mode", "owner", "attribute")
MENDING = {"mode", "owner", "attribute"}


def do(root, outside, deed, name):
    """Do one deed to a path, never through a link; what cannot be done is not done."""
    path = root / name
    if any(parent.is_symlink() for parent in path.parents if parent != root and root in parent.parents):
        return
    try:
        if deed not in MENDING and os.path.lexists(path):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if deed == "mode" and not path.is_symlink():
            path.chmod(0o700)
        elif deed == "owner":
            os.chown(path, 54321, 54321, follow_symlinks=False)  # for root alone
        elif deed == "attribute":
            os.setxattr(path, "user.paddock", deed.encode(), follow_symlinks=False)
        elif deed != "remove" and deed not in MENDING:
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
    """Return all that counts of every protected path and all below it, and of a .git that is no folder."""
    found = {}
    for top in (*protection.BUILT_IN_RULES.paths, *PARENTS):
        path = root / top
        if path.parent.is_symlink() or not os.path.lexists(path):
            continue
        if top in PARENTS and path.is_dir() and not path.is_symlink():
            continue
        below = [] if path.is_symlink() else sorted(path.rglob("*"))
        for each in (path, *below):
            facts = each.lstat()
            content = each.read_text() if stat.S_ISREG(facts.st_mode) else None
            target = each.readlink() if stat.S_ISLNK(facts.st_mode) else None
            attributes = [] if target else [(name, os.getxattr(each, name)) for name in os.listxattr(each)]
            owner = facts.st_uid, facts.st_gid
            found[str(each.relative_to(root))] = (facts.st_mode, owner, content, target, attributes)
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
            do(root, outside, deed, name)
        wanted = state(root)
        recorded = record(folder)
        for deed, name in after:
            do(root, outside, deed, name)
        changed = state(root) != wanted
        found = restore(folder, recorded)
        assert everything(outside) == untouched
        assert state(root) == wanted
        assert bool(found.violations) or not changed
        assert not found.left
        assert restore(folder, recorded) == ([], {})


def everything(folder):
    return {
        path: path.read_text() if path.is_file() else path.stat().st_mode
        for path in [folder, *folder.rglob("*")]
    }


def watched(workspace):
    """Return protected.Before of a workspace, as a warden makes it."""
    return protected_paths.ProtectedPaths(str(workspace), os.memfd_create("known"))


@pytest.mark.parametrize(
    ("fill", "why"),
    [
        (lambda root: (root / ".mcp.json").write_bytes(b"x" * (1 << 20)), "they hold more than 1 MiB"),
        (lambda root: [(root / ".idea" / str(n)).touch() for n in range(2048)], "they hold more than 1 MiB"),
        (lambda root: dig(root / ".idea", 65), "they are nested deeper than 64 folders"),
    ],
)
def test_too_much_to_record_is_said(tmp_path, monkeypatch, fill, why):
    monkeypatch.setattr(snapshot, "MAX_BYTES", 1 << 20)
    (tmp_path / ".idea").mkdir()
    watched(tmp_path).close()
    fill(tmp_path)
    told = f"the protected paths of the workspace are too large to watch: {why}; {REMEDY}"
    with pytest.raises(protected_paths.RecordError) as caught:
        watched(tmp_path)
    assert str(caught.value) == told


def dig(folder, depth):
    for _ in range(depth):
        folder /= "d"
        folder.mkdir()


def test_nothing_is_put_back_through_a_link_that_another_job_makes_meanwhile(tmp_path, monkeypatch):
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / ".vscode").mkdir(parents=True)
    (root / ".vscode" / "tasks.json").write_text("mine")
    (root / ".envrc").write_text("mine")
    outside.mkdir()
    before = record(root)
    shutil.rmtree(root / ".vscode")
    (root / ".envrc").write_text("theirs")
    mkdir = os.mkdir

    def swap(path, *how, **where):
        mkdir(path, *how, **where)
        (root / ".vscode").rename(root / "away")
        (root / ".vscode").symlink_to(outside)

    monkeypatch.setattr(os, "mkdir", swap)
    violations, left = restore(root, before)
    assert (violations, list(left)) == ([".vscode", ".envrc"], [".vscode"])
    assert left[".vscode"] in {"Not a directory", "Too many levels of symbolic links"}
    assert list(outside.iterdir()) == []
    assert (root / ".envrc").read_text() == "mine"
    monkeypatch.undo()
    assert restore(root, before) == ([".vscode"], {})
    assert (root / ".vscode" / "tasks.json").read_text() == "mine"


def test_a_record_reads_nothing_through_a_link(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
    (outside / "config").write_text("somebody's own")
    (root / ".git").symlink_to(outside)
    assert [*record(root).snapshot.nodes] == [".git"]
