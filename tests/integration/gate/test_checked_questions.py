"""A person is asked only about work that can run: names, definitions and arguments are checked before the question."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import make_entry, write_servers
from tests.support.session import SessionRunner

from paddock.gate.script_tool_service import make_tool_run, open_library
from paddock.model.approval import Answer, Question
from paddock.model.outcome import Outcome, Status
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall
from paddock.model.work_files import InputFile
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import AuditSettings, SdkSettings, ServerSettings, Settings

MESSAGE = {
    "type": "object",
    "properties": {"message": {"type": "string", "maxLength": 8}},
    "required": ["message"],
}
ECHO = {"name": "echo", "description": "Says it again.", "inputSchema": MESSAGE}
BYTES = {"name": "read-all", "description": "Reads.", "inputSchema": {"type": "object"}}
RULES = (
    Rule(effect="ask", tool="g/*", reason="people decide"),
    Rule(effect="ask", runtime="*"),
    Rule(effect="ask", method="vault.*"),
    Rule(effect="ask", script="count"),
)  # fmt: skip
CAUGHT = "try { return await %s } catch (e) { return e.message }"


class Desk(SessionRunner):
    """A session with rules that ask, and a person who says yes."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "ws")
        self.asked: list[str] = []
        self.tools = directory / "tools.json"
        self.list_tools(ECHO, BYTES)
        folder = self.workspace / ".paddock" / "tools" / "count"
        folder.mkdir(parents=True)
        (folder / "tool.yaml").write_text("id: count\nname: Count\nscript: count.sh\ndescription: Counts.\n")
        (folder / "schema.json").write_text(json.dumps(MESSAGE))
        (folder / "count.sh").write_text("cat\n")
        write_servers(self.workspace, {"g": make_entry("turncoat", self.tools)})
        self.settings = Settings(
            audit=AuditSettings(directory=directory / "audit"),
            servers=ServerSettings(state=directory / "state"),
            sdk=SdkSettings(execute=("*",)),
            policy=PolicySettings(rule=RULES),
        )
        self.start(self.settings)

    def list_tools(self, *tools: Any) -> None:
        self.tools.write_text(json.dumps(tools))

    def run(self, work: Any) -> Outcome:
        async def agree(question: Question) -> Answer:
            self.asked.append(question.what)
            return Answer(verdict="once", by="the test")

        return self.execute(ExecutionRequest(workspace=self.workspace, work=work), asker=agree)

    @property
    def starts(self) -> int:
        return self.session.servers.server_statuses()["g"].starts


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as opened:
        yield opened


