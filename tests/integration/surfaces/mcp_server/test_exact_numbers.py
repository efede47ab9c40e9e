"""Numbers that a double does not hold: from a server to a program and back, and on every other crossing, digit by digit."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator

import httpx2
import pytest
from tests.support.command import Ended, run_paddock
from tests.support.mcp_server import AUTHORIZED, ERAS, MODERN, Place
from tests.support.number_table import NUMBERS, TABLE, digits_in
from tests.support.processes import PATIENCE_S
from tests.support.servers import make_command, make_entry

from .test_http import modern, shaken_hands


@pytest.fixture
def digits(place: Place) -> Place:
    """Have a workspace with the server `digits`, which gives the table."""
    table = place.workspace / "table.json"
    table.write_text(TABLE)
    entry = make_entry("digits", table)
    place.servers({"digits": entry})
    return place


def paddock(place: Place, *arguments: str, stdin: str = "") -> Ended:
    return run_paddock(place.workspace, *arguments, stdin=stdin, environment=place.environment)


def ran(place: Place, source: str, *arguments: str) -> str:
    status, out, told = paddock(place, "run", "-", *arguments, stdin=source)
    assert (status, told) == (0, "")
    return out


THROUGH = {
    "a text that is read": "return await servers.digits.given({})",
    "structured content": "return await servers.digits.data(await servers.digits.given({}))",
    "arguments": "return await servers.digits.text(await servers.digits.given({}))",
    "call": "return await servers.digits.call('text', await servers.digits.given({}))",
    "callRaw": "return await servers.digits.callRaw('data', (await servers.digits.callRaw('data', await servers.digits.given({}))).structuredContent)",
    "input": "return input",
    "input that is sent": "return await servers.digits.text(input)",
    "JSON as text": "return JSON.stringify(await servers.digits.given({}))",
    "JSON as text, indented": "return JSON.stringify(await servers.digits.given({}), null, 2)",
    "a text in arguments": "return await servers.digits.text({text: JSON.stringify(input)})",
}


@pytest.mark.parametrize("way", THROUGH)
def test_a_table_of_numbers_keeps_its_digits(digits: Place, way: str) -> None:
    assert digits_in(ran(digits, THROUGH[way], "--input", TABLE)) == NUMBERS


def test_the_value_as_json_keeps_its_digits(digits: Place) -> None:
    assert digits_in(ran(digits, "return input", "--json", "--input", TABLE)) == NUMBERS


def test_a_call_from_the_command_line_keeps_its_digits(digits: Place) -> None:
    for tool in ("text", "data"):
        for flags in ([], ["--json"]):
            status, out, told = paddock(digits, "servers", "call", "digits", tool, TABLE, *flags)
            assert (status, told, digits_in(out)) == (0, "", NUMBERS)


def test_numbers_written_in_a_program_keep_their_digits(digits: Place) -> None:
    inexact = {
        "1234567890123456789": "1234567890123456800",
        "-9007199254740993": "-9007199254740992",
        "123456789012345678901234567890": "1.2345678901234568e+29",
    }
    for each, double in inexact.items():
        source = f"const n = {each}; return [await servers.digits.text({{n}}), `${{n}}`]"
        status, out, told = paddock(digits, "run", "-", stdin=source)
        warned, _, value = out.partition("\n")
        assert (status, told, json.loads(value, parse_int=str)) == (0, "", [{"n": each}, double])
        assert warned == "[warn] " + tell_inexact(each.strip("-"), double.strip("-"))
    for each in ("3.14159265358979323846264338327950288", "0.123456789012345678901234567890"):
        assert f'"n": {each}' in ran(digits, f"return {{n: {each}}}")
    assert f'"n": {2**64}' in ran(digits, "return {n: 0x1_0000_0000_0000_0000}")


def tell_inexact(written: str, double: str) -> str:
    return (
        f"JavaScript numbers cannot hold these literals exactly: {written} ({double} in calculations and strings). "
        "A value that is only passed on, or that equals such a literal, is sent with the literal's digits. "
        f"Write {written}n, a BigInt, to calculate exactly"
    )


def test_a_result_may_equal_a_number_that_is_written(digits: Place) -> None:
    source = "const most = 0xffff_ffff_ffff_ffff; return 2 ** 64"
    status, out, told = paddock(digits, "run", "-", stdin=source)
    warned = tell_inexact("0xffff_ffff_ffff_ffff", "18446744073709552000")
    assert (status, out, told) == (0, f"[warn] {warned}\n{2**64 - 1}\n", "")
    assert ran(digits, "return [17976931348623157e292, 0b11, 1e3, 0xE]") == ran(
        digits, "return [Number.MAX_VALUE, 3, 1000, 14]"
    )
    many = "return [" + ", ".join(f"{2**53 + each}" for each in range(1, 40)) + "].length"
    assert paddock(digits, "run", "-", stdin=many)[1].count(" (900719925474") == 8


Call = Callable[[str, str], Awaitable[str]]
"""Calls a tool with arguments as JSON, and returns the answer as it came."""


async def agents_get_all_digits(called: Call) -> None:
    for tool in ("text", "data"):
        given = f'{{"server":"digits","tool":"{tool}","args":{TABLE}}}'
        assert digits_in(await called("call_tool", given)) == NUMBERS
    code = json.dumps("return [input, await servers.digits.text(input)]")
    answer = await called("execute_code", f'{{"code":{code},"input":{TABLE}}}')
    text, structured = answer.split('"structuredContent"')
    assert (digits_in(text), digits_in(structured)) == (NUMBERS, NUMBERS)
    source = json.dumps("emit(JSON.stringify(JSON.parse(read_input())))")
    answer = await called("compute", f'{{"source":{source},"input":{json.dumps(TABLE)}}}')
    text, structured = answer.split('"structuredContent"')
    assert (digits_in(text), digits_in(structured)) == (NUMBERS, NUMBERS)


def message(name: str, arguments: str, mode: str) -> str:
    meta = "" if mode == "legacy" else f',"_meta":{json.dumps(MODERN)}'
    params = f'{{"name":"{name}","arguments":{arguments}{meta}}}'
    return f'{{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{params}}}'


@pytest.mark.parametrize("mode", ERAS)
def test_agents_get_all_digits(digits: Place, mode: str) -> None:
    async def main() -> None:
        async with digits.lines() as lines:
            if mode == "legacy":
                await lines.begin()

            async def called(name: str, arguments: str) -> str:
                lines.write(f"{message(name, arguments, mode)}\n".encode())
                return (await lines.process.stdout.readline()).decode()

            await agents_get_all_digits(called)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_agents_get_all_digits_over_http(digits: Place, mode: str) -> None:
    async def main() -> None:
        async with digits.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            if mode == "legacy":
                headers = await shaken_hands(http, web.url)
            else:
                headers, _ = modern("tools/call", {})

            async def called(name: str, arguments: str) -> str:
                named = headers if mode == "legacy" else {**headers, "Mcp-Name": name}
                content = message(name, arguments, mode)
                return (await http.post(web.url, content=content, headers=named)).text

            await agents_get_all_digits(called)

    asyncio.run(main())


@pytest.fixture(params=["--json", "--events"])
def remote(digits: Place, request: pytest.FixtureRequest) -> Iterator[Place]:
    """Have the server be one over HTTP, which answers with JSON or with events."""
    command = make_command("digits", digits.workspace / "table.json", request.param)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        digits.servers({"digits": {"url": f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp"}})
        yield digits
        server.kill()


def test_servers_over_http_give_and_get_all_digits(remote: Place) -> None:
    for way in ("a text that is read", "structured content", "arguments", "callRaw"):
        assert digits_in(ran(remote, THROUGH[way], "--input", TABLE)) == NUMBERS
    status, out, told = paddock(remote, "servers", "call", "digits", "data", TABLE, "--json")
    assert (status, told, digits_in(out)) == (0, "", NUMBERS)


def test_script_tools_and_computations_of_the_command_line_keep_digits(place: Place) -> None:
    directory = place.workspace / ".paddock" / "tools" / "echo"
    directory.mkdir(parents=True)
    (directory / "tool.yaml").write_text('{"id": "echo", "name": "echo", "script": "echo.py"}')
    (directory / "echo.py").write_text("import sys; print(sys.stdin.read())")
    (place.workspace / "report.md").write_text("{{script:echo}} {{script:echo.n28}}")
    for command in (("run", "echo", "--input", TABLE), ("run", "echo", "--input", TABLE, "--json")):
        status, out, told = paddock(place, "tool", *command)
        assert (status, told, digits_in(out)) == (0, "", NUMBERS)
        assert digits_in(out.partition('"output"')[2] or out) == NUMBERS
    status, out, told = paddock(place, "tool", "fill", "report.md", "--input", TABLE)
    assert (status, told, digits_in(out), out.split()[-1]) == (0, "", NUMBERS, NUMBERS[28])
    request = {"source": "emit(JSON.stringify(JSON.parse(read_input())))", "input": TABLE}
    status, out, told = paddock(place, "compute", stdin=json.dumps(request))
    assert (status, told, digits_in(out)) == (0, "", NUMBERS)
    request = {
        "source": "emit(JSON.parse(read_input())[0])",
        "input": "[0.1000000000000000055511151231257827021]",
    }
    status, out, told = paddock(place, "compute", stdin=json.dumps(request))
    assert (status, out) == (0, '{"output":"0.1"}\n')
    assert told == (
        "warning: A number that was emitted is sent as 0.1 and may lack digits: a longer number has the same "
        "double; pass on the object that it came in, a BigInt or a string\n"
    )
