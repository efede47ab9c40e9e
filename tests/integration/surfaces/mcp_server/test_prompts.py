"""Prompts and the completion of their arguments."""

import asyncio
import os
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import ElicitRequestParams, ElicitResult, PromptReference
from tests.support.mcp_server import ERAS, MODERN, Place

from paddock.engines.saved_scripts import MAX_SCRIPT_BYTES


@pytest.mark.parametrize("mode", ERAS)
def test_the_guide_and_the_scripts(place: Place, mode: str) -> None:
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    (scripts / "report.ts").write_text("return 'of ' + 'ghp_' + 'x'")
    (scripts / "leaky.js").write_text(f"return 'ghp_{'a' * 36}'")

    async def main() -> dict[str, Any]:
        async with place.client(mode=mode) as client:
            ref = PromptReference(name="run-script")
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("run-script", {"name": "nothing"})
            return {
                "listed": [prompt.name for prompt in (await client.list_prompts()).prompts],
                "guide": await client.get_prompt("write-program", {"server": "odd"}),
                "script": await client.get_prompt("run-script", {"name": "report"}),
                "leaky": await client.get_prompt("run-script", {"name": "leaky"}),
                "servers": (await client.complete(ref, {"name": "server", "value": "o"})).completion.values,
                "scripts": (await client.complete(ref, {"name": "name", "value": ""})).completion.values,
                "refused": str(refused.value),
            }

    seen = asyncio.run(main())
    assert seen["listed"] == ["write-program", "run-script"]
    guide = seen["guide"].messages[0].content.text
    assert guide.startswith("# Programs for execute_code\n")
    assert "\n## Tools of odd\n\nodd.echo() // Say it again\nodd.pid()\n" in guide
    assert seen["script"].messages[0].content.text == (
        "Run this program with execute_code and tell me what it returns.\n\n```ts\nreturn 'of ' + 'ghp_' + 'x'\n```\n"
    )
    assert "[REDACTED:github-token]" in seen["leaky"].messages[0].content.text
    assert (seen["servers"], seen["scripts"]) == (["odd"], ["leaky", "report"])
    assert seen["refused"] == "there is no script nothing; there are leaky, report"


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ERAS)
def test_a_person_chooses_the_script_that_was_left_out(place: Place, transport: str, mode: str) -> None:
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    for name in ("first", "second", "sj.drihT\u202e"):
        (scripts / f"{name}.js").write_text(f"return '{name}'")
    asked: list[ElicitRequestParams] = []
    results = iter(
        [
            ElicitResult(action="accept", content={"script": "second"}),
            ElicitResult(action="decline"),
            ElicitResult(action="accept", content={"script": "../second"}),
        ]
    )

    async def person(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params)
        return next(results)

    async def ask(client: Any) -> list[str]:
        got = [(await client.get_prompt("run-script")).messages[0].content.text]
        for _ in range(2):
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("run-script")
            got.append(str(refused.value))
        return got

    async def main() -> list[str]:
        if transport == "stdio":
            async with place.client(mode=mode, elicitation_callback=person) as client:
                return await ask(client)
        async with place.web() as web, web.client(mode=mode, elicitation_callback=person) as client:
            return await ask(client)

    assert asyncio.run(main()) == [
        "Run this program with execute_code and tell me what it returns.\n\n```js\nreturn 'second'\n```\n",
        "name a script; there are first, second, sj.drihT\u202e",
        "there is no script ../second; there are first, second, sj.drihT\u202e",
    ]
    titles = {"first": "first", "second": "second", "sj.drihT\u202e": "sj.drihT\\u202e"}
    choice = {"type": "string", "oneOf": [{"const": name, "title": title} for name, title in titles.items()]}
    schema = {"type": "object", "properties": {"script": choice}, "required": ["script"]}
    assert [(each.message, each.requested_schema) for each in asked] == [
        ("Which script should run?", schema)
    ] * 3


@pytest.mark.parametrize("mode", ERAS)
def test_who_cannot_be_asked_is_told_which_scripts_there_are(place: Place, mode: str) -> None:
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    (scripts / "first.js").write_text("return 1")

    async def main() -> str:
        async with place.client(mode=mode) as client:
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("run-script")
            return str(refused.value)

    assert asyncio.run(main()) == "name a script; there are first"


