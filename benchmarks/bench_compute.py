"""Pure computations: `emit(read_input())` through the library, next to a process of node for each."""

import time
from statistics import median

from benchmarks import peers
from benchmarks.measure import Line, Scale, at_least, at_most, interleaved, milliseconds, ratio
from benchmarks.subject import Paddock, paddock
from paddock.surfaces.rendering.computation import build_envelope, convert_request

TITLE = "A pure computation"

_BODY = {"source": "emit(read_input())", "input": "hello"}


def measure(scale: Scale) -> list[Line]:
    seconds = 0.4 if scale.quick else 1.2
    with paddock() as subject:
        warm = {
            "warm": lambda: subject.run(_median_ms(subject, scale.of(15, 4))),
            "node": lambda: median(milliseconds(peers.spawn_node) for _ in range(3)),
        }
        p50 = {name: median(values) for name, values in interleaved(warm, scale.of(12, 2)).items()}
        many = {
            "paddock": lambda: subject.run(_rate(subject, seconds)),
            "node": lambda: _node_rate(seconds),
        }
        rates = interleaved(many, scale.of(8, 1))
    return [
        Line("through the library, p50", p50["warm"], "ms", at_most(2)),
        Line("peer: node + vm.createContext, p50", p50["node"], "ms"),
        Line("computations per second, one after the other", median(rates["paddock"]), "1/s"),
        Line("peer: node + vm.createContext, one after the other", median(rates["node"]), "1/s"),
        Line("against node", ratio(rates["paddock"], rates["node"]), "x", at_least(5)),
    ]


async def _once(subject: Paddock) -> None:
    wish = convert_request(_BODY)
    request = wish.build_request(actor="local", surface="library", workspace=subject.workspace)
    answer = build_envelope(await subject.session.gate.execute(request))
    assert answer.output == "hello", answer


async def _median_ms(subject: Paddock, times: int) -> float:
    spent: list[float] = []
    for _ in range(times):
        await subject.settled()
        started = time.perf_counter()
        await _once(subject)
        spent.append((time.perf_counter() - started) * 1000)
    return median(spent)


async def _rate(subject: Paddock, seconds: float) -> float:
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        await _once(subject)
        done += 1
    return done / (time.perf_counter() - started)


def _node_rate(seconds: float) -> float:
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        peers.spawn_node()
        done += 1
    return done / (time.perf_counter() - started)
