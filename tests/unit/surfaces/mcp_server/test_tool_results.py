"""What an upstream server says beside its result reaches the client, but for what is of one connection."""

from typing import Any

import pytest

from paddock.model.outcome import Outcome, Status
from paddock.surfaces.mcp_server.tool_results import build_result


def meta(given: Any, cap: int = 1000) -> dict[str, Any]:
    """Return what is passed on of `_meta`, in the result as the client gets it."""
    value = {"content": [], "_meta": given}
    return (
        build_result(Outcome(id="R", status=Status.OK, value=value, has_value=True), cap)
        .to_result()
        .get("_meta", {})
    )


@pytest.mark.parametrize(
    "name",
    [
        "cost",
        "com.example/cost",
        "ui/resourceUri",
        "com.example.mcp/x",
        "mcp/x",
        "openai/widget",
        "/x",
        "mcp.x",
    ],
)
def test_names_of_servers_are_passed_on(name: str) -> None:
    assert meta({name: {"a": [1]}}) == {name: {"a": [1]}}


@pytest.mark.parametrize(
    "name",
    [
        "io.modelcontextprotocol/related-task",
        "io.modelcontextprotocol/serverInfo",
        "modelcontextprotocol.io/x",
        "mcp.dev/x",
        "dev.mcp/x",
        "org.modelcontextprotocol.api/x",
        "tools.mcp.com/x",
        "progressToken",
        "traceparent",
    ],
)
def test_names_of_the_protocol_and_of_traces_are_not(name: str) -> None:
    assert meta({name: 1, "cost": 2}) == {"cost": 2}


def test_what_is_none_or_too_large_is_left_out() -> None:
    assert [meta(given) for given in (None, {}, [1], "x", {"a": "x" * 999})] == [{}, {}, {}, {}, {}]
