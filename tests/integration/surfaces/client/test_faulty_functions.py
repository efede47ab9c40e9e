"""Python functions as tools of programs: what a faulty or hostile one cannot do, and no program with one."""

import asyncio
import itertools
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr
from tests.support.processes import PATIENCE_S

from paddock import BlockingPaddock, Settings, Status, ToolError
from paddock.engines.servers.calls import local

SECRET = "sk-live-0123456789abcdefABCDEF"


pytestmark = pytest.mark.usefixtures("home")


def failure(outcome):
    assert outcome.status is Status.FAILED, outcome
    return outcome.error.name, outcome.error.message


def add(a: int, b: Annotated[int, Field(description="what is added", ge=0)] = 1) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("{a: 'x'}", '`a` must be a whole number, not the text "x"'),
        ("{a: 1.5}", "`a` must be a whole number, not 1.5"),
        ("{a: 1, b: -1}", "`b`: -1 is less than the minimum of 0"),
        ("{a: 1, c: 2}", "`c` is unknown"),
        ("{}", "`a` is missing"),
        ("{a: true}", "`a` must be a whole number, not true"),
    ],
)
def test_wrong_arguments_never_reach_the_function(opened, call, told):
    called = []

    @opened.tool
    def add(a: int, b: Annotated[int, Field(ge=0)] = 1) -> int:
        called.append((a, b))
        return a + b

    name, message = failure(opened.execute(f"await servers.local.add({call})"))
    assert (name, message.startswith(f"local.add was not called: {told}")) == ("ToolError", True), message
    assert called == []
    assert opened.call("local", "add", {"a": "x"}).status is Status.INVALID


def test_what_no_schema_says_is_checked_by_the_types(opened):
    called = []

    @opened.tool
    def book(day: date) -> None:
        called.append(day)

    for text in ("2026-02-30", SECRET):
        name, message = failure(opened.execute("await servers.local.book({day: input})", input=text))
        assert name == "ToolError"
        assert message.startswith("local.book was not called: ")
        assert SECRET not in message
    assert called == []


def test_an_exception_stays_with_the_caller(opened, caplog):
    @opened.tool
    def fail() -> None:
        raise RuntimeError(SECRET)

    @opened.tool
    async def fail_too() -> None:
        raise ValueError(SECRET)

    for name in ("fail", "fail_too"):
        outcome = opened.execute(
            f"try {{ await servers.local.{name}() }} catch (e) {{ return [e.name, e.message, e.stack, {{...e}}] }}"
        )
        assert outcome.value[:2] == ["ToolError", "the tool failed and did not say why"]
        assert SECRET not in json.dumps(outcome.value)
        assert "RuntimeError" not in json.dumps(outcome.value)
        assert __file__ not in json.dumps(outcome.value)
    assert SECRET not in caplog.text
    lines = [
        record.getMessage().partition(" in ")[0]
        for record in caplog.records
        if record.name == "paddock.tools"
    ]
    assert lines == ["the tool local.fail raised RuntimeError", "the tool local.fail_too raised ValueError"]
    [end] = [
        record for record in opened.find_records(event="finished") if record.fields["name"] == "local/fail"
    ]
    assert (end.fields["status"], SECRET in str(end)) == ("failed", False)


def test_a_tool_error_says_why_without_secrets(opened):
    @opened.tool
    def fail(times: int) -> None:
        raise ToolError(f"no row for token={SECRET}\n" * times)

    name, message = failure(opened.execute("await servers.local.fail({times: 1})"))
    assert (name, message) == ("ToolError", "no row for token=[REDACTED:api-key]\n")
    message = failure(opened.execute("await servers.local.fail({times: 10000})"))[1]
    assert (SECRET in message, len(message) <= 2_000) == (False, True)
    assert (
        failure(opened.execute("await servers.local.fail({times: 0})"))[1]
        == "the tool failed and did not say why"
    )


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError]
)
def test_no_exception_ends_the_session(opened, kind):
    @opened.tool
    def fail() -> None:
        raise kind(SECRET)

    @opened.tool
    async def fail_too() -> None:
        raise kind(SECRET)

    for name in ("fail", "fail_too"):
        assert failure(opened.execute(f"await servers.local.{name}()")) == (
            "ToolError",
            "the tool failed and did not say why",
        )
    assert opened.execute("return 1").ok


def deep(levels: int) -> Any:
    value: Any = None
    for _ in range(levels):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "make",
    [object, lambda: {1, object()}, lambda: float("nan"), lambda: [float("inf")], circle, lambda: iter([1]),
     lambda: deep(100_000), lambda: {"f": open}, lambda: 10**5000, lambda: sys, lambda: b"\xff"],
)  # fmt: skip
def test_what_has_no_form_in_json_fails_the_call_alone(opened, make):
    @opened.tool
    def give() -> Any:
        return make()

    @opened.tool
    async def give_too() -> Any:
        return make()

    for name in ("give", "give_too"):
        told = failure(opened.execute(f"await servers.local.{name}()"))
        assert told == ("ToolError", "the tool returned a value that has no form in JSON")
    assert opened.execute("return 1").ok


