"""The list of tools is read by every model at every turn: it is short, and always the same."""

import asyncio
import json
import subprocess
from pathlib import Path

from tests.support.mcp_server import Place

from . import npm

BUDGET = 1060
"""Tokens (o200k) of what a client puts before its model: names, descriptions and schemas of the arguments."""

COUNT = """
const {Tiktoken} = require("js-tiktoken/lite");
const ranks = require("js-tiktoken/ranks/o200k_base");
let text = "";
process.stdin.on("data", chunk => text += chunk);
process.stdin.on("end", () => console.log(new Tiktoken(ranks.default || ranks).encode(text).length));
"""


def tokens(modules: Path, text: str) -> int:
    environment = {"NODE_PATH": str(modules)}
    command = [npm.node(modules), "-e", COUNT]
    return int(
        subprocess.run(
            command, env=environment, input=text, capture_output=True, text=True, check=True
        ).stdout
    )


def listed(place: Place) -> str:
    async def main() -> str:
        async with place.lines() as lines:
            await lines.begin()
            first = await lines.ask("tools/list", {}, modern=False)
            await lines.ask(
                "tools/call", {"name": "search_tools", "arguments": {"query": "again"}}, modern=False
            )
            assert await lines.ask("tools/list", {}, modern=False) == {**first, "id": 4}
            return json.dumps(first["result"])

    return asyncio.run(main())


def test_the_list_is_the_same_whatever_servers_there_are(place: Place) -> None:
    first = listed(place)
    place.servers({})
    assert listed(place) == first


def test_the_list_is_short(npm_modules: npm.Modules, place: Place) -> None:
    tools = json.loads(listed(place))["tools"]
    shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    assert tokens(npm_modules("clients"), json.dumps(shown, separators=(",", ":"))) <= BUDGET
    assert [tool["name"] for tool in tools if len(tool["description"].split()) > 60] == []
