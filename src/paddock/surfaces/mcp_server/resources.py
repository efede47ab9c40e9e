"""Resources for clients: the guide, saved scripts, types of tools, stored output."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mcp.shared.uri_template import UriTemplate

from paddock.engines.saved_scripts import list_scripts, read_saved
from paddock.engines.servers.typescript import Described
from paddock.model.base import Json
from paddock.model.errors import ScriptNotFound
from paddock.model.texts import cut_text
from paddock.surfaces.mcp_server.change_resources import ChangeDifferences
from paddock.surfaces.mcp_server.output_resources import StoredOutput, UnknownResourceError
from paddock.surfaces.mcp_server.tools.discovery import SEARCH_WAIT_S, write_declaration
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.gate.servers import ServerService

GUIDE_URI = "paddock://guide"
MAX_COMPLETIONS = 100
"""The protocol's maximum for one answer."""
POLL_INTERVAL_S = 2.0
"""Interval between checks of watched scripts, in seconds."""
_SCRIPT_TEMPLATE = UriTemplate.parse("paddock://scripts/{name}")
_TYPES_TEMPLATE = UriTemplate.parse("paddock://tools/{server}/{tool}")

ScriptVersions = dict[str, tuple[str, int, int]]
"""For each script by name: path, time of the last change in ns, size in bytes."""


class ResourceKind(Protocol):
    """One kind of resources, which share a template."""

    @property
    def template(self) -> str:
        """The template of the addresses (RFC 6570)."""
        ...

    @property
    def name(self) -> str:
        """The name of the kind."""
        ...

    @property
    def description(self) -> str:
        """A description of such a resource."""
        ...

    async def read_contents(self, uri: str, client: str, /) -> dict[str, Json] | None:
        """Return the contents; None for an address of another kind. Raises UnknownResourceError.

        Notes for flow rules that `client`, that of `Gate.execute`, has read what a run left.
        """
        ...

    async def list_candidates(self, argument: str, given: Mapping[str, str], /) -> Iterable[str]:
        """Return the possible values of a template's argument; `given` contains the others."""
        ...


