"""What goes over the wire, line by line: broken messages, cancellation, the end of a client or of the server."""

import asyncio
import json
import signal
import subprocess
from functools import partial

import pytest
from tests.support.command import PADDOCK, run_paddock
from tests.support.mcp_server import MODERN, Place
from tests.support.processes import PATIENCE_S, all_end, descendants, running_workers, watched

SPIN = "console.log('spinning'); for (;;) {}"


async def spinning(lines, *, modern=True):
    """Start a program that spins and return its request's id once it does."""
    params = {"name": "execute_code", "arguments": {"code": SPIN}, "_meta": {"progressToken": "p"}}
    number = lines.send("tools/call", params, modern=modern)
    while (await lines.receive()).get("method") != "notifications/progress":
        pass
    return number


@pytest.mark.parametrize("modern", [True, False])
def test_cancelling_kills_the_program_and_answers_nothing(place: Place, *, modern: bool):
    async def main():
        async with place.lines() as lines:
            if not modern:
                await lines.begin()
            number = await spinning(lines, modern=modern)
            handles = watched(running_workers(lines.process.pid))
            assert len(handles) == 1
            params = {"requestId": number}
            lines.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            assert await asyncio.to_thread(all_end, handles)
            nothing = {"name": "execute_code", "arguments": {"code": "return 1"}}
            after = lines.send("tools/call", nothing, modern=modern)
            assert (await lines.receive())["id"] == after

    asyncio.run(main())


@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
def test_a_number_that_json_has_no_form_for_goes_nowhere(place: Place, number: float):
    async def main():
        async with place.lines() as lines:
            told = await lines.call("execute_code", code="return input", input={"a": [number]})
            reason = "a number is NaN, infinite, or larger than 1.8e308"
            assert told["structuredContent"]["error"]["message"] == f"execute_code: {reason}"
            told = await lines.call("call_tool", server="odd", tool="echo", args={"text": number})
            assert told["structuredContent"]["error"]["message"] == f"call_tool: {reason}"

    asyncio.run(main())


def test_x39_every_call_is_on_the_record_with_its_end_and_duration(place: Place):
    async def main():
        async with place.lines() as lines:
            await lines.call("execute_code", code="return 1")
            await lines.call("execute_code", code="throw 1")
            await lines.call("call_tool", server="odd", tool="echo", args={"text": "x"})
            number = await spinning(lines)
            handles = watched(running_workers(lines.process.pid))
            lines.write(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            )
            assert await asyncio.to_thread(all_end, handles)
            await lines.call("execute_code", code="return 1")
            lines.process.stdin.close()
            assert await asyncio.wait_for(lines.process.wait(), PATIENCE_S) == 0

    asyncio.run(main())
    done = run_paddock(None, "audit", "tail", "--json", environment=place.environment)
    finished = [record for record in json.loads(done.stdout) if record["event"] == "finished"]
    # A cancelled call may end after the next one; ids are in the order of the calls.
    ends = [record["fields"] for record in sorted(finished, key=lambda record: record["request"])]
    assert [(end["kind"], end["status"], end["actor"], end["tier"], end["ms"] > 0) for end in ends] == [
        ("guest", "ok", "lines 1", "landlock", True),
        ("guest", "failed", "lines 1", "landlock", True),
        ("server", "ok", "lines 1", "none", True),
        ("guest", "cancelled", "lines 1", "landlock", True),
        ("guest", "ok", "lines 1", "landlock", True),
    ]


@pytest.mark.parametrize("how", ["client is gone", "terminated"])
def test_nothing_is_left_when_the_client_or_the_server_ends(place: Place, how: str):
    async def main():
        async with place.lines() as lines:
            await lines.call("execute_code", code="return await servers.odd.echo({text: 'up'})")
            await spinning(lines)
            below = descendants(lines.process.pid)
            assert len(below) >= 4  # zygote, intake, a worker, the server `odd`
            handles = watched(below)
            if how == "terminated":
                lines.process.send_signal(signal.SIGTERM)
            else:
                lines.process.stdin.close()
            assert await asyncio.wait_for(lines.process.wait(), PATIENCE_S) == 0
            assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())


