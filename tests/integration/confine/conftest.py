"""A folder that every user can get into: pytest's own are closed to others, and it closes them again and again."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def open_path():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()
