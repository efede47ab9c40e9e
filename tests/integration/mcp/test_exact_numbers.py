"""Numbers that a double does not hold: from a server to a program and back, and on every other crossing, digit by digit."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from .conftest import AUTHORIZED, ERAS, MODERN, PADDOCK, Place
from .test_http import modern, shaken_hands

SERVER = Path(__file__).resolve().parents[2] / "servers/digits.py"

WHOLE = (
    *("0", "7", "-7", "9007199254740991", "-9007199254740991", "9007199254740992", "9007199254740993"),
    *("-9007199254740993", "1234567890123456789", "-1234567890123456789", "9223372036854775807"),
    *(
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "170141183460469231731687303715884105727",
    ),
    *("123456789012345678901234567890", "100000000000000000000000000001", "9" * 100),
)
DECIMALS = (
    *(
        "0.5",
        "-0.25",
        "1.1",
        "3.14159265358979323846264338327950288",
        "-2.718281828459045235360287471352662497",
    ),
    *("0.123456789012345678901234567890", "12345678901234567890.123456789", "0.12345678901234567"),
    *("0.1000000000000000055511151231257827021181583404541015625", "1.00000000000000000001"),
    *("4.94065645841246544e-324", "1.797693134862315708145274237317043567e308"),
)
NUMBERS = (*WHOLE, *DECIMALS)
TABLE = "{" + ",".join(f'"n{at}":{digits}' for at, digits in enumerate(NUMBERS)) + "}"
assert len(NUMBERS) == 30


def digits_in(text: str) -> tuple[str, ...]:
    """Return the digits of a table that is written somewhere in a text, as JSON or as JSON within JSON."""
    found = dict(re.findall(r'"n(\d+)\\*":\s*(-?[0-9.eE+-]+)', text))
    return tuple(found.get(str(at), "missing") for at in range(len(NUMBERS)))


@pytest.fixture
def digits(place: Place) -> Place:
    """Have a workspace with the server `digits`, which gives the table."""
    table = place.workspace / "table.json"
    table.write_text(TABLE)
    entry = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), str(table)]}
    place.servers({"digits": entry})
    return place


def paddock(place: Place, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        [PADDOCK, *arguments],
        cwd=place.workspace,
        env=place.environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


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
    for each in ("1234567890123456789", "-9007199254740993", "123456789012345678901234567890"):
        out = ran(digits, f"return await servers.digits.text({{n: {each}}})")
        assert json.loads(out, parse_int=str) == {"n": each}
    for each in ("3.14159265358979323846264338327950288", "0.123456789012345678901234567890"):
        assert f'"n": {each}' in ran(digits, f"return {{n: {each}}}")
    assert f'"n": {0xFFFF_FFFF_FFFF_FFFF}' in ran(digits, "return {n: 0xffff_ffff_ffff_ffff}")


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
        async with digits.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=120) as http:
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
    command = [sys.executable, "-I", "-S", str(SERVER), str(digits.workspace / "table.json"), request.param]
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
