"""The tool for LangChain, in an agent of LangGraph whose model is a script."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
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
from paddock.integrations.langchain import PaddockTool

Ask = Callable[[Any, Any], dict[str, Any]]


def ask(agent: Any, state: Any) -> dict[str, Any]:
    return agent.invoke(state, {"recursion_limit": 100})


def ask_on_a_loop(agent: Any, state: Any) -> dict[str, Any]:
    return asyncio.run(agent.ainvoke(state, {"recursion_limit": 100}))


def converse(tool: PaddockTool, steps: list[Step], way: Ask) -> list[ToolMessage]:
    """Return what an agent's tool answers to a model that makes these calls."""
    calls = [{"name": tool.name, "args": step.arguments, "id": str(n)} for n, step in enumerate(steps)]
    replies = [*(AIMessage("", tool_calls=[call]) for call in calls), AIMessage("done")]
    model = GenericFakeChatModel(messages=iter(replies))
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    found = way(graph.compile(), {"messages": [("user", "go")]})["messages"]
    assert found[-1].content == "done"
    return [message for message in found if isinstance(message, ToolMessage)]


def read(message: ToolMessage) -> tuple[str, tuple[bytes, ...]]:
    if isinstance(message.content, str):
        return plain(message.content), ()
    text, *images = message.content_blocks
    assert {image["mime_type"] for image in images} == {"image/png"}
    return text["text"], tuple(base64.b64decode(image["base64"]) for image in images)


@pytest.mark.parametrize("way", [ask, ask_on_a_loop])
def test_an_agent_works_in_one_session(opened: BlockingPaddock, way: Ask) -> None:
    with PaddockTool(paddock=opened, files=FILES) as tool:
        found = converse(tool, STEPS, way)
        assert [file.path for file in tool.session.list_files()] == ["visits.csv"]
    assert [read(message) for message in found] == [(plain(step.told), step.images) for step in STEPS]
    assert [message.artifact["session"] for message in found] == [*["kept"] * 5, "lost", "lost", "kept"]
    assert [file["path"] for file in found[2].artifact["files"]] == ["plot.png"]
    assert opened.sessions() == ()


@pytest.mark.parametrize("way", [ask, ask_on_a_loop])
def test_hostile_arguments_get_an_answer(opened: BlockingPaddock, way: Ask) -> None:
    with PaddockTool(paddock=opened) as tool:
        found = converse(tool, HOSTILE, way)
    assert [read(message)[0] for message in found] == [step.told for step in HOSTILE]


def test_a_refusal_and_a_timeout_are_told(opened: BlockingPaddock) -> None:
    with PaddockTool(paddock=opened, network="full", name="fetch") as tool:
        [message] = converse(tool, [Step({"code": "1"}, "")], ask)
    assert (message.name, message.content, message.artifact["status"]) == ("fetch", DENIED, "denied")
    with PaddockTool(paddock=opened, timeout_ms=SHORT_MS) as tool:
        [message] = converse(tool, [Step({"code": ENDLESS}, "")], ask)
    assert message.content.startswith("timeout: The program ran out of time\n  hint: it had 400 ms")


def test_a_text_is_a_program_too(opened: BlockingPaddock) -> None:
    with PaddockTool(paddock=opened) as tool:
        assert tool.invoke("6 * 7") == "42"
