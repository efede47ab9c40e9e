"""Calls out of a program: the way guest -> gate -> function of this process and back, and what the record of it costs.

Next to it goes the same program in a node of its own whose calls come as lines of JSON: neither confined nor recorded.
"""

import asyncio
import copy
import json
import socket
import threading
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks import peers
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

_NODE = """
const vm = require("vm");
const lines = require("readline").createInterface({{ input: process.stdin }});
const say = (message) => process.stdout.write(JSON.stringify(message) + "\\n");
const waiting = new Map();
lines.on("line", (line) => {{
  const [number, value] = JSON.parse(line);
  waiting.get(number)(value);
  waiting.delete(number);
}});
let calls = 0;
const call = (tool, input) => new Promise((resolve) => {{
  waiting.set(++calls, resolve);
  say([calls, "local", tool, input]);
}});
const context = vm.createContext({{ servers: {{ local: {{ call }} }} }});
vm.runInContext(`(async () => {{ {program} }})()`, context).then((value) => {{
  say([0, value]);
  lines.close();
}});
"""


def measure(scale: Scale) -> list[Line]:
    with paddock() as subject:
        return _in_process(subject, scale)


class _Local:
    """A server whose tools are functions of this process."""

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], *, limit_ms: int
    ) -> ToolResult:
        del limit_ms
        assert (server, tool) == ("local", "echo")
        return ToolResult({"content": [], "structuredContent": dict(arguments)})


class _Silent:
    """An audit sink that keeps nothing, to see what keeping costs."""

    def claim(self, *_: object, **__: object) -> str:
        return ""

    append = append_soon = claim


def local_gate(subject: Paddock) -> Gate:
    """Return the gate of a session with one server, `local`, whose tool `echo` is a function of this process."""
    gate = copy.copy(subject.session.gate)
    gate._engines = gate._engines._replace(servers=_Local())  # noqa: SLF001
    return gate


def _in_process(subject: Paddock, scale: Scale) -> list[Line]:
    gate = local_gate(subject)
    unrecorded = copy.copy(gate)
    unrecorded._audit = _Silent()  # type: ignore[assignment]  # noqa: SLF001
    count = scale.of(400, 100)
    program = _SEQUENCE.format(count=count)

    def microseconds(through: Gate) -> float:
        return subject.run(_call_us(subject, through, program, count))

    contenders = {
        "audit": lambda: microseconds(gate),
        "no audit": lambda: microseconds(unrecorded),
        "node": lambda: subject.run(_node_call_us(count)),
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
        Line("peer: node + vm.createContext, calls as lines over pipes", median(figures["node"]), "us"),
        Line("against node", ratio(figures["audit"], figures["node"]), "x"),
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


async def _node_call_us(count: int) -> float:
    """Return what a call takes between a node that has started and this process."""
    script = _NODE.format(program=_SEQUENCE.format(count=count))
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    node = await asyncio.create_subprocess_exec(
        peers.node(), "-e", script, env=peers.bare_environment(), **pipes
    )
    assert node.stdin is not None
    assert node.stdout is not None
    local, started = _Local(), 0.0
    while (message := json.loads(await node.stdout.readline()))[0]:
        started = started or time.perf_counter()
        number, server, tool, given = message
        result = await local.call(server, tool, given, limit_ms=0)
        node.stdin.write(json.dumps([number, result.raw["structuredContent"]]).encode() + b"\n")
    spent = time.perf_counter() - started
    assert message == [0, count * (count - 1) // 2]
    await node.communicate()
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
