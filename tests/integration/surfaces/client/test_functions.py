"""Python functions as tools of programs: what they get and give, where they are seen, who decides on them."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from tests.support.processes import PATIENCE_S
from tests.support.session import find_session, run_on_loop

from paddock import BlockingPaddock, ConfigurationError, Paddock, Settings, Status
from paddock.engines.servers.typescript import describe_tool
from paddock.model.errors import NO_SERVERS

SECRET = "sk-live-0123456789abcdefABCDEF"


pytestmark = pytest.mark.usefixtures("home")


def failure(outcome):
    assert outcome.status is Status.FAILED, outcome
    return outcome.error.name, outcome.error.message


def add(a: int, b: Annotated[int, Field(description="what is added", ge=0)] = 1) -> int:
    """Add two numbers."""
    return a + b


def make_function(called: list[str], name: str) -> Callable[[], None]:
    def note() -> None:
        called.append(name)

    return note


class Colour(Enum):
    RED = "red"


class Row(BaseModel):
    day: date
    price: Decimal = Decimal("1.5")
    colour: Colour = Colour.RED


@dataclass
class Point:
    x: float
    y: float


def test_a_function_is_called_with_what_its_annotations_say(opened):
    @opened.tool
    def make_row(day: date, rows: list[Row], tags: set[str] | None = None) -> dict[str, Any]:
        return {"day": day, "rows": rows, "tags": tags, "point": Point(1, 2.5), "none": None}

    code = (
        'return await servers.local.make_row({day: "2026-03-01", rows: [{day: "2026-03-02"}], tags: ["a"]})'
    )
    assert opened.execute(code).check().value == {
        "day": "2026-03-01",
        "rows": [{"day": "2026-03-02", "price": "1.5", "colour": "red"}],
        "tags": ["a"],
        "point": {"x": 1.0, "y": 2.5},
        "none": None,
    }


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1.5,
        "",
        "123",
        "null",
        "1.10",
        [],
        {},
        [1, "a", None],
        2**70,
        "ü\u2028\x00",
        {"a": {"b": []}},
    ],
)
def test_values_come_back_as_they_are(opened, value):
    opened.tool(tool_name="give")(lambda: value)
    assert opened.call("local", "give").check().value == value
    inner = opened.execute(
        "const value = await servers.local.give(); return value === undefined ? 'none' : typeof value"
    )
    kinds = {bool: "boolean", int: "number", float: "number", str: "string"}
    wanted = "bigint" if value == 2**70 else kinds.get(type(value), "object")
    assert inner.check().value == wanted


def test_coroutine_functions_run_on_the_loop_of_the_caller(workspace):
    async def main():
        ready = asyncio.Event()
        opened = Paddock(workspace)

        @opened.tool
        async def wait_for_event() -> str:
            await ready.wait()
            return threading.current_thread().name

        @opened.tool
        def name_thread() -> str:
            return threading.current_thread().name

        async with opened:
            waiting = asyncio.create_task(
                opened.execute(
                    "return [await servers.local.wait_for_event(), await servers.local.name_thread()]"
                )
            )
            ready.set()
            return (await waiting).check().value

    assert asyncio.run(main()) == ["MainThread", "paddock tool"]


def test_calls_run_side_by_side(opened):
    both = threading.Barrier(2, timeout=PATIENCE_S)
    opened.tool(tool_name="meet")(lambda: both.wait() >= 0)
    assert opened.execute("return await Promise.all([servers.local.meet(), servers.local.meet()])").value == [
        True,
        True,
    ]


def test_a_function_may_use_the_paddock_that_it_is_a_tool_of(opened):
    @opened.tool
    def compute(text: str) -> str:
        return opened.compute("emit(read_input().length)", text, timeout_ms=60_000).check().value

    assert opened.execute("return await servers.local.compute({text: 'four'})").check().value == "4"


def test_tools_are_found_described_and_declared(opened):
    opened.tool(add)
    opened.tool(tool_name="other", description="Something else.", read_only=True)(lambda: None)
    [found] = opened.search_tools("add numbers", limit=1).tools
    assert found.signature == "local.add({ a: number, b?: number }): number // Add two numbers."
    names = opened.execute("return [Object.keys(servers), Object.keys(servers.local)]").value
    assert names == [["local"], ["add", "other"]]

    async def describe(session):
        servers = session.servers
        [declared], *_ = await servers.catalog.describe_tools(["local.add"])
        [entry] = [each for each in servers.call_checks.list_pinned_tools("local") if each.tool.name == "add"]
        return declared, entry

    declared, entry = run_on_loop(opened, describe)
    assert declared.declaration == (
        "/** Add two numbers. */\n"
        "add(args: {\n"
        "  a: number;\n"
        "  /** what is added */\n"
        "  b?: number; // default 1\n"
        "}): Promise<number>; // output: declared"
    )
    assert (declared.server, declared.output) == ("servers.local", "declared")
    assert describe_tool(entry).declaration == declared.declaration
    assert entry.tool.input_schema == {
        "additionalProperties": False,
        "properties": {
            "a": {"type": "integer"},
            "b": {"default": 1, "description": "what is added", "minimum": 0, "type": "integer"},
        },
        "required": ["a"],
        "type": "object",
    }


def test_what_is_added_later_is_seen_at_once(workspace):
    opened = BlockingPaddock(workspace)
    opened.tool(add)
    with opened:
        assert opened.execute("return await servers.local.add({a: 1})").value == 2
        opened.search_tools("add")
        opened.tool(tool_name="spell")(lambda: "text")
        assert opened.execute("return await servers.local.spell()").value == "text"
        assert {each.tool for each in opened.search_tools(["add", "spell"]).tools} == {"add", "spell"}
    with opened:  # they stay with the object
        assert opened.execute("return await servers.local.add({a: 2})").value == 3


def test_the_first_function_may_come_when_everything_was_used(opened):
    assert opened.execute("return Object.keys(servers)").value == []
    assert opened.search_tools("add").tools == ()
    assert opened.call("local", "add").status is Status.INVALID
    opened.tool(add)
    opened.tool(tool_name="other")(lambda: None)
    assert [each.tool for each in opened.search_tools("add numbers").tools] == ["add"]
    assert opened.execute("return [Object.keys(servers), await servers.local.add({a: 1})]").value == [
        ["local"],
        2,
    ]


def test_without_functions_there_is_no_such_server(opened):
    assert opened.execute("return Object.keys(servers)").value == []
    assert failure(opened.execute("await servers.local.add()")) == (
        "ToolError",
        f"Unknown server: local; {NO_SERVERS}",
    )


def test_the_server_may_have_another_name(workspace):
    opened = BlockingPaddock(workspace, tool_server="shop")
    opened.tool(add)
    with opened:
        assert opened.execute("return await servers.shop.add({a: 1})").value == 2
    for wrong in ("", "a b", "../x", "x" * 65, "9a"):
        with pytest.raises(ValueError, match="cannot name a server of tools"):
            BlockingPaddock(workspace, tool_server=wrong)


@pytest.mark.parametrize("entry", [{"command": "true"}, {"command": "true", "disabled": True}])
def test_a_configured_server_of_that_name_is_refused(workspace, entry):
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"local": entry}}))
    told = (
        "local is a server of the servers file, and the functions of this Paddock would have that name, too; give them "
        'another one: Paddock(tool_server="own_local")'
    )
    early = BlockingPaddock(workspace)
    early.tool(add)
    with pytest.raises(ConfigurationError) as caught, early:
        pass
    assert str(caught.value) == told
    with BlockingPaddock(workspace) as late:
        assert "local" in late.execute("return Object.keys(servers)").value or "disabled" in entry
        with pytest.raises(ConfigurationError) as caught:
            late.tool(add)
        assert str(caught.value) == told
        assert late.execute("return 1").ok  # nothing was added
    with BlockingPaddock(workspace, tool_server="own_local") as other:
        other.tool(add)
        assert other.execute("return await servers.own_local.add({a: 1})").value == 2


def test_policy_decides_on_functions(workspace):
    rules = [
        {"effect": "deny", "tool": "local/drop_*", "reason": "not today"},
        {"effect": "ask", "tool": "local/ask_me"},
    ]
    called = []
    settings = Settings(policy={"rule": rules})
    with BlockingPaddock(workspace, settings=settings) as opened:
        for name in ("drop_all", "ask_me", "look"):
            opened.tool(tool_name=name, read_only=name == "look")(make_function(called, name))
        assert failure(opened.execute("await servers.local.drop_all()")) == ("ToolError", "not today")
        assert opened.execute("await servers.local.ask_me()").status is Status.FAILED
        assert opened.execute("return Object.keys(servers.local)").value == ["ask_me", "look"]
        assert called == []
        rehearsed = opened.execute("await servers.local.look(); await servers.local.ask_me()", mode="dry_run")
        assert ([each.tool for each in rehearsed.planned], called) == (["ask_me"], ["look"])
        reading = opened.execute("await servers.local.look(); await servers.local.ask_me()", mode="read_only")
        assert (reading.status, called) == (Status.FAILED, ["look", "look"])
    narrow = Settings(grants={"servers": ["time"]})
    with BlockingPaddock(workspace, settings=narrow) as opened:
        opened.tool(add)
        told = failure(opened.execute("await servers.local.add({a: 1})"))[1]
        assert told.startswith("server local is not granted (granted: time)")


def test_each_call_is_on_the_record_before_it_runs(opened):
    seen = []

    @opened.tool
    async def look(a: int) -> None:
        audit = find_session(opened).gate.audit
        seen.extend(audit.query(event="started", limit=1))

    opened.execute("await servers.local.look({a: 1})")
    [record] = seen
    assert (record.fields["kind"], record.fields["name"]) == ("server", "local/look")
    [end] = opened.find_records(server="local", tool="look", event="finished")
    assert (end.request, end.fields["status"]) == (record.request, "ok")


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda a: a, "`a` has no type; annotate it"),
        (lambda *a: a, "`a` has no name in a call; use parameters with names"),
        (lambda **a: a, "`a` has no name in a call; use parameters with names"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused(opened, function, why):
    with pytest.raises(ValueError, match="f cannot be a tool: ") as caught:
        opened.tool(tool_name="f")(function)
    assert str(caught.value) == f"f cannot be a tool: {why}"


def test_types_without_a_schema_are_refused(opened):
    class Own:
        pass

    def take(own: Own) -> None:
        pass

    def give() -> Own:
        return Own()

    def later(own: "Missing") -> None:  # noqa: F821
        pass

    for function in (take, give, later):
        with pytest.raises(
            ValueError, match=f"{function.__name__} cannot be a tool: .*; annotate it with types"
        ):
            opened.tool(function)
    opened.tool(add)
    with pytest.raises(ValueError, match=r"there is a tool local\.add already"):
        opened.tool(add)
    for name in ("", "a b", "é", "x" * 65, "then()"):
        with pytest.raises(ValueError, match="cannot name a tool"):
            opened.tool(tool_name=name or " ")(add)
    with pytest.raises(ValueError, match="timeout_ms"):
        opened.tool(timeout_ms=0)(add)


def test_parameters_may_have_any_name(opened):
    @opened.tool
    def take(model_config: int, copy: int, json: int, self: int = 4) -> list[int]:
        return [model_config, copy, json, self]

    value = (
        opened.execute("return await servers.local.take({model_config: 1, copy: 2, json: 3})").check().value
    )
    assert value == [1, 2, 3, 4]


def test_the_decorator_returns_the_function(opened):
    assert opened.tool(add) is add
    assert opened.tool(tool_name="again")(add) is add
