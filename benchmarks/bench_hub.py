"""Measure what the hub costs on top of the bare MCP client: 100 `echo` calls of server-everything, both ways.

usage: python benchmarks/bench_hub.py
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp import Client, StdioServerParameters

from paddock.hub.config import StdioServer
from paddock.hub.pool import Hub
from paddock.policy.environment import child_environment

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from install_servers import install

CALLS = 100
ROUNDS = 15


async def measure(call: Callable[[int], Awaitable[None]]) -> tuple[float, float]:
    """Return milliseconds for CALLS calls one after the other, and for as many at once."""
    begin = time.perf_counter()
    for number in range(CALLS):
        await call(number)
    middle = time.perf_counter()
    await asyncio.gather(*(call(number) for number in range(CALLS)))
    return (middle - begin) * 1e3, (time.perf_counter() - middle) * 1e3


async def run() -> dict[str, list[tuple[float, float]]]:
    node, script = install().everything
    hub = Hub({"e": StdioServer("e", node, (script,))}, environment=child_environment(os.environ))
    samples: dict[str, list[tuple[float, float]]] = {"hub": [], "bare": []}
    async with hub, Client(StdioServerParameters(command=node, args=[script])) as client:

        async def through_hub(number: int) -> None:
            result = await hub.call("e", "echo", {"message": str(number)})
            assert result.raw["content"][0]["text"] == f"Echo: {number}"

        async def bare(number: int) -> None:
            result = await client.call_tool("echo", {"message": str(number)})
            assert result.content[0].text == f"Echo: {number}"

        for call in (through_hub, bare):
            await measure(call)
        for _ in range(ROUNDS):
            samples["hub"].append(await measure(through_hub))
            samples["bare"].append(await measure(bare))
    return samples


def main() -> int:
    samples = asyncio.run(run())
    medians = {
        f"{name}_{way}_ms": round(statistics.median(pair[index] for pair in pairs), 1)
        for name, pairs in samples.items()
        for index, way in enumerate(("sequential", "parallel"))
    }
    ratios = {
        "sequential_ratio": round(medians["hub_sequential_ms"] / medians["bare_sequential_ms"], 2),
        "parallel_ratio": round(medians["hub_parallel_ms"] / medians["bare_parallel_ms"], 2),
    }
    within = medians["hub_sequential_ms"] <= 1.3 * medians["bare_sequential_ms"] + 20
    cheaper = medians["hub_parallel_ms"] < medians["hub_sequential_ms"]
    print(
        json.dumps({**medians, **ratios, "within_target": within, "parallel_is_cheaper": cheaper}, indent=2)
    )
    return 0 if within and cheaper else 1


if __name__ == "__main__":
    sys.exit(main())
