"""The MCP server as an agent has it: calls over standard input and output, from a client that adds next to nothing."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.measure import Line, Scale, at_most, interleaved, ratio

TITLE = "The MCP server"

_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
_SPIN = "for (;;) {}"
_SWELL = """
const a = new Array(COUNT).fill([]);
const calls = await Promise.allSettled([0, 1, 2, 3].map(() => servers.nobody.save({ a })));
return calls.map((call) => String(call.reason));
"""
_RECORDS = """
[record]
payloads = "asked"
[vault]
backend = "file"
"""
_PROGRAMS = 4
_REFUSED, _ALLOWED = 4_000_000, 1_000_000
"""Empty lists in the arguments of a call: more than a message may hold, and as many as it may."""


class Client:
    """Speaks plain lines with the server; several calls may be under way."""

    def __init__(self, server: "subprocess.Popen[bytes]") -> None:
        self._server = server
        self._number = 0
        self._answers: dict[object, dict[str, Any]] = {}

    def send(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message).encode() + b"\n")
        self._server.stdin.flush()
        return self._number

    def answer(self, number: int) -> dict[str, Any]:
        assert self._server.stdout is not None
        while number not in self._answers:
            message = json.loads(self._server.stdout.readline())
            self._answers[message.get("id")] = message
        return self._answers.pop(number)["result"]

    def is_answered(self, number: int) -> bool:
        """Return whether the answer has been read on the way to another, and forget it."""
        return self._answers.pop(number, None) is not None

    def peak(self) -> float:
        """Return the most memory that the server has had, in MB."""
        status = Path(f"/proc/{self._server.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1000

    def timed(self, method: str, params: dict[str, Any]) -> float:
        started = time.perf_counter()
        self.answer(self.send(method, params))
        return (time.perf_counter() - started) * 1000

    def execute(self, code: str, **options: Any) -> int:
        return self.send("tools/call", {"name": "execute_code", "arguments": {"code": code, **options}})


@contextmanager
def served(settings: str = "") -> Generator[Client]:
    """Start `paddock serve mcp` in a new directory, with the settings of a user."""
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as made:
        file = Path(made) / ".config/paddock/paddock.toml"
        file.parent.mkdir(parents=True)
        file.write_text(settings)
        paddock = str(Path(sys.executable).with_name("paddock"))
        environment = {"PATH": "/usr/bin:/bin", "HOME": made, "LANG": "C.UTF-8"}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([paddock, "serve", "mcp"], cwd=made, env=environment, **pipes) as server:
            client = Client(server)
            try:
                client.answer(client.send("initialize", _HELLO))
                yield client
            finally:
                assert server.stdin is not None
                server.stdin.close()
                server.wait(30)


def measure(scale: Scale) -> list[Line]:
    call = {"name": "execute_code", "arguments": {"code": "return 1 + 1"}}
    compute = {"name": "compute", "arguments": {"source": "emit('x')"}}
    with served() as client:
        started = time.perf_counter()
        client.timed("tools/call", call)
        first = (time.perf_counter() - started) * 1000
        rounds = scale.of(200, 5)
        figures: dict[str, list[float]] = {"ping": [], "list": [], "execute": [], "compute": []}
        for _ in range(rounds):
            figures["ping"].append(client.timed("ping", {}))
            figures["list"].append(client.timed("tools/list", {}))
            for name, asked in (("execute", call), ("compute", compute)):
                figures[name].append(client.timed("tools/call", asked))
                time.sleep(0.01)  # agents think between calls, and spare workers come up
        alone, beside = _beside(client, call, scale.of(100, 5), _SPIN, programs=1, limit_ms=2_000)
    recorded, unrecorded = _measure_recording(scale.of(200, 5))
    swelling = [_beside_swelling(call, scale.of(100, 5), count) for count in (_REFUSED, _ALLOWED)]
    return [
        Line("execute_code of a trivial program, p50", median(figures["execute"]), "ms", at_most(5)),
        Line("ping, the floor, p50", median(figures["ping"]), "ms"),
        Line("execute_code over ping", ratio(figures["execute"], figures["ping"]), "x", at_most(2)),
        Line(
            "execute_code with a recording over the same without, p50",
            ratio(recorded, unrecorded),
            "x",
            note=f"{median(recorded):.1f} ms, without {median(unrecorded):.1f} ms",
        ),
        Line("compute, p50", median(figures["compute"]), "ms"),
        Line("compute over ping", ratio(figures["compute"], figures["ping"]), "x", at_most(2.5)),
        Line("tools/list, p50", median(figures["list"]), "ms"),
        Line("first call of a server", first, "ms"),
        Line(
            "p95 of calls beside a program in a loop, over p95 alone",
            beside / alone,
            "x",
            at_most(2),
            note=f"{beside:.1f} ms, alone {alone:.1f} ms",
        ),
        *[
            line
            for what, (ratio_, peak, note) in zip(("refused", "allowed"), swelling, strict=True)
            for line in (
                Line(
                    f"the same beside four programs with messages that swell, {what}",
                    ratio_,
                    "x",
                    at_most(3),
                    note,
                ),
                Line(f"peak memory of the server beside them, {what}", peak, "MB"),
            )
        ],
    ]


def _measure_recording(rounds: int) -> tuple[list[float], list[float]]:
    """Return the times of a program that is recorded, and those of the same program that is not, in turns."""
    call = {"name": "execute_code", "arguments": {"code": "return 1 + 1"}}
    recorded = {**call, "arguments": {**call["arguments"], "record": True}}
    with served(_RECORDS) as client:
        answer = client.answer(client.send("tools/call", recorded))
        assert answer["structuredContent"]["status"] == "ok", answer
        figures = interleaved(
            {
                name: lambda asked=asked: _time_call(client, asked)
                for name, asked in (("with", recorded), ("without", call))
            },
            rounds,
        )
    return figures["with"], figures["without"]


def _time_call(client: Client, call: dict[str, Any]) -> float:
    time.sleep(0.01)  # spare workers come up
    return client.timed("tools/call", call)


def _beside_swelling(call: dict[str, Any], rounds: int, count: int) -> tuple[float, float, str]:
    """Return the p95 of calls over that alone, the peak memory of the server in MB, and a note with both times."""
    with served() as client:
        code = _SWELL.replace("COUNT", str(count))
        alone, beside = _beside(client, call, rounds, code, programs=_PROGRAMS, limit_ms=30_000)
        return beside / alone, client.peak(), f"{beside:.1f} ms, alone {alone:.1f} ms"


def _beside(
    client: Client, call: dict[str, Any], rounds: int, code: str, *, programs: int, limit_ms: int
) -> tuple[float, float]:
    """Return the p95 of calls alone, and while other programs run, which are started again when they end."""
    client.timed("tools/call", call)
    alone = [client.timed("tools/call", call) for _ in range(rounds)]
    beside: list[float] = []
    others: list[int] = []
    ended = 0
    while len(beside) < rounds or ended < programs:  # a program swells towards its end
        running = [other for other in others if not client.is_answered(other)]
        ended += len(others) - len(running)
        others = running + [client.execute(code, timeout_ms=limit_ms) for _ in range(programs - len(running))]
        beside.append(client.timed("tools/call", call))
    for other in others:
        client.answer(other)
    return quantiles(alone, n=20)[-1], quantiles(beside, n=20)[-1]
