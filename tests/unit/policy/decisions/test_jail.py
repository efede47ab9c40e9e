"""The working directory stays inside of the workspace, whatever links say."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.policy.decisions.workdir import WorkdirError, resolve_cwd


def refusal(workspace: Path, cwd: str) -> str:
    with pytest.raises(WorkdirError) as raised:
        resolve_cwd(workspace, cwd)
    return str(raised.value)


ESCAPES = "Path traversal detected: target escapes repository root"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "inside" / "deep").mkdir(parents=True)
    (root / "file").write_text("")
    (tmp_path / "workspace-beside").mkdir()
    return root


def test_a_directory_inside(workspace: Path) -> None:
    assert resolve_cwd(workspace, "inside/deep") == workspace / "inside" / "deep"
    assert resolve_cwd(workspace, ".") == workspace


@pytest.mark.parametrize("target", ["..", "/etc", "../workspace-beside", "/", "/nowhere", "../nowhere"])
def test_s10_a_link_to_outside_says_nothing_about_it(workspace: Path, target: str) -> None:
    (workspace / "link").symlink_to(target)
    assert refusal(workspace, "link") == ESCAPES
    assert refusal(workspace, "link/deep") == ESCAPES


def test_s10_a_link_over_a_link(workspace: Path) -> None:
    (workspace / "inside" / "up").symlink_to("..")
    (workspace / "out").symlink_to("inside/up/..")
    assert resolve_cwd(workspace, "inside/up") == workspace
    assert refusal(workspace, "out") == ESCAPES


def test_s10_a_link_to_itself_is_no_directory(workspace: Path) -> None:
    (workspace / "loop").symlink_to("loop")
    assert refusal(workspace, "loop") == "Working directory does not exist: loop"


def test_what_follows_a_loop_and_two_slashes_is_not_looked_for_at_the_root(workspace: Path) -> None:
    (workspace / "loop").symlink_to("loop")
    for cwd in ("loop//", "loop//etc", f"loop/{workspace}/inside"):
        assert refusal(workspace, cwd) == f"Working directory does not exist: {cwd}"


def test_s11_the_workspace_may_be_a_link(workspace: Path) -> None:
    root = workspace.parent / "name"
    root.symlink_to(workspace)
    assert resolve_cwd(root, "inside") == workspace / "inside"


@pytest.mark.parametrize("cwd", ["missing", "file", "inside/missing", "x" * 300])
def test_s12_a_directory_that_is_not_there(workspace: Path, cwd: str) -> None:
    assert refusal(workspace, cwd) == f"Working directory does not exist: {cwd}"


_NAMES = st.sampled_from(["a", "b", "c", "..", ".", "a/b", "b/../c", "/", "../beside"])


@example([("b", "b")], "b//")
@example([("b", "b")], "b//a")
@given(
    st.lists(st.tuples(_NAMES, _NAMES), max_size=6), st.lists(_NAMES, min_size=1, max_size=4).map("/".join)
)
def test_what_leads_where_is_what_the_standard_library_finds(links: list[tuple[str, str]], cwd: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        place = Path(made).resolve()
        for folder in ("workspace/a/b", "workspace/c", "beside"):
            (place / folder).mkdir(parents=True)
        root = place / "workspace"
        for name, target in links:
            link = root / name
            if link.parent.is_dir() and not os.path.lexists(link):
                link.symlink_to(target)
        real = Path(os.path.realpath(root / cwd))
        if not real.is_relative_to(root):
            assert refusal(root, cwd) == ESCAPES
        elif not real.is_dir():
            assert refusal(root, cwd) == f"Working directory does not exist: {cwd}"
        else:
            assert resolve_cwd(root, cwd) == real
