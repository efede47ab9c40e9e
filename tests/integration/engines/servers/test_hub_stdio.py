import asyncio
import os
import signal
import subprocess
import sys

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification
from tests.support.processes import all_end, watched

from paddock.engines.servers.calls.call_checks import CallChecks
from paddock.engines.servers.calls.lifecycle import Breaker
from paddock.engines.servers.calls.process import ServerProcess, start_process
from paddock.engines.servers.calls.session import RawSession
from paddock.engines.servers.calls.stdio import PipeWriter
from paddock.engines.servers.calls.stdio_rpc import StdioRpc
from paddock.engines.servers.config import StdioServer
from paddock.engines.servers.pins import Pins
from paddock.engines.servers.result import ToolInfo, ToolResult
from paddock.model.errors import (
    ServerRejected,
    ServerTimeout,
    ServerUnavailable,
    UnknownServer,
)
from paddock.policy.redaction.known import ServerSecrets

from .conftest import failure, text


def test_x25_m26_unknown_server_is_named(hub, odd):
    async def main():
        async with hub(odd()) as h:
            error = await failure(h.call_tool("nonexistent", "t", {}), UnknownServer)
            assert (str(error), error.retryable, error.sent) == ("Unknown server: nonexistent", False, False)
            await failure(h.list_tools("nonexistent"), UnknownServer)
            error = await failure(h.call_tool("ODD", "t", {}), UnknownServer)
            assert str(error) == "Unknown server: ODD; did you mean `odd`?"

    asyncio.run(main())


def test_x26_results_of_parallel_calls_to_two_servers_keep_their_order(hub, odd):
    async def main():
        async with hub(odd("a"), odd("b")) as h:
            names = ["a", "b"] * 5
            calls = (h.call_tool(name, "echo", {"text": f"{name}{i}"}) for i, name in enumerate(names))
            results = await asyncio.gather(*calls)
            assert [text(r) for r in results] == [f"{name}{i}" for i, name in enumerate(names)]
            assert [s.starts for s in h.list_status().values()] == [1, 1]

    asyncio.run(main())


def test_x27_is_error_is_returned(hub, odd):
    async def main():
        async with hub(odd()) as h:
            result = await h.call_tool("odd", "is_error", {})
            content = [{"type": "text", "text": "it broke"}]
            assert result == ToolResult({"content": content, "isError": True}, server="odd")
            assert h.list_status()["odd"].failures == 0

    asyncio.run(main())


def test_m27_servers_start_at_their_first_call(hub, odd, tmp_path):
    async def main():
        starts = tmp_path / "starts"
        async with hub(odd("used", "--starts", starts), odd("unused", "--starts", starts)) as h:
            assert not starts.exists()
            assert [s.live for s in h.list_status().values()] == [False, False]
            await h.call_tool("used", "echo", {"text": "hi"})
            status = h.list_status()
            assert starts.read_text() == f"{status['used'].pid}\n"
            assert (status["used"].state, status["used"].live, status["unused"].live) == ("idle", True, False)

    asyncio.run(main())


def test_x28_call_survives_a_crash_with_one_respawn(hub, odd, tmp_path):
    async def main():
        starts = tmp_path / "starts"
        async with hub(odd("odd", "--starts", starts)) as h:
            result = await h.call_tool("odd", "crash_once", {"marker": str(tmp_path / "marker")})
            assert text(result) == "alive"
            assert len(starts.read_text().split()) == 2

    asyncio.run(main())


def test_x28_second_crash_is_told_with_the_last_words_but_no_secret(hub, odd, tmp_path):
    async def main():
        starts = tmp_path / "starts"
        server = odd(
            "odd", "--starts", starts, env={"SECRET": "tok-12345"}, secrets=ServerSecrets(["tok-12345"])
        )
        async with hub(server) as h:
            error = await failure(h.call_tool("odd", "crash", {}), ServerUnavailable)
            assert str(error) == (
                "Server odd exited with status 7 without an answer."
                " Its stderr ends: about to crash with [REDACTED:server]"
            )
            assert (error.retryable, error.sent) == (True, True)
            assert len(starts.read_text().split()) == 2
            assert h.list_status()["odd"].last_error == str(error)
            assert error.__suppress_context__

    asyncio.run(main())


