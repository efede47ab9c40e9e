"""The official library for Python, 1.x."""

import asyncio
from typing import Any

import steps
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def visit(transport: str, seen: steps.Visit) -> None:
    async def elicit(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=seen.ask(params.message))

    server = StdioServerParameters(
        command=steps.TARGET["command"], args=steps.TARGET["args"], env=steps.ENVIRONMENT
    )
    streams = (
        stdio_client(server)
        if transport == "stdio"
        else streamablehttp_client(steps.TARGET["url"], steps.HEADERS)
    )
    async with (
        streams as (reader, writer, *_),
        ClientSession(reader, writer, elicitation_callback=elicit) as session,
    ):
        await session.initialize()
        seen.tools = [tool.name for tool in (await session.list_tools()).tools]
        for step, (name, arguments) in steps.STEPS.items():
            result = await session.call_tool(name, arguments)
            seen.take_blocks(step, result.content, result.structuredContent)


asyncio.run(steps.visit_all(visit))
