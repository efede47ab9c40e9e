"""Differences are bounded, printable and without secrets."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support.change_sets import make_change_set

from paddock.engines.changes.differ import Differ
from paddock.record.changes.store import ChangeStore


def render(folder: Path, alter: Callable[[Path], object], *, max_chars: int = 10_000) -> list[str]:
    workspace, changed = folder / "workspace", folder / "changed"
    workspace.mkdir()
    (workspace / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    (workspace / "b.txt").write_text("b")
    shutil.copytree(workspace, changed)
    alter(changed)
    store = ChangeStore(folder / "store")
    set_id = make_change_set(store, workspace, changed)
    differ = Differ(
        store, set_id, lambda text: text.replace("s3cret", "[REDACTED]").replace("s4cret", "[REDACTED]")
    )
    return differ.render(store.read(set_id).changes, max_chars).split("\n")


def test_lines_of_a_file_are_compared(tmp_path: Path) -> None:
    def alter(root: Path) -> None:
        text = (root / "a.txt").read_text()
        (root / "a.txt").write_text(text.replace("line 8\n", "line\t8 \x1b[31m\u202e\nKEY=s3cret\n"))
        (root / "b.txt").unlink()
        (root / "c\n.txt").write_text("new\n")
        (root / "c\n.txt").chmod(0o755)

    assert render(tmp_path, alter) == [
        "diff a/a.txt b/a.txt",
        "secrets are not shown, and may differ",
        "--- a/a.txt",
        "+++ b/a.txt",
        "@@ -5,6 +5,7 @@",
        " line 5",
        " line 6",
        " line 7",
        "-line 8",
        "+line\t8 \\u001b[31m\\u202e",
        "+KEY=[REDACTED]",
        " line 9",
        " line 10",
        "diff a/b.txt b/b.txt",
        "deleted file, mode 0644",
        "--- a/b.txt",
        "+++ /dev/null",
        "@@ -1 +0,0 @@",
        "-b",
        "\\ No newline at end of file",
        "diff a/c\\u000a.txt b/c\\u000a.txt",
        "new file, mode 0755",
        "--- /dev/null",
        "+++ b/c\\u000a.txt",
        "@@ -0,0 +1 @@",
        "+new",
    ]


def test_what_differs_only_in_secrets_says_so(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/k").write_text("s3cret\n")
    shutil.copytree(tmp_path / "workspace", tmp_path / "changed")
    (tmp_path / "changed/k").write_text("s4cret\n")
    store = ChangeStore(tmp_path / "store")
    set_id = make_change_set(store, tmp_path / "workspace", tmp_path / "changed")
    differ = Differ(store, set_id, lambda text: text.replace("s3cret", "X").replace("s4cret", "X"))
    assert differ.render(store.read(set_id).changes, 1000).split("\n") == [
        "diff a/k b/k",
        "Contents of k differ only in secrets, which are not shown",
    ]


def test_a_line_that_differs_only_in_secrets_beside_another_change_is_mentioned(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/k").write_text("s3cret\n1\n2\n3\n4\na\n")
    shutil.copytree(tmp_path / "workspace", tmp_path / "changed")
    (tmp_path / "changed/k").write_text("s4cret\n1\n2\n3\n4\nb\n")
    store = ChangeStore(tmp_path / "store")
    set_id = make_change_set(store, tmp_path / "workspace", tmp_path / "changed")
    differ = Differ(store, set_id, lambda text: text.replace("s3cret", "X").replace("s4cret", "X"))
    assert differ.render(store.read(set_id).changes, 1000).split("\n") == [
        "diff a/k b/k",
        "secrets are not shown, and may differ",
        "--- a/k",
        "+++ b/k",
        "@@ -3,4 +3,4 @@",
        " 2",
        " 3",
        " 4",
        "-a",
        "+b",
    ]


def test_binary_and_large_files_are_not_shown(tmp_path: Path) -> None:
    def alter(root: Path) -> None:
        (root / "a.txt").write_bytes(b"\0" * 10)
        (root / "b.txt").write_text("x\n" * 600_000)
        (root / "link").symlink_to("a.txt")

    assert render(tmp_path, alter) == [
        "diff a/a.txt b/a.txt",
        "Contents of a.txt are not shown: they are binary (71 bytes before, 10 bytes after)",
        "diff a/b.txt b/b.txt",
        "Contents of b.txt are not shown: they are too large (1 byte before, 1200000 bytes after)",
        "diff a/link b/link",
        "new link to a.txt",
    ]


def test_the_first_lines_are_bounded(tmp_path: Path) -> None:
    def alter(root: Path) -> None:
        (root / "a.txt").write_text("x" * 5000 + "\n")
        (root / "b.txt").write_text("y\n" * 300)

    lines = render(tmp_path, alter, max_chars=2000)
    assert lines[-1] == "... (more: `paddock changes diff`)"
    assert f"+{'x' * 999}... (5001 characters)" in lines
    assert len("\n".join(lines)) <= 2000
