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

from benchmarks.measure import Line, Scale, at_most, ratio

TITLE = "The MCP server"

_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
_SPIN = "for (;;) {}"


class Client:
    """Speaks plain lines with the server; several calls may be under way."""

    def __init__(self, server: "subprocess.Popen[bytes]") -> None:
        self._server = server
        self._number = 0

    def send(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message).encode() + b"\n")
        self._server.stdin.flush()
        return self._number

    def answer(self, number: int) -> dict[str, Any]:
        assert self._server.stdout is not None
        while (message := json.loads(self._server.stdout.readline())).get("id") != number:
            pass
        return message["result"]

    def timed(self, method: str, params: dict[str, Any]) -> float:
        started = time.perf_counter()
        self.answer(self.send(method, params))
        return (time.perf_counter() - started) * 1000

    def execute(self, code: str, **options: Any) -> int:
        return self.send("tools/call", {"name": "execute_code", "arguments": {"code": code, **options}})


@contextmanager
def served() -> Generator[Client]:
    """Start `paddock serve mcp` in a place of its own."""
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as made:
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
        alone, beside = _beside_a_loop(client, call, scale.of(100, 5))
    return [
        Line("execute_code of a trivial program, p50", median(figures["execute"]), "ms", at_most(5)),
        Line("ping, the floor, p50", median(figures["ping"]), "ms"),
        Line("execute_code over ping", ratio(figures["execute"], figures["ping"]), "x"),
        Line("compute, p50", median(figures["compute"]), "ms"),
        Line("tools/list, p50", median(figures["list"]), "ms"),
        Line("first call of a server", first, "ms"),
        Line(
            "p95 of calls beside a program in a loop, over p95 alone",
            beside / alone,
            "x",
            at_most(2),
            note=f"{beside:.1f} ms, alone {alone:.1f} ms",
        ),
    ]


def _beside_a_loop(client: Client, call: dict[str, Any], rounds: int) -> tuple[float, float]:
    """Return the p95 of calls alone, and while another program spins until its time is over."""
    alone = [client.timed("tools/call", call) for _ in range(rounds)]
    beside: list[float] = []
    while len(beside) < rounds:
        spinning = client.execute(_SPIN, timeout_ms=2_000)
        until = time.perf_counter() + 1.8
        while time.perf_counter() < until and len(beside) < rounds:
            beside.append(client.timed("tools/call", call))
        client.answer(spinning)
    return quantiles(alone, n=20)[-1], quantiles(beside, n=20)[-1]
