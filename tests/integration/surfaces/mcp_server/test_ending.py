"""SIGTERM: calls that run have a grace, what is left of them then ends as `cancelled`, and nothing else is taken."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.mcp_server import AUTHORIZED, Place, Web
from tests.support.processes import PATIENCE_S, all_end, descendants, running_workers, watched

from .test_http import modern, shaken_hands
from .test_lines import SPIN, spinning
from .test_script_tools import tool

GRACE = "[mcp]\nshutdown_grace_ms = {}\n"
LONG = GRACE.format(600_000)
SHELL = {"runtime": "shell", "code": "read line < gate; echo $line", "outputMode": "summary"}
"""A program that runs until the test writes into a pipe of the workspace."""


class Gate:
    """A named pipe that a program of the workspace reads."""

    def __init__(self, workspace: Path) -> None:
        self._path = workspace / "gate"
        os.mkfifo(self._path)

    @asynccontextmanager
    async def reached(self) -> AsyncIterator[Any]:
        """Wait until the program reads; give the end that lets it go on."""
        end = await asyncio.to_thread(self._path.open, "w")
        try:
            yield end
        finally:
            end.close()


def call(name: str, arguments: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return headers and body of a call of 2026-07-28."""
    return modern("tools/call", {"name": name, "arguments": arguments})


async def post(http: httpx2.AsyncClient, web: Web, request: tuple[dict[str, str], dict[str, Any]]) -> Any:
    return await http.post(web.url, headers=request[0], json=request[1])


async def ending(http: httpx2.AsyncClient, web: Web) -> None:
    """Send SIGTERM, and wait until the server takes no further requests."""
    web.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        while (await http.get(web.url.replace("/mcp", "/readyz"))).status_code != 503:
            pass


async def ended(web: Web) -> None:
    """Wait until the server has ended in order, without a word."""
    assert await asyncio.wait_for(web.process.wait(), PATIENCE_S) == 0
    assert await web.process.stderr.read() == b""


@pytest.mark.parametrize("era", ["session", "modern"])
def test_a_call_that_ends_within_the_grace_is_answered(place: Place, era: str) -> None:
    place.settings(LONG)
    gate = Gate(place.workspace)

    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            request = call("run_program", SHELL)
            session = await shaken_hands(http, web.url)
            if era == "session":
                body = {**request[1], "params": {"name": "run_program", "arguments": SHELL}}
                request = (session, body)
            running = asyncio.create_task(post(http, web, request))
            async with gate.reached() as end:
                handles = watched(descendants(web.process.pid))
                await ending(http, web)
                assert (await http.get(web.url.replace("/mcp", "/livez"))).status_code == 200
                late = [
                    await post(http, web, call("execute_code", {"code": "return 1"})),
                    await post(http, web, (session, {"jsonrpc": "2.0", "id": 9, "method": "tools/list"})),
                    await http.get(web.url, headers=session),
                ]
                told = [(each.status_code, each.text, each.headers["retry-after"]) for each in late]
                assert told == [(503, "This server is ending.\n", "600")] * 3
                end.write("let go\n")
            response = await running
            assert response.status_code == 200
            assert '"status":"ok"' in response.text
            assert "let go" in response.text
            await ended(web)
            assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "a script": ("execute_code", {"code": SPIN}),
    "a computation": ("compute", {"source": "for (;;) {}", "limits": {"timeout_ms": 60_000}}),
    "a program": ("run_program", SHELL),
    "a call of a server": ("call_tool", {"server": "odd", "tool": "hang"}),
    "a script tool": ("waits", {}),
}
SINGLE = {"a call of a server", "a script tool"}
READS = {"a program", "a script tool"}


CUT_SHORT = {
    "status": "cancelled",
    "error": {
        "name": "Cancelled",
        "message": "The call was cancelled before its answer came.",
        "hint": "it may have acted already: check before you call it again",
    },
    "happened": "in_flight_unknown",
}