def test_x28_a_call_that_cannot_be_repeated_was_sent_before(hub, odd, tmp_path):
    """The pins cannot be read for the second child. The caller must not hear that nothing was sent."""

    async def main():
        servers = {"odd": odd()}
        checks = CallChecks(servers, Pins(tmp_path, tmp_path / ".mcp.json"))
        async with hub(*servers.values(), checks=checks) as h:
            await h.list_tools("odd")
            [pins] = tmp_path.rglob("pins.json")
            pins.write_text("damaged")
            error = await failure(h.call_tool("odd", "crash", {}), ServerUnavailable)
            assert str(error).startswith("Server odd exited with status 7 without an answer.")
            assert error.sent

    asyncio.run(main())


def test_x28_server_that_died_while_idle_is_replaced_unnoticed(hub, odd):
    async def main():
        async with hub(odd()) as h:
            first = int(text(await h.call_tool("odd", "pid", {})))
            os.kill(first, signal.SIGKILL)
            assert all_end(watched([first]))
            assert int(text(await h.call_tool("odd", "pid", {}))) != first
            assert h.list_status()["odd"].starts == 2

    asyncio.run(main())


def test_timeout_is_never_repeated_and_leaves_the_server_usable(hub, odd, tmp_path):
    async def main():
        starts = tmp_path / "starts"
        async with hub(odd("odd", "--starts", starts)) as h:
            await h.call_tool("odd", "echo", {"text": "warm"})
            error = await failure(h.call_tool("odd", "hang", {}, timeout_ms=50), ServerTimeout)
            assert str(error) == (
                "Server odd did not finish tool 'hang' within 50 ms."
                " Ask for less at once, or raise its `timeoutMs`."
            )
            assert (error.retryable, error.sent) == (False, True)
            assert text(await h.call_tool("odd", "echo", {"text": "still here"})) == "still here"
            assert len(starts.read_text().split()) == 1

    asyncio.run(main())


def test_x29_five_failures_open_the_breaker_until_the_cooldown_is_over(hub, odd):
    async def main():
        now = [0.0]
        async with hub(odd(), clock=lambda: now[0]) as h:
            first = int(text(await h.call_tool("odd", "pid", {})))
            for _ in range(5):
                error = await failure(h.call_tool("odd", "fail", {}), ServerRejected)
                assert (str(error), error.code, error.sent) == ("error -32603", -32603, True)
            now[0] = 30.0
            error = await failure(h.call_tool("odd", "echo", {"text": "no"}), ServerUnavailable)
            assert str(error) == "Circuit breaker open for odd — cooldown 30000ms"
            assert (error.retryable, error.sent) == (True, False)
            now[0] = 30.001
            assert text(await h.call_tool("odd", "echo", {"text": "yes"})) == "yes"
            assert all_end(watched([first])), "a server that failed so often is started anew"

    asyncio.run(main())


def test_x29_commands_that_are_not_there_count_as_failures(hub):
    async def main():
        async with hub(StdioServer("gone", "no-such-command"), breaker=Breaker(threshold=2)) as h:
            for _ in range(2):
                error = await failure(h.call_tool("gone", "t", {}), ServerUnavailable)
                assert str(error) == (
                    "Failed to connect to server gone: command no-such-command is not on the PATH;"
                    " install it or give its full path"
                )
            error = await failure(h.call_tool("gone", "t", {}), ServerUnavailable)
            assert str(error) == "Circuit breaker open for gone — cooldown 30000ms"

    asyncio.run(main())


def test_x29_answers_that_blame_the_request_do_not_count(hub, odd):
    async def main():
        async with hub(odd(), breaker=Breaker(threshold=2)) as h:
            for _ in range(3):
                await failure(h.call_tool("odd", "refuse", {}), ServerRejected)
            assert text(await h.call_tool("odd", "echo", {"text": "fine"})) == "fine"

    asyncio.run(main())


def test_children_see_only_the_allowed_environment(hub, odd, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "ours")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    async def main():
        async with hub(odd(env={"OWN": "theirs"})) as h:
            seen = (await h.call_tool("odd", "environment", {})).raw["structuredContent"]
            assert seen["OWN"] == "theirs"
            assert seen["LC_ALL"] == "C.UTF-8"
            assert "GITHUB_TOKEN" not in seen

    asyncio.run(main())


