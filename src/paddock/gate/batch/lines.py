"""Programs and results as JSON lines: one JSON object in each line (https://jsonlines.org)."""

import json
from typing import NamedTuple, cast

from pydantic import ValidationError

from paddock.gate.batch.program import Program, ProgramResult
from paddock.model.base import Json, kind
from paddock.model.json_meter import MAX_VALUES, holds_more
from paddock.model.numbers import dumps
from paddock.model.program import signal_name
from paddock.model.texts import explain

MAX_LINE_BYTES = 128 * 1024 * 1024
"""Maximum size of an input line: enough for the largest files of a program in base64."""
_MESSAGES = {"extra_forbidden": "is not a field here", "missing": "is missing"}
"""Error texts by pydantic's error type; other errors have their own text."""


class BadLine(NamedTuple):
    """A line of input that is no program."""

    number: int
    """The number of the line, from 1."""
    id: str | None
    """Its id, if it has a valid one."""
    message: str
    """What is wrong with it."""

    def render(self) -> dict[str, Json]:
        """Return its answer as JSON."""
        return {"id": self.id, "line": self.number, "error": {"name": "Invalid", "message": self.message}}


def read_program(line: bytes, number: int) -> Program | BadLine:
    """Return the program in a line, which is hostile; or what is wrong with it."""
    if len(line) > MAX_LINE_BYTES:
        return BadLine(number, None, f"the line is longer than {MAX_LINE_BYTES} bytes")
    if holds_more(line, MAX_VALUES):
        return BadLine(number, None, f"the line has more than {MAX_VALUES} JSON values")
    try:
        given: object = json.loads(line)
    except (ValueError, RecursionError) as problem:
        why = problem.msg if isinstance(problem, json.JSONDecodeError) else "it is not UTF-8, or not JSON"
        return BadLine(number, None, f"the line is not JSON: {why}")
    if not isinstance(given, dict):
        return BadLine(
            number, None, f"the line must be an object with `id`, `language` and `code`, not {kind(given)}"
        )
    fields = cast("dict[str, Json]", given)
    name = fields.get("id")
    known = name if isinstance(name, str) else None
    if name is None:
        return BadLine(number, None, "id: give each program an `id`, with which its answer can be found")
    # `null` means that a field is not given.
    fields = {key: value for key, value in fields.items() if value is not None}
    try:
        return Program.model_validate(fields)
    except ValidationError as problem:
        lines = explain(problem, messages=_MESSAGES, limit=None, model=Program)
        return BadLine(number, known, "; ".join(lines))


def render_result(result: ProgramResult) -> dict[str, Json]:
    """Return the result of a program as JSON."""
    answer: dict[str, Json] = {"id": result.id}
    if result.verdict is not None:
        answer["verdict"] = result.verdict.value
    outcome = result.outcome
    answer |= {"status": outcome.status.value, "request": outcome.id}
    if (program := outcome.program) is not None:
        answer |= {
            "phase": program.phase,
            "exit_code": program.exit_code,
            "signal": None if program.signal is None else signal_name(program.signal),
            "limit": program.limit,
            "stdout": program.stdout.text,
            "stderr": program.stderr.text,
            "stdout_truncated": program.stdout.truncated,
            "stderr_truncated": program.stderr.truncated,
            "wall_ms": outcome.usage.wall_ms,
            "cpu_ms": outcome.usage.cpu_ms,
            "peak_bytes": outcome.usage.peak_bytes,
            "compile_ms": program.compile_ms,
            **({"files": [file.model_dump() for file in program.files]} if program.files else {}),
        }
    if (error := outcome.error) is not None:
        answer["error"] = {"name": error.name, "message": error.message, "hint": error.hint}
    if result.verdict is not None:
        answer["tests"] = [
            {
                **({"name": case.name} if case.name else {}),
                "verdict": case.verdict.value,
                "message": case.message,
                "exit_code": case.outcome.program.exit_code if case.outcome.program else None,
                "wall_ms": case.outcome.usage.wall_ms,
                "cpu_ms": case.outcome.usage.cpu_ms,
                "peak_bytes": case.outcome.usage.peak_bytes,
                "request": case.outcome.id,
            }
            for case in result.tests
        ]
    return answer


def write_line(answer: dict[str, Json]) -> bytes:
    """Return an answer as a line."""
    return dumps(answer).encode("utf-8", "replace") + b"\n"
