"""Script tools over MCP: tools of their own, that come and go while the server runs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.mcp_server import ERAS, Lines, Place
from tests.support.processes import PATIENCE_S

from paddock.engines.script_tools.authoring import create

FOLDER = ".paddock/tools"
SECRET = f"ghp_{'a' * 36}"
CHANGED = "notifications/tools/list_changed"


def tool(place: Place, name: str, script: str, **manifest: Any) -> Path:
    """Make a script tool."""
    directory = place.workspace / FOLDER / name
    directory.mkdir(parents=True)
    (directory / "script.py").write_text(script)
    fields = {"id": name, "name": name, "script": "script.py", **manifest}
    (directory / "tool.yaml").write_text(json.dumps(fields))
    return directory


def told(result: Any) -> tuple[str, Any, bool]:
    [block] = result.content
    return block.text, result.structured_content, result.is_error


@pytest.mark.parametrize("mode", ERAS)
def test_script_tools_are_listed_and_run(place: Place, mode: str) -> None:
    create(place.workspace / FOLDER, "word_count", "python")
    tool(place, "plain", "print('hello')", description=f"Says hello with {SECRET}.")
    tool(place, "silent", "")
    tool(place, "fails", "raise SystemExit('it broke')")
    tool(place, "off", "", enabled=False)
    tool(place, "compute", "print('not the built-in one')")
    tool(place, "beyond", "", network="full")

    async def main() -> None:
        async with place.client(mode=mode) as client:
            listed = {each.name: each for each in (await client.list_tools()).tools}
            assert [*listed][-6:] == ["compute", "beyond", "fails", "plain", "silent", "word_count"]
            assert listed["word_count"].input_schema == {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "The text whose words are counted."}
                },
                "required": ["text"],
            }
            assert listed["plain"].description == "Says hello with [REDACTED:github-token]."
            assert told(await client.call_tool("word_count", {"text": "a few more words"})) == (
                '{"words":4}',
                {"words": 4},
                False,
            )
            assert told(await client.call_tool("plain", {})) == (
                '{"output":"hello"}',
                {"output": "hello"},
                False,
            )
            assert told(await client.call_tool("silent", {})) == (
                "(the script printed nothing)",
                None,
                False,
            )
            for name, arguments, why in [
                ("word_count", {"text": 5}, "Field 'text': expected string, got integer"),
                ("fails", {}, "it broke"),
                ("beyond", {}, "network"),
            ]:
                text, data, failed = told(await client.call_tool(name, arguments))
                assert (why in text, data["status"] != "ok", failed) == (True, True, True), text
            assert told(await client.call_tool("off", {}))[0].startswith("Unknown tool: off")
            assert told(await client.call_tool("compute", {"source": "emit('x')"}))[0] == "x"

    asyncio.run(main())


def test_what_is_put_back_after_a_script_is_told(place: Place) -> None:
    script = "import os; os.mkdir(os.environ['PADDOCK_WORKSPACE'] + '/.vscode'); print('hello')"
    tool(place, "plants", script, workspace="workspace-write")
    place.settings('[tools]\naccess = "workspace-write"\n')

    async def main() -> list[str]:
        async with place.client(mode=ERAS[0]) as client:
            return [block.text for block in (await client.call_tool("plants", {})).content]

    put_back = "restored, because your own tools run or trust it: .vscode"
    assert asyncio.run(main()) == ['{"output":"hello"}', put_back]


def test_the_names_of_the_seed_come_alone(place: Place) -> None:
    create(place.workspace / FOLDER, "word_count", "python")

    async def main() -> None:
        async with place.client("--tool-names", "compat") as client:
            assert "word_count" not in {each.name for each in (await client.list_tools()).tools}
            assert told(await client.call_tool("word_count", {"text": "a b"}))[0] == '{"words":2}'

    asyncio.run(main())


def test_a_hostile_tool_spoils_no_list(place: Place) -> None:
    create(place.workspace / FOLDER, "word_count", "python")
    deep: Any = {}
    for _ in range(50):
        deep = {"properties": {"a": deep}}
    for name, schema in {
        "deep": deep,
        "large": {"description": "x" * 100_000},
        "half": {"description": "\ud800", "properties": {"\udfff": {}}},
        "list": {"type": "array"},
    }.items():
        directory = tool(place, name, "", description="y" * 5000)
        (directory / "schema.json").write_text(json.dumps(schema))
    tool(place, "halves", "", description="\ud800")
    nested = '{"a":' * 400 + "1" + "}" * 400  # too deep to be more than text
    tool(place, "nested", f"print({nested!r})")

    async def main() -> None:
        async with place.client() as client:
            listed = {each.name: each for each in (await client.list_tools()).tools}
            for name in ("deep", "large", "list"):
                assert (name, listed[name].input_schema) == (name, {"type": "object"})
            assert "half" not in listed  # it is broken: no JSON Schema holds half a character
            assert listed["halves"].description == "\ufffd"
            assert len(listed["large"].description) < 1100
            text, data, failed = told(await client.call_tool("nested", {}))
            assert (json.loads(text), data, failed) == ({"output": nested}, {"output": nested}, False)

    asyncio.run(main())


async def names(lines: Lines, *, modern: bool) -> set[str]:
    listing = await lines.ask("tools/list", {}, modern=modern)
    return {each["name"] for each in listing["result"]["tools"]}


def test_changes_are_announced_to_who_shook_hands(place: Place) -> None:
    async def main() -> None:
        async with place.lines() as lines:
            hello = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "l", "version": "1"},
            }
            answer = await lines.ask("initialize", hello, modern=False)
            assert answer["result"]["capabilities"]["tools"] == {"listChanged": True}
            lines.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
            assert "word_count" not in await names(lines, modern=False)
            directory = create(place.workspace / FOLDER, "word_count", "python")
            assert await lines.receive() == {"jsonrpc": "2.0", "method": CHANGED}
            assert "word_count" in await names(lines, modern=False)
            (directory / "tool.yaml").unlink()
            assert await lines.receive() == {"jsonrpc": "2.0", "method": CHANGED}
            assert "word_count" not in await names(lines, modern=False)

    asyncio.run(main())


def test_changes_are_announced_to_who_listens(place: Place) -> None:
    async def main() -> None:
        async with place.lines() as lines:
            assert "word_count" not in await names(lines, modern=True)
            stream = lines.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            acknowledged = await lines.receive()
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            create(place.workspace / FOLDER, "word_count", "python")
            changed = await lines.receive()
            meta = {"io.modelcontextprotocol/subscriptionId": stream}
            assert changed == {"jsonrpc": "2.0", "method": CHANGED, "params": {"_meta": meta}}
            assert "word_count" in await names(lines, modern=True)

    asyncio.run(main())


def test_changes_are_announced_over_http(place: Place) -> None:
    async def main() -> None:
        heard = asyncio.Event()

        async def listen(message: Any) -> None:
            if getattr(message, "method", "") == CHANGED:
                heard.set()

        async with place.web() as web, web.client(message_handler=listen) as client:
            await client.list_tools()
            create(place.workspace / FOLDER, "word_count", "python")
            await asyncio.wait_for(heard.wait(), PATIENCE_S)

    asyncio.run(main())


def test_a_script_tool_changes_an_overlay(place: Place) -> None:
    script = "import os; open(os.environ['PADDOCK_WORKSPACE'] + '/made', 'w').close(); print('hello')"
    tool(place, "makes", script, workspace="overlay")
    place.settings('[tools]\naccess = "overlay"\n')

    async def main() -> list[str]:
        async with place.client(mode=ERAS[0]) as client:
            return [block.text for block in (await client.call_tool("makes", {})).content]

    output, changed = asyncio.run(main())
    assert output == '{"output":"hello"}'
    assert changed.startswith("changes: 1 added; the workspace is as before: paddock changes show changes-")
    assert not (place.workspace / "made").exists()
