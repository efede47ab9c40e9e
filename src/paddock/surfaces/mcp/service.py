"""Sessions of Paddock as MCP servers: which tools there are, and over which transport they are served."""

import asyncio
from pathlib import Path

from paddock.model.settings import Settings
from paddock.surfaces.mcp.code import code_tools
from paddock.surfaces.mcp.door import Door
from paddock.surfaces.mcp.http import http_service
from paddock.surfaces.mcp.server import protocol_server
from paddock.surfaces.mcp.stdio import standard_streams
from paddock.surfaces.mcp.tools import Toolbox
from paddock.wiring import Session


def toolbox(session: Session, settings: Settings, workspace: Path) -> Toolbox:
    """Return the tools of a session."""
    return Toolbox(code_tools(session.gate, workspace, settings.mcp.answer_characters))


async def serve_stdio(session: Session, settings: Settings, workspace: Path) -> None:
    """Serve one client over the standard streams until it closes its end. Cancelling ends all work in order."""
    server = protocol_server(toolbox(session, settings, workspace))
    async with standard_streams() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


async def serve_http(session: Session, settings: Settings, workspace: Path, door: Door) -> None:
    """Serve many clients over HTTP until cancelled, which ends all work in order."""
    server = protocol_server(toolbox(session, settings, workspace))
    async with http_service(server, door) as task:
        await asyncio.shield(task)
