"""Who runs first where processors are scarce: programs that begin, before those that have run for long."""

import asyncio
import os

from paddock.engines.javascript import worker_client


def test_a_program_makes_way_when_another_one_begins(guest, monkeypatch):
    monkeypatch.setattr(worker_client, "SHORT_S", -1.0)  # every program has run for long

    async def use() -> tuple[int, object, int]:
        stop, begun = asyncio.Event(), asyncio.Event()
        request = guest.request("console.log('on'); for (;;);")
        looping = guest.session.gate.execute(request, stop=stop, on_console=lambda _: begun.set())
        task = asyncio.create_task(looping)
        await begun.wait()
        process = guest.running_worker()
        before = os.getpriority(os.PRIO_PROCESS, process)
        short = await guest.session.gate.execute(guest.request("return 1"))
        after = os.getpriority(os.PRIO_PROCESS, process)
        stop.set()
        await task
        return before, short.value, after

    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert guest.runner.run(use()) == (own, 1, own + worker_client.NICENESS)