def records(place: Place) -> list[dict[str, Any]]:
    """Return all records, the oldest first."""
    files = sorted((place.home / ".local/state/paddock/audit").glob("*.ndjson"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def finished(place: Place, run: str) -> list[dict[str, Any]]:
    """Return the records that say how a run ended."""
    return [each for each in records(place) if (each["event"], each["request"]) == ("finished", run)]


@pytest.mark.parametrize("kind", [*CALLS])
def test_a_call_that_outlives_the_grace_is_answered_as_cancelled(place: Place, kind: str) -> None:
    place.settings(GRACE.format(0) + "[limits.compute]\ntimeout_ms = 60000\n")
    gate = Gate(place.workspace)
    tool(place, "waits", f"open({str(place.workspace / 'gate')!r}).read()", workspace="read-only")

    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            running = asyncio.create_task(post(http, web, call(*CALLS[kind])))
            async with gate.reached() if kind in READS else nullcontext():
                await started(web, kind)
                handles = watched(descendants(web.process.pid))
                web.process.send_signal(signal.SIGTERM)
                result = (await running).json()["result"]
            data = result["structuredContent"]
            assert (result["isError"], data["status"]) == (True, "cancelled")
            if kind in SINGLE:
                [record] = finished(place, data.pop("run"))
                assert (record["status"], data.pop("ms") >= 0) == ("cancelled", True)
                assert data == CUT_SHORT
            await ended(web)
            assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())


async def started(web: Web, kind: str) -> None:
    """Wait until a call has begun."""

    def has_begun() -> bool:
        pids = descendants(web.process.pid)
        match kind:
            case "a script" | "a computation":
                return bool(running_workers(web.process.pid))
            case "a call of a server":
                return any(b"odd.py" in command_of(pid) for pid in pids)
            case _:
                return True

    async with asyncio.timeout(60):
        while not has_begun():  # noqa: ASYNC110 - they are other processes
            await asyncio.sleep(0)


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_over_standard_streams_a_call_has_the_grace_too(place: Place) -> None:
    place.settings(LONG)
    gate = Gate(place.workspace)

    async def main() -> None:
        async with place.lines() as lines:
            number = lines.send("tools/call", {"name": "run_program", "arguments": SHELL})
            async with gate.reached() as end:
                lines.process.send_signal(signal.SIGTERM)
                while "error" not in (refused := await lines.ask("tools/list", {})):
                    pass
                assert refused["error"] == {"code": -32000, "message": "This server is ending."}
                end.write("let go\n")
            answer = await lines.answer(number)
            assert answer["result"]["structuredContent"]["status"] == "ok"
            assert await asyncio.wait_for(lines.process.wait(), PATIENCE_S) == 0
            assert await lines.process.stderr.read() == b""

    asyncio.run(main())


@pytest.mark.parametrize("modern", [True, False])
def test_over_standard_streams_the_rest_is_cancelled(place: Place, *, modern: bool) -> None:
    place.settings(GRACE.format(0))

    async def main() -> None:
        async with place.lines() as lines:
            if not modern:
                await lines.begin()
            number = await spinning(lines, modern=modern)
            handles = watched(descendants(lines.process.pid))
            lines.process.send_signal(signal.SIGTERM)
            result = (await lines.answer(number))["result"]
            assert (result["isError"], result["structuredContent"]["status"]) == (True, "cancelled")
            assert await asyncio.wait_for(lines.process.wait(), PATIENCE_S) == 0
            assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())


def test_a_client_that_closes_its_end_waits_for_no_grace(place: Place) -> None:
    place.settings(LONG)

    async def main() -> None:
        async with place.lines() as lines:
            await spinning(lines)
            lines.process.send_signal(signal.SIGTERM)
            lines.process.stdin.close()
            assert await asyncio.wait_for(lines.process.wait(), PATIENCE_S) == 0

    asyncio.run(main())


SAME_S = 0.5
"""Seconds in which a signal counts as the one before it."""


@pytest.mark.parametrize("kind", [*CALLS])
def test_a_second_signal_ends_the_server_at_once_and_the_record_is_whole(place: Place, kind: str) -> None:
    place.settings(LONG + "[limits.compute]\ntimeout_ms = 60000\n")
    gate = Gate(place.workspace)
    tool(place, "waits", f"open({str(place.workspace / 'gate')!r}).read()", workspace="read-only")

    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            running = asyncio.create_task(post(http, web, call(*CALLS[kind])))
            async with gate.reached() if kind in READS else nullcontext():
                await started(web, kind)
                handles = watched(descendants(web.process.pid))
                await ending(http, web)
                known = time.monotonic()
                while time.monotonic() - known <= SAME_S:
                    assert (await http.get(web.url.replace("/mcp", "/livez"))).status_code == 200
                web.process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(web.process.wait(), PATIENCE_S) == -signal.SIGTERM
                with pytest.raises(httpx2.TransportError):
                    await running
            assert await web.process.stderr.read() == b""
            assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())
    told = [(each["event"], each["request"], each.get("status")) for each in records(place)]
    begun = [(event, request) for event, request, _ in told if event == "started"]
    assert len(begun) == 1
    assert told == [("started", begun[0][1], None), ("finished", begun[0][1], "cancelled")]
