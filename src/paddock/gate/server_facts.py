"""What people see of the configured servers: how they are reached, and what their tools are. Starts none."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from paddock.engines.servers.config import StdioServer
from paddock.foundation.store_threads import run_in_store_thread
from paddock.model.errors import ServerError, UnknownServer
from paddock.model.urls import strip_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paddock.engines.servers.calls.hub import ServerStatus
    from paddock.engines.servers.config import HttpServer, Server
    from paddock.engines.servers.confinement import Confinement
    from paddock.engines.servers.pins import DefinitionChange
    from paddock.engines.servers.result import CatalogTool
    from paddock.engines.servers.typescript import Described
    from paddock.foundation.side_by_side import LinePair
    from paddock.gate.servers import ServerService
    from paddock.model.base import Json


class ServerFacts(NamedTuple):
    """The entry of a server, without parts that may be secret: arguments, values of variables, user, query."""

    name: str
    transport: str
    """`stdio` for a child process, `http`, or `sse` for the older transport."""
    address: str
    """Its command or address."""
    login: str
    """The state of its login: `logged in`, `ended`, or empty for none."""
    confine: "Confinement | None"
    """What it may use in the sandbox; None for one that is not confined."""
    variables: tuple[str, ...]
    """Names of the variables or headers of its entry."""
    takes_login: bool
    """Whether a person can log in to it."""


class ShownChange(NamedTuple):
    """A change of a tool that waits for approval, as a person compares it."""

    change: "DefinitionChange"
    lines: "list[LinePair]"
    """The pinned and the current definition, side by side."""
    digest: str


class KnownTools(NamedTuple):
    """The tools of a server, as far as they are known without starting it."""

    tools: "tuple[CatalogTool, ...]" = ()
    is_listed: bool = False
    """Whether the server has listed them to this process. Otherwise they are those that were pinned earlier."""


def list_servers(servers: "ServerService") -> list[ServerFacts]:
    """Return the entries of the servers files. Raises ConfigurationError."""
    return [_describe_entry(servers, server) for server in servers.config.servers.values()]


def find_server(servers: "ServerService", name: str) -> ServerFacts:
    """Return the entry of one server. Raises UnknownServer and ConfigurationError."""
    config = servers.config
    if name not in config.servers:
        raise UnknownServer(name, config.servers, config.absent)
    return _describe_entry(servers, config.servers[name])


def _describe_entry(servers: "ServerService", server: "Server") -> ServerFacts:
    if not isinstance(server, StdioServer):
        return _describe_remote(servers, server)
    address = server.secrets.hide(server.command)
    variables = tuple(sorted(server.env))
    return ServerFacts(server.name, "stdio", address, "", server.confine, variables, takes_login=False)


def _describe_remote(servers: "ServerService", server: "HttpServer") -> ServerFacts:
    return ServerFacts(
        server.name,
        "sse" if server.transport == "sse" else "http",
        server.secrets.hide(strip_credentials(server.url)),
        servers.logins.find_state(server),
        None,
        tuple(sorted(server.headers)),
        takes_login=not server.has_credentials,
    )


def summarize_state(status: "ServerStatus") -> str:
    """Return the state of a server for people: `not started`, `starting`, `running`, `failed` or `stopped`."""
    if status.state == "connecting":
        return "starting"
    if status.live:
        return "running"
    if status.last_error:
        return "failed"
    return "stopped" if status.starts else "not started"


async def find_known_tools(servers: "ServerService", name: str) -> KnownTools:
    """Return the tools of a server as it listed them to this process, otherwise as they are pinned.

    Raises ConfigurationError.
    """
    if servers.call_checks.has_listed(name):
        return KnownTools(servers.call_checks.list_pinned_tools(name), is_listed=True)
    server = servers.config.servers.get(name)
    if server is None:
        return KnownTools()
    from paddock.engines.servers.result import CatalogTool

    pinned = await run_in_store_thread(servers.pins.list_pinned, server)
    return KnownTools(
        tuple(CatalogTool(name, each.tool, each.changed, each.hides) for each in pinned), is_listed=False
    )


async def describe_tools(servers: "ServerService", tools: "Sequence[CatalogTool]") -> "list[Described]":
    """Return the declarations of known tools."""
    from paddock.engines.servers.typescript import describe_tool

    def describe() -> "list[Described]":
        return [
            describe_tool(
                each,
                servers.observed.type_of(each.server, each.tool.name),
                unchecked=servers.call_checks.list_unchecked_by_definition(each.server, each.tool),
            )
            for each in tools
        ]

    return await asyncio.to_thread(describe)


async def list_changes(
    servers: "ServerService", name: str, *, limit: int, is_wanted: "Callable[[str], bool]"
) -> "tuple[ShownChange, ...]":
    """Return the first changes of a server's tools that wait for approval, of those with a wanted name.

    Raises ConfigurationError.
    """

    def compare() -> "tuple[ShownChange, ...]":
        found = [each for each in servers.pins.list_pending(name) if is_wanted(each.tool)]
        return tuple(ShownChange(each, each.pair_lines(), each.digest) for each in found[:limit])

    return await run_in_store_thread(compare)


async def count_changes(servers: "ServerService", name: str) -> int:
    """Return the number of a server's tools whose changes wait for approval. Raises ConfigurationError."""
    return await run_in_store_thread(servers.pins.count_pending, name)


async def check_known_call(
    servers: "ServerService", server: str, tool: str, arguments: "Mapping[str, Json]"
) -> str:
    """Return why a call would be refused without being sent, as far as that is known without starting the server."""
    if server not in servers.servers_by_name:
        unknown = UnknownServer(server, servers.servers_by_name, servers.config.absent)
        return "\n".join(filter(None, (str(unknown), unknown.hint)))
    if not servers.call_checks.has_listed(server):
        return ""
    try:
        await run_in_store_thread(servers.call_checks.check_call, server, tool, arguments)
    except ServerError as error:
        return str(error)
    return ""


async def connect(servers: "ServerService", name: str, patience_s: float, *, again: bool) -> str:
    """Start a server and ask it for its tools. Return why that failed, or has not ended yet; "" if it worked.

    `again` asks also if the last attempt failed just now.
    """
    if again:
        servers.catalog.forget(name)
    listing = await servers.catalog.list_tools(name, patience_s=patience_s)
    return listing.failures.get(name, "")
