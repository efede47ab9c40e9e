"""The upstream servers of an opened Paddock. Everything here is created at its first use."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

from paddock.engines.servers.methods import MethodResult, check_parameters, list_declarations
from paddock.engines.servers.result import ToolInfo, ToolResult, find_wrapped
from paddock.foundation.files import Kept, read_bounded
from paddock.foundation.store_threads import run_in_store_thread
from paddock.model.base import Json
from paddock.model.errors import ConfigurationError
from paddock.model.limits import OWN_SERVERS_FILE, SERVERS_FILE_BYTES, SHARED_SERVERS_FILE
from paddock.model.outcome import OnProgress
from paddock.model.request import JsonPaths
from paddock.policy.decisions.environment import child_environment
from paddock.policy.settings.schema import Settings

if TYPE_CHECKING:
    from paddock.engines.secrets.stored_logins import KeptLogins
    from paddock.engines.servers.calls.call_checks import CallChecks
    from paddock.engines.servers.calls.hub import Hub, ServerStatus
    from paddock.engines.servers.catalog.catalog import Catalog
    from paddock.engines.servers.catalog.inferred_types import InferredTypes
    from paddock.engines.servers.catalog.provisioning.service import Provisioning
    from paddock.engines.servers.catalog.semantic_choice import SemanticSettings
    from paddock.engines.servers.config import Server, ServersConfig, StdioServer
    from paddock.engines.servers.confinement import Confinement
    from paddock.engines.servers.local_server import LocalServer
    from paddock.engines.servers.pins import Pins
    from paddock.engines.servers.result import CatalogTool
    from paddock.gate.confined_servers import ConfinedServers
    from paddock.model.network import Connection


class ServerService:
    """The upstream servers of an opened Paddock. Their files are read at the first use; each starts at its first call.

    The files name commands that run as the user. A program that may write to the workspace can change the files until
    its end, when Paddock restores them. Therefore the contents before the first such program count (`keep_config`).
    """

    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        learn: Callable[[str], None] | None = None,
        local: "LocalServer | None" = None,
    ) -> None:
        """Call `learn` with every secret of a login. The functions of `local` are a server, once there are any."""
        self._local = local
        self._all, self._learn = settings, learn
        self._settings = settings.servers
        own = settings.servers.config
        self._workspace = workspace
        self._files = (own,) if own else (workspace / OWN_SERVERS_FILE, workspace / SHARED_SERVERS_FILE)
        self._memory = self._files[-1]
        """Key of pins, logins and observed types. A server keeps its own if it moves to the other file."""
        self._contents: dict[Path, bytes | OSError] = {}
        self._hub: Hub | None = None
        self.used = False
        self.make_confined: Callable[[], ConfinedServers] | None = None
        """Makes what starts the servers that are confined; None until there is a sandbox."""

    @cached_property
    def config(self) -> "ServersConfig":
        """The servers of both files. If a server is in both, the first file counts."""
        # Imported here, because only programs that use servers need it.
        from paddock.engines.servers.config import combine_configs, load_servers

        self.used = True
        base = None if self._settings.config else self._workspace
        found = [
            load_servers(file, os.environ, self._settings.questions, read=self._read_file, base=base)
            for file in self._files
        ]
        return found[0] if base is None else combine_configs(found[0], found[1], *self._files)

    @cached_property
    def servers_by_name(self) -> "dict[str, Server | LocalServer]":
        """Every server by name: those of the files, and that of functions once there are any.

        Raises ConfigurationError where both have the name.
        """
        servers: dict[str, Server | LocalServer] = {**self.config.servers}
        if self._local is not None and self._local.tools:
            self._check_local_name(self._local.name)
            servers[self._local.name] = self._local
        return servers

    def take_tools(self, hide: Callable[[str], str] | None = None) -> None:
        """Offer the functions that have been added so far; `hide` removes secrets from the texts of their exceptions.

        Raises ConfigurationError where a server has their name.
        """
        local = self._local
        if local is not None and hide is not None:
            local.hide = hide
        if local is None or not local.tools:
            return
        if self.servers_by_name.get(local.name) is not local:  # they were read before there was any function
            self._check_local_name(local.name)
            self.servers_by_name[local.name] = local
            if self._hub is not None:
                self._hub.add_server(local)
            if "catalog" in vars(self):
                self.catalog.add_server(local.name)
        elif self._hub is not None:
            self._hub.note_changed_tools(local.name)

    def _check_local_name(self, name: str) -> None:
        if name in self.config.servers or name in self.config.absent:
            raise ConfigurationError(
                f"{name} is a server of the servers file, and the functions of this Paddock would have that name, too; "
                f'give them another one: Paddock(tool_server="own_{name}")'
            )

    def confine_server(self, server: "StdioServer", confine: "Confinement") -> None:
        """Confine a server as `confine` says, whatever its entry says. Call it before its first use."""
        self.servers_by_name[server.name] = replace(server, confine=confine)

    @cached_property
    def _confinement(self) -> "ConfinedServers | None":
        """Starts the servers that are confined."""
        return self.make_confined() if self.make_confined is not None else None

    def list_connections(self, name: str) -> "tuple[Connection, ...]":
        """Return the connections of the last process of a confined server that have ended or were refused."""
        turn = self._confinement.turns.get(name) if self._confinement is not None else None
        return turn.connections if turn is not None else ()

    def keep_config(self) -> None:
        """Keep the contents of the servers files, unless they were read before: programs may change them later."""
        if not self._contents and "config" not in vars(self):
            for file in self._files:
                try:
                    self._contents[file] = read_bounded(file, SERVERS_FILE_BYTES)
                except OSError as error:
                    self._contents[file] = error

    def _read_file(self, file: Path, max_bytes: int) -> bytes:
        held = self._contents.get(file)
        if isinstance(held, OSError):
            raise held
        return read_bounded(file, max_bytes) if held is None else held

    def list_configured(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of the servers, and the faults of their files. Raises ConfigurationError."""
        return tuple(self.servers_by_name), self.config.warnings

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Json],
        *,
        limit_ms: int,
        caller: str = "",
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Call a tool, within the server's own timeout and `limit_ms`; see `Hub.call_tool`. Raises ServerError."""
        result = await self._open_hub().call_tool(
            server,
            tool,
            arguments,
            timeout_ms=self._bound_time(server, limit_ms),
            caller=caller,
            on_progress=on_progress,
        )
        if (definition := self.call_checks.find_definition(server, tool)) is not None:
            if find_wrapped(definition.output_schema) is not None:
                result = result._replace(is_wrapped=True)
            if (known := self.config.servers.get(server)) is not None:  # functions declare what they return
                if self._all.cluster.url is None:
                    self.observed.learn_from_result(known, definition, result)
                else:  # a database may let a thread wait, but not the other requests
                    await run_in_store_thread(self.observed.learn_from_result, known, definition, result)
            if unchecked := self.call_checks.list_unchecked_by_definition(server, definition):
                return result._replace(unchecked=unchecked)
        return result

    def _bound_time(self, server: str, limit_ms: int) -> int:
        """Return the maximum time of a call, in milliseconds."""
        known = self.servers_by_name.get(server)
        return limit_ms if known is None else min(known.timeout_ms, limit_ms)

    async def send_method(
        self, server: str, method: str, params: Mapping[str, Json], *, limit_ms: int, caller: str = ""
    ) -> MethodResult:
        """Read resources or prompts of a server, under the limits of a call. Raises ServerError."""
        limit_ms = self._bound_time(server, limit_ms)
        return await self._open_hub().request(server, method, params, timeout_ms=limit_ms, caller=caller)

    def check_request(self, server: str, method: str, params: Mapping[str, Json]) -> None:
        """Raise ServerError for parameters of a method that would be refused without being sent."""
        check_parameters(server, method, params)

    def find_capabilities(self, server: str) -> frozenset[str]:
        """Return what a server declares, such as `resources`, if it was started; nothing otherwise."""
        return frozenset() if self._hub is None else self._hub.find_capabilities(server)

    def explain_unchecked(self, server: str, tool: str) -> str:
        """Return which arguments of a listed tool are not checked, and why; empty if all are."""
        return self.call_checks.list_unchecked_arguments(server, tool)

    async def is_read_only(self, server: str, tool: str) -> bool:
        """Ask a server whether it marks a tool as read-only. Raises ServerError."""
        await self._open_hub().ensure_listed(server)
        return self.call_checks.reads_only(server, self.resolve_alias(server, tool))

    async def find_hints(self, server: str, tool: str) -> tuple[bool, bool]:
        """Ask a server whether it marks a tool as read-only, and as reaching outside. Raises ServerError."""
        await self._open_hub().ensure_listed(server)
        name = self.resolve_alias(server, tool)
        return self.call_checks.reads_only(server, name), self.call_checks.reaches_outside(server, name)

    def resolve_alias(self, server: str, tool: str) -> str:
        """Return the tool's own name for an alias, if its server has listed its tools; otherwise the name itself."""
        return (
            self.call_checks.resolve_alias(server, tool) if "_" in tool else tool
        )  # every alias contains one

    async def check_call(self, server: str, tool: str, arguments: Mapping[str, Json]) -> None:
        """Raise ServerError if a call would be refused without being sent."""
        await self._open_hub().check_call(server, tool, arguments)

    async def check_bytes(self, server: str, tool: str, places: JsonPaths) -> None:
        """Raise ServerError if a tool does not declare base64 at each of these places of its arguments."""
        await self._open_hub().ensure_listed(server)
        self.call_checks.check_bytes(server, tool, places)

    async def list_tool_names(self, server: str) -> Mapping[str, bool]:
        """Ask a server for its tools. Return their names, and whether each is read-only. Raises ServerError.

        Tools that differ from their pins are left out, because a call of them is refused.
        """
        await self._open_hub().ensure_listed(server)
        names = [shown.tool.name for shown in self.call_checks.list_pinned_tools(server) if not shown.changed]
        return {name: self.call_checks.reads_only(server, name) for name in names}

    async def list_definitions(self, server: str) -> "Sequence[CatalogTool]":
        """Ask a server for its tools. Return the pinned definitions. Raises ServerError."""
        await self._open_hub().ensure_listed(server)
        return await self._load_definitions(server)

    async def _load_definitions(self, server: str) -> "Sequence[CatalogTool]":
        """Return the definitions of a server that has listed its tools, with what other machines observed."""
        if self._all.cluster.url is not None:
            await run_in_store_thread(self.observed.load)
        return self.call_checks.list_pinned_tools(server)

    async def list_tools(self, server: str) -> list[ToolInfo]:
        """Ask a server for its tools. Raises ServerError."""
        return await self._open_hub().list_tools(server)

    @cached_property
    def pins(self) -> "Pins":
        """The pinned definitions of tools."""
        from paddock.engines.servers.pins import Pins, is_sound

        return Pins(self._settings.state, self._memory, self._find_shared("pins", is_sound))

    @cached_property
    def call_checks(self) -> "CallChecks":
        """The checks that a call must pass."""
        from paddock.engines.servers.calls.call_checks import CallChecks

        return CallChecks(self.servers_by_name, self.pins)

    @cached_property
    def logins(self) -> "KeptLogins":
        """The stored logins at servers."""
        from paddock.engines.secrets.stored_logins import KeptLogins

        return KeptLogins(self._all, self._memory, self._learn)

    @cached_property
    def observed(self) -> "InferredTypes":
        """The result types that were observed so far."""
        from paddock.engines.servers.catalog.inferred_types import InferredTypes

        return InferredTypes(self._settings.state, self._memory, self._find_shared("types"))

    def _find_shared(self, kind: str, sound: "Callable[[dict[str, Any]], bool] | None" = None) -> Kept | None:
        """Return facts about the servers that several machines share; None for a machine on its own."""
        if self._all.cluster.url is None:
            return None
        from paddock.cluster.blocking import BlockingDatabase
        from paddock.cluster.json_row import JsonRow
        from paddock.cluster.seals import open_seals
        from paddock.engines.servers.pins import memory_of

        # The file with the servers has the same path on all of them.
        name = memory_of(self._settings.state, self._memory).name
        database = BlockingDatabase(self._all.cluster.url, name=f"paddock {kind}")
        return JsonRow(database, kind, name, open_seals(self._all.cluster), sound)

    @cached_property
    def catalog(self) -> "Catalog":
        """All tools of all servers, to search and describe. Its first use starts the servers."""
        from paddock.engines.servers.catalog.catalog import Catalog

        hub = self._open_hub()

        async def ask(server: str) -> "Sequence[CatalogTool]":
            await hub.list_tools(server)
            return await self._load_definitions(server)

        return Catalog(
            tuple(self.servers_by_name),
            ask,
            version=hub.count_changes,
            notes=hub.explain_left_out,
            observed=self.observed.type_of,
            unchecked=self.call_checks.list_unchecked_arguments,
            capabilities=self._list_method_groups,
            meaning=self.meaning,
        )

    def _list_method_groups(self, server: str) -> list[str]:
        """Return which of `resources` and `prompts` a server declares."""
        return [each for each in sorted(self.find_capabilities(server)) if list_declarations(each)]

    @cached_property
    def meaning(self) -> "SemanticSettings":
        """How a search ranks tools by their meaning."""
        from paddock.engines.servers.catalog.semantic_choice import SemanticSettings

        return SemanticSettings(self._settings.semantic_search, user_cache_path("paddock") / "vectors")

    @cached_property
    def provisioning(self) -> "Provisioning":
        """The servers that can be enabled, and those that are."""
        from paddock.engines.servers.catalog.provisioning.service import Provisioning

        return Provisioning(self._files, self._settings.registry, self._settings.trust)

    async def refresh_registry(self) -> int:
        """Download the registry's list and return the number of servers on it. Raises ConfigurationError."""
        from paddock.engines.servers.catalog.provisioning.registry import (
            refresh_list,  # its HTTP client loads slowly
        )

        return await refresh_list(self._settings.registry_source, self._settings.registry)

    def tellable_names(self, server: str, tool: str) -> tuple[str, str]:
        """Return the names of a call for telemetry; empty for names that are in no file and no listing."""
        if "servers_by_name" not in vars(self) or server not in self.servers_by_name:
            return "", ""
        return server, tool if self.call_checks.find_definition(server, tool) is not None else ""

    @property
    def running_count(self) -> int:
        """Number of running servers."""
        return sum(each.live for each in self._hub.list_status().values()) if self._hub is not None else 0

    def server_statuses(self) -> dict[str, "ServerStatus"]:
        """Return the status of every configured server; starts none."""
        return self._open_hub().list_status()

    async def close(self) -> None:
        """End every server that was started, and stop background work on their tools."""
        if "meaning" in vars(self):
            await self.meaning.close()
        if self._hub is not None:
            await self._hub.close()

    def _open_hub(self) -> "Hub":
        if self._hub is None:
            from paddock.engines.servers.calls.hub import Hub

            self._hub = Hub(
                self.servers_by_name,
                environment=child_environment(os.environ),
                checks=self.call_checks,
                absent=self.config.absent,
                logins=self.logins,
                start_confined=self._confinement.start if self._confinement is not None else None,
                max_live=self._settings.max_live,
                idle_timeout_ms=self._settings.idle_timeout_ms,
                answer_values=self._settings.answer_values,
            )
        return self._hub
