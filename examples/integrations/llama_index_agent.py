"""An agent of LlamaIndex that reads a CSV file with Python. A script replaces the model."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from paddock.integrations.llama_index import PaddockTool

PROGRAMS = [
    "import csv; rows = list(csv.DictReader(open('visits.csv')))",
    "sum(int(row['visits']) for row in rows)",
]
CALLS = [ToolCallBlock(tool_call_id=c, tool_name="run_python", tool_kwargs={"code": c}) for c in PROGRAMS]
replies = iter(
    [
        *(ChatMessage(role="assistant", blocks=[call]) for call in CALLS),
        ChatMessage(role="assistant", content="There were 8 visits."),
    ]
)


async def main() -> None:
    """Ask the agent."""
    model = MockFunctionCallingLLM(response_generator=lambda _messages, **_: next(replies))
    async with PaddockTool(files={"visits.csv": "city,visits\nOslo,3\nRome,5\n"}) as tool:
        run = FunctionAgent(tools=[tool], llm=model).run("How many visits?")
        async for event in run.stream_events():
            if isinstance(event, ToolCallResult):
                print(f"tool: {event.tool_output}")
        print(f"agent: {await run}")


asyncio.run(main())
