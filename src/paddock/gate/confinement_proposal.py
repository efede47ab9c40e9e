"""Propose the grants of a server from one confined start of it, in which no host is granted."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.confinement.sandbox.spec import is_system_path
from paddock.engines.servers.confinement import Confinement
from paddock.model.errors import ServerError
from paddock.model.host_names import read_host_pattern
from paddock.model.network import HTTPS_PORT, Connection
from paddock.model.sandbox import Tier
from paddock.policy.decisions.network import spell_rule

if TYPE_CHECKING:
    from paddock.engines.servers.config import StdioServer
    from paddock.gate.servers import ServerService


class Observation(NamedTuple):
    """What a server did in the sandbox, and the grants that this suggests."""

    proposal: Confinement
    tools: tuple[str, ...]
    """Names of the tools that it listed."""
    refused: tuple[Connection, ...]
    error: str
    """Why it did not list its tools; empty if it did."""
    notes: tuple[str, ...]
    """What a person has to know about the proposal."""


async def observe_server(
    servers: "ServerService", server: "StdioServer", workspace: Path, tier: Tier
) -> Observation:
    """Start a server confined, list its tools, and return what was refused and what to grant.

    Call it before any other use of the session's servers. The grants of the entry, if it has any, are kept.
    """
    base = server.confine or _propose_paths(server, workspace)
    watched = tier == "namespaces"
    servers.confine_server(server, replace(base, network="hosts" if watched else "none"))
    tools, error = tuple[str, ...](), ""
    try:
        tools = tuple(tool.name for tool in await servers.list_tools(server.name))
    except ServerError as failed:
        error = str(failed)
    refused = [each for each in servers.list_connections(server.name) if each.verdict == "refused"]
    hosts = list(base.hosts)
    for connection in refused:
        with suppress(ValueError):  # the server asked for something that is not a host
            hosts.append(read_host_pattern(connection.host))
    proposal = replace(base, network="hosts", hosts=tuple(dict.fromkeys(hosts))) if hosts else base
    notes = [
        f"{each.host}:{each.port} also needs a [[network.rule]] with {spell_rule(each.host, each.port)} "
        "in the user's paddock.toml"
        for each in refused
        if each.port != HTTPS_PORT
    ]
    if not watched:
        notes.append(f"hosts are not observed: a list of hosts needs the tier namespaces, and this is {tier}")
    return Observation(proposal, tools, tuple(refused), error, tuple(dict.fromkeys(notes)))


def _propose_paths(server: "StdioServer", workspace: Path) -> Confinement:
    """Return the workspace and the paths among the arguments."""
    root = workspace.resolve()
    named = [
        argument
        for argument in server.args
        if argument.startswith("/")
        and server.secrets.hide(argument) == argument
        and Path(argument).exists()
        and not is_system_path(argument)
        and not Path(argument).resolve().is_relative_to(root)
    ]
    return Confinement(read=(".", *dict.fromkeys(named)))
