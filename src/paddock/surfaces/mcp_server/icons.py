"""Icons of the tools, for people who choose among them: one line each, on a grid of nine by nine."""

from urllib.parse import quote

from paddock.model.base import Json

_SHAPES = {
    "execute_code": "M2 1l6 3-6 3z",
    "call_tool": "M1 4h4V2l3 3-3 3V6H1z",
    "search_tools": "M1 1h4v4l3 3H6L4 6H1z",
    "describe_tools": "M2 1h5v7H2z",
    "provision_server": "M4 1h1v3h3v1H5v3H4V5H1V4h3z",
    "run_program": "M1 1l3 3-3 3zM5 7h3v1H5z",
    "query_output": "M1 2h7v1H1zM1 4h5v1H1zM1 6h3v1H1z",
    "compute": "M1 1h7L5 4l3 4H1l3-4z",
}
_DEFAULT_SHAPE = "M1 1h7v7H1z"


def list_icons(tool: str) -> list[Json]:
    """Return the icons of a tool; tools without their own icon share one."""
    path = _SHAPES.get(tool, _DEFAULT_SHAPE)
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><path d='{path}'/></svg>"
    return [{"src": "data:image/svg+xml," + quote(svg, safe="='/:")}]