def eliciting() -> dict[str, Any]:
    capabilities = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    return {"name": "run-script", "_meta": {**MODERN, **capabilities}}


def answered(result: dict[str, Any]) -> dict[str, Any]:
    response = {"action": "accept", "content": {"script": "first"}}
    return {**eliciting(), "requestState": result["requestState"], "inputResponses": {"script": response}}


def test_an_answer_is_for_its_prompt_alone_and_good_once(place: Place) -> None:
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    (scripts / "first.js").write_text("return 1")

    async def main() -> None:
        async with place.lines() as lines:
            first = (await lines.ask("prompts/get", eliciting()))["result"]
            hostile = [
                ("prompts/get", {**answered(first), "name": "write-program"}),
                ("prompts/get", {**answered(first), "requestState": "v1." + "A" * 60}),
                ("tools/call", {**answered(first), "name": "execute_code", "arguments": {"code": "1"}}),
            ]
            for method, params in hostile:
                assert (await lines.ask(method, params))["error"][
                    "message"
                ] == "Invalid or expired requestState"
            good = (await lines.ask("prompts/get", answered(first)))["result"]
            assert "return 1" in good["messages"][0]["content"]["text"]
            again = await lines.ask("prompts/get", answered(first))
            assert again["error"]["message"] == "Invalid or expired requestState"

    asyncio.run(main())


def test_what_waits_for_clients_is_bounded(place: Place) -> None:
    """Nobody fills the memory by asking to be asked and staying away."""
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    (scripts / "first.js").write_text("return 1")

    async def main() -> None:
        async with place.lines() as lines:
            asked = [(await lines.ask("prompts/get", eliciting()))["result"] for _ in range(64)]
            assert {each["resultType"] for each in asked} == {"input_required"}
            refused = await lines.ask("prompts/get", eliciting())
            assert refused["error"]["message"] == "name a script; there are first"
            assert "result" in await lines.ask("prompts/get", answered(asked[0]))
            assert "result" in await lines.ask("prompts/get", eliciting())

    asyncio.run(main())


def test_who_does_not_come_back_in_time_is_not_waited_for(place: Place) -> None:
    place.settings("[approvals]\nwait_ms = 100\n")
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    (scripts / "first.js").write_text("return 1")

    async def main() -> None:
        async with place.lines() as lines:
            asked: list[dict[str, Any]] = []
            while len(asked) <= 64:  # of which 64 can wait: then the first no longer does
                reply = await lines.ask("prompts/get", eliciting())
                asked += [reply["result"]] if "result" in reply else []
            late = await lines.ask("prompts/get", answered(asked[0]))
            assert late["error"]["message"] == "Invalid or expired requestState"

    asyncio.run(main())


def test_a_script_that_would_fill_memory(place: Place) -> None:
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    (scripts / "huge.ts").touch()
    os.truncate(scripts / "huge.ts", MAX_SCRIPT_BYTES + 1)
    told = f"^huge: cannot read this script: larger than {MAX_SCRIPT_BYTES} bytes$"

    async def main() -> None:
        async with place.client() as client:
            with pytest.raises(MCPError, match=told):
                await client.get_prompt("run-script", {"name": "huge"})
            with pytest.raises(MCPError, match=told):
                await client.read_resource("paddock://scripts/huge")

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_a_script_has_one_name_everywhere_whatever_its_file_is_called(place: Place, mode: str) -> None:
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    with open(os.fsencode(scripts) + b"/a\xff.js", "w") as file:  # noqa: PTH123 - a path cannot name it
        file.write("return 1")
    name = "a\ufffd"

    async def main() -> None:
        async with place.web() as web, web.client(mode=mode) as client:
            ref = PromptReference(name="run-script")
            completed = (await client.complete(ref, {"name": "name", "value": "a"})).completion.values
            with pytest.raises(MCPError, match=f"^name a script; there are {name}$"):
                await client.get_prompt("run-script")
            [_, listed] = (await client.list_resources()).resources
            got = await client.get_prompt("run-script", {"name": name})
            read = await client.read_resource(listed.uri)
            assert (completed, listed.name, read.contents[0].text) == ([name], name, "return 1")
            assert "return 1" in got.messages[0].content.text

    asyncio.run(main())
