"""Calls out of a program: the way guest -> gate -> tool and back, what the record of it costs, and a real server."""

import copy
import json
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from scripts.install_servers import install

from benchmarks.measure import Line, Scale, at_most, interleaved, ratio
from benchmarks.subject import Paddock, paddock
from paddock.gate import Gate
from paddock.hub.result import ToolResult

TITLE = "Host calls"

_SEQUENCE = """
let sum = 0;
for (let i = 0; i < {count}; i++) sum += (await servers.local.call("echo", {{ i }})).i;
return sum;
"""
_REAL_SEQUENCE = """
const texts = [];
for (let i = 0; i < 100; i++) texts.push(await servers.everything.call("echo", { message: `m${i}` }));
return texts.length;
"""
_REAL_PARALLEL = """
const numbers = Array.from({ length: 100 }, (_, i) => i);
const texts = await Promise.all(numbers.map((i) => servers.everything.call("echo", { message: `m${i}` })));
return texts.length;
"""


def measure(scale: Scale) -> list[Line]:
    with paddock() as subject:
        lines = _in_process(subject, scale)
    return lines + _real_server(scale)


class _Local:
    """A server whose tools are functions of this process."""

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        assert (server, tool) == ("local", "echo")
        return ToolResult({"content": [], "structuredContent": dict(arguments)})


class _Silent:
    """An audit sink that keeps nothing, to see what keeping costs."""

    def claim(self, *_: object, **__: object) -> str:
        return ""

    append = claim


def _in_process(subject: Paddock, scale: Scale) -> list[Line]:
    gate = copy.copy(subject.session.gate)
    gate._servers = _Local()  # noqa: SLF001
    unrecorded = copy.copy(gate)
    unrecorded._audit = _Silent()  # type: ignore[assignment]  # noqa: SLF001
    count = scale.of(400, 100)
    program = _SEQUENCE.format(count=count)

    def microseconds(through: Gate) -> float:
        return subject.run(_call_us(subject, through, program, count))

    contenders = {
        "audit": lambda: microseconds(gate),
        "no audit": lambda: microseconds(unrecorded),
        "floor": lambda: _socket_round_trip_us(count),
    }
    figures = interleaved(contenders, scale.of(15, 2))
    cost = median(a - b for a, b in zip(figures["audit"], figures["no audit"], strict=True))
    return [
        Line(
            "in-process function, one after another, p50 of a call",
            median(figures["audit"]),
            "us",
            at_most(250),
        ),
        Line("the same without audit", median(figures["no audit"]), "us"),
        Line("what the audit costs (two records)", cost, "us"),
        Line("floor: JSON over a socket pair, to a thread and back", median(figures["floor"]), "us"),
    ]


async def _call_us(subject: Paddock, gate: Gate, program: str, count: int) -> float:
    await subject.settled()
    started = time.perf_counter()
    value = await subject.value(program, gate=gate)
    spent = time.perf_counter() - started
    assert value == count * (count - 1) // 2
    return spent * 1e6 / count


def _socket_round_trip_us(count: int) -> float:
    ours, theirs = socket.socketpair()

    def echo() -> None:
        while data := theirs.recv(4096):
            theirs.sendall(json.dumps(json.loads(data)).encode())

    thread = threading.Thread(target=echo)
    with theirs:
        with ours:
            thread.start()
            started = time.perf_counter()
            for number in range(count):
                ours.sendall(json.dumps(["call", number, "local", "echo", {"i": number}, False]).encode())
                ours.recv(4096)
            spent = time.perf_counter() - started
        thread.join()
    return spent * 1e6 / count


def _real_server(scale: Scale) -> list[Line]:
    command, *arguments = install().everything
    with tempfile.TemporaryDirectory() as made:
        servers = Path(made) / "servers.json"
        servers.write_text(
            json.dumps({"mcpServers": {"everything": {"command": command, "args": arguments}}})
        )
        with paddock(servers=servers) as subject:
            figures = subject.run(_hundred_calls(subject, command, arguments, scale.of(10, 2)))
    bare, sequence, parallel = (figures[name] for name in ("bare", "sequence", "parallel"))
    over = median(ours - 1.3 * floor for ours, floor in zip(sequence, bare, strict=True))
    return [
        Line("peer: 100 stdio calls by a bare mcp.Client", median(bare), "ms"),
        Line("100 stdio calls by a program, one after another", median(sequence), "ms"),
        Line("  beyond 1.3 x the bare client", over, "ms", at_most(20)),
        Line("100 stdio calls by a program, in parallel", median(parallel), "ms"),
        Line("  against one after another", ratio(parallel, sequence), "x", at_most(1)),
    ]


async def _hundred_calls(
    subject: Paddock, command: str, arguments: list[str], rounds: int
) -> dict[str, list[float]]:
    """Return milliseconds of 100 calls per contender and round; both have a server of their own, already running."""
    from mcp import Client, StdioServerParameters  # noqa: PLC0415 - imported while nothing is measured

    figures: dict[str, list[float]] = {"bare": [], "sequence": [], "parallel": []}
    async with Client(StdioServerParameters(command=command, args=arguments)) as client:

        async def bare() -> int:
            results = [await client.call_tool("echo", {"message": f"m{i}"}) for i in range(100)]
            return len(results)

        async def program(source: str) -> int:
            return await subject.value(source)

        contenders = {
            "bare": bare,
            "sequence": lambda: program(_REAL_SEQUENCE),
            "parallel": lambda: program(_REAL_PARALLEL),
        }
        for contender in contenders.values():  # warm up
            await contender()
        for _ in range(rounds):
            for name, contender in contenders.items():
                await subject.settled()
                started = time.perf_counter()
                assert await contender() == 100
                figures[name].append((time.perf_counter() - started) * 1000)
    return figures
