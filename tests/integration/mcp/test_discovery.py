"""Finding tools and learning how to call them."""

import asyncio
import json
from typing import Any

from .conftest import Place


def test_tools_are_found_described_and_called(place: Place) -> None:
    async def main() -> Any:
        async with place.client(mode="auto") as client:
            found = await client.call_tool("search_tools", {"query": "say something again", "server": "even"})
            described = await client.call_tool("describe_tools", {"names": ["odd.echo", "odd.ecco"]})
            nothing = await client.call_tool("search_tools", {"query": "zebra"})
            return found, described, nothing, await client.call_tool("describe_tools", {"names": ["x"]})

    found, described, nothing, unknown = asyncio.run(main())
    assert found.content[0].text == "ok · 1 of 14 tools\neven.echo() // Say it again"
    assert found.structured_content == {
        "status": "ok",
        "tools": [{"server": "even", "tool": "echo", "signature": "even.echo() // Say it again"}],
    }
    assert described.content[0].text.splitlines() == [
        "ok · 1 of 2 tools",
        "// servers.odd",
        "/** Say it again */",
        "echo(args?: Record<string, unknown>): Promise<unknown>; // output: unknown",
        "// odd.ecco: unknown; did you mean odd.echo or odd.long or odd.is_error?",
    ]
    assert nothing.content[0].text == (
        "ok · 0 of 28 tools\nnothing found; try other words. Servers: odd (14 tools), even (14 tools)"
    )
    assert (unknown.is_error, unknown.content[0].text) == (True, "invalid\n// x: unknown")


def test_a_server_that_cannot_be_asked_is_named(place: Place) -> None:
    place.servers({"gone": {"command": "/no/such"}})

    async def main() -> None:
        async with place.client() as client:
            found = await client.call_tool("search_tools", {"query": "anything"})
            assert found.content[0].text.startswith(
                "ok · 0 of 0 tools\nno server offers any tool\nnot available: gone: "
            )
            described = await client.call_tool("describe_tools", {"names": ["gone.tool"]})
            told = described.content[0].text
            assert told.startswith("invalid\n// gone.tool: unknown\nnot available: gone: ")

    asyncio.run(main())


def test_one_server_is_searched_alone_and_one_that_there_is_not_is_told(place: Place) -> None:
    async def main() -> list[str]:
        async with place.client() as client:
            asked = ({"query": "zebra", "server": "odd"}, {"query": "again", "server": "evn"})
            answers = [await client.call_tool("search_tools", arguments) for arguments in asked]
            return [answer.content[0].text for answer in answers]

    assert asyncio.run(main()) == [
        "ok · 0 of 14 tools\nnothing found; try other words. Servers: odd (14 tools)",
        "invalid\nUnknown server: evn; did you mean `even`?",
    ]


def test_a_declaration_says_where_a_program_finds_its_server(place: Place) -> None:
    odd = json.loads((place.workspace / ".mcp.json").read_text())["mcpServers"]["odd"]
    place.servers({"odd": odd, "odd.one": odd, "odd-two": odd})

    async def main() -> None:
        async with place.client() as client:
            names = ["odd.one.pid", "odd-two.pid", "odd.pid"]
            described = await client.call_tool("describe_tools", {"names": names})
            lines = described.content[0].text.splitlines()
            members = [line.removeprefix("// ") for line in lines if line.startswith("// ")]
            assert members == ['servers["odd.one"]', 'servers["odd-two"]', "servers.odd"]
            code = f"return [{', '.join(f'await {member}.pid()' for member in members)}]"
            result = await client.call_tool("execute_code", {"code": code})
            assert len(set(result.structured_content["value"])) == 3

    asyncio.run(main())


def test_names_that_are_not_described_are_counted(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:
            many = await client.call_tool("describe_tools", {"names": ["odd.echo"] * 60})
            lines = many.content[0].text.splitlines()
            assert (lines[0], lines[-1]) == ("ok · 50 of 60 tools", "[10 more left out; ask for fewer]")
            none = await client.call_tool("describe_tools", {"names": []})
            assert (none.is_error, none.content[0].text) == (True, "invalid\n`names` is empty")

    asyncio.run(main())
