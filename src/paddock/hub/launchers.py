"""Programs that fetch what they start, such as npx: they take longer the first time, and must not be cut short."""

import re
from pathlib import Path

DOWNLOAD_MS = 300_000
"""How long a server may take to start when it may have to be fetched first, and its entry names no time."""

_LAUNCHERS = frozenset(
    {"bun", "bunx", "deno", "docker", "npm", "npx", "pipx", "pnpm", "pnpx", "podman", "uv", "uvx", "yarn"}
)
_MISSING_MODULE_PATTERN = re.compile(r"Cannot find (?:module|package) ")
_NPX_COPY_PATTERN = re.compile(r"(?<![^\s'\"(])(/[\w./@+~-]{0,300}/_npx/[0-9a-f]{8,64})/node_modules/")
"""Where npm keeps what npx runs, in letters that mean nothing to a shell."""


def may_download(command: str) -> bool:
    """Return whether a command may have to fetch the server before it starts."""
    return Path(command).name in _LAUNCHERS


def suggest_remedy(command: str, words: str) -> str:
    """Return what to do about a copy of a package that is incomplete, by what npx wrote; empty otherwise.

    npx takes what it finds, and what it finds is incomplete for ever once an installation was cut short.
    """
    found = (
        _NPX_COPY_PATTERN.search(words)
        if may_download(command) and _MISSING_MODULE_PATTERN.search(words)
        else None
    )
    return f"\nnpm's copy of the package is incomplete: remove {found[1]}, and try again." if found else ""
