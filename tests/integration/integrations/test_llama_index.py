"""The tool for LlamaIndex, in an agent whose model is a script."""

import asyncio
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import ToolOutput
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
from paddock.integrations.llama_index import PaddockTool

pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


def converse(tool: PaddockTool, steps: list[Step]) -> list[ToolOutput]:
    """Return what an agent's tool answers to a model that makes these calls."""
    script = iter(enumerate(steps))

    def reply(messages: Any, **_: Any) -> ChatMessage:
        number, step = next(script, (0, None))
        if step is None:
            return ChatMessage(role="assistant", content="done")
        call = ToolCallBlock(
            tool_call_id=str(number), tool_name=str(tool.metadata.name), tool_kwargs=step.arguments
        )
        return ChatMessage(role="assistant", blocks=[call])

    async def main() -> list[ToolOutput]:
        agent = FunctionAgent(tools=[tool], llm=MockFunctionCallingLLM(response_generator=reply))
        handler = agent.run(user_msg="go", max_iterations=50)
        found = [
            event.tool_output async for event in handler.stream_events() if isinstance(event, ToolCallResult)
        ]
        assert str(await handler) == "done"
        return found

    return asyncio.run(main())


def read(output: ToolOutput) -> tuple[str, tuple[bytes, ...]]:
    text, *images = output.blocks
    assert isinstance(text, TextBlock)
    return plain(text.text), tuple(
        image.resolve_image().read() for image in images if isinstance(image, ImageBlock)
    )


def test_an_agent_works_in_one_session(opened: BlockingPaddock) -> None:
    with PaddockTool(paddock=opened, files=FILES) as tool:
        found = converse(tool, STEPS)
    assert [read(output) for output in found] == [(plain(step.told), step.images) for step in STEPS]
    assert [output.is_error for output in found] == [False, False, False, True, False, True, True, False]
    assert [output.raw_output["session"] for output in found] == [*["kept"] * 5, "lost", "lost", "kept"]
    assert opened.sessions() == ()


def test_hostile_arguments_get_an_answer(opened: BlockingPaddock) -> None:
    with PaddockTool(paddock=opened) as tool:
        assert [read(output)[0] for output in converse(tool, HOSTILE)] == [step.told for step in HOSTILE]


def test_it_works_without_a_loop(opened: BlockingPaddock) -> None:
    with PaddockTool(paddock=opened, files=FILES) as tool:
        found = [tool.call(**step.arguments) for step in STEPS]
        assert tool("6 * 7").content == "42"
    assert [read(output) for output in found] == [(plain(step.told), step.images) for step in STEPS]


def test_a_refusal_and_a_timeout_are_told(opened: BlockingPaddock) -> None:
    with PaddockTool(paddock=opened, network="full", name="fetch") as tool:
        [output] = converse(tool, [Step({"code": "1"}, "")])
    assert (output.tool_name, output.content) == ("fetch", DENIED)
    with PaddockTool(paddock=opened, timeout_ms=SHORT_MS) as tool:
        [output] = converse(tool, [Step({"code": ENDLESS}, "")])
    assert output.content.startswith("timeout: The program ran out of time\n")
