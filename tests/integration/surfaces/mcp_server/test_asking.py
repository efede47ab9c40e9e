"""Rules that ask, over MCP: the person behind the client decides, in the way of each era."""

import asyncio
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import ElicitRequestParams, ElicitResult
from tests.support.mcp_server import ERAS, MODERN, Place

RULES = """
[[policy.rule]]
effect = "ask"
tool = "odd/echo"
reason = "echoes carry far"
"""
ECHO = "return await servers.odd.echo({text: 'hi'})"
CAUGHT = "try { %s } catch (e) { return [e.code, e.message] }"
ELICITING = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
INVALID = {
    "code": -32602,
    "message": "Invalid or expired requestState",
    "data": {"reason": "invalid_request_state"},
}


@pytest.fixture(autouse=True)
def _rules(place: Place) -> None:
    place.settings(RULES)


class Person:
    """Fills in forms as it is told."""

    def __init__(self, *results: ElicitResult) -> None:
        self.asked: list[ElicitRequestParams] = []
        self._results = iter(results)

    async def __call__(self, _context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params)
        return next(self._results)


def accept(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


async def over_both(place: Place, transport: str, mode: str, person: Person, *sources: str) -> list[Any]:
    """Return the data of programs that a client runs whose person is there."""
    if transport == "stdio":
        async with place.client(mode=mode, elicitation_callback=person) as client:
            return [await client.call_tool("execute_code", {"code": source}) for source in sources]
    async with place.web() as web, web.client(mode=mode, elicitation_callback=person) as client:
        return [await client.call_tool("execute_code", {"code": source}) for source in sources]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ERAS)
def test_a_person_allows_and_refuses(place: Place, transport: str, mode: str) -> None:
    person = Person(
        accept(allow="once"),
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        accept(),
        accept(allow="everything"),
        accept(allow="run"),
    )
    twice = "const a = await servers.odd.echo({text: 'a'}); return a + await servers.odd.echo({text: 'b'})"
    sources = [ECHO, *[CAUGHT % ECHO] * 4, twice]
    results = asyncio.run(over_both(place, transport, mode, person, *sources))
    values = [result.structured_content["value"] for result in results]
    refused = ["approval_denied", "echoes carry far: denied by the person at mcp 0.1.0"]
    # A form that does not say what is allowed is no refusal of the person.
    told = "echoes carry far: denied by mcp 0.1.0, whose form does not name an allowed scope"
    assert values == ["hi", *[refused] * 2, *[["approval_denied", told]] * 2, "ab"]
    first = person.asked[0]
    assert first.message.splitlines()[:2] == [
        "Paddock asks: may this run call odd/echo?",
        'With: {"text": "hi"}',
    ]
    assert first.requested_schema["properties"]["allow"]["oneOf"] == [
        {"const": "once", "title": "this call only"},
        {"const": "run", "title": "all such calls of this run"},
    ]


@pytest.mark.parametrize("mode", ERAS)
def test_a_person_sees_the_difference_that_a_program_wants_to_accept(place: Place, mode: str) -> None:
    place.settings('[runtimes]\naccess = "overlay"\n')
    person = Person(ElicitResult(action="decline"), accept(allow="once"))
    program = """
        const run = await paddock.exec("shell", "echo hello > new.txt", {access: "overlay"});
        return await paddock.changes.accept(run.changes.id).then(({paths}) => paths, ({message}) => message);
    """
    results = asyncio.run(over_both(place, "stdio", mode, person, program, program))
    needed = "accepting changes into the workspace needs a person's approval"
    assert [result.structured_content["value"] for result in results] == [
        f"{needed}: denied by the person at mcp 0.1.0",
        ["new.txt"],
    ]
    assert (place.workspace / "new.txt").read_text() == "hello\n"
    question = person.asked[0].message
    assert question.splitlines()[0] == "Paddock asks: may this run accept changes into the workspace?"
    assert "| +hello" in question.splitlines()
    assert needed in question


