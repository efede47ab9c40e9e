"""Rules that ask, over MCP, of clients that cannot: `paddock approve` answers, and the client comes back."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.command import PADDOCK
from tests.support.mcp_server import ERAS, Place
from tests.support.terminal import at_terminal

RULES = """
[[policy.rule]]
effect = "ask"
tool = "odd/echo"
reason = "echoes carry far"
"""
ECHO = "return await servers.odd.echo({text: 'hi'})"
CAUGHT = "try { %s } catch (e) { return [e.code, e.message] }"


@pytest.fixture(autouse=True)
def _rules(place: Place) -> None:
    place.settings(RULES)


async def approve(place: Place, *words: str) -> tuple[str, str, int]:
    """Run `paddock approve` without a terminal."""
    process = await asyncio.create_subprocess_exec(
        PADDOCK,
        "approve",
        *words,
        cwd=place.workspace,
        env=place.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    out, err = await process.communicate()
    return out.decode(), err.decode(), process.returncode or 0


async def say(place: Place, typed: str, *words: str) -> tuple[str, int]:
    """Run `paddock approve` on a terminal whose person types an answer; return what it shows and the exit code."""
    command = [PADDOCK, "approve", *words]
    return await asyncio.to_thread(at_terminal, command, place.workspace, place.environment, typed)


@asynccontextmanager
async def connected(place: Place, transport: str, mode: str) -> AsyncIterator[Any]:
    """Give a client of the official library that offers no elicitation."""
    if transport == "stdio":
        async with place.client(mode=mode) as client:
            yield client
    else:
        async with place.web() as web, web.client(mode=mode) as client:
            yield client


async def begun(client: Any, code: str) -> tuple[str, str]:
    """Start a program that asks; return its run and the id of its question."""
    data = (await client.call_tool("execute_code", {"code": code})).structured_content
    assert data["status"] == "waiting"
    return data["run"], data["command"].removeprefix("paddock approve ")


async def fetched(client: Any, run: str) -> Any:
    return await client.call_tool("query_output", {"artifactHandle": run})


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ERAS)
def test_a_person_allows_in_another_terminal(place: Place, transport: str, mode: str) -> None:
    async def main() -> None:
        async with connected(place, transport, mode) as client:
            await client.list_tools()  # so that the client holds data against what was declared
            result = await client.call_tool("execute_code", {"code": f"console.log('once'); {ECHO}"})
            data = result.structured_content
            run, command = data["run"], data["command"]
            message = (
                "A person must allow this: call odd/echo (echoes carry far). "
                f"Ask them to run in a terminal of this machine: {command}\n"
                f'Then fetch the answer, once: query_output {{"artifact_handle":"{run}"}}'
            )
            assert data == {"status": "waiting", "run": run, "command": command, "message": message}
            assert (result.content[0].text, result.is_error) == (f"waiting · run {run}\n{message}", False)
            id_ = command.removeprefix("paddock approve ")
            listed, _, _ = await approve(place)
            assert listed.split("\t")[:3] == [id_, "call odd/echo", '{"text": "hi"}']
            shown, code = await say(place, "y\n", id_)
            assert code == 0
            lines = [line.strip() for line in shown.splitlines()]
            assert 'with  {"text": "hi"}' in lines
            assert "why   echoes carry far (user rule 1)" in lines
            assert lines[-1] == "call odd/echo: allowed, this once"
            found = await fetched(client, run)
            assert found.structured_content["status"] == "ok"
            inner = found.structured_content["result"]
            assert (inner["value"], inner["console"], inner["run"]) == ("hi", ["once"], run)
            assert found.content[0].text.splitlines()[1] == "hi"
            again = await fetched(client, run)
            assert (again.is_error, again.structured_content["error"]["name"]) == (True, "UnknownRun")
            assert (await approve(place))[0] == ""

    asyncio.run(main())
    files = place.home.glob(".local/state/paddock/audit/*.ndjson")
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    [answered] = [record for record in records if record["event"] == "answered"]
    assert answered["answered_by"].endswith(" (paddock approve)")
    assert not answered["answered_by"].startswith(" ")
    directory = place.home / ".local/state/paddock/approvals"
    assert (stat.S_IMODE(directory.stat().st_mode), [*directory.iterdir()]) == (0o700, [])


def test_one_who_comes_back_early_waits_with_the_person(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:
            run, id_ = await begun(client, CAUGHT % ECHO)
            early = asyncio.create_task(fetched(client, run))
            out, _, _ = await approve(place, id_, "--deny", "--json")
            assert (json.loads(out)["id"], json.loads(out)["verdict"]) == (id_, "denied")
            code, message = (await early).structured_content["result"]["value"]
            assert code == "approval_denied"
            assert message.startswith("echoes carry far: denied by ")

    asyncio.run(main())


def test_a_yes_for_the_whole_run(place: Place) -> None:
    source = (
        "let all = ''; for (const text of ['a', 'b', 'c']) all += await servers.odd.echo({text}); return all"
    )

    async def main() -> None:
        async with place.client() as client:
            run, id_ = await begun(client, source)
            shown, _ = await say(place, "y\n", id_, "--run")
            assert "Allow? [y: yes, to all such calls of this run / N: no]" in shown
            assert (await fetched(client, run)).structured_content["result"]["value"] == "abc"

    asyncio.run(main())


def test_each_question_of_a_run_waits(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:
            run, first = await begun(client, f"await servers.odd.echo({{text: 'a'}}); {ECHO}")
            await say(place, "y\n", first)
            second = (await fetched(client, run)).structured_content["command"]
            assert second != f"paddock approve {first}"
            await say(place, "y\n", second.removeprefix("paddock approve "))
            assert (await fetched(client, run)).structured_content["result"]["value"] == "hi"

    asyncio.run(main())


def test_the_answer_of_one_call_of_a_tool_comes_untouched(place: Place) -> None:
    call = {"server": "odd", "tool": "echo", "args": {"text": "x"}}

    async def main() -> None:
        async with place.client() as client:
            await client.list_tools()
            data = (await client.call_tool("call_tool", call)).structured_content
            await say(place, "y\n", data["command"].removeprefix("paddock approve "))
            found = await fetched(client, data["run"])
            assert (found.content[0].text, found.structured_content) == ("x", {"status": "ok"})

    asyncio.run(main())


@pytest.mark.parametrize("typed", ["\n", "n\n", "yes please\n", "\x04"])
def test_anything_but_a_clear_yes_is_a_no(place: Place, typed: str) -> None:
    async def main() -> None:
        async with place.client() as client:
            run, id_ = await begun(client, CAUGHT % ECHO)
            shown, _ = await say(place, typed, id_)
            assert shown.splitlines()[-1] == "call odd/echo: denied"
            assert (await fetched(client, run)).structured_content["result"]["value"][0] == "approval_denied"

    asyncio.run(main())


def test_what_is_no_answer(place: Place) -> None:
    """A yes without a terminal, an id that is none, an id that nobody asked, flags that do not go together."""

    async def main() -> None:
        async with place.client() as client:
            run, id_ = await begun(client, CAUGHT % ECHO)
            no_terminal = "only a person can approve: run this on a terminal; `--deny` works without one\n"
            assert await approve(place, id_) == ("", no_terminal, 1)
            for forged in (
                "../../../etc/passwd",
                f"../approvals/{id_}",
                id_[:-1] + "\n",
                id_.lower(),
                "",
                "x" * 99,
            ):
                _, err, code = await approve(place, "--deny", "--", forged)
                assert (code, err.strip()) == (
                    1,
                    f"{forged[:50]!r} is not the id of a question; `paddock approve` lists the waiting questions",
                )
            _, err, code = await approve(place, run, "--deny")
            gone = f"{run} does not wait for an answer; `paddock approve` lists the waiting questions\n"
            assert (code, err) == (1, gone)
            assert (await approve(place, id_, "--run", "--deny"))[2] == 2
            assert (await approve(place, "--deny"))[2] == 2
            [waits] = json.loads((await approve(place, "--json"))[0])
            assert (waits["id"], waits["run"], waits["what"]) == (id_, run, "call odd/echo")
            await say(place, "y\n", id_)
            assert (await fetched(client, run)).structured_content["result"]["value"] == "hi"
            assert (await approve(place, id_, "--deny"))[2] == 1

    asyncio.run(main())


def test_arguments_cannot_forge_the_list(place: Place) -> None:
    hostile = r"'\u001b[2J\u001b[1;1H\r\n01ARZ3NDEKTSV4RRFFQ69G5FAV\tcall git/status\u202e'"

    async def main() -> None:
        async with place.client() as client:
            _, id_ = await begun(client, ECHO.replace("'hi'", hostile))
            listed, _, _ = await approve(place)
            assert (listed.count("\n"), listed.count("\t"), listed.isprintable()) == (1, 4, False)
            assert "".join(listed.split()).isprintable()
            assert listed.startswith(f"{id_}\tcall odd/echo\t" + r'{"text": "\u001b[2J\u001b[1;1H\r\n01A')

    asyncio.run(main())


def test_a_server_that_is_killed_leaves_nothing_to_answer(place: Place) -> None:
    directory = place.home / ".local/state/paddock/approvals"

    async def main() -> None:
        async with place.lines() as lines:
            call = {"name": "execute_code", "arguments": {"code": ECHO}}
            data = (await lines.ask("tools/call", call))["result"]["structuredContent"]
            lines.process.kill()
            await lines.process.wait()
        assert len([*directory.iterdir()]) == 1
        assert (await approve(place, "--json"))[0] == "[]\n"
        _, err, code = await approve(place, data["command"].split()[-1], "--deny")
        assert (code, "does not wait for an answer" in err) == (1, True)
        async with place.client() as client:
            await client.list_tools()
            assert [*directory.iterdir()] == []

    asyncio.run(main())


def test_nobody_can_be_asked_through_a_directory_of_others(place: Place) -> None:
    directory = place.home / ".local/state/paddock/approvals"
    directory.mkdir(parents=True, mode=0o777)
    directory.chmod(0o777)

    async def main() -> None:
        async with place.client() as client:
            result = await client.call_tool("execute_code", {"code": CAUGHT % ECHO})
            assert result.structured_content["value"] == [
                "approval_unavailable",
                "echoes carry far: asking failed: questions cannot be kept; see the log of the server",
            ]
        _, err, code = await approve(place)
        assert (code, err) == (
            1,
            f"{directory}: cannot be opened: it can be written to by others (mode 0777), who may have put files there; "
            f"check what it contains, then run: chmod 700 {directory} (approvals.directory)\n",
        )

    asyncio.run(main())


def test_no_more_wait_than_may(place: Place) -> None:
    place.settings("[approvals]\nmax_waiting = 1\n" + RULES)

    async def main() -> None:
        async with place.client() as client:
            await begun(client, ECHO)
            code, message = (
                await client.call_tool("execute_code", {"code": CAUGHT % ECHO})
            ).structured_content["value"]
            assert code == "approval_unavailable"
            assert "the limit of waiting questions is reached (1, approvals.max_waiting)" in message

    asyncio.run(main())


def test_no_answer_in_time_is_a_no(place: Place) -> None:
    place.settings("[approvals]\nwait_ms = 100\n" + RULES)

    async def main() -> None:
        async with place.client() as client:
            run, _ = await begun(client, CAUGHT % ECHO)
            value = (await fetched(client, run)).structured_content["result"]["value"]
            assert value[0] == "approval_expired"

    asyncio.run(main())


def test_under_the_names_of_the_seed(place: Place) -> None:
    async def main() -> None:
        async with place.client("--tool-names", "compat") as client:
            arguments = {"server": "odd", "tool": "echo", "args": {"text": "x"}}
            text = (await client.call_tool("mcp_call", arguments)).content[0].text
            headline, _, last = text.splitlines()
            run = headline.removeprefix("waiting · run ")
            assert (
                last == f'Then fetch the answer, once: sdl.runtime.queryOutput {{"artifactHandle":"{run}"}}'
            )
            [waits] = json.loads((await approve(place, "--json"))[0])
            await say(place, "y\n", waits["id"])
            found = await client.call_tool("sdl.runtime.queryOutput", {"artifactHandle": run})
            assert "x" in found.content[0].text

    asyncio.run(main())
