"""`paddock serve`: Paddock for other programs."""

import asyncio
import logging
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.configuration import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import examples
from paddock.surfaces.cli.signals import cancelled_by_signals
from paddock.surfaces.cli.table import warn

if TYPE_CHECKING:
    from paddock.guest.launch import Launcher
    from paddock.model.settings import Settings

LEVELS = ("error", "warning", "info", "debug")


@click.group("serve", epilog=examples("paddock serve mcp"))
def command() -> None:
    """Serve agents and other programs."""


@command.command("mcp", epilog=examples("paddock serve mcp", "paddock serve mcp --workspace ~/project"))
@click.option(
    "--log-level", type=click.Choice(LEVELS), default="warning", help="What is logged to standard error."
)
@options.workspace
@options.settings
def mcp(workspace: Path, flags: dict[str, str], *, log_level: str) -> None:
    """Serve MCP over standard input and output, until the client closes its end."""
    logging.basicConfig(
        stream=sys.stderr, level=log_level.upper(), format="%(levelname)s %(name)s: %(message)s"
    )
    settings = load(workspace, flags=flags).settings
    from paddock.guest.launch import Launcher  # noqa: PLC0415 - help does without

    launcher = Launcher()
    try:
        launcher.begin("guest")  # it comes up while the protocol's library is imported
        asyncio.run(_serve(settings, workspace, launcher))
    finally:
        launcher.close()


async def _serve(settings: "Settings", workspace: Path, launcher: "Launcher") -> None:
    from paddock.surfaces.mcp.service import serve_stdio  # noqa: PLC0415 - the protocol's library costs 0.8 s
    from paddock.wiring import open_session  # noqa: PLC0415

    with cancelled_by_signals(), suppress(asyncio.CancelledError):
        async with open_session(settings, workspace, launcher=launcher) as session:
            await serve_stdio(session, settings, workspace)
            for text in session.warnings:
                warn(text)
