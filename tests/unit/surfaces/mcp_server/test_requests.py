"""What a server has in flight, and what it does once nothing is."""

import asyncio
import os
import subprocess
import sys

import pytest

from paddock.surfaces.mcp_server import requests
from paddock.surfaces.mcp_server.requests import InFlightRequests

HOLES = """
from pathlib import Path
from paddock.surfaces.mcp_server.requests import return_free_memory

def anonymous():
    return int(Path("/proc/self/status").read_text().partition("RssAnon:")[2].split()[0])

taken = [bytes(2000) for _ in range(20_000)]
full = anonymous()
kept = taken[::20]
del taken
return_free_memory()
print(full - anonymous())
"""


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_free_memory_is_returned_once_after_the_last_request(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[int] = []
    monkeypatch.setattr(requests, "_QUIET_S", 0)
    monkeypatch.setattr(requests, "return_free_memory", lambda: returned.append(1))

    async def use() -> list[int]:
        counts: list[int] = []
        served = InFlightRequests()
        for _ in range(2):
            with served.in_flight("a"):
                with served.in_flight("b"):
                    await turns()
                await turns()
                counts.append(len(returned))
            await turns()
            counts.append(len(returned))
        return counts

    assert asyncio.run(use()) == [0, 1, 1, 2]


def test_free_pages_between_used_ones_go_back_to_the_kernel() -> None:
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": str(2**30)}
    ran = subprocess.run(
        [sys.executable, "-c", HOLES], env=environment, text=True, capture_output=True, check=True
    )
    assert int(ran.stdout) > 20_000  # of 40,000 KB
