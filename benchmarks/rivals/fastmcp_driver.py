"""FastMCP's code mode: programs for pydantic-monty through an MCP client and server in one process."""

import asyncio
import json
import sys
import time

from fastmcp import Client, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

PROGRAMS = {
    "fresh": ("return 1 + 1", 2),
    "calls": (
        "total = 0\nfor i in range(100):\n    total += (await call_tool('echo', {'i': i}))['i']\nreturn total",
        4950,
    ),
}

server = FastMCP("rival", transforms=[CodeMode(max_tool_calls=None)])


@server.tool
def echo(i: int) -> dict[str, int]:
    """Return what it is given."""
    return {"i": i}


async def main() -> None:
    async with Client(server) as client:
        for line in sys.stdin:
            asked = json.loads(line)
            program, expected = PROGRAMS[asked["work"]]
            spent = []
            for _ in range(asked["times"]):
                started = time.perf_counter()
                result = await client.call_tool("execute", {"code": program})
                spent.append((time.perf_counter() - started) * 1000)
                assert str(expected) in str(result), result
            print(json.dumps(spent), flush=True)


asyncio.run(main())
