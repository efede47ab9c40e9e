"""Sessions of Paddock as MCP servers: which tools there are, and over which transport they are served."""

import asyncio
from pathlib import Path
from typing import Literal

from paddock.model.settings import Settings
from paddock.surfaces.mcp.code import code_tools
from paddock.surfaces.mcp.compute import compute_tool, seed_compute_tool
from paddock.surfaces.mcp.discovery import discovery_tools
from paddock.surfaces.mcp.door import Door
from paddock.surfaces.mcp.http import http_service
from paddock.surfaces.mcp.programs import program_tools
from paddock.surfaces.mcp.prompts import Prompts
from paddock.surfaces.mcp.seed import seed_tools
from paddock.surfaces.mcp.server import protocol_server
from paddock.surfaces.mcp.stdio import standard_streams
from paddock.surfaces.mcp.tools import Toolbox
from paddock.wiring import Session

Names = Literal["native", "seed"]


def toolbox(session: Session, settings: Settings, workspace: Path, names: Names) -> Toolbox:
    """Return the tools of a session, listed under their own names or under those of the seed."""
    cap = settings.mcp.answer_characters
    own = [*code_tools(session.gate, workspace, cap), *discovery_tools(session.hub, cap)]
    own += [*program_tools(session, workspace, cap), compute_tool(session.gate, workspace, cap)]
    seed = [*seed_tools(session, workspace), seed_compute_tool(session.gate, workspace)]
    return Toolbox(own, seed) if names == "native" else Toolbox(seed, own, suggests=False)


def prompts(session: Session, settings: Settings, workspace: Path) -> Prompts:
    """Return the prompts of a session."""
    return Prompts(session.hub, workspace, settings.mcp.answer_characters)


async def serve_stdio(tools: Toolbox, prompts: Prompts) -> None:
    """Serve one client over the standard streams until it closes its end. Cancelling ends all work in order."""
    server = protocol_server(tools, prompts)
    async with standard_streams() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


async def serve_http(tools: Toolbox, prompts: Prompts, door: Door) -> None:
    """Serve many clients over HTTP until cancelled, which ends all work in order."""
    server = protocol_server(tools, prompts)
    async with http_service(server, door) as task:
        await asyncio.shield(task)
