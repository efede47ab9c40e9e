"""Move servers from `.mcp.json`, which MCP clients load themselves, to the file that only Paddock reads."""

import json
from collections.abc import Sequence
from typing import cast

from paddock.engines.servers.config import is_paddock
from paddock.model.errors import ConfigurationError
from paddock.surfaces.cli.clients.files import FileDraft

_KEY = ("mcpServers",)


def list_shared(shared: FileDraft) -> list[str]:
    """Return the names of the servers in a file, without Paddock itself. Raises ConfigurationError."""
    return [
        name
        for name, entry in shared.read_entries(_KEY).items()
        if isinstance(entry, dict) and not is_paddock(cast("object", entry))
    ]


def draft_move(names: Sequence[str], shared: FileDraft, own: FileDraft) -> tuple[list[str], list[str]]:
    """Move servers from one draft to the other; return the names of the moved ones, and of the others.

    A server stays if the other file has another entry with its name. Raises ConfigurationError, also if Paddock could
    not read the servers in the other file.
    """
    try:
        json.loads(own.before or "{}")
    except (ValueError, RecursionError):
        raise ConfigurationError(
            f"{own.file}: Paddock needs JSON without comments there, so it would not find servers that move there. "
            "Nothing was changed; correct the file first. `paddock servers list` says where."
        ) from None
    moved: list[str] = []
    kept: list[str] = []
    for name in names:
        entry = shared.read_entries(_KEY)[name]
        there = own.read_entries(_KEY)
        if name in there and there[name] != entry:
            kept.append(name)
            continue
        if name not in there:
            own.edit((*_KEY, name), entry)
        shared.edit((*_KEY, name), None)
        moved.append(name)
    return moved, kept