def test_no_answer_of_a_server_holds_its_credentials(hub, odd):
    env = {"API_TOKEN": "tok-12345", "PLACE": "/home/somebody"}

    async def main():
        async with hub(odd(env=env, credentials=ServerSecrets(["tok-12345"]))) as h:
            seen = (await h.call_tool("odd", "environment", {})).raw["structuredContent"]
            assert (seen["API_TOKEN"], seen["PLACE"]) == ("[REDACTED:server]", "/home/somebody")
            assert text(await h.call_tool("odd", "echo", {"text": "tok-12345"})) == "[REDACTED:server]"

    asyncio.run(main())


def test_faulty_results_are_passed_on_with_a_warning(hub, odd):
    async def main():
        async with hub(odd()) as h:
            assert await h.call_tool("odd", "invalid", {}) == ToolResult(
                {"content": [{"type": "text", "text": "just text"}], "isError": True},
                ("`content` is not an array", "`isError` is not a boolean"),
                server="odd",
            )
            assert await h.call_tool("odd", "no_object", {}) == ToolResult(
                {"content": [{"type": "text", "text": "bare"}]},
                ("the result is not an object",),
                server="odd",
            )
            assert (await h.list_tools("odd"))[:2] == [
                ToolInfo("echo", "Say it again", {"type": "object"}, None, {}),
                ToolInfo("pid", "", {"type": "object"}, None, {"readOnlyHint": True}),
            ]
            assert h.list_status()["odd"].warnings == (
                "tool 'invalid': `content` is not an array",
                "tool 'invalid': `isError` is not a boolean",
                "tool 'no_object': the result is not an object",
                "tool listing: a listed tool has no name",
            )

    asyncio.run(main())


def test_message_beyond_the_limit_breaks_the_connection(hub, odd):
    async def main():
        async with hub(odd()) as h:
            error = await failure(h.call_tool("odd", "long", {"bytes": 65 * 1024 * 1024}), ServerUnavailable)
            assert str(error) == "Server odd was cut off: a message is longer than 67108864 bytes."
            assert (error.retryable, error.sent) == (False, True)
            assert text(await h.call_tool("odd", "echo", {"text": "anew"})) == "anew"
            assert h.list_status()["odd"].starts == 2

    asyncio.run(main())


def test_closed_output_of_a_living_server_is_not_repeated(hub, odd):
    async def main():
        async with hub(odd()) as h:
            error = await failure(h.call_tool("odd", "close_output", {}), ServerUnavailable)
            assert str(error) == "Server odd closed its output without an answer."
            assert (error.retryable, error.sent) == (False, True)
            assert h.list_status()["odd"].starts == 1

    asyncio.run(main())


def test_who_closed_his_output_is_not_taken_for_one_that_we_ended(hub, odd, monkeypatch):
    exit_status, stop = ServerProcess.exit_status, ServerProcess.stop

    async def main():
        caller, ends = asyncio.current_task(), asyncio.Event()

        async def late(process):
            status = await exit_status(process)
            if asyncio.current_task() is caller:
                await ends.wait()  # its owner sees first that the server lives on, and ends it
            return status

        async def told(process):
            ends.set()
            await stop(process)

        monkeypatch.setattr(ServerProcess, "exit_status", late)
        monkeypatch.setattr(ServerProcess, "stop", told)
        async with hub(odd()) as h:
            error = await failure(h.call_tool("odd", "close_output", {}), ServerUnavailable)
            assert (str(error), error.retryable) == ("Server odd closed its output without an answer.", False)

    asyncio.run(main())


def test_both_eras_and_strict_handshakes(hub, odd):
    async def main():
        async with hub(odd("old"), odd("new", "--modern"), odd("strict", "--handshake-first")) as h:
            for name in ("old", "new", "strict"):
                assert text(await h.call_tool(name, "echo", {"text": name})) == name
            protocols = {name: status.protocol for name, status in h.list_status().items()}
            assert protocols == {"old": "2025-11-25", "new": "2026-07-28", "strict": "2025-11-25"}
            error = await failure(h.call_tool("new", "ask_back", {}), ServerRejected)
            assert str(error) == (
                "Tool 'ask_back' asks its user for more input, which a program cannot give;"
                " pass all it needs, or let a person be asked: `servers.questions` names the servers that may."
            )

    asyncio.run(main())


def test_a_server_of_the_newer_era_that_starts_slowly_is_asked_again(hub, odd, given_up):
    async def main():
        async with hub(odd("new", "--modern", "--late")) as h:
            assert text(await h.call_tool("new", "echo", {"text": "here"})) == "here"
            assert h.list_status()["new"].protocol == "2026-07-28"
        assert given_up.is_set()

    asyncio.run(main())


