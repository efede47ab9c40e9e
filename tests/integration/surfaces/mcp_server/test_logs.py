"""Log lines of `paddock serve`, as JSON."""

import asyncio
import json
from typing import Any

from tests.support.mcp_server import Place

SECRET = "payload-7391"


def logged(place: Place, *flags: str) -> list[dict[str, Any]]:
    """Run a program over HTTP and return the lines that were logged."""

    async def main() -> bytes:
        async with place.web(*flags) as web:
            async with web.client() as client:
                code = f"await servers.odd.echo({{text: '{SECRET}'}}); console.log('{SECRET}')"
                await client.call_tool("execute_code", {"code": code})
                await client.call_tool(SECRET, {"x": SECRET})
            web.process.terminate()
            _, rest = await web.process.communicate()
            return rest

    text = asyncio.run(main()).decode()
    assert SECRET not in text
    return [json.loads(line) for line in text.splitlines()]


def test_each_request_is_one_object_a_line(place: Place) -> None:
    place.settings('[log]\nformat = "json"\nlevel = "info"\n')
    lines = [line for line in logged(place) if line["logger"] == "paddock.requests"]
    call, program = lines
    assert {name: call[name] for name in call if name not in ("ts", "request", "ms")} == {
        "level": "info",
        "logger": "paddock.requests",
        "message": "ended",
        "parent": program["request"],
        "actor": program["actor"],
        "kind": "server",
        "surface": "guest",
        "status": "ok",
        "cpu_ms": 0.0,
        "peak_bytes": 0,
        "calls": 0,
    }
    assert (program["actor"], program["language"]) == ("mcp 0.1.0", "javascript")
    assert (program["kind"], program["status"], program["calls"]) == ("guest", "ok", 1)


def test_by_default_nothing_is_logged(place: Place) -> None:
    place.settings('[log]\nformat = "json"\n')
    assert logged(place) == []


def test_the_flag_says_what_is_logged(place: Place) -> None:
    place.settings('[log]\nformat = "json"\nlevel = "info"\n')
    assert logged(place, "--log-level", "error") == []
