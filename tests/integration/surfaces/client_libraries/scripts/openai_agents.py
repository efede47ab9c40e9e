"""OpenAI Agents: function tools, with schemas made strict where they can be, called as the runner calls them."""

import asyncio
import json
from typing import Any

import steps
from agents import Agent, RunContextWrapper
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp, MCPUtil
from agents.tool_context import ToolContext


def server(transport: str) -> Any:
    if transport == "stdio":
        params = {"command": steps.TARGET["command"], "args": steps.TARGET["args"], "env": steps.ENVIRONMENT}
        return MCPServerStdio(params=params, client_session_timeout_seconds=300)
    params = {"url": steps.TARGET["url"], "headers": steps.HEADERS, "timeout": 300}
    return MCPServerStreamableHttp(params=params, client_session_timeout_seconds=300)


async def visit(transport: str, seen: steps.Visit) -> None:
    async with server(transport) as connected:
        agent = Agent(name="test", mcp_servers=[connected])
        tools = {
            tool.name: tool
            for tool in await MCPUtil.get_function_tools(
                connected,
                convert_schemas_to_strict=True,
                run_context=RunContextWrapper(context=None),
                agent=agent,
            )
        }
        seen.tools = [*tools]
        for step, (name, arguments) in steps.STEPS.items():
            text = json.dumps(arguments)
            context = ToolContext(context=None, tool_name=name, tool_call_id=step, tool_arguments=text)
            output = await tools[name].on_invoke_tool(context, text)
            blocks = output if isinstance(output, list) else [output]
            texts = [
                block["text"] if isinstance(block, dict) and "text" in block else block for block in blocks
            ]
            urls = [
                block["image_url"] for block in blocks if isinstance(block, dict) and "image_url" in block
            ]
            seen.take(
                step,
                text="\n".join(each for each in texts if isinstance(each, str)),
                images=tuple(url.partition("base64,")[2] for url in urls),
            )


asyncio.run(steps.visit_all(visit))
