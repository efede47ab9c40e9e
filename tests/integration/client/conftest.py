"""What tests of the library share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock import BlockingPaddock


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paddock's own directories, which are not in the workspace."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def workspace(home: None, tmp_path: Path) -> Path:
    """An empty workspace."""
    (folder := tmp_path / "workspace").mkdir()
    return folder


@pytest.fixture
def opened(workspace: Path) -> Iterator[BlockingPaddock]:
    """An open Paddock in the workspace."""
    with BlockingPaddock(workspace) as one:
        yield one
