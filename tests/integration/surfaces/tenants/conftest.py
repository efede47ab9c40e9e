"""Places in which tests start a server of their own."""

from pathlib import Path

import pytest
from tests.support.http_api import ApiPlace


@pytest.fixture
def place(tmp_path: Path) -> ApiPlace:
    return ApiPlace(tmp_path)
