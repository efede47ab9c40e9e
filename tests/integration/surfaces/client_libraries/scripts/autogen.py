"""AutoGen: tools with pydantic models made of the schemas."""

import asyncio
import traceback

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
        try:
            seen.take_blocks(step, await tools[name].run_json(arguments, CancellationToken()))
        except Exception as error:  # noqa: BLE001 - how it passes an error of a tool on, within groups
            seen.take(step, text="".join(traceback.format_exception(error)))


asyncio.run(steps.visit_all(visit))
