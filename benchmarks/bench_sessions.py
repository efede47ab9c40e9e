"""Sessions: opening one, and `x += 1` in it, beside the bare interpreter and a Jupyter kernel that confines nothing."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from jupyter_client.manager import KernelManager

from benchmarks import peers
from benchmarks.bench_mcp import served
from benchmarks.measure import Line, Scale, at_most, cpu_seconds, interleaved, milliseconds
from benchmarks.peers import bare_environment
from paddock import BlockingPaddock, BlockingSession

TITLE = "Sessions of Python"

_MIB = 1024 * 1024
_STATEMENT = "x += 1"
_OVERRIDES: dict[str, Any] = {"sessions": {"max": 200, "max_per_actor": 200}, "artifacts": {"ttl_hours": 1}}


def measure(scale: Scale) -> list[Line]:
    with ExitStack() as stack:
        workspace = stack.enter_context(tempfile.TemporaryDirectory(prefix="paddock-bench-"))
        p = stack.enter_context(BlockingPaddock(workspace, overrides=_OVERRIDES))
        p.exec("python", "1").check()  # the tier is proved, the toolchain found
        interpreter = str(p.exec("python", "import sys; print(sys.executable)").text).strip()
        return [
            *_measure_opening(p, interpreter, scale),
            *_measure_executions(p, scale),
            *_measure_idle(p, interpreter, scale.of(100, 2)),
        ]


def _measure_opening(p: BlockingPaddock, interpreter: str, scale: Scale) -> list[Line]:
    def start_bare() -> None:
        subprocess.run(
            [interpreter, "-c", "print(1)"], env=bare_environment(), stdout=subprocess.DEVNULL, check=True
        )

    def open_paddock() -> None:
        outcome = p.exec("python", "print(1)", session="new").check()
        assert outcome.session is not None
        p.session(id=outcome.session.id).close()

    def start_kernel() -> None:
        with _running_kernel():
            pass

    contenders = {
        "bare": lambda: milliseconds(start_bare),
        "session": lambda: milliseconds(open_paddock),
        "kernel": lambda: milliseconds(start_kernel),
    }
    figures = interleaved(contenders, scale.of(12, 2))
    other = peers.run_llm_sandbox(scale.of(20, 2))
    p50 = {name: median(values) for name, values in figures.items()}
    above = [(ours - 15) / bare for ours, bare in zip(figures["session"], figures["bare"], strict=True)]
    return [
        Line("the first execution in a new session, p50", p50["session"], "ms"),
        Line("the same without 15 ms, against the bare interpreter", median(above), "x", at_most(1.3)),
        Line("floor: the same interpreter started bare, p50", p50["bare"], "ms"),
        Line("peer: a Jupyter kernel, not confined, p50", p50["kernel"], "ms"),
        Line("peer: the first program in a session of llm-sandbox (bubblewrap)", other[0], "ms"),
        Line(
            "peer: a further program there, which has no variables of the first, p50", median(other[1:]), "ms"
        ),
    ]


def _measure_executions(p: BlockingPaddock, scale: Scale) -> list[Line]:
    times = scale.of(20, 3)
    with p.session("python") as session, _running_kernel() as kernel, served() as client:
        session.run("x = 0").check()
        _execute(kernel, "x = 0")
        program = {"language": "python", "persist_output": False}
        opened = client.answer(
            client.send(
                "tools/call",
                {"name": "run_program", "arguments": {**program, "code": "x = 0", "session": "new"}},
            )
        )
        handle = opened["structuredContent"]["session"]["id"]
        call = {"name": "run_program", "arguments": {**program, "code": _STATEMENT, "session": handle}}

        def take_median(run: Any) -> float:
            return median(milliseconds(run) for _ in range(times))

        contenders = {
            "library": lambda: take_median(lambda: session.run(_STATEMENT, keep=False).check()),
            "stored": lambda: take_median(lambda: session.run(_STATEMENT).check()),
            "exec": lambda: take_median(lambda: p.exec("python", "x = 1", keep=False).check()),
            "mcp": lambda: take_median(lambda: client.answer(client.send("tools/call", call))),
            "kernel": lambda: take_median(lambda: _execute(kernel, _STATEMENT)),
        }
        figures = interleaved(contenders, scale.of(10, 2))
    p50 = {name: median(values) for name, values in figures.items()}
    return [
        Line("`x += 1` in a session, p50", p50["library"], "ms", at_most(5)),
        Line("the same, its output stored, p50", p50["stored"], "ms"),
        Line("the same by MCP over stdio, p50", p50["mcp"], "ms", at_most(8)),
        Line("a program without a session, p50", p50["exec"], "ms"),
        Line("peer: a Jupyter kernel, not confined, p50", p50["kernel"], "ms"),
    ]


def _measure_idle(p: BlockingPaddock, interpreter: str, count: int) -> list[Line]:
    bare = subprocess.run(
        [interpreter, "-c", "print(open('/proc/self/smaps_rollup').read())"],
        env=bare_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    alone = int(bare.stdout.split("\nRss:")[1].split()[0]) * 1024
    with ExitStack() as stack:
        sessions: list[BlockingSession] = [stack.enter_context(p.session("python")) for _ in range(count)]
        for session in sessions:
            session.run("x = 1").check()
        taken = sum(info.memory_bytes for info in p.sessions()) / count
        before = cpu_seconds()
        time.sleep(2)
        used = max(0.0, cpu_seconds() - before)  # the kernel counts in steps of 10 ms
    return [
        Line(
            f"memory of each of {count} idle sessions beyond the interpreter's own",
            (taken - alone) / _MIB,
            "MiB",
            at_most(15),
        ),
        Line(f"processor time of {count} idle sessions in 2 s", used * 1000, "ms", at_most(20)),
    ]


@contextmanager
def _running_kernel() -> Generator[Any]:
    manager = KernelManager(
        kernel_cmd=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    )
    manager.start_kernel(env={**bare_environment(), "HOME": str(Path.home())}, stderr=subprocess.DEVNULL)
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _execute(kernel: Any, code: str) -> None:
    reply = kernel.execute_interactive(code, output_hook=lambda _: None, timeout=60)
    assert reply["content"]["status"] == "ok"
