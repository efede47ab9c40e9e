"""Large values: into a program, out of it, and as the result of a host call."""

import copy
import json
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks.measure import Line, Scale, interleaved, milliseconds, ratio
from benchmarks.subject import Paddock, paddock, replace_servers
from paddock.engines.servers.result import ToolResult
from paddock.gate.gate import Gate

TITLE = "Payloads"

_INPUT = "return input.length"
_RESULT = "return (await servers.local.call('rows', {})).length"
_RETURNED = """
const started = Date.now();
const rows = [];
for (let i = 0; i < COUNT; i++) rows.push({ id: i, name: "item " + i, tags: ["a", "b"], score: i / 2 });
console.log(Date.now() - started);
return rows;
"""


def _row(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"item {number}", "tags": ["a", "b"], "score": number / 2}


def measure(scale: Scale) -> list[Line]:
    lines: list[Line] = []
    with paddock() as subject:
        for megabytes in (1,) if scale.quick else (1, 10):
            rows = _rows(megabytes * 1_000_000)
            gate = copy.copy(subject.session.gate)
            replace_servers(gate, _Rows(rows))
            contenders = {
                "as input": lambda g=gate, r=rows: subject.run(_into(subject, g, _INPUT, r)),
                "as a host call's result": lambda g=gate, r=rows: subject.run(_into(subject, g, _RESULT, r)),
                "as the returned value": lambda g=gate, r=rows: subject.run(_out_of(subject, g, r)),
                "floor": lambda r=rows: milliseconds(lambda: json.loads(json.dumps(r))),
            }
            figures = interleaved(contenders, scale.of(5, 1))
            floor = figures.pop("floor")
            lines += [
                Line(
                    f"{megabytes} MB {how}",
                    median(values),
                    "ms",
                    note=f"{ratio(values, floor):.1f} x the floor",
                )
                for how, values in figures.items()
            ]
            lines.append(Line(f"floor: json.loads(json.dumps()) of {megabytes} MB", median(floor), "ms"))
    return lines


class _Rows:
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    async def call_tool(
        self, server: str, tool: str, arguments: Mapping[str, Any], **_options: object
    ) -> ToolResult:
        assert (server, tool, arguments) == ("local", "rows", {})
        return ToolResult({"content": [], "structuredContent": self._rows})

    def resolve_alias(self, server: str, tool: str) -> str:
        del server
        return tool


def _rows(size: int) -> list[dict[str, Any]]:
    """Return as many rows as fit into `size` characters of compact JSON."""
    rows: list[dict[str, Any]] = []
    length = 2
    while length < size:
        rows.append(_row(len(rows)))
        length += len(json.dumps(rows[-1], separators=(",", ":"))) + 1
    return rows[:-1]


async def _into(subject: Paddock, gate: Gate, program: str, rows: list[dict[str, Any]]) -> float:
    await subject.settled()
    given = rows if program is _INPUT else None
    started = time.perf_counter()
    value = await subject.value(program, gate=gate, input=given)
    spent = time.perf_counter() - started
    assert value == len(rows)
    return spent * 1000


async def _out_of(subject: Paddock, gate: Gate, rows: list[dict[str, Any]]) -> float:
    """Return the milliseconds beyond those that the program spends on making the rows."""
    await subject.settled()
    started = time.perf_counter()
    outcome = await subject.execute(_RETURNED.replace("COUNT", str(len(rows))), gate=gate)
    spent = time.perf_counter() - started
    assert outcome.value == rows, outcome.error
    return spent * 1000 - float(outcome.console[0].text)
