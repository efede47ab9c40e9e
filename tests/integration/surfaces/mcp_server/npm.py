"""The Node.js that clients from npm need."""

import platform
from collections.abc import Callable
from pathlib import Path

Modules = Callable[[str], Path]
"""What the fixture `npm_modules` is."""


def node(modules: Path) -> str:
    """Return the pinned Node.js of the clients, newer than what a machine may have."""
    kind = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    return str(modules / f"node-linux-{kind}" / "bin" / "node")