@pytest.mark.parametrize("tool", ["call_tool", "execute_code"])
def test_nothing_is_done_twice_when_a_program_goes_on(place: Place, tool: str) -> None:
    """What ran before the question has run once: the program waits, it is not started again."""
    if tool == "call_tool":
        call: dict[str, Any] = {"server": "odd", "tool": "echo", "args": {"text": "x"}}
    else:
        call = {"code": "const before = Math.random(); console.log('once'); " + ECHO.replace("'hi'", "'x'")}
    params = {"name": tool, "arguments": call, "_meta": ELICITING}

    async def main() -> dict[str, Any]:
        async with place.lines() as lines:
            first = (await lines.ask("tools/call", params))["result"]
            assert first["resultType"] == "input_required"
            request = first["inputRequests"]["approval"]
            assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "form")
            return (await lines.ask("tools/call", answered(params, first)))["result"]

    result = asyncio.run(main())
    assert result["resultType"] == "complete"
    if tool == "execute_code":
        assert (result["structuredContent"]["value"], result["structuredContent"]["console"]) == (
            "x",
            ["once"],
        )
    else:
        assert result["content"] == [{"type": "text", "text": "x"}]


def answered(
    params: dict[str, Any], result: dict[str, Any], action: str = "accept", **changes: Any
) -> dict[str, Any]:
    """Return the same call with the answer to its question."""
    response = {"action": action, "content": {"allow": "once"}}
    state = result["requestState"]
    return {**params, "requestState": state, "inputResponses": {"approval": response}, **changes}


def test_a_state_is_good_for_one_answer_to_one_call_of_one_client(place: Place) -> None:
    params = {
        "name": "execute_code",
        "arguments": {"code": CAUGHT % ECHO},
        "_meta": ELICITING,
    }
    somebody = {**ELICITING, "io.modelcontextprotocol/clientInfo": {"name": "other", "version": "1"}}

    async def main() -> None:
        async with place.lines() as lines:
            first = (await lines.ask("tools/call", params))["result"]
            state = first["requestState"]
            flipped = state[:-5] + ("A" if state[-5] != "A" else "B") + state[-4:]
            hostile = [
                answered(params, first, requestState=flipped),
                answered(params, first, requestState="v1." + "A" * 60),
                answered(params, first, requestState="x"),
                answered({**params, "arguments": {"code": "return 'another program'"}}, first),
                answered({**params, "name": "call_tool"}, first),
                answered({**params, "_meta": somebody}, first),
            ]
            for attempt in hostile:
                reply = await lines.ask("tools/call", attempt)
                assert reply["error"] == INVALID, attempt
            good = await lines.ask("tools/call", answered(params, first))
            assert good["result"]["structuredContent"]["value"] == "hi"
            replayed = await lines.ask("tools/call", answered(params, first))
            assert replayed["error"]["message"] == INVALID["message"]

    asyncio.run(main())


def test_a_repeated_call_without_an_answer_is_a_no(place: Place) -> None:
    params = {"name": "execute_code", "arguments": {"code": CAUGHT % ECHO}, "_meta": ELICITING}

    async def main() -> Any:
        async with place.lines() as lines:
            first = (await lines.ask("tools/call", params))["result"]
            return await lines.ask("tools/call", answered(params, first, inputResponses={}))

    value = asyncio.run(main())["result"]["structuredContent"]["value"]
    assert value == ["approval_denied", "echoes carry far: denied by lines 1, which returned no answer"]


def test_what_nobody_comes_back_for_ends(place: Place) -> None:
    place.settings("[approvals]\nwait_ms = 100\nmax_waiting = 1\n" + RULES)
    params = {"name": "execute_code", "arguments": {"code": ECHO}, "_meta": ELICITING}

    async def main() -> None:
        async with place.lines() as lines:
            first = (await lines.ask("tools/call", params))["result"]
            while "result" in (reply := await lines.ask("tools/call", params)):
                if reply["result"]["resultType"] == "input_required":
                    break  # the place of the first one is free again
            late = await lines.ask("tools/call", answered(params, first))
            assert late["error"]["message"] == INVALID["message"]

    asyncio.run(main())


