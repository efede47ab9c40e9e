"""Pure computations with JSON input and one line of JSON output. Every surface uses this mapping.

{"source", "input", "limits"} -> ExecutionRequest -> gate -> Outcome -> {"output"} or {"code", "message"}
"""

import json
from pathlib import Path
from typing import cast

from paddock.model.base import Json, Value, kind
from paddock.model.computation import code
from paddock.model.errors import PaddockError
from paddock.model.limits import KIB, LimitOverrides
from paddock.model.outcome import ErrorInfo, Outcome, Status
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.surfaces.rendering.terminal import make_encodable

_INT64_LIMIT = 1 << 63
# Escapes `<`, `>`, `&` and the line separators like Go's encoder, and characters that move a terminal's cursor.
_ESCAPES = {number: f"\\u{number:04x}" for number in (*map(ord, "<>&\u2028\u2029"), *range(0x7F, 0xA0))}


_FLAGS: dict[str, dict[str, Json]] = {
    "deterministic": {"type": "boolean"},
    "partial": {"type": "boolean", "description": "keep output on error"},
}
_LIMITS: dict[str, dict[str, Json]] = {
    "timeout_ms": {"type": "integer"},
    "output_bytes": {"type": "integer"},
    **_FLAGS,
}
COMPAT_LIMITS: dict[str, dict[str, Json]] = {
    "wall_ms": {"type": "integer"},
    "output_kb": {"type": "integer"},
    **_FLAGS,
}
"""The limits under the names of the compat profile, which are deprecated elsewhere."""
_RENAMED_LIMITS = {"wall_ms": ("timeout_ms", 1), "output_kb": ("output_bytes", KIB)}
"""Deprecated names of limits, each with the name that replaces it and the factor between their units."""


class InvalidInput(PaddockError):
    """The input is not a request for a computation; the text says why."""


class _NoValueError(ValueError):
    """A word that is not a JSON value."""


class Envelope(Value):
    """The answer to a computation."""

    status: Status = Status.OK
    """How it ended."""
    output: str | None = None
    """The emitted text: of a successful computation, or up to the limit that it exceeded."""
    name: str = ""
    """The name of the error: `TypeError`. Exact answers have none."""
    message: str = ""
    """Why it failed."""
    partial: str | None = None
    """Text that was emitted before an error, if requested."""
    hint: str = ""
    """A remedy. Exact answers have none."""
    warnings: tuple[str, ...] = ()
    """Possible faults of the output, such as lost digits of a number, and deprecated names. Exact answers have none."""

    @property
    def ok(self) -> bool:
        """Whether the computation succeeded."""
        return self.status is Status.OK

    @property
    def code(self) -> str:
        """The code of an error: `INVALID_INPUT`, `EVAL_ERROR`, `TIMEOUT`, `OUTPUT_LIMIT`, or a status in capitals."""
        return code(self.status)

    @property
    def stdout(self) -> str:
        """Text for standard output: one line of JSON, or nothing."""
        return "" if self.output is None else render_one_line({"output": self.output})

    @property
    def stderr(self) -> str:
        """Text for standard error: one line of JSON, or nothing."""
        return "" if self.ok else render_one_line(self.error)

    @property
    def error(self) -> dict[str, Json]:
        """The error of an exact answer."""
        fields: dict[str, Json] = {"code": self.code, "message": self.message}
        return fields if self.partial is None else {**fields, "partial": self.partial}


class ComputationRequest(Value):
    """The contents of a request for a computation."""

    source: str
    input: str = ""
    limits: LimitOverrides = LimitOverrides()
    deterministic: bool = True
    partial: bool = False
    jit: bool = False
    warnings: tuple[str, ...] = ()
    """Deprecated names in the request."""

    def build_request(
        self, *, actor: str, surface: str, workspace: Path, exact: bool = True
    ) -> ExecutionRequest:
        """Return the request for the gate; without `exact`, JSON numbers are doubles."""
        work = GuestRun(
            source=self.source,
            input=self.input,
            name="computation",
            language="javascript",
            profile="compute",
            deterministic=self.deterministic,
            partial=self.partial,
            exact=exact,
        )
        return ExecutionRequest(
            actor=actor, surface=surface, workspace=workspace, work=work, limits=self.limits, jit=self.jit
        )


def build_request_schema(*, jit: bool, deprecated: bool = False) -> dict[str, Json]:
    """Return the schema of a request, for every surface except the compat profile.

    With `deprecated`, it contains the deprecated names of limits, too.
    """

    def members(**properties: Json) -> dict[str, Json]:
        return {"type": "object", "properties": properties, "additionalProperties": False}

    limits = {
        **_LIMITS,
        **(COMPAT_LIMITS if deprecated else {}),
        **({"jit": {"type": "boolean"}} if jit else {}),
    }
    text: Json = {"type": "string"}
    asked_for = members(source=text, input=text, limits=members(**limits))
    return {**asked_for, "required": ["source"]}


