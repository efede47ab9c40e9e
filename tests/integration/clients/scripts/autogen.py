"""AutoGen: tools with pydantic models made of the schemas."""

import asyncio

import steps
from autogen_core import CancellationToken
from autogen_ext.tools.mcp import StdioServerParams, StreamableHttpServerParams, mcp_server_tools


async def visit(transport: str, seen: steps.Visit) -> None:
    server = (
        StdioServerParams(
            command=steps.TARGET["command"],
            args=steps.TARGET["args"],
            env=steps.ENVIRONMENT,
            read_timeout_seconds=300,
        )
        if transport == "stdio"
        else StreamableHttpServerParams(url=steps.TARGET["url"], headers=steps.HEADERS, timeout=300)
    )
    tools = {tool.name: tool for tool in await mcp_server_tools(server)}
    seen.tools = [*tools]
    for step, (name, arguments) in steps.STEPS.items():
        seen.take_blocks(step, await tools[name].run_json(arguments, CancellationToken()))


asyncio.run(steps.visit_all(visit))
