"""The tool directories of a workspace: found, read, and read again when they change.

Anybody may have written them. So a tool's files are regular files inside its directory, links included in the
reckoning, of bounded size; and a tool directory is inside the folder where it was found. Otherwise a description would
show a private key to whoever lists the tools, and a grant to read the directory would open another one.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from paddock.files import read_bounded, real_path_of
from paddock.model.base import Json
from paddock.model.limits import SCRIPT_BYTES
from paddock.schema.check import Schema
from paddock.script_tools import manifest as manifests
from paddock.script_tools.manifest import Manifest, ManifestError

MANIFEST_NAME = "tool.yaml"
_PROMPT_NAME = "prompt.yaml"
_FILE_BYTES = 256 * 1024
_MAX_DIRECTORIES = 5_000
_MAX_DEPTH = 5
_TOOL_FILES = (MANIFEST_NAME, "schema.json", "description.md")
_EMPTY_SCHEMA: dict[str, Json] = {"type": "object", "properties": {}}

Signature = tuple[tuple[int, int, int, int], ...]


class ToolError(ValueError):
    """A tool directory that cannot be used; the text says why."""


@dataclass(frozen=True)
class Tool:
    """One script tool, read."""

    manifest: Manifest
    directory: Path
    prompt: str
    """Id of the prompt it lies beside; empty for a tool of the workspace."""
    schema: Schema
    content: str
    """What `description.md` says."""

    @property
    def id(self) -> str:
        """Id in lower case, by which it is called."""
        return self.manifest.id.lower()

    @property
    def description(self) -> str:
        """What people and agents read: the manifest's word, else the file's."""
        return self.manifest.description or self.content

    @property
    def script(self) -> Path:
        """Where the script should be; whether it is there is seen when it runs."""
        return self.directory / self.manifest.script

    @property
    def script_sha256(self) -> str:
        """Hash of the script as it is now; empty for one that cannot be read."""
        try:
            return hashlib.sha256(read_bounded(self.script, SCRIPT_BYTES)).hexdigest()
        except (OSError, ValueError):  # the latter for a name with a NUL in it
            return ""


@dataclass(frozen=True)
class BrokenTool:
    """A tool directory that cannot be used, and why."""

    id: str
    directory: Path
    problem: str
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A directory with a `tool.yaml`."""

    directory: Path
    prompt: str


@dataclass
class ToolLibrary:
    """Tools by id: those of `folders` in their order, the first of two with one id wins.

    `owned` folders were named by the user: they may lie anywhere.
    """

    workspace: Path
    owned: Sequence[Path] = ()
    _read: dict[Path, tuple[Signature, Tool | BrokenTool]] = field(default_factory=dict)

    @property
    def folders(self) -> list[Path]:
        """Return where tools are looked for."""
        own = [self.workspace / place for place in (".paddock/tools", "", "prompts", "resources/prompts")]
        return [*own, self.workspace / "resources/scripts", *self.owned]

    def all(self) -> list[Tool | BrokenTool]:
        """Return every tool directory as it is now, hidden ones included; what has not changed is not read again.

        Those of prompts come last: of two with one id the first is the one that runs, is listed and is shown.
        """
        now: dict[Path, tuple[Signature, Tool | BrokenTool]] = {}
        for place in (each for folder in self.folders for each in self._search_folder(folder)):
            directory = place.directory
            before = self._read.get(directory)
            if before is None or before[0] != _file_signature(directory, before[1]):
                tool = _load_tool(place)
                before = (_file_signature(directory, tool), tool)
            now.setdefault(directory, before)
        self._read = now
        return sorted((tool for _, tool in now.values()), key=lambda tool: bool(tool.prompt))

    def tools(self) -> dict[str, Tool]:
        """Return the usable tools by id."""
        found: dict[str, Tool] = {}
        for tool in self.all():
            if isinstance(tool, Tool):
                found.setdefault(tool.id, tool)
        return found

    def find(self, name: str, *, prompt: str = "") -> Tool | BrokenTool | None:
        """Return the tool of an id, or of `prompt/id`; a prompt's own tool wins over others.

        Where no tool has the id, it is the name of a directory, as prompts list their tools.
        """
        scope, _, short = name.lower().rpartition("/")
        tools = self.all()
        named = [tool for tool in tools if tool.id == short] or [
            tool for tool in tools if tool.directory.name.lower() == short
        ]
        mine = [
            tool
            for tool in named
            if isinstance(tool, Tool) and tool.prompt.lower() == (scope or prompt).lower()
        ]
        if scope:
            return mine[0] if mine else None
        usable = [tool for tool in named if isinstance(tool, Tool)]
        return next(iter((*mine, *usable, *named)), None)

    def listing(self) -> list[tuple[str, str, dict[str, Json]]]:
        """Return name, description and input schema of every enabled tool, for who offers them to agents."""
        return [
            (name, tool.description, dict(tool.schema.document))
            for name, tool in sorted(self.tools().items())
            if tool.manifest.enabled
        ]

    def _search_folder(self, folder: Path) -> Iterator[_Found]:
        """Yield the tool directories of a folder: its own, and those in `tools` beside a prompt at any depth."""
        try:
            root = Path(os.path.realpath(folder))
        except OSError:  # a link on the way is swapped meanwhile
            return
        if folder not in self.owned and not root.is_relative_to(os.path.realpath(self.workspace)):
            return
        workspace = root == Path(os.path.realpath(self.workspace))
        if not workspace:
            yield from _with_manifest(root, "")
        todo, seen = [(root, 0)], 0
        while todo and seen < _MAX_DIRECTORIES:
            directory, depth = todo.pop()
            seen += 1
            if _is_file(directory / _PROMPT_NAME):
                yield from _with_manifest(directory / "tools", directory.name)
            if depth < _MAX_DEPTH and not workspace:
                todo += [(child, depth + 1) for child in reversed(_list_directories(directory))]


