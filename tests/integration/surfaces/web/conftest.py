from pathlib import Path

import pytest
from tests.support.web import WebPlace


@pytest.fixture
def place(tmp_path: Path) -> WebPlace:
    return WebPlace(tmp_path)