def test_nothing_is_left_when_the_server_is_killed(place: Place):
    async def main():
        async with place.lines() as lines:
            await spinning(lines)
            handles = watched(descendants(lines.process.pid))
            lines.process.kill()
            assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())


def test_other_calls_are_served_while_a_program_spins(place: Place):
    async def main():
        async with place.lines() as lines:
            await spinning(lines)
            for _ in range(10):
                assert (await lines.call("execute_code", code="return 6 * 7"))["structuredContent"][
                    "value"
                ] == 42

    asyncio.run(main())


def test_what_is_no_message_is_answered_and_passed_over(place: Place):
    async def main():
        async with place.lines() as lines:
            lines.write(b"\nhello\n")
            broken = await lines.receive()
            assert (broken["id"], broken["error"]["code"]) == (None, -32700)
            assert broken["error"]["message"].startswith("this line is not JSON: ")
            lines.write(b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]\n')
            assert (await lines.receive())["error"]["code"] == -32600
            lines.write(b'"' + b"x" * (17 * 1024 * 1024) + b'"\n')
            assert (await lines.receive())["error"]["message"] == "a message is longer than 16777216 bytes"
            lines.write(
                b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"a": ['
                + b"[]," * 200_000
                + b"[]]}}\n"
            )
            swollen = await lines.receive()
            assert (swollen["id"], swollen["error"]) == (
                7,
                {"code": -32600, "message": "a message has more than 200000 values; send less at once"},
            )
            many = [[]] * 150_000
            counted = await lines.call("execute_code", code="return input.a.length", input={"a": many})
            assert counted["structuredContent"]["value"] == 150_000
            assert (await lines.call("execute_code", code="return 1"))["structuredContent"]["value"] == 1

    asyncio.run(main())


@pytest.mark.parametrize("number", ["null", "1.5", "true", '{"a": 1}', "[1]", "NaN"])
def test_a_request_with_an_id_of_another_kind_is_refused(place: Place, number: str):
    async def main():
        async with place.lines() as lines:
            lines.write(b'{"jsonrpc": "2.0", "id": %s, "method": "ping"}\n' % number.encode())
            refused = await lines.receive()
            assert (refused["id"], refused["error"]["code"]) == (None, -32600)

    asyncio.run(main())


def test_refusals_bear_the_id_of_their_request(place: Place):
    deep = b"[" * 300 + b"]" * 300
    first = b'{"jsonrpc":"2.0","id":"a 1","method":"tools/call","params":{"x":%s}}\n'
    last = b'{"method": "tools/call", "params": {"id": 9, "x": %s}, "jsonrpc": "2.0", "id": -7}\n'
    amid = b'{"method": "tools/call", "id": 8, "params": {"id": 9, "x": %s}}\n'

    async def main():
        async with place.lines() as lines:
            for line, number in ((first, "a 1"), (last, -7), (amid, None)):
                lines.write(line % deep)
                refused = await lines.receive()
                assert (refused["id"], refused["error"]["message"]) == (
                    number,
                    "this message is nested more than 200 deep",
                )
            lines.write(b'{"id": 5, "method": "ping"}\n')
            assert (await lines.receive())["id"] == 5

    asyncio.run(main())


def test_half_a_character_leaves_as_a_whole_one(place: Place):
    async def main():
        async with place.lines() as lines:
            result = await lines.call("execute_code", code=r"return ['\ud83d', '\ud83d\ude00']")
            assert result["structuredContent"]["value"] == ["\ufffd", "\U0001f600"]

    asyncio.run(main())


def test_half_a_character_comes_in_as_a_whole_one(place: Place):
    """Clients in JavaScript cut texts there, and spell out the half that is left."""

    async def main():
        async with place.lines() as lines:
            result = await lines.call(
                "execute_code", code="return input", input={"a\ud83d": "\ud83d\ude00\ude00"}
            )
            assert result["structuredContent"]["value"] == {"a\ufffd": "\U0001f600\ufffd"}

    asyncio.run(main())


@pytest.mark.parametrize("probes", [1, 3])
def test_a_client_that_gave_up_its_probe_begins_with_the_handshake(place: Place, probes: int):
    async def main():
        async with place.lines() as lines:
            for _ in range(probes):
                assert "supportedVersions" in (await lines.ask("server/discover", {}))["result"]
            await lines.begin()
            asked = {"name": "execute_code", "arguments": {"code": "return 6 * 7"}}
            answer = await lines.ask("tools/call", asked, modern=False)
            assert answer["result"]["structuredContent"]["value"] == 42
            again = await lines.ask("server/discover", {})
            assert again["error"]["code"] == -32600

    asyncio.run(main())


def test_a_client_that_did_not_wait_for_its_probe_is_served_too(place: Place):
    async def main():
        async with place.lines() as lines:
            lines.send("server/discover", {})
            hello = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "l", "version": "1"},
            }
            begun = await lines.ask("initialize", hello, modern=False)
            assert begun["result"]["protocolVersion"] == "2025-11-25"

    asyncio.run(main())


