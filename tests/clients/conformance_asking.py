"""The tools of the conformance suite that ask their client: its person, its model, for its roots."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)

from paddock.surfaces.mcp_server.toolbox import (
    Arguments,
    Inquire,
    McpCaller,
    McpTool,
    ToolAnswer,
    object_schema,
    text_block,
)

PREFIX = "test_input_required_result_"
VALUES = [{"const": f"value{each}", "title": f"Choice {each}"} for each in (1, 2, 3)]
OPTIONS = ["option1", "option2", "option3"]
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": VALUES},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": VALUES}},
}


def form(message: str, properties: dict[str, Any]) -> ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


async def inquired(inquire: Inquire | None, **requests: InputRequest) -> Mapping[str, Any]:
    """Return the answers to all requests."""
    assert inquire is not None
    answers = await inquire(requests)
    return {key: answers[key] for key in requests}


async def ask(inquire: Inquire | None, key: str, message: str, **types: str) -> dict[str, Any]:
    """Return what a person fills in."""
    properties = {name: {"type": kind} for name, kind in types.items()}
    result = (await inquired(inquire, **{key: form(message, properties)}))[key]
    assert isinstance(result, ElicitResult)
    return result.content or {}


def asking_tool(name: str, run: Callable[[Arguments, McpCaller], Awaitable[str]], *arguments: str) -> McpTool:
    async def answer(given: Arguments, caller: McpCaller) -> ToolAnswer:
        return ToolAnswer([text_block(await run(given, caller))])

    schema = object_schema([*arguments], **{each: {"type": "string"} for each in arguments})
    return McpTool(name, name, f"Asks for {name}.", schema, answer)


def filled(properties: dict[str, Any]) -> Callable[[Arguments, McpCaller], Awaitable[str]]:
    async def run(_arguments: Arguments, caller: McpCaller) -> str:
        result = (await inquired(caller.inquire, form=form("Please fill in", properties)))["form"]
        return f"Elicitation completed: action={result.action}, content={json.dumps(result.content)}"

    return run


def questions(*keys: str, **types: str) -> Callable[[Arguments, McpCaller], Awaitable[str]]:
    async def run(_arguments: Arguments, caller: McpCaller) -> str:
        answers = [await ask(caller.inquire, key, f"Please give {key}", **types) for key in keys]
        return f"state-ok {json.dumps(answers)}"

    return run


async def elicited(arguments: Arguments, caller: McpCaller) -> str:
    response = await ask(caller.inquire, "response", arguments["message"], username="string", email="string")
    return f"User response: {json.dumps(response)}"


async def sampled(arguments: Arguments, caller: McpCaller) -> str:
    text = arguments.get("prompt", "What is the capital of France?")
    answers = await inquired(caller.inquire, capital_question=sampling(text))
    return f"LLM response: {answers['capital_question'].content.text}"


async def rooted(_arguments: Arguments, caller: McpCaller) -> str:
    answers = await inquired(caller.inquire, client_roots=ListRootsRequest())
    return f"Roots: {', '.join(str(root.uri) for root in answers['client_roots'].roots)}"


async def all_kinds(_arguments: Arguments, caller: McpCaller) -> str:
    answers = await inquired(
        caller.inquire,
        user_name=form("What is your name?", {"name": {"type": "string"}}),
        greeting=sampling("Generate a greeting"),
        client_roots=ListRootsRequest(),
    )
    return (
        f"{answers['greeting'].content.text} {answers['user_name'].content} {answers['client_roots'].roots}"
    )


async def whichever(arguments: Arguments, caller: McpCaller) -> str:
    """Ask the person, or the model of a client whose person cannot be asked."""
    try:
        return str(await ask(caller.inquire, "confirm", "Please confirm", ok="boolean"))
    except MCPError:
        return await sampled(arguments, caller)


def asking_tools() -> list[McpTool]:
    return [
        asking_tool("test_sampling", sampled, "prompt"),
        asking_tool("test_missing_capability", sampled),
        asking_tool("test_elicitation", elicited, "message"),
        asking_tool("test_streaming_elicitation", filled(DEFAULTS)),
        asking_tool("test_elicitation_sep1034_defaults", filled(DEFAULTS)),
        asking_tool("test_elicitation_sep1330_enums", filled(ENUMS)),
        asking_tool(f"{PREFIX}elicitation", questions("user_name", name="string")),
        asking_tool(f"{PREFIX}sampling", sampled),
        asking_tool(f"{PREFIX}list_roots", rooted),
        asking_tool(f"{PREFIX}request_state", questions("confirm", ok="boolean")),
        asking_tool(f"{PREFIX}tampered_state", questions("confirm", ok="boolean")),
        asking_tool(f"{PREFIX}multiple_inputs", all_kinds),
        asking_tool(f"{PREFIX}multi_round", questions("step1", "step2", name="string")),
        asking_tool(f"{PREFIX}capabilities", whichever),
    ]


async def become_task() -> None:
    """Let the call become a task: before that it ends, and asks, with its request."""
    await asyncio.sleep(0.1)


async def confirm_deletion(arguments: Arguments, caller: McpCaller) -> str:
    await become_task()
    confirmed = await ask(caller.inquire, "confirm", f"Delete {arguments['filename']}?", confirm="boolean")
    return f"Confirmed: {json.dumps(confirmed)}"


async def ask_twice_at_once(_arguments: Arguments, caller: McpCaller) -> str:
    await become_task()
    forms = {key: form(f"Please give {key}", {"name": {"type": "string"}}) for key in ("first", "second")}
    answers = await inquired(caller.inquire, **forms)
    return json.dumps([answers[key].content for key in forms])


async def ask_then_take_long(_arguments: Arguments, caller: McpCaller) -> str:
    name = await ask(caller.inquire, "user_name", "What is your name?", name="string")
    await asyncio.sleep(ASKED_AFTER_S * 2)
    return f"Hello, {name['name']}!"


ASKED_AFTER_S = 0.5
"""Time after which a call becomes a task whose question must be asked before, in seconds."""
TASK_AFTER_S = {
    **dict.fromkeys(
        ("slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input"), 0.0
    ),
    "test_tool_with_task": ASKED_AFTER_S,
}
"""After how many seconds calls of the suite's tools become tasks."""
ONLY_TASKS = ("failing_job", "test_tool_with_task")
"""Tools that the suite wants to be refused to clients without the extension."""


def task_tools() -> list[McpTool]:
    """Return the tools that the scenarios of tasks call."""

    async def compute(arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        await asyncio.sleep(arguments["seconds"])
        return ToolAnswer([text_block(f"computed {arguments['label']}")])

    async def fail(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        await become_task()
        return ToolAnswer([text_block("the job failed")], is_error=True)

    async def break_off(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        await become_task()
        raise MCPError(code=INTERNAL_ERROR, message="the job broke off")

    slow = object_schema(["seconds", "label"], seconds={"type": "number"}, label={"type": "string"})
    return [
        McpTool("slow_compute", "Slow", "Takes its time.", slow, compute),
        McpTool("failing_job", "Failing", "Fails.", object_schema([]), fail),
        McpTool("protocol_error_job", "Broken", "Breaks off.", object_schema([]), break_off),
        asking_tool("confirm_delete", confirm_deletion, "filename"),
        asking_tool("multi_input", ask_twice_at_once),
        asking_tool("test_tool_with_task", ask_then_take_long),
    ]
