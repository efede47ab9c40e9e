"""A client of the official library that says `up` when its call makes itself heard, and never gets to know the end."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

server, mode, tool, arguments = map(json.loads, sys.argv[1:])


async def up(_progress: float, _total: float | None, _message: str | None) -> None:
    sys.stdout.write("up\n")
    sys.stdout.flush()


async def main() -> None:
    async with AsyncExitStack() as stack:
        if "url" in server:
            http = httpx2.AsyncClient(headers=server["headers"], timeout=60)
            transport = streamable_http_client(
                server["url"], http_client=await stack.enter_async_context(http)
            )
        else:
            transport = stdio_client(StdioServerParameters(**server))
        client = await stack.enter_async_context(Client(transport, mode=mode))
        await client.call_tool(tool, arguments, progress_callback=up)


asyncio.run(main())
