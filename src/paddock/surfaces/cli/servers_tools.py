"""`paddock servers search|describe|diff|approve`: find tools, show how to call them, and review their changes."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.engines.servers.catalog.queries import MAX_QUERIES
from paddock.model.errors import UnknownServer
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import completions, options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor, open_for_command
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_table, print_text, warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.engines.servers.catalog.catalog import ToolListing, UnmatchedName
    from paddock.engines.servers.catalog.search import Hit
    from paddock.engines.servers.config import ServersConfig
    from paddock.engines.servers.pins import DefinitionChange
    from paddock.engines.servers.typescript import Described

_NO_RESULTS = "nothing found; try other words, or see `paddock servers list` for the searched servers"


@click.command(
    "search",
    epilog=render_examples(
        "paddock servers search 'open issues'",
        "paddock servers search 'weather tomorrow' 'send a mail'",
        "paddock servers search commit --server git --json",
    ),
)
@click.argument("queries", metavar="QUERY...", nargs=-1, required=True)
@click.option("--server", shell_complete=completions.servers, help="Search only the tools of this server.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100),
    help="Maximum number of tools; by default 8, at least 2 for each query.",
)
@options.workspace
@options.settings
@options.as_json
def search(
    queries: tuple[str, ...],
    server: str | None,
    limit: int | None,
    workspace: Path,
    flags: dict[str, str],
    *,
    as_json: bool,
) -> None:
    """Find tools by what they do, best match first. Starts the servers.

    For a task of several steps, pass a short quoted query for each step. The best tool of each step comes first.
    """
    if len(queries) > MAX_QUERIES:
        raise CommandFailure(
            f"{len(queries)} queries are too many; give at most {MAX_QUERIES} at a time", exit_code=2
        )
    settings = load(workspace, flags=flags).settings

    async def run() -> "tuple[list[tuple[Hit, str]], ToolListing, ServersConfig]":
        from paddock.engines.servers.typescript import render_signature

        async with open_for_command(settings, workspace) as opened:
            config, catalog = opened.servers.config, opened.servers.catalog
            if server is not None and server not in config.servers:
                unknown = UnknownServer(server, config.servers, config.absent)
                raise CommandFailure("\n  ".join(filter(None, (str(unknown), unknown.hint))))
            hits, listing = await catalog.search_tools(queries, server=server, limit=limit, is_single=True)
            return (
                [(hit, render_signature(hit.tool, catalog.find_observed_type(hit.tool))) for hit in hits],
                listing,
                config,
            )

    hits, listing, config = run_until_signal(run())
    _print_notes(listing)
    for hit, _ in hits:
        if hit.tool.warning:
            warn(hit.tool.warning)
    if as_json:
        print_json(
            [
                {
                    "server": hit.tool.server,
                    "tool": hit.tool.tool.name,
                    "score": hit.score,
                    "changed": hit.tool.changed,
                    "signature": line,
                }
                for hit, line in hits
            ]
        )
    else:
        empty = _NO_RESULTS if config.servers else explain_no_servers(config)
        print_table(("tool",), [(line,) for _, line in hits], empty=empty)


@click.command(
    "describe",
    epilog=render_examples(
        "paddock servers describe git.git_log", "paddock servers describe git.git_log --json"
    ),
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@options.workspace
@options.settings
@options.as_json
def describe(names: tuple[str, ...], workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show tools as TypeScript: SERVER.TOOL, or all tools of a SERVER. Starts the servers."""
    from paddock.engines.servers.catalog.catalog import UnmatchedName

    settings = load(workspace, flags=flags).settings

    async def run() -> "tuple[tuple[Described | UnmatchedName, ...], ToolListing, ServersConfig]":
        async with open_for_command(settings, workspace) as opened:
            described, listing, _ = await opened.servers.catalog.describe_tools(names)
            return described, listing, opened.servers.config

    described, listing, config = run_until_signal(run())
    _print_notes(listing)
    known = [each for each in described if not isinstance(each, UnmatchedName)]
    if as_json:
        print_json(
            [
                {
                    "name": each.name,
                    "declaration": each.declaration,
                    "output": each.output,
                    "changed": each.changed,
                    "notes": list(each.notes),
                }
                for each in known
            ]
        )
    else:
        for each in known:
            # A line end would close the comment.
            name = each.name if each.name.isprintable() else json.dumps(each.name)
            print_text(f"// {name}{' (changed: see `paddock servers diff`)' if each.changed else ''}")
            print_text(each.declaration)
            for note in each.notes:
                print_text(f"// {note}")
    if unknown := [each for each in described if isinstance(each, UnmatchedName)]:
        raise CommandFailure("\n".join(_explain_missing(each, config, listing) for each in unknown))


