"""What a program may call of servers, for those that look before they call: `Object.keys(servers)`, `"x" in servers.y`.

Each name is judged as a call of it would be, so a list tells nothing that policy withholds. Nothing runs for it but a
server that has to be asked, which is on the record first, and only where policy lets the program call some tool of it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from paddock.model.base import Json
from paddock.model.errors import SdkError
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.policy.decision import Policy
from paddock.settings.schema import Settings

METHODS = frozenset({"servers.list", "servers.tools"})
"""What programs ask by looking, in the words of the glue."""


class Servers(Protocol):
    """What is asked of the hub."""

    def list_configured(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of the servers, and what is wrong with their file. Raises ConfigurationError."""
        ...

    async def list_tool_names(self, server: str) -> Mapping[str, bool]:
        """Return the tools of a server by name, and which of them only read. Raises ServerError."""
        ...


class NotVisible(SdkError):
    """Policy lets the program call nothing of the server that it looks into."""


@dataclass(frozen=True, slots=True)
class VisibleTools:
    """What policy lets requests call."""

    policy: Policy
    servers: Servers
    note: Callable[[ExecutionRequest, bool], None]
    """Puts on the record that a program looks into a server, and whether it may."""
    globs: tuple[str, ...]
    """Tools in the rules of policy: what may be called where not every tool may."""

    @classmethod
    def for_policy(
        cls,
        settings: Settings,
        policy: Policy,
        servers: Servers,
        note: Callable[[ExecutionRequest, bool], None],
    ) -> Self:
        """Return what the policy of these settings lets requests call."""
        named = (rule.tool.rpartition("/")[2] for rule in settings.policy.rule if rule.tool)
        return cls(policy, servers, note, tuple(dict.fromkeys(named)))

    async def list_names(self, method: str, server: str, request: ExecutionRequest) -> list[Json]:
        """Return the names of servers, or of the tools of `server`, for a program that makes calls like `request`.

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

    def list_servers(self, request: ExecutionRequest) -> list[str]:
        """Return the names of the servers of which a request may call a tool. Raises ConfigurationError."""
        return [name for name in self.servers.list_configured()[0] if not self._refuse_server(request, name)]

    def _refuse_server(self, request: ExecutionRequest, server: str) -> str:
        """Return why no tool of a server may be called; empty where one may. A glob stands for what it matches."""
        reasons = [self._refuse_tool(request, server, tool) for tool in ("*", *self.globs)]
        return "" if "" in reasons else reasons[0]

    def _refuse_tool(
        self, request: ExecutionRequest, server: str, tool: str, *, reads: bool | None = None
    ) -> str:
        """Return why a tool may not be called; empty where it may, be it after a person was asked."""
        work = ServerCall(server=server, tool=tool, read_only=reads)
        decision = self.policy.decide(request.model_copy(update={"work": work}))
        return "" if decision.allowed or decision.asks else "; ".join(decision.reasons)


_FOREIGN_ROOT_NAMES = {"servers", "server", "tools", "mcp", "codemode", "paddock", "mentu"}
"""Names under which other worlds, or nobody, have tools."""
_PREFIX_PATTERN = re.compile(r"^mcp__?")
_IDENTIFIER_PATTERN = re.compile(r"[A-Za-z_$][\w$]*")


async def suggest_call(offered: VisibleTools, names: Sequence[str], request: ExecutionRequest) -> str:
    """Return how a program calls the tool that it reached for as `g.search`, `tools.g.search` or `mcp__g__search`.

    Empty where there is no such tool for it. Raises as `VisibleTools.list_names`.
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
    """Yield the servers and tools that names may stand for: two names, one that joins both, or a tool's (`bare`)."""
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
    """Return a name as one compares it with what a program could write."""
    return re.sub(r"\W", "_", name).lower()


def _member_access(name: str) -> str:
    return f".{name}" if _IDENTIFIER_PATTERN.fullmatch(name) else f"[{json.dumps(name, ensure_ascii=False)}]"