def test_generators_are_no_values(opened):
    def count() -> Iterator[int]:
        yield 1

    with pytest.raises(
        ValueError, match=r"count cannot be a tool: .*Iterator\[int\]; annotate it with types that"
    ):
        opened.tool(count)

    @opened.tool(tool_name="count")
    def count_on() -> Any:
        return itertools.count()

    @opened.tool(tool_name="count_too")
    def count_too() -> Any:
        async def each() -> AsyncIterator[int]:
            while True:
                yield 1

        return each()

    for name in ("count", "count_too"):
        told = failure(opened.execute(f"await servers.local.{name}()"))
        assert told == ("ToolError", "the tool returned a value that has no form in JSON")


def test_huge_values_are_refused(workspace, monkeypatch):
    monkeypatch.setattr(local, "MAX_LINE_BYTES", 1_000_000)
    settings = Settings(servers={"answer_values": 1000})
    with BlockingPaddock(workspace, settings=settings) as opened:
        opened.tool(tool_name="long")(lambda: "x" * 2_000_000)
        opened.tool(tool_name="wide")(lambda: [0] * 100_000)
        for name, why in (
            ("long", "it has 2000002 bytes, and at most 1000000 are read"),
            ("wide", "it has more than 1000 values (servers.answer_values)"),
        ):
            told = failure(opened.execute(f"await servers.local.{name}()"))
            assert told == ("ToolError", f"local.{name} gave no whole answer: {why}; ask for less at once.")


def test_values_of_a_function_are_copies(opened):
    shared = {"rows": [1]}
    opened.tool(tool_name="give")(lambda: shared)
    value = opened.call("local", "give").value
    value["rows"].append(2)
    assert shared == {"rows": [1]}


def test_a_secret_of_pydantic_is_hidden(opened):
    class Login(BaseModel):
        user: str
        password: SecretStr

    @opened.tool
    def find_login() -> Login:
        return Login(user="ada", password=SecretStr(SECRET))

    assert opened.execute("return await servers.local.find_login()").value == {
        "user": "ada",
        "password": "**********",
    }


def test_what_blocks_is_not_waited_for(opened):
    release = threading.Event()

    @opened.tool(timeout_ms=100)
    def block() -> None:
        release.wait(600)

    @opened.tool(timeout_ms=100)
    async def wait() -> None:
        await asyncio.Event().wait()

    for name in ("block", "wait"):
        told = failure(opened.execute(f"await servers.local.{name}()"))
        assert told == ("ToolError", f"local.{name} did not finish within 100 ms. Ask for less at once.")
        assert opened.call("local", name).status is Status.TIMEOUT
    assert opened.execute("return 1").ok
    release.set()


def test_a_program_that_ends_leaves_its_call(opened):
    begun, release = threading.Event(), threading.Event()

    @opened.tool
    def block() -> None:
        begun.set()
        release.wait(600)

    @opened.tool
    def wait_for_block() -> bool:
        return begun.wait(PATIENCE_S)

    name, _ = failure(opened.execute("servers.local.block(); await servers.local.wait_for_block()"))
    assert (name, begun.is_set()) == ("UnawaitedCall", True)
    assert opened.execute("await servers.local.block()", timeout_ms=500).status is Status.TIMEOUT
    release.set()


def test_functions_that_block_for_ever_are_counted(opened, monkeypatch):
    monkeypatch.setattr(local, "MAX_RUNNING", 3)
    release = threading.Event()
    opened.tool(timeout_ms=50, tool_name="block")(lambda: release.wait(600))
    opened.tool(tool_name="free")(lambda: True)
    assert [opened.call("local", "block").status for _ in range(3)] == [Status.TIMEOUT] * 3
    full = opened.call("local", "block")
    assert (full.status, full.error.message) == (
        Status.UNAVAILABLE,
        "3 functions of local still run; call block again when one has ended.",
    )
    release.set()
    while (again := opened.call("local", "free")).status is Status.UNAVAILABLE:
        pass
    assert again.value is True


def test_five_timeouts_do_not_close_the_server(opened):
    release = threading.Event()
    opened.tool(timeout_ms=20, tool_name="block")(lambda: release.wait(600))
    opened.tool(add)
    for _ in range(6):
        assert opened.call("local", "block").status is Status.TIMEOUT
    assert opened.call("local", "add", {"a": 1}).value == 2
    release.set()


def test_leaving_does_not_wait_for_what_blocks(workspace):
    release = threading.Event()
    with BlockingPaddock(workspace) as opened:
        opened.tool(timeout_ms=50, tool_name="block")(lambda: release.wait(600))
        assert opened.call("local", "block").status is Status.TIMEOUT
    assert not release.is_set()
    release.set()
