"""How late a program that will not end is stopped: from its limit to the outcome, reading and starting it included."""

import time
from statistics import median

from benchmarks.measure import Line, Scale, at_most, interleaved
from benchmarks.subject import Paddock, paddock
from paddock.model.outcome import Status

TITLE = "Stopping at a limit of 100 ms"

_LIMIT_MS = 100
_PROGRAMS = {
    "for (;;) {}": "for (;;) {}",
    "a loop after an await": "await sleep(1); for (;;) {}",
    "microtasks for ever": "for (;;) await Promise.resolve()",
    "a catastrophic regular expression": "return /^(a+)+$/.test('a'.repeat(40) + 'b')",
}


def measure(scale: Scale) -> list[Line]:
    with paddock() as subject:
        contenders = {
            name: lambda program=program: subject.run(_late_ms(subject, program))
            for name, program in _PROGRAMS.items()
        }
        figures = interleaved(contenders, scale.of(20, 2))
    return [
        line
        for name, values in figures.items()
        for line in (
            Line(f"{name}: p50", median(values), "ms late", at_most(50)),
            Line(f"{name}: worst of {len(values)}", max(values), "ms late"),
        )
    ]


async def _late_ms(subject: Paddock, program: str) -> float:
    await subject.settled()
    started = time.perf_counter()
    outcome = await subject.execute(program, timeout_ms=_LIMIT_MS)
    spent = time.perf_counter() - started
    assert outcome.status is Status.TIMEOUT, outcome
    return spent * 1000 - _LIMIT_MS
