"""The entry for a client's configuration: the command that serves one workspace."""

import csv
import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple, cast

from paddock.engines.servers.config import STATE_VOLUME, find_serve
from paddock.surfaces.cli.clients.table import Shape

PROGRAM = "paddock"
_INSIDE = "/workspace"
"""Path of the workspace in the container."""
_SERVE = ("serve", "mcp")
_SOURCES = ("source=", "src=")
_ADDRESSES = frozenset({"url", "httpUrl", "serverUrl", "uri"})
"""Keys of entries for servers that a client connects to and does not start."""


class ServerCommand(NamedTuple):
    """A command line that starts `paddock serve mcp`."""

    launcher: tuple[str, ...]
    """Paddock's own program, or another program with the arguments that start Paddock."""
    options: tuple[str, ...]
    """Options of `serve mcp`."""

    @property
    def words(self) -> list[str]:
        """All words of the command line."""
        return [*self.launcher, *_SERVE, *self.options]


def build_native_command(workspace: Path) -> ServerCommand:
    """Return the command that serves a workspace on this machine."""
    beside = Path(sys.executable).with_name(PROGRAM)
    program = str(beside) if beside.exists() else shutil.which(PROGRAM) or PROGRAM
    return ServerCommand((program,), ("--workspace", str(workspace)))


def build_docker_command(image: str, workspace: str) -> ServerCommand:
    """Return the command that serves a workspace in a container of an image, without a network port or a secret.

    The container has no capabilities, as in `docs/docker.md`; the record and stored output are in a volume.
    """
    mount = _write_mount(["type=bind", f"source={workspace}", f"target={_INSIDE}"])
    return ServerCommand(
        (
            *("docker", "run", "-i", "--rm", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--mount", mount, "--volume", STATE_VOLUME, image),
        ),
        ("--workspace", _INSIDE),
    )


def build_entry(shape: Shape, command: ServerCommand) -> dict[str, Any]:
    """Return an entry in the form of a client."""
    program, *arguments = command.words
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


def read_command(entry: object) -> ServerCommand | None:
    """Return the command by which an entry starts Paddock; None for another entry."""
    if not isinstance(entry, dict) or _ADDRESSES & entry.keys():
        return None
    fields = cast("dict[str, object]", entry)
    words: list[object] = []
    for part in (fields.get("command", fields.get("cmd")), fields.get("args")):
        words += cast("list[object]", part) if isinstance(part, list) else [] if part is None else [part]
    texts = [word for word in words if isinstance(word, str)]
    serve = find_serve(texts)
    if serve is None or len(texts) != len(words):
        return None
    return ServerCommand(tuple(texts[:serve]), tuple(texts[serve + len(_SERVE) :]))


def find_workspace(entry: object) -> str:
    """Return the workspace of an entry, as written there; empty if there is none."""
    command = read_command(entry)
    if command is None:
        return ""
    options = command.options
    served = [options[at].removeprefix(before) for at, before in _find_values(options) if at < len(options)]
    if served[-1:] == [_INSIDE] and (mount := _find_mount(command.launcher)) is not None:
        return mount.source
    return served[-1] if served else ""


def update_command(there: ServerCommand, wanted: ServerCommand) -> ServerCommand | None:
    """Return an entry's command with the workspace, program and image of another command.

    Options that a user added to `serve mcp` and `docker run` are kept. None if the two start Paddock in different ways,
    for example one directly and one in a container, or in a container without its confinement.
    """
    if len(there.launcher) == len(wanted.launcher) == 1:
        return keep_options(there, wanted)
    old, new = _find_mount(there.launcher), _find_mount(wanted.launcher)
    if old is None or new is None or PurePath(there.launcher[0]).name != wanted.launcher[0]:
        return None
    if not {*wanted.launcher[:-1]} - {wanted.launcher[new.at]} <= {wanted.launcher[0], *there.launcher}:
        return None
    launcher = [*there.launcher[:-1], wanted.launcher[-1]]
    launcher[old.at] = old.replace_source(new.source)
    return keep_options(there, ServerCommand(tuple(launcher), wanted.options))


def keep_options(there: ServerCommand, wanted: ServerCommand) -> ServerCommand:
    """Return a command with the options of another one, except for its workspace."""
    [(at, _)] = _find_values(wanted.options)
    workspace = wanted.options[at]
    options = list(there.options)
    for place, before in (found := _find_values(options)):
        options[place : place + 1] = [before + workspace]
    return ServerCommand(wanted.launcher, (*options, *(() if found else ("--workspace", workspace))))


def find_kept(updated: ServerCommand, wanted: ServerCommand) -> list[str]:
    """Return the words of a command that are not Paddock's own; in a project's file they may come from a stranger."""
    own = {
        at - behind for at, before in _find_values(updated.options) for behind in ((0,) if before else (0, 1))
    }
    options = [word for at, word in enumerate(updated.options) if at not in own]
    return [word for word in updated.launcher if word not in wanted.launcher] + options


def find_switch(entry: object) -> str:
    """Return the member, as JSON, that disables an entry; empty if it is enabled."""
    if not isinstance(entry, dict):
        return ""
    fields = cast("dict[str, object]", entry)
    off = '"disabled": true' if fields.get("disabled") is True else ""
    return off or ('"enabled": false' if fields.get("enabled") is False else "")


def _find_values(options: Sequence[str]) -> list[tuple[int, str]]:
    """Return where options of `serve mcp` name the workspace: the index of a word, and the part before the path.

    Every option has a value. The last place may follow the last word, if its value is missing.
    """
    found: list[tuple[int, str]] = []
    at = 0
    while at < len(options):
        word = options[at]
        has_value = not word.startswith("-") or "=" in word or (not word.startswith("--") and word[2:] != "")
        if word in ("--workspace", "-w"):
            found.append((at + 1, ""))
        elif word.startswith("--workspace="):
            found.append((at, "--workspace="))
        elif word.startswith("-w"):
            found.append((at, "-w"))
        at += 1 if has_value else 2
    return found


class _WorkspaceMount(NamedTuple):
    """The mount of the workspace in a command of Docker."""

    at: int
    """Index of its word."""
    fields: list[str]

    @property
    def source(self) -> str:
        return next(field.partition("=")[2] for field in self.fields if field.startswith(_SOURCES))

    def replace_source(self, source: str) -> str:
        """Return the word with another source; other fields of the mount are kept, such as `readonly`."""
        return _write_mount(
            [f"source={source}" if field.startswith(_SOURCES) else field for field in self.fields]
        )


def _find_mount(launcher: Sequence[str]) -> _WorkspaceMount | None:
    for at, word in enumerate(launcher):
        if word.startswith("type=bind,"):
            try:
                [fields] = csv.reader([word])
            except csv.Error:
                continue
            if f"target={_INSIDE}" in fields and any(field.startswith(_SOURCES) for field in fields):
                return _WorkspaceMount(at, fields)
    return None


def _write_mount(fields: Sequence[str]) -> str:
    mount = io.StringIO()  # Docker parses the fields of a mount as CSV
    csv.writer(mount, lineterminator="").writerow(fields)
    return mount.getvalue()


def is_absolute_elsewhere(path: str) -> bool:
    """Return whether a path is absolute on Linux, macOS or Windows."""
    return PurePosixPath(path).is_absolute() or (path[1:3] in (":\\", ":/") and path[:1].isalpha())
