"""A client that is killed in the middle of a call leaves nothing behind, whatever ran for it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import PADDOCK
from tests.support.mcp_server import AUTHORIZED, ERAS, Place
from tests.support.processes import PATIENCE_S, all_end, descendants, running_workers, watched

from .test_lines import SPIN

DOOMED = Path(__file__).parents[3] / "clients" / "doomed.py"
MARK = "86399"
ASLEEP = "sleep $1 & setsid sleep $1 & echo up; wait"
CALLS: dict[str, dict[str, Any]] = {
    "execute_code": {"code": SPIN, "timeout_ms": 600_000},
    "run_program": {"runtime": "shell", "code": ASLEEP, "args": [MARK]},
}
MINUTES = "[runtimes]\ntimeout_ms = 600000\n"
"""So that no limit ends the programs before the test does."""


@asynccontextmanager
async def calling(server: dict[str, Any], mode: str, tool: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Give a client whose call is under way."""
    given = [json.dumps(each) for each in (server, mode, tool, CALLS[tool])]
    client = await asyncio.create_subprocess_exec(
        sys.executable, str(DOOMED), *given, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert await asyncio.wait_for(client.stdout.readline(), PATIENCE_S) == b"up\n"
        yield client
    finally:
        if client.returncode is None:
            client.kill()
        await client.communicate()


def sleepers(pid: int) -> list[int]:
    """Return the processes below that sleep for a program."""
    found: list[int] = []
    for each in descendants(pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # what builds a jail ends by itself
            if MARK.encode() in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(each)
    return found


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("tool", CALLS)
def test_over_standard_streams_the_server_ends_with_all_it_started(
    place: Place, tool: str, mode: str
) -> None:
    place.settings(MINUTES)
    server = {
        "command": PADDOCK,
        "args": ["serve", "mcp"],
        "cwd": str(place.workspace),
        "env": place.environment,
    }

    async def main() -> None:
        async with calling(server, mode, tool) as client:
            below = descendants(client.pid)
            assert len(below) >= 3  # the server, what forks its workers, what runs
            handles = watched(below)
            client.kill()
            assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("tool", CALLS)
def test_over_http_the_program_ends_and_others_are_served(place: Place, tool: str, mode: str) -> None:
    place.settings(MINUTES)

    async def main() -> None:
        async with place.web() as web:
            server = {"url": web.url, "headers": AUTHORIZED}
            async with calling(server, mode, tool) as client:
                running = running_workers if tool == "execute_code" else sleepers
                pids = running(web.process.pid)
                assert pids != []
                handles = watched(pids)
                client.kill()
                assert await asyncio.to_thread(all_end, handles)
            async with web.client() as other:
                done = await other.call_tool("execute_code", {"code": "return 1"})
                assert done.structured_content["value"] == 1

    asyncio.run(main())
