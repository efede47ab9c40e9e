"""The official library for Python, 2.x, which speaks the newest revision of the protocol."""

import asyncio
from typing import Any

import httpx2
import steps
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult


async def visit(transport: str, seen: steps.Visit) -> None:
    async def elicit(_context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=seen.ask(params.message))

    async with httpx2.AsyncClient(headers=steps.HEADERS, timeout=300) as http:
        server = StdioServerParameters(
            command=steps.TARGET["command"], args=steps.TARGET["args"], env=steps.ENVIRONMENT
        )
        streams = (
            stdio_client(server)
            if transport == "stdio"
            else streamable_http_client(steps.TARGET["url"], http_client=http)
        )
        async with Client(streams, elicitation_callback=elicit) as client:
            seen.tools = [tool.name for tool in (await client.list_tools()).tools]
            for step, (name, arguments) in steps.STEPS.items():
                result = await client.call_tool(name, arguments)
                seen.take_blocks(step, result.content, result.structured_content)


asyncio.run(steps.visit_all(visit))
