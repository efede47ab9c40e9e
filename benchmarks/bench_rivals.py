"""What other systems for programs of models take for the same work, in the same rounds as Paddock."""

import asyncio
import json
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.bench_host_calls import local_gate
from benchmarks.measure import Line, Scale, interleaved, milliseconds, ratio
from benchmarks.rivals import home, rival
from benchmarks.subject import Paddock, paddock
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.gate.gate import Gate
from paddock.model.outcome import SandboxFacts

if TYPE_CHECKING:
    from collections.abc import Callable

TITLE = "Other systems"

NOTE = """What others do better: an interpreter for a part of Python (pydantic-monty) needs neither V8 nor a process for each program
and starts in microseconds; an isolate in the host's own process (UTCP) costs less to start and much less to call, for nothing
stands between program and host, and a fault of the engine is a fault of the host. Neither decides or records a call. The
figures of FastMCP contain an MCP client and server in one process."""

RIVALS = {
    "pydeno": "V8 in a confined process for each program; no policy, no record",
    "monty": "pydantic-monty: interprets a part of Python, in its own process; no policy, no record",
    "fastmcp": "FastMCP code mode, client and server in one process, over pydantic-monty; no policy, no record",
    "utcp": "@utcp/code-mode: an isolate in the host's own process, nothing confined; no policy, no record",
}

_CALLS = """
let sum = 0;
for (let i = 0; i < 100; i++) sum += (await servers.local.call("echo", { i })).i;
return sum;
"""


def measure(scale: Scale) -> list[Line]:
    return [*_programs(scale), *_processes(scale)]


def _programs(scale: Scale) -> list[Line]:
    with ExitStack() as stack:
        subject = stack.enter_context(paddock())
        gate = local_gate(subject)
        drivers = {name: stack.enter_context(rival(name)) for name in RIVALS}
        lines: list[Line] = []
        for work, what, program in (
            ("fresh", "a fresh program, `1 + 1`", "return 1 + 1"),
            ("calls", "a fresh program with 100 calls of a function", _CALLS),
        ):
            times = scale.of(8, 2)
            contenders: dict[str, Callable[[], float]] = {
                "paddock": lambda program=program, times=times: _median_ms(subject, gate, program, times)
            }
            for name, driver in drivers.items():
                contenders[name] = lambda driver=driver, work=work, times=times: median(
                    driver.spent(work, times)
                )
            figures = interleaved(contenders, scale.of(7, 1))
            lines.append(
                Line(f"{what}: Paddock", median(figures["paddock"]), "ms", note="confined, decided, recorded")
            )
            for name, note in RIVALS.items():
                against = ratio(figures[name], figures["paddock"])
                lines.append(
                    Line(
                        f"{what}: {name}",
                        median(figures[name]),
                        "ms",
                        note=f"{against:.2g} x Paddock; {note}",
                    )
                )
        return lines


def _median_ms(subject: Paddock, gate: Gate, program: str, times: int) -> float:
    async def spent() -> list[float]:
        found: list[float] = []
        for _ in range(times):
            await subject.settled()
            started = time.perf_counter()
            value = await subject.value(program, gate=gate)
            found.append((time.perf_counter() - started) * 1000)
            assert value in (2, 4950)
        return found

    return median(subject.run(spent()))


def _processes(scale: Scale) -> list[Line]:
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder, asyncio.Runner() as runner:
        settings = Path(folder, "settings.json")
        network = {"allowedDomains": [], "deniedDomains": []}
        files = {"denyRead": [], "allowWrite": [], "denyWrite": []}
        settings.write_text(json.dumps({"network": network, "filesystem": files}))
        runtime = [str(home() / "node_modules" / ".bin" / "srt"), "-s", str(settings), "-c", "true"]
        bubblewrap = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "/bin/true"]
        sandbox = runner.run(KernelSandbox(SandboxFacts(tier="landlock"), "landlock").__aenter__())
        try:
            contenders = {
                "Paddock": lambda: milliseconds(lambda: runner.run(sandbox.run(["/bin/true"]))),
                "sandbox-runtime": lambda: milliseconds(lambda: _silent(runtime)),
                "bubblewrap": lambda: milliseconds(lambda: _silent(bubblewrap)),
            }
            figures = interleaved(contenders, scale.of(9, 1))
        finally:
            runner.run(sandbox.close())
    notes = {
        "Paddock": "Landlock and seccomp, limits, accounting",
        "sandbox-runtime": "@anthropic-ai/sandbox-runtime: bubblewrap, network proxies; starts node each time",
        "bubblewrap": "namespaces alone, no limits",
    }
    return [
        Line(f"a confined `true`: {name}", median(values), "ms", note=notes[name])
        for name, values in figures.items()
    ]


def _silent(command: list[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
