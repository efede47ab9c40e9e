"""Servers over standard streams end when they are not needed, and with everything that they started."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time

from tests.support.processes import PATIENCE_S, all_end, watched

from paddock.engines.servers.calls.lifecycle import Breaker
from paddock.engines.servers.calls.process import ServerProcess, start_process
from paddock.engines.servers.config import Lifecycle, StdioServer
from paddock.model.errors import (
    ServerUnavailable,
)

from .conftest import failure, text


def test_x30_exits_of_the_process_do_not_count(hub, odd):
    async def main():
        async with hub(odd("odd", "--exit", 3), breaker=Breaker(threshold=2)) as h:
            for _ in range(3):
                error = await failure(h.call_tool("odd", "echo", {"text": "x"}), ServerUnavailable)
                assert str(error) == (
                    "Failed to connect to server odd: Server odd exited with status 3 without an answer."
                )
            assert not h.list_status()["odd"].breaker_open

    asyncio.run(main())


def test_x31_idle_server_is_really_ended_to_make_room(hub, odd):
    async def main():
        async with hub(odd("a"), odd("b"), max_live=1) as h:
            first = int(text(await h.call_tool("a", "pid", {})))
            await h.call_tool("b", "echo", {"text": "x"})
            assert all_end(watched([first]), 0)
            assert [s.live for s in h.list_status().values()] == [False, True]

    asyncio.run(main())


def test_x32_busy_pool_refuses_after_a_bounded_wait(hub, odd):
    async def main():
        async with hub(odd("a"), odd("b"), max_live=1, wait_ms=50) as h:
            await h.call_tool("a", "echo", {"text": "warm"})
            busy = asyncio.create_task(h.call_tool("a", "hang", {}))
            await asyncio.sleep(0)
            assert h.list_status()["a"].calls_in_flight == 1
            error = await failure(h.call_tool("b", "echo", {"text": "x"}), ServerUnavailable)
            assert str(error) == "Pool upper bound (1) reached, no idle children to evict"
            assert (error.retryable, error.sent) == (True, False)
            busy.cancel()
            await asyncio.wait({busy})
            assert text(await h.call_tool("b", "echo", {"text": "now"})) == "now"

    asyncio.run(main())


def test_x33_server_that_ignores_sigterm_and_its_grandchild_are_killed(hub, odd, tmp_path):
    async def main():
        grandchild = tmp_path / "grandchild"
        h = hub(odd("odd", "--stubborn", "--grandchild", grandchild))
        server = int(text(await h.call_tool("odd", "pid", {})))
        begin = time.monotonic()
        await h.close()
        assert 1.5 < time.monotonic() - begin < 30
        assert all_end(watched([server]), 0)
        assert all_end(watched([int(grandchild.read_text())]))

    asyncio.run(main())


def test_x33_close_ends_all_servers_side_by_side(hub, odd, monkeypatch):
    stop = ServerProcess.stop

    async def with_the_others(process):
        await asyncio.wait_for(together.wait(), PATIENCE_S)
        await stop(process)

    async def main():
        servers = [odd(name, "--stubborn") for name in "abc"]
        h = hub(*servers)
        pids = [
            int(text(r)) for r in await asyncio.gather(*(h.call_tool(s.name, "pid", {}) for s in servers))
        ]
        monkeypatch.setattr(ServerProcess, "stop", with_the_others)
        await h.close()
        await h.close()
        assert all(all_end(watched([pid]), 0) for pid in pids)
        error = await failure(h.call_tool("a", "pid", {}), ServerUnavailable)
        assert str(error) == "The hub is closed; no server can be called any more."

    together = asyncio.Barrier(3)
    asyncio.run(main())


def test_grandchild_of_a_server_that_left_is_ended(hub, odd, tmp_path):
    async def main():
        grandchild = tmp_path / "grandchild"
        async with hub(odd("odd", "--grandchild", grandchild)) as h:
            await failure(h.call_tool("odd", "crash", {}), ServerUnavailable)
            first = int(grandchild.read_text())
        assert all_end(watched([first]))

    asyncio.run(main())


DRIVER = """
import asyncio, sys
from paddock.engines.servers.config import StdioServer
from paddock.engines.servers.calls.hub import Hub

async def main():
    server = StdioServer("odd", sys.executable, ("-I", "-S", sys.argv[1], "--stubborn"))
    result = await Hub({"odd": server}, environment={}).call_tool("odd", "pid", {})
    print(result.raw["content"][0]["text"], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_servers_die_with_a_paddock_that_is_killed(odd):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, odd().args[2]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        server = int(driver.stdout.readline())
    finally:
        driver.kill()
        driver.wait()
        driver.stdout.close()
    assert all_end(watched([server])), (
        "it ignores SIGTERM and the end of its stdin; only the kernel can end it"
    )


def test_ephemeral_server_ends_after_its_call(hub, odd):
    async def main():
        async with hub(odd(lifecycle=Lifecycle("ephemeral"))) as h:
            first = int(text(await h.call_tool("odd", "pid", {})))
            second = int(text(await h.call_tool("odd", "pid", {})))
            assert first != second
            assert all_end(watched([first]), 0)

    asyncio.run(main())


def test_idle_server_is_swept(hub, odd):
    async def main():
        async with hub(odd(), idle_timeout_ms=1, sweep_ms=1) as h:
            first = int(text(await h.call_tool("odd", "pid", {})))
            assert await asyncio.to_thread(all_end, watched([first]))

    asyncio.run(main())


def test_cancelled_caller_leaves_nothing_behind(hub, odd):
    async def main():
        async with hub(odd()) as h:
            early = asyncio.create_task(h.call_tool("odd", "echo", {"text": "x"}))
            await asyncio.sleep(0)
            early.cancel()
            await asyncio.wait({early})
            assert text(await h.call_tool("odd", "echo", {"text": "y"})) == "y"
            assert h.list_status()["odd"].calls_in_flight == 0
            assert h.list_status()["odd"].starts == 1

    asyncio.run(main())


def test_close_while_starting_and_while_calling(hub, odd):
    async def main():
        starting = hub(odd())
        call = asyncio.create_task(starting.call_tool("odd", "echo", {"text": "x"}))
        await asyncio.sleep(0)
        await starting.close()
        await failure(call, ServerUnavailable)
        calling = hub(odd())
        server = int(text(await calling.call_tool("odd", "pid", {})))
        call = asyncio.create_task(calling.call_tool("odd", "hang", {}))
        await asyncio.sleep(0)
        await calling.close()
        assert (await failure(call, ServerUnavailable)).sent
        assert all_end(watched([server]), 0)

    asyncio.run(main())


def test_an_input_that_breaks_is_no_error_of_ours():
    told = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
        server = StdioServer("sleeper", "/bin/sleep", ("60",))
        process = await start_process(server, {"PATH": os.environ["PATH"]})
        os.kill(process.pid, signal.SIGKILL)
        assert all_end(watched([process.pid]))  # and the event loop does not know it yet
        process.stdin.write(b"hello\n")
        await process.stop()

    asyncio.run(main())
    gc.collect()
    assert told == []
