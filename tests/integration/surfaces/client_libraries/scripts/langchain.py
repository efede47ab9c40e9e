"""LangChain's adapters: tools of LangChain, called as an agent calls them."""

import asyncio
from typing import Any

import steps
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult


async def visit(transport: str, seen: steps.Visit) -> None:
    async def elicit(_mcp: Any, params: Any, _context: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=seen.ask(params.message))

    stdio = {
        "transport": "stdio",
        "command": steps.TARGET["command"],
        "args": steps.TARGET["args"],
        "env": steps.ENVIRONMENT,
    }
    http = {"transport": "streamable_http", "url": steps.TARGET["url"], "headers": steps.HEADERS}
    entry: Any = stdio if transport == "stdio" else http
    client = MultiServerMCPClient({"paddock": entry}, callbacks=Callbacks(on_elicitation=elicit))
    tools = {tool.name: tool for tool in await client.get_tools()}
    seen.tools = [*tools]
    for step, (name, arguments) in steps.STEPS.items():
        call = {"type": "tool_call", "id": step, "name": name, "args": arguments}
        message = await tools[name].ainvoke(call)
        blocks = (
            [{"type": "text", "text": message.content}]
            if isinstance(message.content, str)
            else message.content
        )
        seen.take(
            step,
            text="\n".join(block["text"] for block in blocks if block["type"] == "text"),
            structured=(message.artifact or {}).get("structured_content"),
            images=tuple(block["base64"] for block in blocks if block["type"] == "image"),
        )


asyncio.run(steps.visit_all(visit))
