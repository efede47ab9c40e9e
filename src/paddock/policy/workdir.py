"""Keep a working directory inside its workspace. What the kernel enforces comes on top of this, not instead."""

import os
import re
from pathlib import Path

ESCAPES = "Path traversal detected: target escapes repository root"

_DRIVE_PATTERN = re.compile(r"[A-Za-z]:")


class JailError(ValueError):
    """A working directory is not inside the workspace, or not there; the text says which."""


def is_confined(cwd: str) -> bool:
    """Return whether a relative path stays inside by its letters alone, on any system."""
    parts = re.split(r"[/\\]", cwd)
    return parts[0] != "" and ".." not in parts and not _DRIVE_PATTERN.match(cwd)


def resolve_cwd(workspace: Path, cwd: str) -> Path:
    """Return the directory that `cwd` means below `workspace`, without links. Raises JailError.

    Whether something outside of the workspace exists cannot be learned from the error.
    """
    root, is_there = _resolve_links(str(workspace))
    target = root
    if cwd != ".":
        target, is_there = _resolve_links(os.path.join(root, cwd))  # `Path.resolve` needs an existing path
    if target != root and not target.startswith(f"{root.rstrip('/')}/"):
        raise JailError(ESCAPES)
    if not is_there:
        raise JailError(f"Working directory does not exist: {cwd}")
    return workspace if target == str(workspace) else Path(target)


def _resolve_links(path: str) -> tuple[str, bool]:
    """Return what os.path.realpath does, and whether that is a directory; False for what cannot be looked at.

    Of a directory it takes a tenth of the time: each program that runs waits for it.
    """
    try:
        found = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # there is no such directory, or just by its letters
        # Path, for realpath takes what follows two slashes behind a loop of links for a path from the root.
        real = os.path.realpath(Path(path))
        return real, os.path.isdir(real)
    try:
        return os.readlink(f"/proc/self/fd/{found}"), True
    except OSError:  # there is no /proc
        return os.path.realpath(path), True
    finally:
        os.close(found)
