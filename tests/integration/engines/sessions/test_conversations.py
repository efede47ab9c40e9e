"""Conversations of data analysis show the same in a session as in a Jupyter kernel or a program of node.

Each file in `conversations` has the executions of one. By default a few of each kind run; with
`PADDOCK_RELIABILITY_RUNS` set, all of them do.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.engines.sessions import notebooks
from tests.integration.engines.sessions.notebooks import Course

LANGUAGES = {".py": "python", ".R": "r", ".js": "node"}
ALWAYS = frozenset(
    [
        "await_at_the_top.js",
        "classes_and_errors.js",
        "data_frames.R",
        "display_of_values.py",
        "errors_in_the_middle.py",
        "exceptions_of_many_kinds.py",
        "figures_across_cells.py",
        "files_and_folders.py",
        "files_and_paths.js",
        "images_shown.py",
        "long_containers.py",
        "plots.R",
        "progress_with_carriage_returns.py",
        "syntax_errors.py",
        "top_level_await.py",
        "unicode_text.py",
        "warnings_and_stderr.py",
        "wide_and_long_frames.py",
    ]
)
ALL = sorted(path.name for path in notebooks.FOLDER.iterdir())
CHOSEN = ALL if os.environ.get("PADDOCK_RELIABILITY_RUNS") else [name for name in ALL if name in ALWAYS]


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory, data_environment: Path, toolchain_path: str) -> Path:
    """A folder with descriptions of the kernels."""
    return notebooks.write_kernels(tmp_path_factory.mktemp("kernels"), data_environment / "bin" / "python")


@pytest.fixture
def run_plainly(kernels: Path, tmp_path: Path) -> Callable[[str, list[str]], Course]:
    """Run the texts without Paddock."""
    (folder := tmp_path / "plain").mkdir()

    def run(language: str, cells: list[str]) -> Course:
        if language == "node":
            return notebooks.run_node(folder, cells)
        environment = {**os.environ, "IPYTHONDIR": str(tmp_path / "ipython"), "LC_ALL": "C.UTF-8"}
        return notebooks.run_kernel(kernels, folder, language, cells, environment)

    return run


@pytest.mark.parametrize("name", CHOSEN)
def test_a_conversation_shows_the_same(
    name: str,
    workspace: Path,
    data_environment: Path,
    run_plainly: Callable[[str, list[str]], Course],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PADDOCK_RELIABILITY_RUNS", raising=False)  # no setting of Paddock
    path = notebooks.FOLDER / name
    language, cells = LANGUAGES[path.suffix], notebooks.read_cells(path)
    runtimes = {"timeout_ms": 120_000, "python": {"environment": str(data_environment)}}
    assert notebooks.run_session(workspace, language, cells, {"runtimes": runtimes}) == run_plainly(
        language, cells
    )


def test_there_are_conversations_of_every_kind() -> None:
    assert set(ALL) >= ALWAYS
    assert len(ALL) == 60
    assert {
        name: len(notebooks.read_cells(notebooks.FOLDER / name))
        for name in ALL
        if len(notebooks.read_cells(notebooks.FOLDER / name)) < 3
    } == {}
