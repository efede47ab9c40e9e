"""The compat profile as a whole: everything that the server takes from this folder."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.policy.settings.profiles import ExecuteLimits
from paddock.surfaces.mcp_server.compat.compute import build_compat_compute_tool
from paddock.surfaces.mcp_server.compat.programs import build_compat_program_tools
from paddock.surfaces.mcp_server.compat.repositories import Repositories
from paddock.surfaces.mcp_server.compat.tools import build_compat_tools
from paddock.surfaces.mcp_server.toolbox import McpTool
from paddock.surfaces.mcp_server.tools.programs import ProgramTools

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock


def build_compat_profile(
    opened: "OpenPaddock",
    workspace: Path,
    programs: ProgramTools,
    repositories: Repositories,
    limits: ExecuteLimits,
) -> list[McpTool]:
    """Return the tools of the compat profile, whose arguments and texts are exact."""
    tools = [
        *build_compat_tools(opened, workspace, limits),
        *build_compat_program_tools(programs, repositories),
        build_compat_compute_tool(opened.gate, workspace),
    ]
    return [replace(tool, exact=True) for tool in tools]
