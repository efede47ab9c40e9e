"""Calls out of a program: the way guest -> gate -> function of this process and back, and what the record of it costs.

Next to it goes the same program in a node process whose calls come as lines of JSON: neither confined nor recorded.
"""

import asyncio
import copy
import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks import peers
from benchmarks.measure import Line, Scale, at_most, interleaved, ratio
from benchmarks.subject import Paddock, paddock, replace_servers
from paddock.engines.servers.result import ToolResult
from paddock.gate.gate import Gate

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

    def __init__(self) -> None:
        self.came: list[float] = []
        """When each call came, in seconds: from one to the next is a call's way back and forth."""

    async def call_tool(
        self, server: str, tool: str, arguments: Mapping[str, Any], **_options: object
    ) -> ToolResult:
        assert (server, tool) == ("local", "echo")
        self.came.append(time.perf_counter())
        return ToolResult({"content": [], "structuredContent": dict(arguments)})

    def resolve_alias(self, server: str, tool: str) -> str:
        del server
        return tool


class _Silent:
    """An audit sink that keeps nothing, to see what keeping costs."""

    def claim(self, *_: object, **__: object) -> str:
        return ""

    append = append_soon = claim


def local_gate(subject: Paddock, local: _Local | None = None) -> Gate:
    """Return the gate of a session with one server, `local`, whose tool `echo` is a function of this process."""
    gate = copy.copy(subject.session.gate)
    replace_servers(gate, local or _Local())
    return gate


def _in_process(subject: Paddock, scale: Scale) -> list[Line]:
    local = _Local()
    gate = local_gate(subject, local)
    unrecorded = local_gate(subject, local)
    unrecorded.audit = _Silent()  # type: ignore[assignment]
    count = scale.of(400, 100)
    program = _SEQUENCE.format(count=count)
    whole: list[float] = []

    def microseconds(through: Gate) -> float:
        local.came.clear()
        spent = subject.run(_program_s(subject, through, program, count))
        if through is gate:
            whole.append(spent * 1e6 / count)
        return _p50_us(local.came)

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
        Line(f"the same, a program of {count} calls by their number", median(whole), "us"),
        Line("the same without audit, p50", median(figures["no audit"]), "us"),
        Line("peer: node + vm.createContext, calls as lines over pipes, p50", median(figures["node"]), "us"),
        Line("against node", ratio(figures["audit"], figures["node"]), "x", at_most(1)),
        Line("what the audit costs (two records)", cost, "us"),
        Line("floor: JSON over a socket pair, to a thread and back, p50", median(figures["floor"]), "us"),
    ]


async def _program_s(subject: Paddock, gate: Gate, program: str, count: int) -> float:
    await subject.settled()
    started = time.perf_counter()
    value = await subject.value(program, gate=gate)
    spent = time.perf_counter() - started
    assert value == count * (count - 1) // 2
    return spent


async def _node_call_us(count: int) -> float:
    """Return what a call takes between a node that has started and this process, p50."""
    script = _NODE.format(program=_SEQUENCE.format(count=count))
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    node = await asyncio.create_subprocess_exec(
        peers.node(), "-e", script, env=peers.bare_environment(), **pipes
    )
    assert node.stdin is not None
    assert node.stdout is not None
    local = _Local()
    while (message := json.loads(await node.stdout.readline()))[0]:
        number, server, tool, given = message
        result = await local.call_tool(server, tool, given, limit_ms=0)
        node.stdin.write(json.dumps([number, result.raw["structuredContent"]]).encode() + b"\n")
    assert message == [0, count * (count - 1) // 2]
    await node.communicate()
    return _p50_us(local.came)


def _socket_round_trip_us(count: int) -> float:
    ours, theirs = socket.socketpair()

    def echo() -> None:
        while data := theirs.recv(4096):
            theirs.sendall(json.dumps(json.loads(data)).encode())

    thread = threading.Thread(target=echo)
    came: list[float] = []
    with theirs:
        with ours:
            thread.start()
            for number in range(count):
                ours.sendall(json.dumps(["call", number, "local", "echo", {"i": number}, False]).encode())
                ours.recv(4096)
                came.append(time.perf_counter())
        thread.join()
    return _p50_us(came)


def _p50_us(came: Sequence[float]) -> float:
    """Return the median of the times from one moment to the next, in microseconds."""
    return median(after - before for before, after in pairwise(came)) * 1e6
