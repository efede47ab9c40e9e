"""`paddock serve mcp` over standard streams, with a bare client of the official library in both eras."""

import asyncio
import re
from typing import Any

import pytest
from tests.support.mcp_server import ERAS, Place
from tests.support.processes import PATIENCE_S
from tests.support.servers import make_entry

RUN = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
MS = re.compile(r"· \d+ ms ·")


def text(result: Any) -> str:
    """Return the one text of a result, times and ids replaced."""
    [block] = result.content
    return MS.sub("· N ms ·", RUN.sub("ID", block.text))


@pytest.mark.parametrize("mode", ERAS)
def test_a_program_and_its_calls(place: Place, mode: str) -> None:
    async def main() -> None:
        async with place.client(mode=mode) as client:
            source = "console.log('one'); const x = await servers.odd.echo({text: input.say}); return {x, n: 6 * 7}"
            result = await client.call_tool("execute_code", {"code": source, "input": {"say": "hello"}})
            assert text(result) == (
                'ok · N ms · 1 call (odd 1) · run ID\n{"x":"hello","n":42}\n--- console (1 line)\none'
            )
            assert {
                key: result.structured_content[key] for key in ("status", "value", "console", "calls")
            } == {
                "status": "ok",
                "value": {"x": "hello", "n": 42},
                "console": ["one"],
                "calls": {"odd": 1},
            }
            assert not result.is_error

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_an_error_speaks_of_the_users_line(place: Place, mode: str) -> None:
    source = "const issues = await servers.odd.echo({text: '[]'});\nconsole.warn('now');\nreturn issues.items.map(i => i)"

    async def main() -> None:
        async with place.client(mode=mode) as client:
            result = await client.call_tool("execute_code", {"code": source})
            assert text(result).splitlines() == [
                "failed · N ms · 1 call (odd 1) · run ID",
                "TypeError: Cannot read properties of undefined (reading 'map')",
                "  at line 3, column 21",
                "    return issues.items.map(i => i)",
                "                        ^",
                "  calls completed before the error: 1 (odd.echo ok); nothing is in flight",
                "  hint: servers.odd.echo returned an array, without `items`",
                "--- console (1 line)",
                "[warn] now",
            ]
            data = result.structured_content
            assert data["error"] == {
                "name": "TypeError",
                "message": "Cannot read properties of undefined (reading 'map')",
                "line": 3,
                "column": 21,
                "hint": "servers.odd.echo returned an array, without `items`",
            }
            assert (data["status"], data["happened"], result.is_error) == ("failed", "calls_completed", True)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_arguments_that_make_no_sense_are_explained(place: Place, mode: str) -> None:
    async def main() -> None:
        async with place.client(mode=mode) as client:
            wrong = await client.call_tool("execute_code", {"cod": "1", "timeout_ms": "fast"})
            assert text(wrong).splitlines() == [
                "invalid",
                'execute_code: `timeout_ms` must be a whole number, not the text "fast"',
                "execute_code: `cod` is unknown; did you mean `code`?",
                "execute_code: `code` is missing",
            ]
            for name in ("execute_cod", "execute"):
                unknown = await client.call_tool(name, {})
                assert (text(unknown), unknown.is_error) == (
                    f"Unknown tool: {name}; did you mean execute_code?",
                    True,
                )

    asyncio.run(main())


