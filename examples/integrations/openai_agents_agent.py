"""An agent of the OpenAI Agents SDK that reads a CSV file with Python. A script replaces the model."""

import asyncio
import json
from collections.abc import AsyncIterator

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from paddock.integrations.openai_agents import PaddockTool

PROGRAMS = [
    "import csv; rows = list(csv.DictReader(open('visits.csv')))",
    "sum(int(row['visits']) for row in rows)",
]
TEXT = ResponseOutputText(type="output_text", text="There were 8 visits.", annotations=[])
REPLIES = [
    *(
        ResponseFunctionToolCall(
            type="function_call", call_id=code, name="run_python", arguments=json.dumps({"code": code})
        )
        for code in PROGRAMS
    ),
    ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=[TEXT]),
]


class Script(Model):
    """Sends `REPLIES`."""

    def __init__(self) -> None:
        self.replies = iter(REPLIES)

    async def get_response(self, *_: object, **__: object) -> ModelResponse:
        return ModelResponse(output=[next(self.replies)], usage=Usage(), response_id=None)

    def stream_response(self, *_: object, **__: object) -> AsyncIterator[object]:
        raise NotImplementedError


async def main() -> None:
    """Ask the agent."""
    async with PaddockTool(files={"visits.csv": "city,visits\nOslo,3\nRome,5\n"}) as tool:
        agent = Agent("analyst", tools=[tool], model=Script())
        result = await Runner.run(agent, "How many visits?", run_config=RunConfig(tracing_disabled=True))
    for item in result.to_input_list():
        if "output" in item:
            print(f"tool: {item['output']}")
    print(f"agent: {result.final_output}")


asyncio.run(main())
