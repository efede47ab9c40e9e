"""What a confined process costs: starts per tier, cold and warm, beside others; size of the server; output."""

import asyncio
import os
import resource
import subprocess
import sys
import time

from paddock.confine.process import Sandbox
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.model.settings import Tier

RUNS = 200
TRUE = "/bin/true"
MIB = 1024 * 1024


def show(name: str, times: list[float]) -> None:
    times.sort()
    print(f"{name:<44} p50 {times[len(times) // 2]:6.2f} ms   p95 {times[len(times) * 95 // 100]:6.2f} ms")


def posix_spawn() -> None:
    os.waitpid(os.posix_spawn(TRUE, [TRUE], {}), 0)


def piped() -> None:
    subprocess.run([TRUE], capture_output=True, check=True)


def bubblewrap() -> None:
    command = ["/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", TRUE]
    subprocess.run(command, capture_output=True, check=True)


async def confined(tier: Tier, *, warm: bool) -> list[float]:
    times: list[float] = []
    grants, limits = ProcessGrants(), ProcessLimits()
    async with Sandbox(SandboxFacts(tier=tier), tier) as sandbox:
        await sandbox.run([TRUE])
        for _ in range(RUNS):
            if warm:
                await sandbox.prepare(grants, limits, 1)
                await asyncio.sleep(0.02)
            started = time.perf_counter()
            result = await sandbox.run([TRUE], grants, limits)
            times.append((time.perf_counter() - started) * 1000)
            assert result.status == "ok", result
    return times


async def throughput(tier: Tier) -> None:
    async with Sandbox(SandboxFacts(tier=tier), tier) as sandbox:
        await sandbox.run([TRUE])
        started = time.perf_counter()

        async def one_after_another() -> None:
            for _ in range(RUNS):
                await sandbox.run([TRUE])

        await asyncio.gather(*(one_after_another() for _ in range(4)))
        print(f"{tier}, four at a time {4 * RUNS / (time.perf_counter() - started):27.0f} runs/s")


async def output() -> None:
    async with Sandbox(SandboxFacts(tier="landlock"), "landlock") as sandbox:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.perf_counter()
        result = await sandbox.run(["head", "-c", str(256 * MIB), "/dev/zero"])
        seconds = time.perf_counter() - started
        assert result.stdout.total_bytes == 256 * MIB
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"256 MiB of output: {256 / seconds:.0f} MiB/s, server grew by {grown:.1f} MiB")


def main() -> None:
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {RUNS} runs of {TRUE}")
    for name, run in (
        ("os.posix_spawn", posix_spawn),
        ("subprocess.run", piped),
        ("bwrap --unshare-all", bubblewrap),
    ):
        times: list[float] = []
        for _ in range(RUNS):
            started = time.perf_counter()
            run()
            times.append((time.perf_counter() - started) * 1000)
        show(name, times)
    tiers: tuple[Tier, ...] = ("landlock", "namespaces")
    for tier in tiers:
        show(f"{tier}, cold", asyncio.run(confined(tier, warm=False)))
        show(f"{tier}, warm", asyncio.run(confined(tier, warm=True)))
    asyncio.run(output())
    for tier in tiers:
        asyncio.run(throughput(tier))
    ballast = bytearray(os.urandom(MIB)) * 800
    show(
        f"landlock, cold, server of {len(ballast) // MIB} MiB", asyncio.run(confined("landlock", warm=False))
    )


if __name__ == "__main__":
    sys.exit(main())