SIGNATURE = "Its signature: g.echo({ message: string })"
INVALID_CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "name": ("ecoh", {"mesage": "x"}, "Server g has no tool 'ecoh'; did you mean `echo`?"),
    "argument": (
        "echo",
        {"mesage": "x"},
        f"g.echo was not called: `message` is missing; `mesage` was given: did you mean `message`? {SIGNATURE}",
    ),
    "type": ("echo", {"message": 1}, f"g.echo was not called: `message` must be a text, not 1. {SIGNATURE}"),
    "size": (
        "echo",
        {"message": "x" * 9},
        f'g.echo was not called: `message`: "xxxxxxxxx" is longer than 8 characters. {SIGNATURE}',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments", "why"), INVALID_CALLS.values(), ids=INVALID_CALLS)
@pytest.mark.parametrize("in_program", [False, True])
def test_nobody_is_asked_about_a_call_that_is_invalid(
    desk: Desk, tool: str, arguments: dict[str, Any], why: str, *, in_program: bool
) -> None:
    if in_program:
        outcome = desk.run(GuestRun(source=CAUGHT % f"servers.g.{tool}({json.dumps(arguments)})"))
        assert (outcome.value, [call.status for call in outcome.calls]) == (why, [Status.INVALID])
    else:
        outcome = desk.run(ServerCall(server="g", tool=tool, arguments=arguments))
        assert (outcome.status, outcome.error and outcome.error.message) == (Status.INVALID, why)
    assert (desk.asked, desk.starts) == ([], 1)


def test_the_check_and_the_call_use_one_connection(desk: Desk) -> None:
    outcome = desk.run(ServerCall(server="g", tool="echo", arguments={"message": "x"}))
    assert (outcome.value, desk.asked, desk.starts) == ({"message": "x"}, ["call g/echo"], 1)


def test_a_person_is_asked_by_the_own_name_of_a_tool(desk: Desk) -> None:
    outcome = desk.run(ServerCall(server="g", tool="read_all", arguments={}))
    assert (outcome.status, desk.asked) == (Status.OK, ["call g/read-all"])


def test_nobody_is_asked_about_a_tool_that_changed(desk: Desk) -> None:
    work = ServerCall(server="g", tool="echo", arguments={"message": "x"})
    assert desk.run(work).ok
    desk.list_tools({**ECHO, "description": "Sends it away."}, BYTES)
    desk.start(desk.settings)
    outcome = desk.run(work)
    assert outcome.status is Status.DENIED
    assert outcome.error is not None
    assert outcome.error.message.startswith("Tool g.echo is not what it was when it was first used")
    assert desk.asked == ["call g/echo"]


def test_nobody_is_asked_about_bytes_that_a_tool_does_not_take(desk: Desk) -> None:
    outcome = desk.run(GuestRun(source=CAUGHT % "servers.g.echo({message: new Uint8Array(2)})"))
    assert outcome.value == (
        "g.echo was not called: `arguments.message` holds bytes, but its schema does not declare them as base64"
        " (`contentEncoding: base64` or `format: byte`): write bytes.toBase64(), or [...bytes]"
    )
    assert desk.asked == []


def test_nobody_is_asked_about_a_server_that_does_not_exist(desk: Desk) -> None:
    outcome = desk.run(ServerCall(server="gg", tool="echo", arguments={}))
    assert (outcome.status, desk.asked) == (Status.INVALID, [])


def test_nobody_is_asked_about_a_script_tool_with_wrong_inputs(desk: Desk) -> None:
    library = open_library(desk.settings.tools, desk.workspace)
    outcome = desk.run(make_tool_run(library, "count", {"mesage": "x"}))
    assert outcome.status is Status.INVALID
    assert outcome.error is not None
    assert outcome.error.message.startswith("Input validation failed: ")
    assert desk.asked == []
    assert desk.run(make_tool_run(library, "count", {"message": "x"})).value == {"message": "x"}
    assert desk.asked == ["run the script tool count (workspace none, network none)"]


INVALID_PROGRAMS: dict[str, tuple[RuntimeRun, Status, str]] = {
    "directory": (
        RuntimeRun(runtime="python", code="1", cwd="nowhere"),
        Status.DENIED,
        "nowhere",
    ),
    "session": (
        RuntimeRun(runtime="python", code="1", session="s_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        Status.INVALID,
        "there is no such session, or it belongs to another caller",
    ),
    "language without sessions": (
        RuntimeRun(runtime="rust", code="1", session="new"),
        Status.INVALID,
        "rust has no sessions",
    ),
    "stored file": (
        RuntimeRun(runtime="python", code="1", files=(InputFile(path="a", artifact="artifact:none"),)),
        Status.INVALID,
        "",
    ),
}


@pytest.mark.parametrize(("work", "status", "why"), INVALID_PROGRAMS.values(), ids=INVALID_PROGRAMS)
def test_nobody_is_asked_about_a_program_that_cannot_run(
    desk: Desk, work: RuntimeRun, status: Status, why: str
) -> None:
    outcome = desk.run(work)
    assert outcome.error is not None
    assert (outcome.status, why in outcome.error.message, desk.asked) == (status, True, [])


INVALID_METHODS: dict[str, tuple[SdkCall, str]] = {
    "name": (SdkCall(method="vault.gt", arguments=("x",)), "paddock.vault.gt does not exist; "),
    "number": (SdkCall(method="vault.get"), "paddock.vault.get(name, options?): wrong number of arguments (0)"),
    "type": (SdkCall(method="vault.get", arguments=(1,)), "paddock.vault.get: name must be a string, not a number"),
    "options": (SdkCall(method="vault.get", arguments=("x", 1)), "paddock.vault.get: "),
}  # fmt: skip


@pytest.mark.parametrize(("work", "why"), INVALID_METHODS.values(), ids=INVALID_METHODS)
def test_nobody_is_asked_about_a_method_with_wrong_arguments(desk: Desk, work: SdkCall, why: str) -> None:
    outcome = desk.run(work)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message[: len(why)], desk.asked) == (Status.INVALID, why, [])
