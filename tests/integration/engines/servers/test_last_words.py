"""What a process that does not serve wrote for people is told, wherever it wrote it, without the stack."""

import asyncio
import sys

import pytest

from paddock.engines.servers.calls.process import suggest_remedy
from paddock.engines.servers.config import StdioServer
from paddock.model.errors import ServerRejected, ServerUnavailable

from .conftest import failure


def told(hub, program, *, command=sys.executable, **options):
    async def main():
        async with hub(StdioServer("s", command, ("-I", "-S", "-c", program), **options)) as h:
            return str(await failure(h.call_tool("s", "t", {}), ServerUnavailable))

    return asyncio.run(main())


def test_the_message_of_a_long_stack_is_told(hub):
    program = r"""
import sys
print("noise\n" * 2000, "throw err;\n\nError: Cannot find module 'x'\n", "    at load (node:1:1)\n" * 40, file=sys.stderr)
sys.exit(1)
"""
    lines = [*["noise"] * 7, " throw err;", "Error: Cannot find module 'x'"]
    begin = (
        "Failed to connect to server s: Server s exited with status 1 without an answer. Its stderr ends: "
    )
    words = told(hub, program)
    assert words.startswith(begin)
    assert words.removeprefix(begin).splitlines()[-2:] == lines[-2:]
    assert len(words.splitlines()) == 10


BROKEN = r"""
import sys
folder = "/home/ada/.npm/_npx/e54cca0e4081644e/node_modules"
print("Error: fetch failed\n" + "Error: Cannot find module './form'\nRequire stack:", file=sys.stderr)
print(*[f"- {folder}/{n}.js\n" for n in range(12)], file=sys.stderr)
sys.exit(1)
"""


@pytest.mark.parametrize("command", ["npx", "node"])
def test_the_last_error_above_the_last_lines_is_told_and_how_to_mend_what_npx_keeps(hub, tmp_path, command):
    folder = "/home/ada/.npm/_npx/e54cca0e4081644e"
    (tmp_path / command).symlink_to(sys.executable)
    advice = [f"npm's copy of the package is incomplete: remove {folder}, and try again."]
    assert told(hub, BROKEN, command=str(tmp_path / command)).splitlines() == [
        "Failed to connect to server s: Server s exited with status 1 without an answer. Its stderr ends: "
        "Error: Cannot find module './form'",
        "...",
        *(f" - {folder}/node_modules/{number}.js" for number in range(4, 12)),
        *(advice if command == "npx" else []),
    ]


def test_what_means_something_to_a_shell_is_no_folder_to_remove():
    words = "Cannot find module 'x' /a/{}/_npx/e54cca0e4081644e/node_modules/x"
    assert suggest_remedy("npx", words.format("b")) != ""
    assert [
        suggest_remedy("npx", words.format(each)) for each in ("$x", "`x`", "x;y", "x|y", "x&y", "\x1b[1m")
    ] == [""] * 6


def test_a_start_has_the_longer_of_its_times_and_one_that_takes_long_is_told_of(hub, monkeypatch, caplog):
    monkeypatch.setattr("paddock.engines.servers.calls.connection._SLOW_S", 0.01)
    program = "import sys; sys.stdin.read()"
    assert told(hub, program, timeout_ms=1, start_ms=500) == (
        "Failed to connect to server s: Server s did not finish the handshake within 500 ms. Correct its `command`, or "
        "raise its `timeoutMs`."
    )
    assert caplog.messages == ["server 's' has not answered for 0.01 s; it has 0.5 s to start"]


def test_a_launcher_that_never_answers_may_be_fetching(hub, tmp_path):
    (tmp_path / "npx").symlink_to(sys.executable)
    program = "import sys; sys.stdin.read()"

    async def main():
        npx = StdioServer("s", str(tmp_path / "npx"), ("-I", "-S", "-c", program), timeout_ms=300)
        async with hub(npx) as h:
            return str(await failure(h.call_tool("s", "t", {}), ServerUnavailable))

    assert asyncio.run(main()).startswith(
        "Failed to connect to server s: Server s did not finish the handshake within 300 ms. Run its command by itself "
        "once, or raise its `timeoutMs`."
    )


NO_TOOLS = r"""
import json, sys
answers = {
    "initialize": {"result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}},
    "tools/list": {"error": {"code": -32603, "message": "fetch failed"}},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = answers.get(asked["method"], {"error": {"code": -32601, "message": "unknown"}})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def test_a_server_that_cannot_list_its_tools_says_so(hub):
    async def main():
        async with hub(StdioServer("s", sys.executable, ("-I", "-S", "-c", NO_TOOLS))) as h:
            return str(await failure(h.list_tools("s"), ServerRejected))

    assert asyncio.run(main()) == "Server s cannot list its tools: fetch failed"


def test_what_went_to_standard_output_is_told_too(hub):
    assert told(hub, "print('usage: s --token TOKEN'); raise SystemExit(2)") == (
        "Failed to connect to server s: Server s exited with status 2 without an answer. Its output ends: usage: s "
        "--token TOKEN"
    )


def test_one_that_never_answers_says_what_it_waits_for(hub):
    program = "import sys; print('waiting for the database', file=sys.stderr, flush=True); sys.stdin.read()"
    assert told(hub, program, timeout_ms=5000) == (
        "Failed to connect to server s: Server s did not finish the handshake within 5000 ms. Correct its `command`, "
        "or raise its `timeoutMs`. Its stderr ends: waiting for the database"
    )
