"""What Paddock enters into a client's configuration: the command that serves one workspace."""

import csv
import io
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

from paddock.hub.config import STATE_VOLUME
from paddock.surfaces.clients.table import Shape

PROGRAM = "paddock"
_INSIDE = "/workspace"
"""Where the container has the workspace."""


class Command(NamedTuple):
    """A command line."""

    program: str
    arguments: tuple[str, ...]


def build_native_command(workspace: Path) -> Command:
    """Return the command that serves a workspace on this machine."""
    beside = Path(sys.executable).with_name(PROGRAM)
    program = str(beside) if beside.exists() else shutil.which(PROGRAM) or PROGRAM
    return Command(program, ("serve", "mcp", "--workspace", str(workspace)))


def build_docker_command(image: str, workspace: str) -> Command:
    """Return the command that serves a workspace in a container of an image, without a network port or a secret.

    The container has no capabilities, as `docs/docker.md` has it; the record and stored output are in a volume.
    """
    mount = io.StringIO()  # Docker reads the fields of a mount as CSV
    csv.writer(mount, lineterminator="").writerow(["type=bind", f"source={workspace}", f"target={_INSIDE}"])
    return Command(
        "docker",
        (
            *("run", "-i", "--rm", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--mount", mount.getvalue(), "--volume", STATE_VOLUME),
            *(image, "serve", "mcp", "--workspace", _INSIDE),
        ),
    )


def build_entry(shape: Shape, command: Command) -> dict[str, Any]:
    """Return an entry as a client writes it."""
    program, arguments = command.program, list(command.arguments)
    match shape:
        case "plain":
            return {"command": program, "args": arguments}
        case "stdio":
            return {"type": "stdio", "command": program, "args": arguments}
        case "copilot":
            return {"type": "stdio", "command": program, "args": arguments, "tools": ["*"]}
        case "opencode":
            return {"type": "local", "command": [program, *arguments], "enabled": True}
        case "goose":
            about = {"name": PROGRAM, "description": "Run programs with the powers that policy grants"}
            start: dict[str, Any] = {"type": "stdio", "cmd": program, "args": arguments, "envs": {}}
            return {**about, **start, "enabled": True, "timeout": 300}


def find_workspace(entry: object) -> str:
    """Return the workspace that an entry serves, as it is written there; empty when none is found."""
    if not isinstance(entry, dict):
        return ""
    fields = cast("dict[str, object]", entry)
    words = [
        word
        for part in (fields.get("command"), fields.get("args"))
        if isinstance(part, list)
        for word in cast("list[object]", part)
        if isinstance(word, str)
    ]
    served = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "--workspace"), "")
    if served != _INSIDE:
        return served
    for word in words:
        if word.startswith("type=bind,"):
            [parts] = csv.reader([word])
            return next((part.removeprefix("source=") for part in parts if part.startswith("source=")), "")
    return served


def is_absolute_elsewhere(path: str) -> bool:
    """Tell whether a path is absolute on Linux, macOS or Windows."""
    return PurePosixPath(path).is_absolute() or (path[1:3] in (":\\", ":/") and path[:1].isalpha())
