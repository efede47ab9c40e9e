"""Programs such as npx that download what they start. They take longer the first time and must not be interrupted."""

import re
from pathlib import Path

DOWNLOAD_MS = 300_000
"""Default maximum start time of a server that may have to be downloaded, in milliseconds."""

_LAUNCHERS = frozenset(
    {"bun", "bunx", "deno", "docker", "npm", "npx", "pipx", "pnpm", "pnpx", "podman", "uv", "uvx", "yarn"}
)
_MISSING_MODULE_PATTERN = re.compile(r"Cannot find (?:module|package) ")
_NPX_COPY_PATTERN = re.compile(r"(?<![^\s'\"(])(/[\w./@+~-]{0,300}/_npx/[0-9a-f]{8,64})/node_modules/")
"""The directory in which npm keeps packages for npx, without characters that are special in a shell."""


def may_download(command: str) -> bool:
    """Return whether a command may have to download the server before it starts."""
    return Path(command).name in _LAUNCHERS


def suggest_remedy(command: str, words: str) -> str:
    """Return the remedy for an incomplete copy of a package, which npx's output names; empty otherwise.

    npx uses an existing copy. If its installation was interrupted, the copy stays incomplete for ever.
    """
    found = (
        _NPX_COPY_PATTERN.search(words)
        if may_download(command) and _MISSING_MODULE_PATTERN.search(words)
        else None
    )
    return f"\nnpm's copy of the package is incomplete: remove {found[1]}, and try again." if found else ""
