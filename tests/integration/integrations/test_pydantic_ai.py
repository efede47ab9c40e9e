"""The toolset for Pydantic AI, in an agent whose model is a function."""

import asyncio
from collections.abc import Iterator
from typing import Any

from pydantic_ai import (
    Agent,
    BinaryContent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
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
from paddock.integrations.pydantic_ai import PaddockToolset


def make_agent(
    steps: list[Step], *toolsets: PaddockToolset[Any], name: str = "run_python"
) -> Agent[None, str]:
    """Return an agent that makes these calls in each run, and then answers."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
        if done == len(steps):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(name, steps[done].arguments)])

    return Agent(FunctionModel(reply), toolsets=toolsets)


def list_returns(messages: list[ModelMessage]) -> Iterator[ToolReturnPart]:
    for message in messages:
        yield from (part for part in message.parts if isinstance(part, ToolReturnPart))


def read(part: ToolReturnPart) -> tuple[str, tuple[bytes, ...]]:
    if isinstance(part.content, str):
        return plain(part.content), ()
    text, *images = part.content
    assert all(isinstance(image, BinaryContent) and image.media_type == "image/png" for image in images)
    return text, tuple(image.data for image in images)


def test_an_agent_works_in_one_session(opened: BlockingPaddock) -> None:
    async def main() -> list[ToolReturnPart]:
        async with PaddockToolset[None](paddock=opened, files=FILES) as toolset:
            result = await make_agent(STEPS, toolset).run("go", usage_limits=None)
            assert result.output == "done"
            return [*list_returns(result.all_messages())]

    found = asyncio.run(main())
    assert [read(part) for part in found] == [(plain(step.told), step.images) for step in STEPS]
    assert [part.metadata["session"] for part in found] == [*["kept"] * 5, "lost", "lost", "kept"]
    assert opened.sessions() == ()


def test_hostile_arguments_get_an_answer(opened: BlockingPaddock) -> None:
    result = asyncio.run(make_agent(HOSTILE, PaddockToolset(paddock=opened)).run("go"))
    assert [read(part)[0] for part in list_returns(result.all_messages())] == [step.told for step in HOSTILE]


def test_a_refusal_and_a_timeout_are_told(opened: BlockingPaddock) -> None:
    denied = PaddockToolset[None](paddock=opened, network="full", name="fetch")
    [part] = list_returns(
        asyncio.run(make_agent([Step({"code": "1"}, "")], denied, name="fetch").run("go")).all_messages()
    )
    assert part.content == DENIED
    endless = PaddockToolset[None](paddock=opened, timeout_ms=SHORT_MS)
    [part] = list_returns(
        asyncio.run(make_agent([Step({"code": ENDLESS}, "")], endless).run("go")).all_messages()
    )
    assert part.content.startswith("timeout: The program ran out of time\n")


def test_runs_share_a_session_only_where_the_caller_opened_it(opened: BlockingPaddock) -> None:
    counting = [Step({"code": "n = globals().get('n', 0) + 1; n"}, "")]

    async def main() -> list[Any]:
        toolset = PaddockToolset[None](paddock=opened)
        agent = make_agent(counting, toolset)
        runs = [
            await agent.run("go"),
            await agent.run("go"),
            *await asyncio.gather(agent.run("go"), agent.run("go")),
        ]
        assert await asyncio.to_thread(opened.sessions) == ()
        async with agent:
            runs += [await agent.run("go"), await agent.run("go")]
        async with toolset:
            runs += [await agent.run("go")]
        return [part.content for run in runs for part in list_returns(run.all_messages())]

    assert asyncio.run(main()) == ["1", "1", "1", "1", "1", "2", "1"]
    with PaddockToolset[None](paddock=opened) as toolset:
        runs = [asyncio.run(make_agent(counting, toolset).run("go")) for _ in range(2)]
    assert [part.content for run in runs for part in list_returns(run.all_messages())] == ["1", "2"]
    assert opened.sessions() == ()
