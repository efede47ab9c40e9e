"""A person's machine: an empty workspace, and Paddock's own directories beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command import OWN_PLACES
from tests.support.postgres import find_free_port

from paddock import BlockingPaddock, Settings
from paddock.policy.settings.schema import AuditSettings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paddock's own directories, which are not in the workspace."""
    for name in OWN_PLACES:
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def workspace(home: None, tmp_path: Path) -> Path:
    """An empty workspace."""
    (folder := tmp_path / "workspace").mkdir()
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings whose record is in a directory of the test."""
    return Settings(audit=AuditSettings(directory=tmp_path / "audit"))


@pytest.fixture
def opened(workspace: Path) -> Iterator[BlockingPaddock]:
    """An open Paddock in the workspace."""
    with BlockingPaddock(workspace) as one:
        yield one


@pytest.fixture
def unused_port() -> int:
    """A port of loopback on which nothing listens."""
    return find_free_port()
