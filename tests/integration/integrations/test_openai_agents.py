"""The tool for the OpenAI Agents SDK, in an agent whose model is a script."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from tests.integration.integrations.conversation import (
    DENIED,
    ENDLESS,
    FILES,
    HOSTILE,
    SHORT_MS,
    STEPS,
    Step,
    plain,
)

from paddock import BlockingPaddock
from paddock.integrations.openai_agents import PaddockTool


class ScriptedModel(Model):
    """Makes calls of one tool, and then answers."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, iter(calls)

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        call = next(self.calls, None)
        item: Any = (
            ResponseFunctionToolCall(
                type="function_call", name=self.name, call_id=str(id(call)), arguments=call
            )
            if call is not None
            else ResponseOutputMessage(
                id="1",
                type="message",
                role="assistant",
                status="completed",
                content=[ResponseOutputText(type="output_text", text="done", annotations=[])],
            )
        )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **named: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def converse(tool: PaddockTool, calls: list[str]) -> list[Any]:
    """Return what the model is told."""
    agent = Agent("coder", tools=[tool], model=ScriptedModel(tool.name, calls))
    result = await Runner.run(agent, "go", max_turns=50, run_config=RunConfig(tracing_disabled=True))
    assert result.final_output == "done"
    return [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]


def spell(steps: list[Step]) -> list[str]:
    return [json.dumps(step.arguments) for step in steps]


def read(output: Any) -> tuple[str, tuple[bytes, ...]]:
    if isinstance(output, str):
        return plain(output), ()
    text, *images = output
    urls = [image["image_url"].partition("data:image/png;base64,")[2] for image in images]
    return text["text"], tuple(map(base64.b64decode, urls))


def test_an_agent_works_in_one_session(opened: BlockingPaddock) -> None:
    async def main() -> list[Any]:
        async with PaddockTool(paddock=opened, files=FILES) as tool:
            return await converse(tool, spell(STEPS))

    assert [read(each) for each in asyncio.run(main())] == [(plain(step.told), step.images) for step in STEPS]
    assert opened.sessions() == ()


def test_hostile_arguments_get_an_answer(opened: BlockingPaddock) -> None:
    with PaddockTool(paddock=opened) as tool:
        found = asyncio.run(converse(tool, [*spell(HOSTILE), "{", "[]"]))
    told = [read(output)[0] for output in found]
    assert told[:-2] == [step.told for step in HOSTILE]
    assert told[-2:] == [
        "invalid: the arguments are not JSON: EOF while parsing an object at line 1 column 1",
        "invalid: the arguments must be an object",
    ]


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ({"network": "full"}, "1", DENIED),
        ({"timeout_ms": SHORT_MS}, ENDLESS, "timeout: The program ran out of time\n"),
    ],
    ids=["refusal", "timeout"],
)
def test_a_refusal_and_a_timeout_are_told(
    opened: BlockingPaddock, options: Any, code: str, told: str
) -> None:
    with PaddockTool(paddock=opened, name="compute", **options) as tool:
        [text] = asyncio.run(converse(tool, [json.dumps({"code": code})]))
    assert text.startswith(told)
