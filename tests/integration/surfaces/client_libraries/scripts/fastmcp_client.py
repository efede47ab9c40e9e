"""FastMCP: it makes Python types of the schemas that tools declare for their answers."""

import asyncio
import dataclasses
from typing import Any

import steps
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport


async def visit(transport: str, seen: steps.Visit) -> None:
    async def elicit(message: str, _kind: Any, _params: Any, _context: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=seen.ask(message))

    target = (
        StdioTransport(steps.TARGET["command"], steps.TARGET["args"], env=steps.ENVIRONMENT, keep_alive=False)
        if transport == "stdio"
        else StreamableHttpTransport(steps.TARGET["url"], headers=steps.HEADERS)
    )
    async with Client(target, elicitation_handler=elicit) as client:
        seen.tools = [tool.name for tool in await client.list_tools()]
        for step, (name, arguments) in steps.STEPS.items():
            result = await client.call_tool(name, arguments, raise_on_error=False)
            data = result.data  # an instance of a class made of the schema
            structured = {"value": data.value} if dataclasses.is_dataclass(data) and step == "code" else None
            seen.take_blocks(step, result.content, structured)


asyncio.run(steps.visit_all(visit))