def test_a_connection_of_the_newest_revision_stays_one(place: Place):
    async def main():
        async with place.lines() as lines:
            await lines.ask("server/discover", {})
            await lines.ask("tools/list", {})
            hello = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "l", "version": "1"},
            }
            refused = await lines.ask("initialize", hello, modern=False)
            assert refused["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}
            assert "tools" in (await lines.ask("tools/list", {}))["result"]

    asyncio.run(main())


def test_standard_streams_that_are_no_pipes(place: Place):
    async def main():
        process = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            'exec "$0" serve mcp </dev/null',
            PADDOCK,
            cwd=place.workspace,
            env=place.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await process.communicate()
        expected = b"standard input is not a pipe: an MCP client must start this command and talk to it\n"
        assert (process.returncode, errors) == (1, expected)

    asyncio.run(main())


def test_s23_what_a_cancelled_program_wrote_is_kept_and_on_the_record(place: Place):
    async def main():
        async with place.lines() as lines:
            asked = {"runtime": "shell", "code": "echo go; sleep 3600"}
            params = {"name": "run_program", "arguments": asked, "_meta": {"progressToken": "p"}}
            number = lines.send("tools/call", params, modern=True)
            while (await lines.receive()).get("method") != "notifications/progress":
                pass
            params = {"requestId": number}
            lines.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            lines.process.stdin.close()
            assert await asyncio.wait_for(lines.process.wait(), PATIENCE_S) == 0

    asyncio.run(main())
    paddock = partial(
        subprocess.run,
        env=place.environment,
        cwd=place.workspace,
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )
    records = json.loads(paddock([PADDOCK, "audit", "tail", "--json"]).stdout)
    (end,) = [record["fields"] for record in records if record["event"] == "finished"]
    assert end["status"] == "cancelled"
    assert paddock([PADDOCK, "output", "show", end["artifact"]]).stdout == b"go\n"


@pytest.mark.parametrize("numbers", [(7, 7), ("7", 7), ("a", "a")])
def test_of_two_requests_with_one_id_the_second_is_refused(place: Place, numbers):
    """Without an id: the client would take an error with one for the answer to the first."""

    def spinning_call(number):
        return request(number, "execute_code", code="await sleep(60_000)")

    def request(number, name, **arguments):
        params = {"name": name, "arguments": arguments, "_meta": MODERN}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    async def main():
        async with place.lines() as lines:
            lines.write(spinning_call(numbers[0]))
            lines.write(request(numbers[1], "call_tool", server="odd", tool="echo", args={"text": "x"}))
            assert await lines.receive() == {
                "jsonrpc": "2.0",
                "id": None,
                "error": {
                    "code": -32600,
                    "message": f"the request id {numbers[1]} is in flight in this session; use another one",
                },
            }
            cancelled = {"requestId": numbers[0]}
            lines.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
            for _ in range(2):  # an id that is cancelled or answered may be used again
                lines.write(request(numbers[1], "call_tool", server="odd", tool="echo", args={"text": "x"}))
                told = await lines.receive()
                assert (told["id"], told["result"]["content"][0]["text"]) == (numbers[1], "x")

    asyncio.run(main())