def load(directory: Path, *, prompt: str = "") -> Tool:
    """Return the tool of a directory. Raises ToolError."""
    try:
        manifest = manifests.read(read_inside(directory, MANIFEST_NAME))
    except ManifestError as problem:
        raise ToolError(f"{MANIFEST_NAME}: {problem}") from None
    schema, named = _EMPTY_SCHEMA, manifest.schema_file
    if named != Manifest.model_fields["schema_file"].default or _is_there(directory, named):
        schema = _read_schema(directory, named)
    try:
        compiled = Schema(schema)
    except ValueError as problem:
        raise ToolError(f"{named}: {problem}") from None
    content, named = "", manifest.description_file
    if named != Manifest.model_fields["description_file"].default or _is_there(directory, named):
        content = read_inside(directory, named).strip()
    return Tool(manifest, directory, prompt, compiled, content)


def read_inside(directory: Path, name: str) -> str:
    """Return the text of a file of a tool. Raises ToolError for one that is elsewhere, no file, or too large."""
    path = inside(directory, name)
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(file, "rb") as stream:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise ToolError(f"{name} is no regular file")
            if real_path_of(file) != path:
                raise ToolError(f"{name} leads out of the tool's directory")
            data = stream.read(_FILE_BYTES + 1)
    except OSError as problem:
        raise ToolError(f"{name}: {problem.strerror}") from None
    if len(data) > _FILE_BYTES:
        raise ToolError(f"{name} is larger than {_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolError(f"{name} is no UTF-8 text") from None


def inside(directory: Path, name: str) -> Path:
    """Return where `name` leads below a tool's directory, links followed.

    Raises ToolError when it leads out of it, and for a path that is not UTF-8.
    """
    try:
        root = os.path.realpath(directory)
        path = Path(os.path.realpath(os.path.join(root, name)))  # resolves a missing path, too
    except (ValueError, OSError):  # the latter for a link that is swapped meanwhile
        raise ToolError(f"{name!r} is no path") from None
    if not path.is_relative_to(root):
        raise ToolError(f"{name} leads out of the tool's directory")
    try:
        str(path).encode()
    except UnicodeEncodeError:  # no order to start a process could name it
        raise ToolError(f"the path of {name} is no UTF-8 text; rename what it goes through") from None
    return path


def _load_tool(found: _Found) -> Tool | BrokenTool:
    try:
        return load(found.directory, prompt=found.prompt)
    except ToolError as problem:
        return BrokenTool(found.directory.name.lower(), found.directory, str(problem), found.prompt)


def _read_schema(directory: Path, name: str) -> dict[str, Json]:
    try:
        document = json.loads(read_inside(directory, name))
    except ToolError:
        raise
    except RecursionError:
        raise ToolError(f"{name}: this JSON is nested too deeply") from None
    except ValueError as problem:
        raise ToolError(f"{name}: this is not JSON: {problem}") from None
    if not isinstance(document, dict):
        raise ToolError(f"{name}: a JSON Schema of inputs is an object")
    return cast("dict[str, Any]", document)


def _with_manifest(folder: Path, prompt: str) -> Iterator[_Found]:
    if os.path.islink(folder):
        return
    for directory in _list_directories(folder):
        if _is_file(directory / MANIFEST_NAME):
            yield _Found(directory, prompt)


def _is_file(path: Path) -> bool:
    """Return whether a file is there; what cannot be looked at, such as a link to an endless name, is none."""
    return os.path.isfile(path)  # `Path.is_file` raises: one such link would hide every tool


def _is_there(directory: Path, name: str) -> bool:
    """Return whether a tool has a file. Raises ToolError when that cannot be looked at."""
    try:
        (directory / name).stat()
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise ToolError(f"{name}: {problem.strerror}") from None
    return True


def _list_directories(folder: Path) -> list[Path]:
    """Return the directories of a folder, sorted by their names; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names, key=lambda name: (name.lower(), name))[:_MAX_DIRECTORIES]]


def _file_signature(directory: Path, known: Tool | BrokenTool | None) -> Signature:
    """Return what changes when a file of a tool does that is kept; the script is read at each run."""
    manifest = known.manifest if isinstance(known, Tool) else None
    names = (MANIFEST_NAME, manifest.schema_file, manifest.description_file) if manifest else _TOOL_FILES
    return tuple(_stat_facts(directory / name) for name in names)


def _stat_facts(path: Path) -> tuple[int, int, int, int]:
    try:
        facts = path.stat()
    except (OSError, ValueError):
        return (0, 0, 0, 0)
    return (facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size)
