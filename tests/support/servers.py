"""The servers of tests/servers as entries of a servers file."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "servers"


def make_command(name: str, *arguments: object) -> list[str]:
    """Return the command that starts a server of tests/servers, without what site packages bring."""
    return [sys.executable, "-I", "-S", str(FOLDER / f"{name}.py"), *map(str, arguments)]


def make_entry(name: str, *arguments: object, **fields: Any) -> dict[str, Any]:
    """Return the entry of a server of tests/servers. It has an hour for each answer, unless `timeoutMs` says less."""
    command, *rest = make_command(name, *arguments)
    return {"command": command, "args": rest, "timeoutMs": 3_600_000, **fields}


def write_servers(workspace: Path, servers: Mapping[str, Any]) -> None:
    """Write the servers file of a workspace."""
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
