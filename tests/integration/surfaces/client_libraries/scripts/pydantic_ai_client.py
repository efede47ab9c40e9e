"""Pydantic AI: an agent whose model, a function here, calls one tool after another."""

import asyncio
from typing import Any

import steps
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def visit(transport: str, seen: steps.Visit) -> None:
    async def elicit(message: str, _kind: Any, _params: Any, _context: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=seen.ask(message))

    waiting = list(steps.STEPS.items())

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.tools = [tool.name for tool in info.function_tools]
        steps.continue_session(str(messages))
        if not waiting:
            return ModelResponse(parts=[TextPart("done")])
        step, (name, arguments) = waiting.pop(0)
        return ModelResponse(parts=[ToolCallPart(name, arguments, tool_call_id=step)])

    target = (
        StdioTransport(steps.TARGET["command"], steps.TARGET["args"], env=steps.ENVIRONMENT, keep_alive=False)
        if transport == "stdio"
        else StreamableHttpTransport(steps.TARGET["url"], headers=steps.HEADERS)
    )
    toolset = MCPToolset(target, elicitation_handler=elicit, init_timeout=300, read_timeout=300)
    async with Agent(FunctionModel(model), toolsets=[toolset]) as agent:
        messages = (await agent.run("go")).all_messages()
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                take(seen, part)


def take(seen: steps.Visit, part: ToolReturnPart) -> None:
    content = part.content if isinstance(part.content, list) else [part.content]
    images = tuple(each.data for each in content if isinstance(each, BinaryContent))
    text = "\n".join(each for each in content if isinstance(each, str))
    structured = part.content if isinstance(part.content, dict) else None
    seen.take(part.tool_call_id, text=text or str(structured), structured=structured, images=images)


asyncio.run(steps.visit_all(visit))