class SavedScripts:
    """The scripts of the workspace and of the user, under the names that run them."""

    template = str(_SCRIPT_TEMPLATE)
    name = "script"
    description = "Source of a saved script."

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def list_files(self) -> dict[str, Path]:
        """Return the scripts by name; of two scripts with one name, the one that would run."""
        found: dict[str, Path] = {}
        for name, path in list_scripts(self._workspace):
            found.setdefault(make_encodable(name), path)
        return found

    def list_entries(self) -> list[dict[str, Json]]:
        """Return the scripts for `resources/list`."""
        return [
            {"uri": _SCRIPT_TEMPLATE.expand({"name": name}), "name": name, "mimeType": "text/plain"}
            for name in self.list_files()
        ]

    async def watch_changes(self, known: ScriptVersions) -> AsyncGenerator[tuple[set[str], bool]]:
        """Yield the addresses of scripts that changed since `known`, and whether a script was added or removed."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            before, known = known, await self.read_versions()
            changed = {name for name, _ in before.items() ^ known.items()}
            if changed:
                yield (
                    {_SCRIPT_TEMPLATE.expand({"name": name}) for name in changed},
                    before.keys() != known.keys(),
                )

    async def read_versions(self) -> ScriptVersions:
        """Return for each script which file it is and when it changed."""
        return await asyncio.to_thread(self._read_versions)

    def _read_versions(self) -> ScriptVersions:
        found: ScriptVersions = {}
        for name, path in self.list_files().items():
            with suppress(OSError):
                seen = path.stat()
                found[name] = (str(path), seen.st_mtime_ns, seen.st_size)
        return found

    def read_source(self, name: str, path: Path) -> str:
        """Return the source of a script that `list_files` names. Raises ScriptNotFound."""
        return read_saved(name, path, self._workspace).decode("utf-8", "replace")

    async def read_contents(self, uri: str, _client: str) -> dict[str, Json] | None:
        """Return the source of a script."""
        if (found := _SCRIPT_TEMPLATE.match(uri)) is None:
            return None
        name, known = str(found["name"]), self.list_files()
        if name not in known:
            raise UnknownResourceError(
                f"there is no script {name[:100]}; there are {', '.join(known) or 'none'}"
            )
        try:
            return _build_contents(uri, self.read_source(name, known[name]))
        except ScriptNotFound as problem:
            raise UnknownResourceError(str(problem)) from None

    async def list_candidates(self, argument: str, _given: Mapping[str, str]) -> Iterable[str]:
        """Return the names of the scripts."""
        return self.list_files() if argument == "name" else ()


class ToolTypes:
    """TypeScript declarations of the tools of upstream servers."""

    template = str(_TYPES_TEMPLATE)
    name = "types"
    description = "TypeScript declaration of a server's tool."

    def __init__(self, servers: "ServerService", cap: int) -> None:
        self._servers = servers
        self._cap = cap

    async def read_contents(self, uri: str, _client: str) -> dict[str, Json] | None:
        """Return the declaration of a tool."""
        if (found := _TYPES_TEMPLATE.match(uri)) is None:
            return None
        name = f"{found['server']}.{found['tool']}"
        config = self._servers.config
        (entry, *_), *_ = await self._servers.catalog.describe_tools([name], patience_s=SEARCH_WAIT_S)
        if isinstance(entry, Described):
            return _build_contents(uri, cut_text(write_declaration(entry, config), self._cap))
        raise UnknownResourceError(write_declaration(entry, config).removeprefix("// "))

    async def list_candidates(self, argument: str, given: Mapping[str, str]) -> Iterable[str]:
        """Return the configured servers, or the tools of the given one."""
        match argument:
            case "server":
                return self._servers.config.servers
            case "tool" if (server := given.get("server")) in self._servers.config.servers:
                return [
                    tool.tool.name
                    for tool in (
                        await self._servers.catalog.list_tools(server, patience_s=SEARCH_WAIT_S)
                    ).tools
                ]
            case _:
                return ()


class Resources:
    """The resources of a session. Texts have at most `cap` characters; stored output is read by ranges."""

    def __init__(self, opened: "OpenPaddock", workspace: Path, cap: int) -> None:
        self._redact = opened.outgoing.text
        self._outputs = StoredOutput(opened, workspace)
        self.scripts = SavedScripts(workspace)
        self._kinds: tuple[ResourceKind, ...] = (
            *(self._outputs, ToolTypes(opened.servers, cap), self.scripts),
            ChangeDifferences(opened, workspace),
        )

    async def list_page(self, cursor: str | None) -> tuple[list[dict[str, Json]], str | None]:
        """Return one page: guide and scripts first, then stored output. Raises UnknownResourceError."""
        entries, following = await self._outputs.list_page(cursor)
        if cursor is None:
            about: dict[str, Json] = {"title": "Programs for execute_code", "mimeType": "text/markdown"}
            entries = [{"uri": GUIDE_URI, "name": "guide", **about}, *self.scripts.list_entries(), *entries]
        return entries, following

    def list_templates(self) -> list[dict[str, Json]]:
        """Return the templates for `resources/templates/list`."""
        return [
            {"uriTemplate": kind.template, "name": kind.name, "description": kind.description}
            for kind in self._kinds
        ]

    async def read_resource(self, uri: str, client: str = "") -> dict[str, Json]:
        """Return the contents of a resource. `client` shares what it has read. Raises UnknownResourceError."""
        if uri == GUIDE_URI:
            return {**_build_contents(uri, render_guide()), "mimeType": "text/markdown"}
        for kind in self._kinds:
            if (contents := await kind.read_contents(uri, client)) is not None:
                return contents | {"text": self._redact(text)} if (text := contents.get("text")) else contents
        raise UnknownResourceError("no such resource; see resources/list and resources/templates/list")

    async def complete_argument(
        self, template: str, argument: str, begun: str, given: Mapping[str, str]
    ) -> list[str]:
        """Return the possible values of a template's argument with a prefix."""
        for kind in self._kinds:
            if kind.template == template:
                return filter_by_prefix(await kind.list_candidates(argument, given), begun)
        return []


def render_guide() -> str:
    """Return the guide to writing programs."""
    return (files("paddock.surfaces.mcp_server") / "guide.md").read_text(encoding="utf-8")


def filter_by_prefix(names: Iterable[str], begun: str) -> list[str]:
    """Return the names with a prefix, as many as an answer may contain."""
    return list(islice((name for name in names if name.startswith(begun)), MAX_COMPLETIONS))


def _build_contents(uri: str, text: str) -> dict[str, Json]:
    return {"uri": uri, "mimeType": "text/plain", "text": make_encodable(text)}
