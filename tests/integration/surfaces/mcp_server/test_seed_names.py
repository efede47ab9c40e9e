"""`--tool-names compat`: the seed's tools with the seed's texts (spec 2.5). Its programs run as they were written."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.mcp_server import Place

TYPE = {
    "mcp_discover": [],
    "mcp_provision": ["intent"],
    "mcp_call": ["server", "tool"],
    "mcp_execute": ["code"],
    "sdl.runtime.execute": ["repoId", "runtime"],
    "sdl.runtime.queryOutput": ["artifactHandle"],
    "code.sandbox.js.run": ["source"],
}

TEXTS = {
    "x1": ("return 1 + 1", "2"),
    "x2": ("console.log('hello'); return 42", "hello\n42"),
    "x3": (
        "console.log('a');console.warn('b');console.error('c');console.info('d');console.debug('e')",
        "a\n[warn] b\n[error] c\n[info] d\n[debug] e",
    ),
    "x4": ("const x = 1", "(no output)"),
    "x5": ("return {a:[1,2]}", '{\n  "a": [\n    1,\n    2\n  ]\n}'),
    "x6": ("return 'str'", "str"),
    "x11": ("return typeof SharedArrayBuffer + typeof WebAssembly", "undefinedundefined"),
    "x19": ("//" + "x" * (50 * 1024 - 11) + "\nreturn 1", "1"),
    "x22": ("const t=Date.now(); await sleep(100); return Date.now()-t >= 50", "true"),
    "x23": ("return await new Promise(r=>setTimeout(()=>r(42),10))", "42"),
    "x24": ("const h=setTimeout(()=>console.log('no'),5); clearTimeout(h); await sleep(20)", "(no output)"),
    "x26": (
        "return (await Promise.all([servers.odd.call('echo', {text: 'a'}), servers.even.call('echo', {text: 'b'})]))"
        ".map(r => r.content[0].text).join()",
        "a,b",
    ),
    "x27": (
        "const r = await servers.odd.call('is_error', {}); return [r.isError, r.content[0].text].join()",
        "true,it broke",
    ),
    "unserialisable": ("return () => 1", "(no output)"),
    "nan": ("return NaN", "null"),
}

FAILURES = {
    "x7": (
        "return require('fs')",
        "mcp_execute error: Sandbox error: ReferenceError: require is not defined",
    ),
    "x8": (
        "return this.constructor.constructor('return process')()",
        "mcp_execute error: Sandbox error: TypeError: Cannot read properties of undefined (reading 'constructor')",
    ),
    "x10": (
        "return eval('1+1')",
        "mcp_execute error: Sandbox error: EvalError: Code generation from strings disallowed for this context",
    ),
    "x18": ("//" + "x" * 51 * 1024, "mcp_execute error: Code size exceeds limit (51200 bytes)"),
    "x25": (
        "return await servers.nonexistent.call('t',{})",
        "mcp_execute error: Sandbox error: Unknown server: nonexistent",
    ),
    "x40": ("console.log(1); throw new Error('x')", "mcp_execute error: Sandbox error: x"),
    "big": (
        "return 1n",
        "mcp_execute error: Sandbox error: TypeError: Do not know how to serialize a BigInt",
    ),
}


def text(result: Any) -> str:
    [block] = result.content
    return block.text


def in_seed(place: Place, *calls: tuple[str, dict[str, Any]], mode: str = "legacy") -> list[Any]:
    """Return the results of calls of one server with the seed's names."""

    async def main() -> list[Any]:
        async with place.client("--tool-names", "compat", mode=mode) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("flags", "listed"),
    [
        ((), "execute_code"),
        (("--tool-names", "default"), "execute_code"),
        (("--names", "native"), "execute_code"),
        (("--tool-names", "compat"), "mcp_execute"),
        (("--tool-names", "seed"), "mcp_execute"),
        (("--names", "compat"), "mcp_execute"),
        (("--names", "seed"), "mcp_execute"),
    ],
)
def test_both_spellings_of_the_option_and_its_values_are_understood(
    place: Place, flags: tuple[str, ...], listed: str
) -> None:
    async def main() -> set[str]:
        async with place.client(*flags) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert asyncio.run(main()) & {"execute_code", "mcp_execute"} == {listed}


def test_the_names_and_schemas_of_the_seed(place: Place) -> None:
    async def main() -> None:
        async with place.client("--tool-names", "compat") as client:
            tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            assert {name: schema["required"] for name, schema in tools.items()} == TYPE
            assert tools["mcp_call"]["properties"] == {
                "server": {"type": "string"},
                "tool": {"type": "string"},
                "args": {"type": "object"},
            }

    asyncio.run(main())


def test_x1_x2_x3_x4_x5_x6_x11_x19_x22_x23_x24_x26_x27_the_texts_of_programs(place: Place) -> None:
    results = in_seed(place, *(("mcp_execute", {"code": source}) for source, _ in TEXTS.values()))
    assert dict(zip(TEXTS, map(text, results), strict=True)) == {
        name: told for name, (_, told) in TEXTS.items()
    }
    assert not any(result.is_error for result in results)


