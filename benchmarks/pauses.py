"""Measure how long the event loop stands still while programs hand over long and many values.

`python -m benchmarks.pauses` prints for each kind of work the longest pause of a task that sleeps for 10 ms, and the
longest iteration of the loop in CPU time, which depends less on what else the machine does.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from paddock import Paddock

_PARALLEL = 7
_REPEAT = 500_000
_HTML = f"class R:\n  def _repr_html_(s): return '<a ' + 'password=' * {_REPEAT}\nR()"
_FRAMES = "import os, json\nfor _ in range(1_200_000): print('')"


class _Steps:
    """Measures the longest iteration of the loop in CPU time."""

    def __init__(self) -> None:
        self.longest = 0.0
        run: Callable[[asyncio.BaseEventLoop], None] = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined] # noqa: SLF001

        def measured(loop: asyncio.BaseEventLoop) -> None:
            began = time.thread_time()
            run(loop)
            self.longest = max(self.longest, time.thread_time() - began)

        asyncio.BaseEventLoop._run_once = measured  # type: ignore[attr-defined] # noqa: SLF001


async def _measure(name: str, steps: _Steps, work: Callable[[], Awaitable[Any]]) -> None:
    await asyncio.sleep(0)
    longest = steps.longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.01)
            longest = max(longest, time.perf_counter() - began - 0.01)

    watching = asyncio.create_task(watch())
    outcome = await work()
    watching.cancel()
    statuses = {each.status.value for each in (outcome if isinstance(outcome, list) else [outcome])}
    print(
        f"{name:40} {' '.join(statuses):12} pause {longest:.2f} s, iteration {steps.longest:.2f} s of CPU time"
    )


async def main() -> None:
    """Print the pauses."""
    steps = _Steps()
    async with Paddock(overrides={"runtimes.timeout_ms": 600_000}) as p, AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(p.session("python")) for _ in range(_PARALLEL)]
        for session in sessions:
            await session.run("pass")
        keys = {str(number): number for number in range(1_200_000)}
        rows = "return Array.from({length: 200_000}, (_, i) => ({a: i, b: 'text'}))"
        output = f"print('<a ' + 'password=' * {_REPEAT // 10})"
        for name, work in {
            "a value of 4.5 MB": partial(sessions[0].run, _HTML, timeout_ms=300_000),
            f"{_PARALLEL} floods of output": lambda: asyncio.gather(
                *(p.exec("python", output) for _ in sessions)
            ),
            "an input of 1.2 million members": partial(p.execute, "return 1", input=keys),
            "a result of 200,000 objects": partial(p.execute, rows),
            "1.2 million lines": partial(p.exec, "python", _FRAMES),
        }.items():
            await _measure(name, steps, work)


if __name__ == "__main__":
    asyncio.run(main())