def test_commands_and_directories_that_cannot_be_used(hub, tmp_path):
    async def main():
        plain = tmp_path / "plain"
        plain.write_text("")
        servers = {
            "plain": StdioServer("plain", str(plain)),
            "nowhere": StdioServer("nowhere", "true", cwd=tmp_path / "none"),
        }
        async with hub(*servers.values()) as h:
            error = await failure(h.call_tool("plain", "t", {}), ServerUnavailable)
            assert str(error) == (
                f"Failed to connect to server plain: command {plain} is not an executable file;"
                " correct `command`"
            )
            error = await failure(h.call_tool("nowhere", "t", {}), ServerUnavailable)
            assert str(error) == (
                f"Failed to connect to server nowhere: working directory {tmp_path / 'none'} does not exist;"
                " correct `cwd`"
            )

    asyncio.run(main())


def test_importing_the_hub_does_not_import_the_mcp_library():
    code = "import sys, paddock.engines.servers.calls.hub; print([m for m in ('mcp', 'anyio', 'httpx2') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == "[]\n"


def test_a_server_that_is_silent_on_the_probe_is_asked_once_by_all_processes(
    odd, hub, given_up, tmp_path, monkeypatch
):
    """What it never answers takes the library ten seconds; beside its pins is noted that it does not."""

    async def session():
        servers = {"odd": odd("odd", "--silent")}
        admission = CallChecks(servers, Pins(tmp_path, tmp_path / ".mcp.json"))
        before = admission.is_silent("odd")
        async with hub(*servers.values(), checks=admission) as h:
            assert text(await h.call_tool("odd", "echo", {"text": "hello"})) == "hello"
        return before, admission.is_silent("odd")

    asked = []
    discover = RawSession.discover

    async def counted(session):
        asked.append(session)
        return await discover(session)

    monkeypatch.setattr(RawSession, "discover", counted)
    first, second = asyncio.run(session()), asyncio.run(session())
    assert (first, second, len(asked)) == ((False, True), (True, True), 1)


def test_a_server_that_answers_the_probe_again_is_no_longer_noted_as_silent(odd, hub, tmp_path):
    async def main():
        servers = {"odd": odd("odd", "--modern")}
        admission = CallChecks(servers, Pins(tmp_path, tmp_path / ".mcp.json"))
        admission.note_silent("odd", silent=True)
        async with hub(*servers.values(), checks=admission) as h:
            assert text(await h.call_tool("odd", "echo", {"text": "hello"})) == "hello"
            assert h.list_status()["odd"].protocol == "2026-07-28"
        return admission.is_silent("odd")

    assert asyncio.run(main()) is False


DEAF = "import signal; signal.pause()"
"""A server that never reads."""


def test_requests_to_a_server_that_does_not_read_do_not_pile_up():
    """What is written to it is kept until it reads, also when nobody waits for the answer any more."""

    async def main():
        process = await start_process(StdioServer("deaf", sys.executable, ("-c", DEAF)), os.environ)
        try:
            lane, writer = StdioRpc(process.stdin), PipeWriter(process.stdin)
            notification = JSONRPCNotification(
                jsonrpc="2.0", method="notifications/x", params={"text": "x" * 1_000_000}
            )
            for _ in range(10):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await lane.send_request("tools/call", {"text": "x" * 1_000_000}, tell=True)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await writer.send(SessionMessage(notification))
            return process.stdin.transport.get_write_buffer_size()
        finally:
            await process.stop()

    unread = asyncio.run(main())
    assert 900_000 < unread < 1_100_000


TIRED = """
import json, signal, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        facts = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "t", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": facts}), flush=True)
        signal.pause()
    error = {"code": -32601, "message": "unknown"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""
"""A server that reads nothing after the handshake."""


def test_a_call_that_waits_for_a_server_to_read_was_not_sent(hub):
    async def main():
        async with hub(StdioServer("tired", sys.executable, ("-c", TIRED))) as h:
            errors = [
                await failure(
                    h.call_tool("tired", "t", {"text": "x" * 1_000_000}, timeout_ms=100), ServerTimeout
                )
                for _ in range(2)
            ]
            return [(str(error), error.sent) for error in errors]

    told = (
        "Server tired did not finish tool 't' within 100 ms. Ask for less at once, or raise its `timeoutMs`."
    )
    assert asyncio.run(main()) == [(told, True), (told, False)]
