"""What a confined process costs beside a bare one: starts by tier, cold and prepared; size of the server; output."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.measure import Line, Scale, at_least, at_most, cpu_seconds, interleaved, milliseconds, ratio
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.model.sandbox import Tier

TITLE = "Confined processes: /bin/true"

NOTE = """Each job has a separate scratch directory, in the system's directory for temporary files. An ext4 without a journal looks
for each new file past all that were deleted in the last minutes; so after much tidying, as by a run of all tests, these
figures and those of compiled programs out of the cache are larger than on a file system in memory."""

_TRUE = "/bin/true"
_BARE = ["/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", _TRUE]
_MIB = 1024 * 1024
_TIERS: tuple[Tier, ...] = ("landlock", "namespaces")
_GRANTS, _LIMITS = ProcessGrants(), ProcessLimits()
_REST_S = 0.02
"""What supervisors need to clear up and to be ready."""
_BALLAST_MIB, _OUTPUT_MIB = 800, 256
_AT_A_TIME = 4


def measure(scale: Scale) -> list[Line]:
    with asyncio.Runner() as runner, _sandboxes(runner) as sandboxes:
        lines = _starts(runner, sandboxes, scale)
        lines.append(_own_network(runner, sandboxes["namespaces"], scale))
        lines += _throughput_of_bare(scale.of(100, 5))
        for tier, sandbox in sandboxes.items():
            lines += runner.run(_throughput(tier, sandbox, scale.of(100, 5)))
        lines.append(_large_server(runner, sandboxes["landlock"], scale))
        lines += runner.run(_output(sandboxes["landlock"]))
    return lines


@contextmanager
def _sandboxes(runner: asyncio.Runner) -> Generator[dict[Tier, KernelSandbox]]:
    made: dict[Tier, KernelSandbox] = {tier: KernelSandbox(SandboxFacts(tier=tier), tier) for tier in _TIERS}
    try:
        for sandbox in made.values():
            runner.run(_run(sandbox))
        yield made
    finally:
        for sandbox in made.values():
            runner.run(sandbox.close())


async def _run(sandbox: KernelSandbox, grants: ProcessGrants = _GRANTS) -> float:
    started = time.perf_counter()
    result = await sandbox.run([_TRUE], grants, _LIMITS)
    spent = time.perf_counter() - started
    assert result.status is Status.OK, result
    return spent * 1000


async def _cold(sandbox: KernelSandbox, grants: ProcessGrants = _GRANTS) -> float:
    await asyncio.sleep(_REST_S)
    return await _run(sandbox, grants)


async def _measure_prepared(sandbox: KernelSandbox) -> float:
    await sandbox.prepare(_GRANTS, _LIMITS, 1)
    await asyncio.sleep(_REST_S)
    return await _run(sandbox)


def _starts(runner: asyncio.Runner, sandboxes: dict[Tier, KernelSandbox], scale: Scale) -> list[Line]:
    floors: dict[str, Callable[[], float]] = {
        "os.posix_spawn": lambda: milliseconds(lambda: os.waitpid(os.posix_spawn(_TRUE, [_TRUE], {}), 0)),
        "subprocess.run": lambda: milliseconds(
            lambda: subprocess.run([_TRUE], capture_output=True, check=True)
        ),
        "bwrap --unshare-all": lambda: milliseconds(
            lambda: subprocess.run(_BARE, capture_output=True, check=True)
        ),
    }
    contenders = dict(floors)
    for tier in _TIERS:
        contenders[f"{tier}, cold"] = lambda s=sandboxes[tier]: runner.run(_cold(s))
        contenders[f"{tier}, prepared"] = lambda s=sandboxes[tier]: runner.run(_measure_prepared(s))
    figures = interleaved(contenders, scale.of(60, 3))
    return [
        Line(
            f"{name}: p50",
            median(values),
            "ms",
            None if name in floors else at_most(5 if name.endswith("cold") else 3),
            note=f"fastest tenth {sorted(values)[len(values) // 10]:.2f} ms",
        )
        for name, values in figures.items()
    ]


def _own_network(runner: asyncio.Runner, sandbox: KernelSandbox, scale: Scale) -> Line:
    grants = ProcessGrants(network="loopback")
    runner.run(_run(sandbox, grants))
    contenders = {
        "none": lambda: runner.run(_cold(sandbox)),
        "loopback": lambda: runner.run(_cold(sandbox, grants)),
    }
    figures = interleaved(contenders, scale.of(60, 3))
    more = median(own - none for own, none in zip(figures["loopback"], figures["none"], strict=True))
    return Line("namespaces, cold: a separate network (`loopback`) adds, p50", more, "ms", at_most(0.3))


def _throughput_of_bare(each: int) -> list[Line]:
    def one_after_another(_: int) -> None:
        for _ in range(each):
            subprocess.run(_BARE, capture_output=True, check=True)

    cpu, started = cpu_seconds(), time.perf_counter()
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        list(pool.map(one_after_another, range(_AT_A_TIME)))
    spent, runs = time.perf_counter() - started, _AT_A_TIME * each
    cpu = cpu_seconds() - cpu
    return [
        Line(f"peer: bwrap --unshare-all, {_AT_A_TIME} at a time", runs / spent, "runs/s"),
        Line(
            "peer: bwrap --unshare-all, processor time of a run",
            cpu * 1000 / runs,
            "ms",
            note="all processes",
        ),
    ]


async def _throughput(tier: Tier, sandbox: KernelSandbox, each: int) -> list[Line]:
    async def one_after_another() -> None:
        for _ in range(each):
            await _run(sandbox)

    cpu, started = cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(_AT_A_TIME)))
    spent, runs = time.perf_counter() - started, _AT_A_TIME * each
    cpu = cpu_seconds() - cpu
    return [
        Line(f"{tier}, {_AT_A_TIME} at a time", runs / spent, "runs/s", at_least(400)),
        Line(f"{tier}, processor time of a run", cpu * 1000 / runs, "ms", note="all processes"),
    ]


def _large_server(runner: asyncio.Runner, sandbox: KernelSandbox, scale: Scale) -> Line:
    small: list[float] = []
    large: list[float] = []
    size = round(_memory_mib("VmRSS"))
    for _ in range(scale.of(8, 1)):
        small.append(median(runner.run(_cold(sandbox)) for _ in range(5)))
        ballast = bytearray(os.urandom(_MIB)) * _BALLAST_MIB
        large.append(median(runner.run(_cold(sandbox)) for _ in range(5)))
        del ballast
    note = f"{median(large):.2f} ms against {median(small):.2f} ms"
    what = f"a server of {size + _BALLAST_MIB} MiB, against one of {size} MiB"
    return Line(what, ratio(large, small), "x", at_most(1.25), note=note)


async def _output(sandbox: KernelSandbox) -> list[Line]:
    Path("/proc/self/clear_refs").write_text("5")  # noqa: ASYNC240
    before, started = _memory_mib("VmRSS"), time.perf_counter()
    result = await sandbox.run(["head", "-c", str(_OUTPUT_MIB * _MIB), "/dev/zero"], _GRANTS, _LIMITS)
    spent = time.perf_counter() - started
    assert result.stdout.total_bytes == _OUTPUT_MIB * _MIB
    return [
        Line(f"{_OUTPUT_MIB} MiB of output: memory", _memory_mib("VmHWM") - before, "MiB", at_most(20)),
        Line(f"{_OUTPUT_MIB} MiB of output", _OUTPUT_MIB / spent, "MiB/s"),
    ]


def _memory_mib(kind: str) -> float:
    """Return a figure of this process's memory: VmRSS is now, VmHWM the most since clear_refs was told 5 (proc(5))."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")) / 1024
