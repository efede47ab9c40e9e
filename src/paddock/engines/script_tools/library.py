"""The tool directories of a workspace: found, loaded, and reloaded when they change.

They are untrusted. Therefore a tool's files must be regular files of bounded size within its directory, also after
following links, and a tool directory must be within the folder in which it was found. Otherwise a description could
show a private key to everyone who lists the tools, and a grant to read the directory would open another one.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from paddock.engines.script_tools import manifest as manifests
from paddock.engines.script_tools.manifest import ManifestError, ToolManifest
from paddock.foundation.files import read_bounded, real_path_of
from paddock.foundation.schema.check import Schema
from paddock.model.base import Json
from paddock.model.limits import SCRIPT_BYTES

MANIFEST_NAME = "tool.yaml"
_PROMPT_NAME = "prompt.yaml"
_FILE_BYTES = 256 * 1024
_MAX_DIRECTORIES = 5_000
_MAX_DEPTH = 5
_TOOL_FILES = (MANIFEST_NAME, "schema.json", "description.md")
_EMPTY_SCHEMA: dict[str, Json] = {"type": "object", "properties": {}}

Signature = tuple[tuple[int, int, int, int], ...]


class ScriptToolError(ValueError):
    """A tool directory that cannot be used; the text says why."""


@dataclass(frozen=True)
class ScriptTool:
    """A loaded script tool."""

    manifest: ToolManifest
    directory: Path
    prompt: str
    """Id of the prompt beside it; empty for a tool of the workspace."""
    schema: Schema
    content: str
    """The contents of `description.md`."""

    @property
    def id(self) -> str:
        """Id in lower case; callers use it."""
        return self.manifest.id.lower()

    @property
    def description(self) -> str:
        """The description for people and agents: the manifest's, else the file's."""
        return self.manifest.description or self.content

    @property
    def script(self) -> Path:
        """The path of the script; it may not exist until the tool runs."""
        return self.directory / self.manifest.script

    @property
    def script_sha256(self) -> str:
        """Hash of the current script; empty if it cannot be read."""
        try:
            return hashlib.sha256(read_bounded(self.script, SCRIPT_BYTES)).hexdigest()
        except (OSError, ValueError):  # ValueError for a name with a NUL
            return ""


@dataclass(frozen=True)
class BrokenTool:
    """A tool directory that cannot be used, and why."""

    id: str
    directory: Path
    problem: str
    prompt: str = ""


@dataclass
class ToolLibrary:
    """Tools by id, from `folders` in order; of two with one id the first is used.

    `owned` folders were named by the user: they may be anywhere.
    """

    workspace: Path
    owned: Sequence[Path] = ()
    _read: dict[Path, tuple[Signature, ScriptTool | BrokenTool]] = field(default_factory=dict)

    @property
    def folders(self) -> list[Path]:
        """Return the folders that are searched."""
        own = [self.workspace / place for place in (".paddock/tools", "", "prompts", "resources/prompts")]
        return [*own, self.workspace / "resources/scripts", *self.owned]

    def all(self) -> list[ScriptTool | BrokenTool]:
        """Return every tool directory as it is now, including hidden ones; unchanged ones are not reloaded.

        Tools of prompts come last: of two with one id, the first one runs and is listed.
        """
        now: dict[Path, tuple[Signature, ScriptTool | BrokenTool]] = {}
        for directory, prompt in (each for folder in self.folders for each in self._search_folder(folder)):
            before = self._read.get(directory)
            if before is None or before[0] != _file_signature(directory, before[1]):
                try:
                    tool = load(directory, prompt=prompt)
                except ScriptToolError as problem:
                    tool = BrokenTool(directory.name.lower(), directory, str(problem), prompt)
                before = (_file_signature(directory, tool), tool)
            now.setdefault(directory, before)
        self._read = now
        return sorted((tool for _, tool in now.values()), key=lambda tool: bool(tool.prompt))

    def tools(self) -> dict[str, ScriptTool]:
        """Return the usable tools by id."""
        found: dict[str, ScriptTool] = {}
        for tool in self.all():
            if isinstance(tool, ScriptTool):
                found.setdefault(tool.id, tool)
        return found

    def find(self, name: str, *, prompt: str = "") -> ScriptTool | BrokenTool | None:
        """Return the tool with an id, or `prompt/id`; a prompt's own tool takes precedence.

        If no tool has the id, it is the name of a directory, as in the tool lists of prompts.
        """
        scope, _, short = name.lower().rpartition("/")
        tools = self.all()
        named = [tool for tool in tools if tool.id == short] or [
            tool for tool in tools if tool.directory.name.lower() == short
        ]
        mine = [
            tool
            for tool in named
            if isinstance(tool, ScriptTool) and tool.prompt.lower() == (scope or prompt).lower()
        ]
        if scope:
            return mine[0] if mine else None
        usable = [tool for tool in named if isinstance(tool, ScriptTool)]
        return next(iter((*mine, *usable, *named)), None)

    def listing(self) -> list[tuple[str, str, dict[str, Json]]]:
        """Return name, description and input schema of every enabled tool, to offer them to agents."""
        return [
            (name, tool.description, dict(tool.schema.document))
            for name, tool in sorted(self.tools().items())
            if tool.manifest.enabled
        ]

    def _search_folder(self, folder: Path) -> Iterator[tuple[Path, str]]:
        """Yield the tool directories of a folder: its own, and those in `tools` beside a prompt at any depth.

        Each comes with the name of its prompt, or "".
        """
        try:
            root = Path(os.path.realpath(folder))
        except OSError:  # a link on the path was replaced meanwhile
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


def load(directory: Path, *, prompt: str = "") -> ScriptTool:
    """Return the tool of a directory. Raises ScriptToolError."""
    try:
        manifest = manifests.read(read_inside(directory, MANIFEST_NAME))
    except ManifestError as problem:
        raise ScriptToolError(f"{MANIFEST_NAME}: {problem}") from None
    schema, named = _EMPTY_SCHEMA, manifest.schema_file
    if named != ToolManifest.model_fields["schema_file"].default or _is_there(directory, named):
        schema = _read_schema(directory, named)
    try:
        compiled = Schema(schema)
    except ValueError as problem:
        raise ScriptToolError(f"{named}: {problem}") from None
    content, named = "", manifest.description_file
    if named != ToolManifest.model_fields["description_file"].default or _is_there(directory, named):
        content = read_inside(directory, named).strip()
    return ScriptTool(manifest, directory, prompt, compiled, content)


def read_inside(directory: Path, name: str) -> str:
    """Return the text of a tool's file. Raises ScriptToolError for one that is outside, not regular, or too large."""
    path = inside(directory, name)
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(file, "rb") as stream:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise ScriptToolError(f"{name} is not a regular file")
            if real_path_of(file) != path:
                raise ScriptToolError(f"{name} leads out of the tool's directory")
            data = stream.read(_FILE_BYTES + 1)
    except OSError as problem:
        raise ScriptToolError(f"{name}: {problem.strerror}") from None
    if len(data) > _FILE_BYTES:
        raise ScriptToolError(f"{name} is larger than {_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScriptToolError(f"{name} is not UTF-8 text") from None


def inside(directory: Path, name: str) -> Path:
    """Return the path of `name` below a tool's directory, with links followed.

    Raises ScriptToolError if it is outside, and for a path that is not UTF-8.
    """
    try:
        root = os.path.realpath(directory)
        path = Path(os.path.realpath(os.path.join(root, name)))  # also resolves a missing path
    except (ValueError, OSError):  # OSError for a link that is replaced meanwhile
        raise ScriptToolError(f"{name!r} is not a path") from None
    if not path.is_relative_to(root):
        raise ScriptToolError(f"{name} leads out of the tool's directory")
    try:
        str(path).encode()
    except UnicodeEncodeError:  # the request to start a process could not contain it
        raise ScriptToolError(f"the path of {name} is not UTF-8 text; rename its directories") from None
    return path


def _read_schema(directory: Path, name: str) -> dict[str, Json]:
    try:
        document = json.loads(read_inside(directory, name))
    except ScriptToolError:
        raise
    except RecursionError:
        raise ScriptToolError(f"{name}: this JSON is nested too deeply") from None
    except ValueError as problem:
        raise ScriptToolError(f"{name}: this is not JSON: {problem}") from None
    if not isinstance(document, dict):
        raise ScriptToolError(f"{name}: a JSON Schema of inputs must be an object")
    return cast("dict[str, Any]", document)


def _with_manifest(folder: Path, prompt: str) -> Iterator[tuple[Path, str]]:
    if os.path.islink(folder):
        return
    for directory in _list_directories(folder):
        if _is_file(directory / MANIFEST_NAME):
            yield directory, prompt


def _is_file(path: Path) -> bool:
    """Return whether a path is a file; false if it cannot be inspected, such as a link to a name that is too long."""
    return os.path.isfile(path)  # `Path.is_file` raises: one such link would hide every tool


def _is_there(directory: Path, name: str) -> bool:
    """Return whether a tool has a file. Raises ScriptToolError if that cannot be determined."""
    try:
        (directory / name).stat()
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise ScriptToolError(f"{name}: {problem.strerror}") from None
    return True


def _list_directories(folder: Path) -> list[Path]:
    """Return the directories of a folder, sorted by name; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names, key=lambda name: (name.lower(), name))[:_MAX_DIRECTORIES]]


def _file_signature(directory: Path, known: ScriptTool | BrokenTool | None) -> Signature:
    """Return a value that changes when a stored file of a tool changes; the script is read at each run."""
    manifest = known.manifest if isinstance(known, ScriptTool) else None
    names = (MANIFEST_NAME, manifest.schema_file, manifest.description_file) if manifest else _TOOL_FILES
    return tuple(_stat_facts(directory / name) for name in names)


def _stat_facts(path: Path) -> tuple[int, int, int, int]:
    try:
        facts = path.stat()
    except (OSError, ValueError):
        return (0, 0, 0, 0)
    return (facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size)
