"""Keep a working directory within its workspace. The kernel's confinement complements this check."""

import os
import re
from pathlib import Path

ESCAPES = "Path traversal detected: target escapes repository root"

_DRIVE_PATTERN = re.compile(r"[A-Za-z]:")


class WorkdirError(ValueError):
    """A working directory is outside of the workspace, or does not exist; the text says which."""


def is_confined(cwd: str) -> bool:
    """Return whether a relative path stays within its directory, judged by its text, on any system."""
    parts = re.split(r"[/\\]", cwd)
    return parts[0] != "" and ".." not in parts and not _DRIVE_PATTERN.match(cwd)


def resolve_cwd(workspace: Path, cwd: str) -> Path:
    """Return the directory `cwd` below `workspace`, without links. Raises WorkdirError.

    The error does not reveal whether anything outside of the workspace exists.
    """
    root, is_there = _resolve_links(str(workspace))
    target = root
    if cwd != ".":
        target, is_there = _resolve_links(os.path.join(root, cwd))  # `Path.resolve` needs an existing path
    if target != root and not target.startswith(f"{root.rstrip('/')}/"):
        raise WorkdirError(ESCAPES)
    if not is_there:
        raise WorkdirError(f"Working directory does not exist: {cwd}")
    return workspace if target == str(workspace) else Path(target)


def _resolve_links(path: str) -> tuple[str, bool]:
    """Return os.path.realpath(path), and whether that is a directory; False if it cannot be inspected.

    For a directory it takes a tenth of the time of realpath, and every program waits for it.
    """
    try:
        found = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # no such directory, or one only in its text
        # Path, because realpath treats two slashes behind a loop of links as a path from the root.
        real = os.path.realpath(Path(path))
        return real, os.path.isdir(real)
    try:
        return os.readlink(f"/proc/self/fd/{found}"), True
    except OSError:  # there is no /proc
        return os.path.realpath(path), True
    finally:
        os.close(found)
