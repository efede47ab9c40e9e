"""What programs print as log messages: from the level on that a client chose, for its own calls alone."""

import asyncio
from typing import Any

import pytest
from tests.support.mcp_server import Lines, Place

pytestmark = pytest.mark.filterwarnings("ignore:The logging capability is deprecated")

LEVEL = "io.modelcontextprotocol/logLevel"
PRINTS = "for (const how of ['debug', 'log', 'info', 'warn', 'error']) console[how](how + ' ghp_' + 'a'.repeat(36))"
TEXT = "[REDACTED:github-token]"


async def logged(lines: Lines, *, modern: bool = False, **meta: Any) -> list[tuple[str, str, str]]:
    """Return the log messages of a call, in order."""
    params = {"name": "execute_code", "arguments": {"code": PRINTS}, "_meta": meta}
    number, seen = lines.send("tools/call", params, modern=modern), []
    while (message := await lines.receive()).get("id") != number:
        assert message["method"] == "notifications/message"
        told = message["params"]
        seen += [(told["level"], told["logger"], line) for line in told["data"].split("\n")]
    assert len(message["result"]["structuredContent"]["console"]) == 5
    return seen


async def choose(lines: Lines, level: str) -> dict[str, Any]:
    return await lines.ask("logging/setLevel", {"level": level}, modern=False)


def test_a_session_hears_from_the_level_on_that_it_chose(place: Place) -> None:
    async def main() -> None:
        async with place.lines() as lines:
            await lines.begin()
            assert await logged(lines) == []
            assert (await choose(lines, "warning"))["result"] == {}
            errors = [("warning", "program", f"warn {TEXT}"), ("error", "program", f"error {TEXT}")]
            assert await logged(lines) == errors
            await choose(lines, "debug")
            infos = [("info", "program", f"{how} {TEXT}") for how in ("log", "info")]
            assert await logged(lines) == [("debug", "program", f"debug {TEXT}"), *infos, *errors]
            await choose(lines, "emergency")
            assert await logged(lines) == []
            assert (await choose(lines, "loud"))["error"]["code"] == -32602

    asyncio.run(main())


def test_a_call_hears_from_the_level_on_that_it_names(place: Place) -> None:
    async def main() -> None:
        async with place.lines() as lines:
            assert await logged(lines, modern=True) == []
            heard = await logged(lines, modern=True, **{LEVEL: "error"})
            assert heard == [("error", "program", f"error {TEXT}")]
            assert await logged(lines, modern=True) == []

    asyncio.run(main())


def test_sessions_over_http_choose_for_themselves(place: Place) -> None:
    async def main() -> None:
        heard: dict[str, list[str]] = {"loud": [], "quiet": []}

        async def call(web: Any, name: str, level: str) -> None:
            async def listen(params: Any) -> None:
                heard[name].append(params.level)

            async with web.client(logging_callback=listen) as client:
                await client.set_logging_level(level)
                await ready.wait()
                await client.call_tool("execute_code", {"code": "console.log('a'); console.error('b')"})

        ready = asyncio.Barrier(2)
        async with place.web() as web:
            await asyncio.gather(call(web, "loud", "debug"), call(web, "quiet", "error"))
        assert heard == {"loud": ["info", "error"], "quiet": ["error"]}

    asyncio.run(main())


def test_output_of_programs_in_languages_is_told_line_by_line(place: Place) -> None:
    async def main() -> None:
        heard: list[tuple[str, str]] = []

        async def listen(params: Any) -> None:
            heard.append((params.level, params.data))

        async with place.client(logging_callback=listen) as client:
            await client.set_logging_level("info")
            await client.call_tool(
                "run_program", {"runtime": "perl", "code": 'print "out\\n"; print STDERR "err\\n"'}
            )
        assert sorted(heard) == [("error", "err"), ("info", "out")]

    asyncio.run(main())
