"""A place that the users of jobs can reach, unlike the directories of pytest."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def reachable() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="paddock-tests-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