def test_x7_x8_x10_x18_x25_x40_the_texts_of_failures(place: Place) -> None:
    results = in_seed(place, *(("mcp_execute", {"code": source}) for source, _ in FAILURES.values()))
    first = [text(result).partition("\n")[0] for result in results]
    assert dict(zip(FAILURES, first, strict=True)) == {name: told for name, (_, told) in FAILURES.items()}
    assert all(result.is_error for result in results)
    assert text(results[list(FAILURES).index("x40")]).splitlines()[-1] == "1"


@pytest.mark.parametrize(
    "source",
    [
        "while(true){}",
        "await sleep(0); while(true){}",
        "Promise.resolve().then(()=>{for(;;){}}); await sleep(1)",
    ],
)
def test_x13_x14_x15_the_server_answers_after_a_loop(place: Place, source: str) -> None:
    place.settings("[limits.execute]\ntimeout_ms = 500\n")
    patient = {"code": "return 1", "timeout_ms": 60_000}
    spun, after = in_seed(place, ("mcp_execute", {"code": source}), ("execute_code", patient))
    assert text(spun).startswith("mcp_execute error: Sandbox error: Script execution timed out after 500ms\n")
    assert after.structured_content["value"] == 1


def test_x20_x21_what_is_too_long_is_cut(place: Place) -> None:
    lines, value = in_seed(
        place,
        ("mcp_execute", {"code": "for (let i=0;i<12000;i++) console.log('x'.repeat(1000))"}),
        ("mcp_execute", {"code": "return 'x'.repeat(11*1024*1024)"}),
    )
    assert text(lines).endswith("\n[output truncated]")
    assert text(value).endswith("... [result truncated]")


def test_x38_parameters_that_are_missing(place: Place) -> None:
    results = in_seed(
        place,
        ("mcp_execute", {}),
        ("mcp_execute", {"code": ""}),
        ("mcp_provision", {}),
        ("mcp_call", {"server": "odd"}),
        ("mcp_nothing", {}),
    )
    assert list(map(text, results)) == [
        "Missing required parameter: code",
        "Missing required parameter: code",
        "Missing required parameter: intent",
        "Missing required parameters: server, tool",
        "Unknown tool: mcp_nothing",
    ]
    assert all(result.is_error for result in results)


def test_a_call_and_its_failures(place: Place) -> None:
    place.servers(
        {**json.loads((place.workspace / ".mcp.json").read_text())["mcpServers"], "gone": {"command": "/no"}}
    )
    results = in_seed(
        place,
        ("mcp_call", {"server": "odd", "tool": "echo", "args": {"text": "as it is"}}),
        ("mcp_call", {"server": "odd", "tool": "is_error"}),
        ("mcp_call", {"server": "nobody", "tool": "echo"}),
        ("mcp_call", {"server": "odd", "tool": "refuse"}),
        ("mcp_call", {"server": "gone", "tool": "echo"}),
    )
    told = [text(result) for result in results]
    assert told[:4] == [
        "as it is",
        "it broke",
        "Unknown server: nobody",
        "Error calling refuse on odd: error -32602",
    ]
    assert told[4].startswith("Failed to connect to server gone: command /no is ")
    assert [result.is_error for result in results] == [False, True, True, True, True]


def test_discovering_servers_and_tools(place: Place) -> None:
    servers, tools, mine = in_seed(
        place,
        ("mcp_discover", {}),
        ("mcp_discover", {"query": "echo again"}),
        ("mcp_discover", {"query": "echo", "server": "even"}),
    )
    assert json.loads(text(servers)) == [
        {"name": name, "state": "idle", "toolCount": 14, "criticality": "vital"} for name in ("odd", "even")
    ]
    assert json.loads(text(tools)) == [
        {"tool": "echo", "server": name, "description": "Say it again", "score": 12, "confidence": 0.5}
        for name in ("odd", "even")
    ]
    assert [hit["server"] for hit in json.loads(text(mine))] == ["even"]


def test_provisioning_tells_what_could_be_had(place: Place) -> None:
    local, none = in_seed(
        place,
        ("mcp_provision", {"intent": "echo"}),
        ("mcp_provision", {"intent": "zebra", "autoProvision": True}),
    )
    found = json.loads(text(local))
    assert (found["source"], found["tools"][0]["tool"]) == ("local", "echo")
    assert json.loads(text(none)) == {"source": "none", "message": "No matching servers found"}


def test_the_other_spelling_is_understood(place: Place) -> None:
    [native] = in_seed(place, ("execute_code", {"code": "return 1"}))
    assert native.structured_content["value"] == 1

    async def main() -> Any:
        async with place.client() as client:
            return await client.call_tool(
                "mcp_execute", {"code": "return await servers.odd.echo({text: 'x'})"}
            )

    assert json.loads(text(asyncio.run(main()))) == {"content": [{"type": "text", "text": "x"}]}
