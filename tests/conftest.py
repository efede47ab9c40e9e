import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def real_servers():
    """Commands of the real MCP servers, installed once into the user's cache."""
    path = ROOT / "scripts" / "install_servers.py"
    spec = importlib.util.spec_from_file_location("install_servers", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["install_servers"] = module
    spec.loader.exec_module(module)
    return module.install()
