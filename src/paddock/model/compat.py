"""Names of other systems that Paddock accepts. `docs/compat.md` says which systems, and what is promised.

The tools of the compat profile are in `paddock.surfaces.mcp_server.compat`.
"""

SCRIPTS_FOLDER = ".mentu"
"""Directory whose scripts were written for another runner. They run as programs of the compat profile."""
SDK_ALIAS = "mentu"
"""Second name of the object `paddock` in every program."""
QUERY_TOOL = "sdl.runtime.queryOutput"
"""The tool that reads stored output, and the answers of calls that waited for a person."""
