"""`paddock servers confine`: what a confined server may use, and a proposal for one that is not confined."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.engines.servers.config import ServersConfig, StdioServer
from paddock.engines.servers.confinement import Confinement
from paddock.model.base import Json
from paddock.model.errors import UnknownServer
from paddock.model.numbers import dumps
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli import completions, options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import open_for_command
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_text, warn

if TYPE_CHECKING:
    from paddock.gate.confinement_proposal import Observation

_EXPLANATION = (
    "A server runs as you, unless its entry confines it. A member like this confines it to what it names. With "
    "--suggest, Paddock starts the server once and proposes the member."
)
_EXAMPLE = Confinement(read=(".",))
_NOT_OBSERVED = (
    "only the start of the server and the listing of its tools were observed: a call may connect to further hosts",
    "refused files are not observed; if a tool reports one, add its path to `read` or its directory to `write`",
)


@click.command(
    "confine",
    epilog=render_examples(
        "paddock servers confine git",
        "paddock servers confine git --suggest",
        "paddock servers confine git --suggest --json",
    ),
)
@click.argument("server", shell_complete=completions.servers)
@click.option("--suggest", is_flag=True, help="Start the server confined, and propose its grants.")
@options.workspace
@options.settings
@options.as_json
def confine(server: str, workspace: Path, flags: dict[str, str], *, suggest: bool, as_json: bool) -> None:
    """Show how a server is confined, or propose it. Changes nothing."""
    settings = load(workspace, flags=flags).settings
    if suggest:
        _print_suggestion(
            server, run_until_signal(_observe_server(settings, workspace, server)), as_json=as_json
        )
        return
    found = run_until_signal(_find_server(settings, workspace, server))
    confined = found.confine
    if as_json:
        print_json({"server": server, "confine": None if confined is None else confined.as_json()})
    elif confined is not None:
        print_text(f"{server} is confined: {confined.describe()}")
    else:
        print_text(f"{server} is not confined")
        print_note(f"{_EXPLANATION}\n{dumps(_make_member(_EXAMPLE))}")


def _make_member(confined: Confinement) -> dict[str, Json]:
    return {"paddock": {"confine": confined.as_json()}}


def _print_suggestion(server: str, observed: "Observation", *, as_json: bool) -> None:
    notes = [*observed.notes, *_NOT_OBSERVED]
    if as_json:
        print_json(
            {
                "server": server,
                "error": observed.error or None,
                "tools": list(observed.tools),
                "refused": [
                    {"host": each.host, "port": each.port, "reason": each.reason} for each in observed.refused
                ],
                "notes": list(notes),
                "entry": _make_member(observed.proposal),
            }
        )
    else:
        print_text(dumps(_make_member(observed.proposal), indent=2))
        for each in observed.refused:
            print_note(f"refused: {each.host}:{each.port}")
        if not observed.error:
            print_note(f"{server} listed {len(observed.tools)} tools")
        for note in notes:
            print_note(f"note: {note}")
    if observed.error:
        raise CommandFailure(f"{server} does not work with this member yet: {observed.error}")


async def _find_server(settings: Settings, workspace: Path, name: str) -> StdioServer:
    async with open_for_command(settings, workspace) as opened:
        return _take_stdio(name, opened.servers.config)


async def _observe_server(settings: Settings, workspace: Path, name: str) -> "Observation":
    from paddock.gate.confinement_proposal import observe_server

    async with open_for_command(settings, workspace) as opened:
        server = _take_stdio(name, opened.servers.config)
        return await observe_server(opened.servers, server, workspace, await opened.processes.prove_tier())


def _take_stdio(name: str, config: ServersConfig) -> StdioServer:
    for text in config.warnings:
        warn(text)
    found = config.servers.get(name)
    if found is None:
        unknown = UnknownServer(name, config.servers, config.absent)
        raise CommandFailure("\n  ".join(filter(None, (str(unknown), unknown.hint))))
    if not isinstance(found, StdioServer):
        raise CommandFailure(
            f"{name} is reached by its address; only a server with a `command` can be confined"
        )
    return found