@click.command("diff", epilog=render_examples("paddock servers diff", "paddock servers diff git --json"))
@click.argument("server", required=False, shell_complete=completions.servers)
@options.workspace
@options.settings
@options.as_json
def diff(server: str | None, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show how tools differ from their pinned definitions. Starts the servers.

    A new tool with invisible characters is shown twice: with these characters escaped, and as its server sends it.
    Exit code: 1 if a server did not list its tools.
    """
    settings = load(workspace, flags=flags).settings

    async def run() -> "tuple[tuple[DefinitionChange, ...], ToolListing, ServersConfig]":
        async with open_for_command(settings, workspace) as opened:
            listing = await opened.servers.catalog.list_tools(server)
            return opened.servers.pins.list_changes(server), listing, opened.servers.config

    changes, listing, config = run_until_signal(run())
    _print_notes(listing)
    _print_changes(changes, as_json=as_json)
    if not changes and not as_json and (reason := _explain_no_changes(config, listing, server)):
        print_note(reason)
    click.get_current_context().exit(int(bool(listing.failures)))


@click.command(
    "approve",
    epilog=render_examples(
        "paddock servers approve git",
        "paddock servers approve git git_log --json",
        "paddock servers approve time now --unstable-text",
    ),
)
@click.argument("server", shell_complete=completions.servers)
@click.argument("tools", nargs=-1)
@click.option(
    "--unstable-text/--stable-text",
    "unstable",
    default=None,
    help="Accept any text of these tools. Models read only the approved text; schemas and annotations stay pinned.",
)
@options.workspace
@options.settings
@options.as_json
def approve(
    *,
    server: str,
    tools: tuple[str, ...],
    unstable: bool | None,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Accept the changes that `diff` showed last for a server or some of its tools. Starts nothing.

    An approved definition stays approved, also if the server later returns to it. A tool has at most 8.
    """
    settings = load(workspace, flags=flags).settings
    if unstable is not None:
        if not tools:
            raise click.UsageError(
                f"Name the tools: paddock servers approve {server} TOOL... --unstable-text"
            )

        async def accept() -> "Mapping[str, str]":
            async with open_for_command(settings, workspace) as opened:
                from paddock.gate.pin_approvals import PinApprovals  # not needed for the help page

                approvals = PinApprovals(opened, find_actor(), "cli")
                return await approvals.accept_unstable_text(server, tools, unstable=unstable)

        if faults := run_until_signal(accept()):
            raise CommandFailure("\n".join(f"{server}.{tool}: {why}" for tool, why in faults.items()))
        if as_json:
            print_json([{"server": server, "tool": tool, "unstable_text": unstable} for tool in tools])
        return

    async def run() -> "tuple[DefinitionChange, ...]":
        async with open_for_command(settings, workspace) as opened:
            from paddock.gate.pin_approvals import PinApprovals  # as above

            return await PinApprovals(opened, find_actor(), "cli").approve_shown(server, tools or None)

    approved = run_until_signal(run())
    if tools and (missing := [tool for tool in tools if tool not in {change.tool for change in approved}]):
        raise CommandFailure(f"{server}: no change waits for approval: {', '.join(missing)}")
    if not approved:
        raise CommandFailure(
            f"{server}: no change waits for approval; paddock servers diff {server} looks for some"
        )
    _print_changes(approved, as_json=as_json)


def explain_no_servers(config: "ServersConfig") -> str:
    """Return why no server can be used here, and what to do."""
    if config.absent:
        return f"no configured server is in use: {'; '.join(config.absent.values())}"
    return (
        "no servers are configured here; name one in .paddock/servers.json of the workspace: "
        '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'
    )


def _explain_no_changes(config: "ServersConfig", listing: "ToolListing", only: str | None) -> str:
    """Return the meaning of an empty list of changes; "" if warnings have reported it."""
    if only is None and not config.servers:
        return explain_no_servers(config)
    names = config.servers if only is None else (only,)
    listed = {tool.server for tool in listing.tools}
    compared = [name for name in names if name in listed or name not in listing.failures]
    if not compared:
        return ""
    return f"nothing waits for approval: every tool of {', '.join(compared)} equals its pin"


def _print_notes(listing: "ToolListing") -> None:
    for remark in listing.list_missing():
        warn(remark)


def _print_changes(changes: "tuple[DefinitionChange, ...]", *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "server": each.server,
                    "tool": each.tool,
                    "before": each.before,
                    "after": each.after,
                    "note": each.explain(),
                }
                for each in changes
            ]
        )
    else:
        for each in changes:
            print_text(each.render_diff())
            if note := each.explain():
                print_note(note)


def _explain_missing(unknown: "UnmatchedName", config: "ServersConfig", listing: "ToolListing") -> str:
    servers = config.servers
    known = [name for name in servers if unknown.name.startswith((f"{name}.", f"{name}/"))]
    server = max(known, key=len) if known else re.split(r"[./]", unknown.name, maxsplit=1)[0]
    if server not in servers and not (server == unknown.name and unknown.nearest):
        error = UnknownServer(server, servers, config.absent)
        return "\n  ".join(filter(None, (f"{unknown.name}: {error}", error.hint)))
    if server in listing.failures:
        why = f"server {server} did not list its tools"
    elif server == unknown.name:
        why = "the server has no tools" if server in servers else "a tool is named SERVER.TOOL"
    else:
        why = "there is no such tool"
    near = f"; did you mean {' or '.join(unknown.nearest)}?" if unknown.nearest else ""
    return f"{unknown.name}: {why}{near}"
