"""`maxConcurrent`: the calls of a server wait in turn, and the wait counts for their time."""

import asyncio
import json

import pytest
from tests.support.servers import make_command

from paddock.engines.servers.calls import turns
from paddock.engines.servers.calls.turns import Turns
from paddock.engines.servers.config import StdioServer
from paddock.model.errors import ServerTimeout, ServerUnavailable

from .conftest import failure, text


@pytest.fixture
def server():
    command, *rest = make_command("library")
    return StdioServer("lib", command, tuple(rest), max_concurrent=2)


class Held:
    """Calls that their server holds until `go`, and the first two, which it has received."""

    def __init__(self, hub, folder):
        self._hub, self._file = hub, folder / "go"
        self.calls = []

    async def begin(self, caller, number, **options):
        """Begin a call and return it. By then it runs, or it waits."""
        arguments, arrived = {"id": number, "until": str(self._file)}, asyncio.Event()
        call = asyncio.ensure_future(
            self._hub.call_tool(
                "lib", "hold", arguments, caller=caller, on_progress=lambda _: arrived.set(), **options
            )
        )
        self.calls.append(call)
        await (arrived.wait() if len(self.calls) <= 2 else asyncio.sleep(0))
        return call

    async def go(self):
        self._file.touch()
        return [text(each) for each in await asyncio.gather(*self.calls)]


def counts(h):
    status = h.list_status()["lib"]
    return status.calls_in_flight, status.calls_waiting, status.failures


def test_calls_beyond_the_bound_wait_and_callers_take_turns(hub, server, tmp_path):
    async def main():
        async with hub(server) as h:
            held = Held(h, tmp_path)
            for name in ("a1", "a2", "a3", "a4", "b1"):
                await held.begin(name[0], name)
            before = counts(h)
            results = await held.go()
            return before, results, text(await h.call_tool("lib", "held", {})), counts(h)

    before, results, order, after = asyncio.run(main())
    assert (before, results, after) == ((2, 3, 0), ["a1", "a2", "a3", "a4", "b1"], (0, 0, 0))
    assert (json.loads(order)[:2], json.loads(order).index("b1") < 4) == (["a1", "a2"], True)


def test_the_wait_counts_for_the_time_of_a_call_and_a_cancelled_call_leaves(hub, server, tmp_path):
    async def main():
        async with hub(server) as h:
            held = Held(h, tmp_path)
            await held.begin("a", "1")
            await held.begin("a", "2")
            never = await failure(h.call_tool("lib", "held", {}, timeout_ms=1), ServerTimeout)
            also = await failure(h.request("lib", "resources/list", {}, timeout_ms=1), ServerTimeout)
            left = await held.begin("a", "3")
            waited = counts(h)
            left.cancel()
            await asyncio.wait({held.calls.pop()})
            return str(never), never.sent, str(also), waited, counts(h), await held.go()

    why = "waited for 2 calls of this server (`maxConcurrent` is 2), and was not sent within 1 ms."
    advice = "Call less at once, or raise `maxConcurrent` or `timeoutMs`."
    assert asyncio.run(main()) == (
        f"Server lib: tool 'held' {why} {advice}",
        False,
        f"Server lib: resources/list {why} {advice}",
        (2, 1, 0),
        (2, 0, 0),
        ["1", "2"],
    )


def test_a_bounded_number_of_calls_waits(hub, server, tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "MAX_WAITING", 2)

    async def main():
        async with hub(server) as h:
            held = Held(h, tmp_path)
            for name in ("1", "2", "3", "4"):
                await held.begin("a", name)
            error = await failure(h.call_tool("lib", "held", {}), ServerUnavailable)
            return str(error), error.retryable, await held.go()

    assert asyncio.run(main()) == (
        (
            "Server lib: tool 'held' was not sent: 2 calls of this server wait already. "
            "Call less at once, or raise `maxConcurrent`."
        ),
        True,
        ["1", "2", "3", "4"],
    )


def test_a_call_that_times_out_after_its_wait_reports_both():
    limits = []

    async def main():
        queue, gone = Turns("lib", 1), asyncio.Event()

        async def first(_):
            await gone.wait()

        async def second(left):
            limits.append(left)
            raise ServerTimeout("It did not finish.", sent=True)

        holding = asyncio.ensure_future(queue.take("tool 'a'", "x", 1e6, first))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(queue.take("tool 'b'", "x", 1e6, second))
        await asyncio.sleep(0)
        gone.set()
        await holding
        return await failure(waiting, ServerTimeout)

    error = asyncio.run(main())
    assert str(error).startswith(
        "It did not finish. Before, it waited for 1 call of this server (`maxConcurrent` is 1), which took "
    )
    assert (error.sent, limits[0] < 1e6) == (True, True)
