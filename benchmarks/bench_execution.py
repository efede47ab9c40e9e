"""Fresh executions of `return 1+1`: each in a confined worker that is used once, next to a process per program."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks import peers
from benchmarks.measure import (
    Line,
    Scale,
    at_least,
    at_most,
    cpu_seconds,
    descendants,
    interleaved,
    milliseconds,
    ratio,
)
from benchmarks.subject import Paddock, paddock

TITLE = "Fresh execution of `return 1+1`"

_NUMBERS = count()

_CONCURRENCY = (1, 4)


def measure(scale: Scale) -> list[Line]:
    with ExitStack() as stack:
        ready = stack.enter_context(paddock())
        bare = stack.enter_context(paddock(spare_workers=0))
        node, deno = peers.spawn_node, partial(peers.spawn_deno, ready.workspace)
        return [
            *_latency(ready, bare, node, deno, scale),
            *_throughput(ready, node, deno, scale),
            _memory(ready),
        ]


def _latency(
    ready: Paddock, bare: Paddock, node: Callable[[], None], deno: Callable[[], None], scale: Scale
) -> list[Line]:
    times = scale.of(15, 4)
    contenders = {
        "warm": lambda: ready.run(_median_ms(ready, times, _same)),
        "new text": lambda: ready.run(_median_ms(ready, times, _new)),
        "cold": lambda: bare.run(_median_ms(bare, times, _same)),
        "node": lambda: median(milliseconds(node) for _ in range(3)),
        "deno": lambda: median(milliseconds(deno) for _ in range(3)),
    }
    figures = interleaved(contenders, scale.of(12, 2))
    p50 = {name: median(values) for name, values in figures.items()}
    return [
        Line("a spare worker is ready, p50", p50["warm"], "ms", at_most(1.5)),
        Line("the same, a text never seen before, p50", p50["new text"], "ms"),
        Line("no spare worker, fork server running, p50", p50["cold"], "ms", at_most(8)),
        Line("peer: node + vm.createContext, p50", p50["node"], "ms"),
        Line("peer: deno run, p50", p50["deno"], "ms"),
    ]


async def _median_ms(subject: Paddock, times: int, program: Callable[[], str]) -> float:
    spent: list[float] = []
    for _ in range(times):
        await subject.settled()
        started = time.perf_counter()
        value = await subject.value(program())
        spent.append((time.perf_counter() - started) * 1000)
        assert value == 2
    return median(spent)


def _same() -> str:
    return "return 1+1"


def _new() -> str:
    """Return a program that has to be read: Paddock knows those it has read lately."""
    return f"return 1+1 // {next(_NUMBERS)}"


def _throughput(
    ready: Paddock, node: Callable[[], None], deno: Callable[[], None], scale: Scale
) -> list[Line]:
    lines: list[Line] = []
    seconds = 0.4 if scale.quick else 1.2
    for concurrency in _CONCURRENCY:
        cpu: dict[str, list[float]] = {"paddock": [], "node": [], "deno": []}
        contenders = {
            "paddock": lambda n=concurrency: _rate(lambda: _many(ready, n, seconds), cpu["paddock"]),
            "node": lambda n=concurrency: _rate(lambda: _spawns(node, n, seconds), cpu["node"]),
            "deno": lambda n=concurrency: _rate(lambda: _spawns(deno, n, seconds), cpu["deno"]),
        }
        rates = interleaved(contenders, scale.of(8, 1))
        where = f"concurrency {concurrency}"
        of_node, of_deno = (10, 5.5) if concurrency == 1 else (3.5, 2.5)
        note = {name: f"{median(values):.1f} ms CPU each" for name, values in cpu.items()}
        lines += [
            Line(f"executions per second, {where}", median(rates["paddock"]), "1/s", note=note["paddock"]),
            Line(f"peer: node + vm.createContext, {where}", median(rates["node"]), "1/s", note=note["node"]),
            Line(f"peer: deno run, {where}", median(rates["deno"]), "1/s", note=note["deno"]),
            Line(f"against node, {where}", ratio(rates["paddock"], rates["node"]), "x", at_least(of_node)),
            Line(f"against deno, {where}", ratio(rates["paddock"], rates["deno"]), "x", at_least(of_deno)),
        ]
    return lines


def _rate(work: Callable[[], int], cpu: list[float]) -> float:
    """Return executions per second, and add the processor time of one to `cpu`."""
    before, started = cpu_seconds(), time.perf_counter()
    done = work()
    spent = time.perf_counter() - started
    cpu.append((cpu_seconds() - before) * 1000 / done)
    return done / spent


def _many(subject: Paddock, concurrency: int, seconds: float) -> int:
    async def all_of_them() -> int:
        deadline = time.perf_counter() + seconds

        async def one_after_another() -> int:
            done = 0
            while time.perf_counter() < deadline:
                assert await subject.value(_new()) == 2
                done += 1
            return done

        return sum(await asyncio.gather(*(one_after_another() for _ in range(concurrency))))

    return subject.run(all_of_them())


def _spawns(once: Callable[[], None], concurrency: int, seconds: float) -> int:
    deadline = time.perf_counter() + seconds

    def one_after_another(_: int) -> int:
        done = 0
        while time.perf_counter() < deadline:
            once()
            done += 1
        return done

    with ThreadPoolExecutor(concurrency) as threads:
        return sum(threads.map(one_after_another, range(concurrency)))


def _memory(ready: Paddock) -> Line:
    ready.run(ready.settled())
    return Line(
        "private memory of a waiting worker", median(map(_private_mib, _waiting_workers())), "MiB", at_most(4)
    )


def _waiting_workers() -> list[Path]:
    """Return the processes in /proc that are two generations below this one: the forks of the fork servers."""
    parents = {
        int(path.name): int((path / "stat").read_text().rpartition(")")[2].split()[1])
        for path in Path("/proc").glob("[0-9]*")
    }
    family = descendants(parents)
    grandchildren = [pid for pid in family if parents[pid] in family and parents[parents[pid]] in family]
    return [Path("/proc") / str(pid) for pid in grandchildren]


def _private_mib(process: Path) -> float:
    """Return the pages that only this process has; needs root, for a worker is not dumpable (proc_pid_smaps(5))."""
    rollup = (process / "smaps_rollup").read_text().splitlines()
    return (
        sum(int(line.split()[1]) for line in rollup if line.startswith(("Private_Clean", "Private_Dirty")))
        / 1024
    )
