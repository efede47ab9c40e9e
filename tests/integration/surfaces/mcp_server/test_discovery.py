"""Finding tools and learning how to call them."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.mcp_server import Place
from tests.support.servers import make_entry


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
    assert described.structured_content["notes"] == described.content[0].text.splitlines()[-1:]
    assert nothing.content[0].text == (
        "ok · 0 of 28 tools\nnothing found; try other words. Servers: odd (14 tools), even (14 tools)"
    )
    assert (unknown.is_error, unknown.content[0].text) == (
        True,
        "invalid\n// x: unknown; a name is SERVER.TOOL, and the servers are odd, even",
    )


SERVER = Path(__file__).resolve().parents[3] / "servers" / "turncoat.py"
HIDDEN = "Adds numbers.\u200b\u202e\U000e0069"
SPELLED = r"Adds numbers.\u{200b}\u{202e}\u{e0069}"
ODDITIES = [
    {"name": "adds", "description": HIDDEN, "inputSchema": {"type": "object"}},
    {"name": "get-sum", "inputSchema": {"properties": {"a": {"type": "string", "pattern": "(?!a)"}}}},
    {
        "name": "coded",
        "inputSchema": {"type": "object"},
        "x-error": {"code": -32050, "message": "try later", "data": {"retry": True}},
    },
]


def test_what_definitions_hide_or_leave_unchecked_and_what_errors_say_reaches_agents(place: Place) -> None:
    file = place.workspace / "oddities.json"
    file.write_text(json.dumps(ODDITIES))
    entry = make_entry("turncoat", file)
    place.servers({"g": entry, "off": {**entry, "disabled": True}})

    async def main() -> Any:
        async with place.client(mode="auto") as client:

            async def call(name: str, **arguments: Any) -> Any:
                return await client.call_tool(name, arguments)

            return [
                await call("search_tools", query="adds numbers"),
                await call("describe_tools", names=["g.adds", "g.get_sum"]),
                await call("search_tools", query="adds", server="off"),
                await call("call_tool", server="g", tool="get_sum", args={"a": "b"}),
                await call("call_tool", server="g", tool="coded"),
                await call("execute_code", code="await servers.g.coded({})"),
                await call("execute_code", code="return await servers.g.adds({})"),
            ]

    found, described, off, aliased, coded, thrown, refused = asyncio.run(main())
    warning = "g.adds has invisible characters in its definition; they are spelled out"
    assert found.content[0].text == f"ok · 1 of 3 tools\ng.adds() // {SPELLED}\nwarning: {warning}"
    assert found.structured_content == {
        "status": "ok",
        "tools": [{"server": "g", "tool": "adds", "signature": f"g.adds() // {SPELLED}"}],
        "notes": [f"warning: {warning}"],
    }
    assert described.content[0].text.splitlines() == [
        "ok · 2 of 2 tools",
        "// servers.g",
        f"/** {SPELLED} */",
        "adds(args?: Record<string, unknown>): Promise<unknown>; // output: unknown",
        f"// {warning}",
        "// calls are refused until a person accepts it (`paddock servers diff`, `paddock servers approve`)",
        "// servers.g",
        "get_sum(args?: {",
        "  a?: string;",
        '}): Promise<unknown>; // output: unknown; tool "get-sum"',
        '// arguments are not checked against `properties.a.pattern` "(?!a)"',
    ]
    assert off.content[0].text == (
        "invalid\nUnknown server: off; off is disabled in .mcp.json; `paddock servers enable off` enables it"
    )
    assert (aliased.is_error, [block.text for block in aliased.content]) == (
        False,
        ['{"a": "b"}', '[warn] g.get-sum: arguments are not checked against `properties.a.pattern` "(?!a)"'],
    )
    for answer in (coded, thrown):
        error = answer.structured_content["error"]
        assert (error["code"], error["data"]) == (-32050, {"retry": True})
        assert '\n  the server\'s error: code -32050, data {"retry":true}' in answer.content[0].text
    assert refused.structured_content["error"]["message"].startswith("Tool g.adds has invisible characters")


@pytest.mark.parametrize(
    ("flags", "name", "texts"),
    [
        (
            (),
            "call_tool",
            [
                '{"a": "b"}',
                '[warn] g.get-sum: arguments are not checked against `properties.a.pattern` "(?!a)"',
            ],
        ),
        (("--tool-names", "compat"), "mcp_call", ['{"a": "b"}']),
    ],
)
def test_an_alias_is_known_at_the_first_use_of_a_server(
    place: Place, flags: tuple[str, ...], name: str, texts: list[str]
) -> None:
    file = place.workspace / "oddities.json"
    file.write_text(json.dumps(ODDITIES))
    place.servers({"g": make_entry("turncoat", file)})

    async def main() -> Any:
        async with place.client(*flags) as client:
            return await client.call_tool(name, {"server": "g", "tool": "get_sum", "args": {"a": "b"}})

    answer = asyncio.run(main())
    assert (answer.is_error, [block.text for block in answer.content]) == (False, texts)


def test_more_tools_than_one_answer_lists_are_said_to_be_there(place: Place) -> None:
    tools = [{"name": f"find_{n}", "inputSchema": {"type": "object"}} for n in range(60)]
    file = place.workspace / "many.json"
    file.write_text(json.dumps(tools))
    place.servers({"g": make_entry("turncoat", file)})

    async def main() -> Any:
        async with place.client(mode="auto") as client:
            return await client.call_tool("search_tools", {"query": "find", "limit": 100})

    lines = asyncio.run(main()).content[0].text.splitlines()
    assert (lines[0], lines[-1], len(lines)) == (
        "ok · 50 of 60 tools",
        "note: an answer lists at most 50 tools; use a more precise query for others",
        52,
    )


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
            asked = [{"query": "x", "server": server} for server in ("odd", "evn", "nope")]
            answers = [await client.call_tool("search_tools", arguments) for arguments in asked]
            names = {"names": ["nope.echo", "odd.echoo", "even.zzzzz"]}
            answers.append(await client.call_tool("describe_tools", names))
            called = {"server": "nope", "tool": "echo", "args": {}}
            answers.append(await client.call_tool("call_tool", called))
            return [re.sub(r"\d+ ms · run \w+", "N ms", answer.content[0].text) for answer in answers]

    assert asyncio.run(main()) == [
        "ok · 0 of 14 tools\nnothing found; try other words. Servers: odd (14 tools)",
        "invalid\nUnknown server: evn; did you mean `even`?",
        "invalid\nUnknown server: nope\nthose there are: odd, even",
        "invalid\n// nope.echo: unknown; did you mean odd.echo or even.echo?\n"
        "// odd.echoo: unknown; did you mean odd.echo or odd.crash or odd.crash_once?\n"
        "// even.zzzzz: unknown; did you mean even.pid or even.long or even.hang?",
        "invalid · N ms\nUnknown server: nope\n  hint: those there are: odd, even",
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


def test_a_list_of_queries_gives_the_best_tool_of_each_first(place: Place) -> None:
    tools = [
        {"name": name, "description": text, "inputSchema": {"type": "object"}}
        for name, text in (
            ("open_issues", "List issues of a repository"),
            ("old_issues", "List old issues"),
            ("send", "Send a mail"),
        )
    ]
    file = place.workspace / "steps.json"
    file.write_text(json.dumps(tools))
    place.servers({"g": make_entry("turncoat", file)})

    async def main() -> Any:
        async with place.client(mode="auto") as client:
            asked = (
                {"queries": ["list issues", "send mail"]},
                {"query": "send mail", "queries": ["list issues"], "limit": 2},
                {"queries": []},
                {"server": "g"},
                {"queries": ["x"] * 13},
            )
            return [await client.call_tool("search_tools", arguments) for arguments in asked]

    answers = [answer.content[0].text.splitlines() for answer in asyncio.run(main())]
    first, second, third = (
        "g.old_issues() // List old issues",
        "g.send() // Send a mail",
        "g.open_issues() // List issues of a repository",
    )
    missing = "search_tools: `queries` is missing: give one short query for each step of the task"
    assert answers == [
        ["ok · 3 of 3 tools", first, second, third],
        ["ok · 2 of 3 tools", second, first],
        ["invalid", missing],
        ["invalid", missing],
        ["invalid", "search_tools: 13 queries are too many: give at most 12 at a time"],
    ]


def test_an_agents_first_search_is_answered_by_words_and_later_ones_by_meaning(place: Place) -> None:
    place.environment["PADDOCK_SERVERS_SEMANTIC_SEARCH"] = "auto"
    place.environment["XDG_CACHE_HOME"] = str(place.home / "cache")
    text = "Write to somebody by electronic mail"
    tools = [{"name": name, "description": text, "inputSchema": {"type": "object"}} for name in ("letter",)]
    tools.append(
        {"name": "clock", "description": "Current time in a zone", "inputSchema": {"type": "object"}}
    )
    file = place.workspace / "meaning.json"
    file.write_text(json.dumps(tools))
    place.servers({"g": make_entry("turncoat", file)})
    note = (
        "note: ranked by words only: the vectors of these tools are still being computed; search again later"
    )

    async def main() -> list[str]:
        async with place.client(mode="auto") as client:
            found: list[str] = []
            while not found or "search again later" in found[-1]:  # the model may take its time
                answer = await client.call_tool("search_tools", {"queries": ["email Anna"]})
                found.append(answer.content[0].text)
            return found

    first, *_, last = asyncio.run(main())
    assert first.splitlines()[0] == "ok · 0 of 2 tools"
    assert first.splitlines()[-1] == note
    assert last == f"ok · 1 of 2 tools\ng.letter() // {text}"
