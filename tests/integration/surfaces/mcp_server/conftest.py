"""Paddock as an MCP server, in a workspace with servers."""

from pathlib import Path

import pytest
from tests.support.mcp_server import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