def replace_deprecated_limits(body: Json) -> tuple[Json, tuple[str, ...]]:
    """Return a request with the present names of its limits, and a warning for each deprecated name.

    Raises InvalidInput if a limit is given under both names.
    """
    request = cast("dict[str, Json]", body) if isinstance(body, dict) else {}
    limits = request.get("limits")
    if not isinstance(limits, dict):
        return cast("Json", body), ()
    replaced, warnings = {**cast("dict[str, Json]", limits)}, list[str]()
    for old, (new, factor) in _RENAMED_LIMITS.items():
        if old not in replaced:
            continue
        if new in replaced:
            raise InvalidInput(
                f"`limits.{old}` is the deprecated name of `limits.{new}`, which is also given; remove `limits.{old}`"
            )
        value = replaced.pop(old)
        replaced[new] = value * factor if isinstance(value, int) and not isinstance(value, bool) else value
        warnings.append(f"`limits.{old}` is deprecated; write `limits.{new}`")
    return {**request, "limits": replaced}, tuple(warnings)


def check_request(body: Json, problems: tuple[str, ...]) -> None:
    """Raise InvalidInput for a request that breaks the schema, with its `problems`, or has no source."""
    if not problems and isinstance(body, dict) and not cast("dict[str, Json]", body)["source"]:
        problems = ("`source` is empty",)
    if problems:
        raise InvalidInput("; ".join(problems))


def parse_json(raw: bytes) -> Json:
    """Return the value of a JSON text. Raises InvalidInput."""
    try:
        return json.loads(raw.decode(), parse_constant=_reject_constant)
    except RecursionError:
        raise InvalidInput("invalid JSON: it is nested too deeply") from None
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"invalid JSON: it is not UTF-8 (byte {problem.start + 1})") from None
    except json.JSONDecodeError as problem:
        raise InvalidInput(f"invalid JSON: {problem}") from None
    except ValueError as problem:
        reason = str(problem) if isinstance(problem, _NoValueError) else "a number has too many digits"
        raise InvalidInput(f"invalid JSON: {reason}") from None


def convert_request(body: Json) -> ComputationRequest:
    """Return the request in a JSON value. Names match in any case; unknown ones are ignored. Raises InvalidInput."""
    fields = _read_fields(body, "the request")
    source = _read_text(fields, "source")
    if not source:
        raise InvalidInput("missing source")
    limits = _read_fields(fields.get("limits"), "limits")
    timeout_ms, output_bytes = (_read_limit(limits, *names) for names in _RENAMED_LIMITS.items())
    return ComputationRequest(
        source=source,
        input=_read_text(fields, "input"),
        limits=LimitOverrides(timeout_ms=timeout_ms, output_bytes=output_bytes),
        deterministic=_read_flag(limits, "deterministic", default=True),
        partial=_read_flag(limits, "partial", default=False),
        jit=_read_flag(limits, "jit", default=False),
    )


def build_envelope(outcome: Outcome) -> Envelope:
    """Return the answer for an outcome of a computation."""
    emitted = make_encodable(outcome.value) if isinstance(outcome.value, str) else None
    warnings = tuple(make_encodable(line.text) for line in outcome.console)
    if outcome.ok:
        return Envelope(output=emitted or "", warnings=warnings)
    error = outcome.error or ErrorInfo(name="Error", message=outcome.status.value)
    message = error.message
    if outcome.status is Status.FAILED:
        message = message if error.name == "Thrown" else f"{error.name}: {message}"
        message += "" if error.line is None else f" at <eval>:{error.line}:{error.column}"
    elif outcome.status is Status.MEMORY_LIMIT:
        message = f"{message}: {error.hint}"
    answer = Envelope(status=outcome.status, name=make_encodable(error.name), message=make_encodable(message))
    kept = "output" if outcome.status is Status.OUTPUT_LIMIT else "partial"
    hint = error.hint if outcome.status in (Status.FAILED, Status.DENIED) else ""
    return answer.model_copy(update={kept: emitted, "hint": hint, "warnings": warnings})


def build_refused_envelope(problem: PaddockError) -> Envelope:
    """Return the answer for an input that is no valid request, or could not be run."""
    status = Status.INVALID if isinstance(problem, InvalidInput) else Status.ERROR
    return Envelope(status=status, name=type(problem).__name__, message=make_encodable(str(problem)))


def render_one_line(value: Json) -> str:
    """Return a value as one line of JSON, without the line end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


def _read_fields(value: Json, what: str) -> dict[str, Json]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"invalid JSON: {what} must be an object, not {kind(value)}")
    return {name.lower(): member for name, member in cast("dict[str, Json]", value).items()}


def _read_text(fields: dict[str, Json], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str | None):
        raise InvalidInput(f"invalid JSON: {name} must be a string, not {kind(value)}")
    return value or ""


def _read_flag(limits: dict[str, Json], name: str, *, default: bool) -> bool:
    value = limits.get(name)
    if not isinstance(value, bool | None):
        raise InvalidInput(f"invalid JSON: limits.{name} must be true or false, not {kind(value)}")
    return default if value is None else value


def _read_limit(limits: dict[str, Json], old: str, new: tuple[str, int]) -> int | None:
    """Return a limit under its present or deprecated name; None (the default) if it is missing or not positive."""
    name, factor = (old, new[1]) if old in limits else (new[0], 1)
    if name not in limits:
        return None
    value = limits[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"invalid JSON: limits.{name} must be an integer, not {kind(value)}")
    if not -_INT64_LIMIT <= value < _INT64_LIMIT:
        raise InvalidInput(f"invalid JSON: limits.{name} does not fit 64 bits")
    return value * factor if value > 0 else None


def _reject_constant(name: str) -> Json:
    raise _NoValueError(f"{name} is not a JSON value")
