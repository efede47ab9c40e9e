"""LlamaIndex: function tools with pydantic models made of the schemas."""

import asyncio

import steps
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def visit(transport: str, seen: steps.Visit) -> None:
    client = (
        BasicMCPClient(steps.TARGET["command"], steps.TARGET["args"], steps.ENVIRONMENT, timeout=300)
        if transport == "stdio"
        else BasicMCPClient(steps.TARGET["url"], headers=steps.HEADERS, timeout=300)
    )
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client).to_tool_list_async()}
    seen.tools = [*tools]
    for step, (name, arguments) in steps.STEPS.items():
        whole = tools[name].metadata.fn_schema(**arguments).model_dump()  # what it has no value for is None
        output = await tools[name].acall(**whole)
        result = output.raw_output
        seen.take_blocks(step, result.content, result.structured_content)


asyncio.run(steps.visit_all(visit))
