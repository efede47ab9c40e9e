"""Paddock's client of upstream servers, driven by the official conformance suite: `conformance_client.py URL`.

It does what programs do: lists the tools of a server and calls them. The suite tells in the environment what it wants
to be called.
"""

import asyncio
import json
import os
import sys
from typing import Any

from paddock.hub.config import HttpServer
from paddock.hub.pool import Hub
from paddock.model.errors import ServerError

CALLS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}


async def main(url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    async with Hub({"suite": HttpServer("suite", url)}, environment={}) as hub:
        listed = {tool.name for tool in await hub.tools("suite")}
        asked = [(each["name"], each.get("arguments", {})) for each in context.get("toolCalls", [])]
        for name, arguments in asked or [(name, CALLS.get(name, {})) for name in sorted(listed)]:
            try:
                await hub.call("suite", name, arguments)
            except ServerError as error:
                sys.stderr.write(f"{name}: {error}\n")


asyncio.run(main(sys.argv[1]))
