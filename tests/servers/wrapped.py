"""A real FastMCP server: a list, an object and a text are results of its tools. It needs the package `fastmcp`."""

from fastmcp import FastMCP

server = FastMCP("wrapped")


@server.tool
def list_points() -> list[dict[str, int]]:
    """List points."""
    return [{"x": 1}, {"x": 2}]


@server.tool
def count() -> int:
    """Count points."""
    return 2


@server.tool
def point() -> dict[str, int]:
    """Return a point."""
    return {"result": 1}


server.run(show_banner=False)