def test_a_client_that_fails_to_ask_has_not_agreed(place: Place) -> None:
    class Broken(Person):
        async def __call__(self, _context: Any, params: ElicitRequestParams) -> ElicitResult:
            self.asked.append(params)
            raise MCPError(code=-1, message="no")

    async def main() -> Any:
        async with place.client(mode="legacy", elicitation_callback=Broken()) as client:
            return await client.call_tool("execute_code", {"code": CAUGHT % ECHO})

    code, message = asyncio.run(main()).structured_content["value"]
    assert (code, message) == ("approval_unavailable", "echoes carry far: asking failed (MCPError)")


OPTIONS = {"once": "this call only", "run": "all such calls of this run"}
FORMS: dict[str, dict[str, Any]] = {
    "2025-06-18": {"enum": [*OPTIONS], "enumNames": [*OPTIONS.values()]},
    "2025-11-25": {"oneOf": [{"const": scope, "title": title} for scope, title in OPTIONS.items()]},
}
"""How each revision writes the options of a form."""


@pytest.mark.parametrize("version", [*FORMS])
def test_each_revision_gets_the_form_that_it_knows(place: Place, version: str) -> None:
    async def main() -> tuple[Any, Any]:
        async with place.lines() as lines:
            await lines.begin(version, {"elicitation": {}})
            call = {"name": "execute_code", "arguments": {"code": ECHO}}
            number = lines.send("tools/call", call, modern=False)
            while (asked := await lines.receive()).get("method") != "elicitation/create":
                pass
            answer = {"action": "accept", "content": {"allow": "once"}}
            lines.write({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
            return asked["params"], (await lines.answer(number))["result"]

    params, result = asyncio.run(main())
    mode = {} if version < "2025-11-25" else {"mode": "form"}
    allow = {"type": "string", "title": "Allow", **FORMS[version]}
    schema = {"type": "object", "properties": {"allow": allow}, "required": ["allow"]}
    assert {name: value for name, value in params.items() if name not in {"message", "_meta"}} == {
        **mode,
        "requestedSchema": schema,
    }
    assert result["structuredContent"]["value"] == "hi"


@pytest.mark.parametrize("version", [*FORMS])
def test_the_choice_of_a_script_is_of_the_revision_too(place: Place, version: str) -> None:
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    for name in ("first", "second"):
        (scripts / f"{name}.js").write_text(f"return '{name}'")

    async def main() -> tuple[Any, str]:
        async with place.lines() as lines:
            await lines.begin(version, {"elicitation": {}})
            number = lines.send("prompts/get", {"name": "run-script"}, modern=False)
            while (asked := await lines.receive()).get("method") != "elicitation/create":
                pass
            answer = {"action": "accept", "content": {"script": "second"}}
            lines.write({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
            [message] = (await lines.answer(number))["result"]["messages"]
            return asked["params"]["requestedSchema"]["properties"]["script"], message["content"]["text"]

    field, text = asyncio.run(main())
    names = ["first", "second"]
    old: dict[str, Any] = {"enum": names, "enumNames": names}
    new: dict[str, Any] = {"oneOf": [{"const": name, "title": name} for name in names]}
    assert field == {"type": "string", **(old if version < "2025-11-25" else new)}
    assert "return 'second'" in text


def test_a_revision_without_elicitation_is_not_asked(place: Place) -> None:
    async def main() -> Any:
        async with place.lines() as lines:
            await lines.begin("2025-03-26", {"elicitation": {}})
            call = {"name": "execute_code", "arguments": {"code": ECHO}}
            return (await lines.ask("tools/call", call, modern=False))["result"]

    assert asyncio.run(main())["structuredContent"]["status"] == "waiting"
