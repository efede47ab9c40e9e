"""Requests that wait for their turn: the record has the wait apart from the run."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock import Paddock


class Kind(NamedTuple):
    """How programs of one kind are started: one that prints and spins, and a short one."""

    spin: Callable[[Paddock, Callable[[], None]], Coroutine[Any, Any, Any]]
    print: Callable[[Paddock], Coroutine[Any, Any, Any]]


KINDS = {
    "guest": Kind(
        lambda p, began: p.execute(
            "console.log(1); for (;;);", timeout_ms=5000, on_console=lambda _: began()
        ),
        lambda p: p.execute("console.log(1)"),
    ),
    "runtime": Kind(
        lambda p, began: p.exec(
            "shell", "echo 1; while :; do :; done", timeout_ms=5000, on_output=lambda *_: began()
        ),
        lambda p: p.exec("shell", "echo 1"),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_wait_for_a_slot_is_no_part_of_the_run(tmp_path: Path, kind: str) -> None:
    async def run() -> tuple[dict[str, Any], float]:
        one_slot = {"guest.max_workers": 1, "runtimes.max_jobs": 1}
        async with Paddock(tmp_path, overrides=one_slot) as paddock:
            began = asyncio.Event()
            first = asyncio.create_task(KINDS[kind].spin(paddock, began.set))
            await began.wait()
            sent = time.perf_counter()
            second = await KINDS[kind].print(paddock)
            total_ms = (time.perf_counter() - sent) * 1000
            await first
            [record] = await paddock.find_records(second.id, event="finished")
            return dict(record.fields), total_ms

    facts, total_ms = asyncio.run(run())
    assert (facts["kind"], facts["status"]) == (kind, "ok")
    assert facts["queue_ms"] >= 1
    assert facts["queue_ms"] + facts["ms"] <= total_ms
    assert facts["ms"] == round(facts["ms"], 3)
