"""Which servers and tools a program may list, as in `Object.keys(servers)` or `"x" in servers.y`.

Each name is judged like a call of it, so that a list contains only what the program may call. Listing a server's tools
may start that server. This is recorded first, and happens only if policy allows some tool of it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from paddock.model.base import Json
from paddock.model.compat import SDK_ALIAS
from paddock.model.errors import SdkError
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.policy.decisions.decision import Policy
from paddock.policy.settings.schema import Settings

if TYPE_CHECKING:
    from paddock.engines.servers.result import CatalogTool
    from paddock.gate.servers import ServerService

METHODS = frozenset({"servers.list", "servers.tools"})
"""Methods by which the bootstrap script lists names."""


class NotVisible(SdkError):
    """The program lists a server of which it may call no tool."""


@dataclass(frozen=True, slots=True)
class VisibleTools:
    """The tools that policy lets requests call."""

    policy: Policy
    servers: "ServerService"
    note: Callable[[ExecutionRequest, bool], None]
    """Records that a program lists a server's tools, and whether it may."""
    globs: tuple[str, ...]
    """Tool patterns of the policy's rules. They matter where the rules do not allow all tools of a server."""

    @classmethod
    def for_policy(
        cls,
        settings: Settings,
        policy: Policy,
        servers: "ServerService",
        note: Callable[[ExecutionRequest, bool], None],
    ) -> Self:
        """Return the visible tools under the policy of these settings."""
        named = (rule.tool.rpartition("/")[2] for rule in settings.policy.rule if rule.tool)
        return cls(policy, servers, note, tuple(dict.fromkeys(named)))

    async def list_names(self, method: str, server: str, request: ExecutionRequest) -> list[Json]:
        """Return the names of servers, or of the tools of `server`, for a program that sends `request`.

        Raises NotVisible, ServerError, ConfigurationError and LedgerError.
        """
        if method == "servers.list":
            return [*self.list_servers(request)]
        refusal = self._refuse_server(request, server)
        self.note(request, not refusal)
        if refusal:
            raise NotVisible(refusal)
        tools = await self.servers.list_tool_names(server)
        return [
            tool for tool, reads in tools.items() if not self._refuse_tool(request, server, tool, reads=reads)
        ]

    async def list_definitions(self, server: str, request: ExecutionRequest) -> "Sequence[CatalogTool]":
        """Return the definitions of a server's tools, also of those that a program with `request` may not call.

        Raises the errors of `list_names`.
        """
        refusal = self._refuse_server(request, server)
        self.note(request, not refusal)
        if refusal:
            raise NotVisible(refusal)
        return await self.servers.list_definitions(server)

    def may_call(self, request: ExecutionRequest, tool: "CatalogTool") -> bool:
        """Return whether rules about single tools let a request call a tool, also if a person is asked first."""
        return not self.globs or not self._refuse_tool(request, tool.server, tool.tool.name)

    def list_servers(self, request: ExecutionRequest) -> list[str]:
        """Return the names of the servers of which a request may call some tool. Raises ConfigurationError."""
        return [name for name in self.servers.list_configured()[0] if not self._refuse_server(request, name)]

    def _refuse_server(self, request: ExecutionRequest, server: str) -> str:
        """Return why a request may call no tool of a server; empty if it may call one. A glob counts as its matches."""
        reasons = [self._refuse_tool(request, server, tool) for tool in ("*", *self.globs)]
        return "" if "" in reasons else reasons[0]

    def _refuse_tool(
        self, request: ExecutionRequest, server: str, tool: str, *, reads: bool | None = None
    ) -> str:
        """Return why a tool may not be called; empty if it may, also if a person is asked first."""
        work = ServerCall(server=server, tool=tool, read_only=reads)
        decision = self.policy.decide(request.model_copy(update={"work": work}))
        return "" if decision.allowed or decision.asks else "; ".join(decision.reasons)


_FOREIGN_ROOT_NAMES = {"servers", "server", "tools", "mcp", "codemode", "paddock", SDK_ALIAS}
"""Prefixes that programs written for other hosts put before a tool's name."""
_PREFIX_PATTERN = re.compile(r"^mcp__?")
_IDENTIFIER_PATTERN = re.compile(r"[A-Za-z_$][\w$]*")


async def suggest_call(offered: VisibleTools, names: Sequence[str], request: ExecutionRequest) -> str:
    """Return how to call the tool that a program tried as `g.search`, `tools.g.search` or `mcp__g__search`.

    Empty if the request may call no such tool. Raises the errors of `VisibleTools.list_names`.
    """
    servers = [str(each) for each in await offered.list_names("servers.list", "", request)]
    paths = [(names, False), *([(names[1:], True)] if names[0] in _FOREIGN_ROOT_NAMES else [])]
    for path, bare in paths:
        for server, tool in _list_readings(path, servers, bare=bare):
            for name in await offered.list_names("servers.tools", server, request):
                if _normalise_name(str(name)) == _normalise_name(tool):
                    return f"servers{_member_access(server)}{_member_access(str(name))}(...)"
    return ""


def _list_readings(path: Sequence[str], servers: Sequence[str], *, bare: bool) -> Iterator[tuple[str, str]]:
    """Yield the possible meanings of names: server and tool, both joined in one name, or a tool alone (`bare`)."""
    for server in servers if path else ():
        if len(path) > 1 and _normalise_name(path[0]) == _normalise_name(server):
            yield server, path[1]
        joined, own = _normalise_name(_PREFIX_PATTERN.sub("", path[0])), _normalise_name(server)
        for mark in ("__", "_"):
            if joined.startswith(own + mark):
                yield server, joined.removeprefix(own + mark)
    if bare and len(path) == 1 and len(servers) == 1:
        yield servers[0], path[0]


def _normalise_name(name: str) -> str:
    """Return a name in the form that is used for comparisons."""
    return re.sub(r"\W", "_", name).lower()


def _member_access(name: str) -> str:
    return f".{name}" if _IDENTIFIER_PATTERN.fullmatch(name) else f"[{json.dumps(name, ensure_ascii=False)}]"