def test_a_whole_number_may_be_written_as_any_other(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:
            asked = [{"code": "return 1", "timeout_ms": wish} for wish in (6e4, 1e30)]
            quick, long = [await client.call_tool("execute_code", each) for each in asked]
            assert quick.structured_content["value"] == 1
            assert " exceeds the maximum of 600000 (" in text(long)
            assert long.structured_content["status"] == "denied"

    asyncio.run(main())


def test_x36_secrets_leave_neither_as_text_nor_as_data(place: Place) -> None:
    key = "ghp_" + "a" * 36

    async def main() -> None:
        async with place.client() as client:
            call = await client.call_tool(
                "call_tool", {"server": "odd", "tool": "echo", "args": {"text": key}}
            )
            assert text(call) == "[REDACTED:github-token]"
            for source in (f"return {{a: '{key}'}}", f"console.log('{key}')", f"throw new Error('{key}')"):
                assert key not in str(await client.call_tool("execute_code", {"code": source}))

    asyncio.run(main())


def test_a_result_is_cut_the_same_as_text_and_as_data(place: Place) -> None:
    place.settings("[mcp]\nanswer_characters = 100\n")

    async def main() -> None:
        async with place.client() as client:
            result = await client.call_tool("execute_code", {"code": "return ['x'.repeat(500)]"})
            excerpt = '["' + "x" * 20
            assert result.structured_content["excerpt"].startswith(excerpt)
            assert result.structured_content["excerpt"].endswith("x... [truncated: 504 characters in all]")
            assert result.structured_content["truncated"] is True
            assert "value" not in result.structured_content
            shown, _, rest = result.content[0].text.rpartition("\n--- the whole: query_output ")
            assert shown.endswith(result.structured_content["excerpt"])
            assert rest == f"{result.structured_content['artifactHandle']} (stdout has the value)"
            source = "for (let i = 0; i < 100; i++) console.log('line ' + i)"
            result = await client.call_tool("execute_code", {"code": source})
            console = result.structured_content["console"]
            assert (console[0], console[-1]) == ("line 0", "line 99")
            assert re.fullmatch(r"\[9\d lines left out\]", console[len(console) // 2])

    asyncio.run(main())


def test_console_lines_are_streamed_while_the_program_runs(place: Place) -> None:
    async def main() -> None:
        seen: list[str | None] = []
        arrived = asyncio.Event()

        async def listen(_progress: float, _total: float | None, message: str | None) -> None:
            seen.append(message)
            arrived.set()

        async with place.client(mode="auto") as client:
            source = "console.log('first'); await servers.odd.hang({})"
            call = asyncio.create_task(
                client.call_tool(
                    "execute_code", {"code": source, "timeout_ms": 60_000}, progress_callback=listen
                )
            )
            await asyncio.wait_for(arrived.wait(), PATIENCE_S)
            assert (seen, call.done()) == (["first"], False)
            call.cancel()

    asyncio.run(main())


def test_one_call_gives_what_the_server_gave(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:

            async def call(tool: str, **arguments: Any) -> Any:
                return await client.call_tool("call_tool", {"server": "odd", "tool": tool, "args": arguments})

            assert text(await call("echo", text="as it is")) == "as it is"
            broke = await call("is_error")
            assert (text(broke), broke.is_error) == ("it broke", True)
            environment = await call("environment")
            assert text(environment) == "see structuredContent"
            assert "PATH" in environment.structured_content
            refused = await call("refuse")
            assert text(refused) == (
                "failed · N ms · run ID\nToolError: error -32602\n  the server's error: code -32602"
            )
            unknown = await client.call_tool("call_tool", {"server": "od", "tool": "echo"})
            assert text(unknown) == "invalid · N ms · run ID\nUnknown server: od; did you mean `odd`?"

    asyncio.run(main())


def test_a_call_whose_end_nobody_saw_may_have_done_something(place: Place) -> None:
    odd = make_entry("odd")
    place.servers({"odd": odd, "hasty": {**odd, "timeoutMs": 1000}})
    up = {"server": "hasty", "tool": "echo", "args": {"text": "up"}}

    async def main() -> None:
        async with place.client() as client:
            crashed = await client.call_tool("call_tool", {"server": "odd", "tool": "crash"})
            data = crashed.structured_content
            assert (data["status"], data["happened"]) == ("lost", "in_flight_unknown")
            while (await client.call_tool("call_tool", up)).is_error:
                pass  # on a busy machine it takes longer to start than it has
            late = await client.call_tool("call_tool", {"server": "hasty", "tool": "hang"})
            data = late.structured_content
            assert (data["status"], data["happened"], data["ms"] >= 1000) == (
                "timeout",
                "in_flight_unknown",
                True,
            )
            refused = await client.call_tool("call_tool", {"server": "odd", "tool": "refuse"})
            assert refused.structured_content["happened"] == "calls_completed"
            never = await client.call_tool("execute_code", {"code": "await servers.odd.nothing({})"})
            assert never.structured_content["happened"] == "no_calls"
            within = await client.call_tool("execute_code", {"code": "await servers.hasty.hang({})"})
            assert within.structured_content["happened"] == "in_flight_unknown"
            told = "calls completed before the error: 1 (hasty.hang timeout); nothing is in flight; "
            assert f"{told}of 1 that ended without an answer the effect is unknown" in text(within)

    asyncio.run(main())
