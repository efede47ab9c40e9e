"""The fields of a program's request: one row for each, with the surfaces that accept it.

The HTTP API, sequences and the SDK of programs derive what they accept from this table. Where a signature or a model is
written out, `tests/unit/model/test_fields.py` compares it with the table.
"""

from typing import Literal, NamedTuple

Surface = Literal["library", "http", "mcp", "sdk", "sequence", "batch"]
Place = Literal["work", "output", "limits"]
"""Where a request has the field: in its `RuntimeRun`, in the `OutputOptions` of that, or in its `LimitOverrides`."""

_SINGLE: tuple[Surface, ...] = ("library", "http", "mcp", "sdk")
"""Surfaces that run a single program, and return its files."""
_SESSION_SURFACES: tuple[Surface, ...] = ("library", "http", "mcp")
"""Surfaces of callers that can keep a session."""


class ProgramField(NamedTuple):
    """One field of a program's request, besides its language and its text."""

    name: str
    surfaces: tuple[Surface, ...]
    place: Place = "work"
    model_name: str = ""
    """Its name where a request has it, if that is another one."""


PROGRAM_FIELDS = (
    ProgramField("args", (*_SINGLE, "sequence", "batch")),
    ProgramField("executable", (*_SINGLE, "sequence", "batch")),
    ProgramField("stdin", (*_SINGLE, "sequence", "batch")),
    ProgramField("cwd", (*_SINGLE, "sequence")),
    ProgramField("access", (*_SINGLE, "sequence", "batch")),
    ProgramField("network", (*_SINGLE, "sequence", "batch")),
    ProgramField("files", (*_SINGLE, "batch")),
    ProgramField("outputs", _SINGLE),
    ProgramField("env", (*_SINGLE, "batch")),
    ProgramField("packages", (*_SINGLE, "batch")),
    ProgramField("session", _SESSION_SURFACES),
    ProgramField("kernel", _SESSION_SURFACES),
    ProgramField("background", _SESSION_SURFACES),
    ProgramField("combined", _SINGLE, "output"),
    ProgramField("keep", _SINGLE, "output", "persist"),
    ProgramField("timeout_ms", (*_SINGLE, "sequence", "batch"), "limits"),
    ProgramField("compile_timeout_ms", ("sdk", "batch"), "limits"),
    ProgramField("cpu_ms", (*_SINGLE, "batch"), "limits"),
    ProgramField("memory_bytes", (*_SINGLE, "batch"), "limits"),
    ProgramField("output_bytes", ("sdk", "batch"), "limits"),
)


def list_fields(surface: Surface) -> tuple[ProgramField, ...]:
    """Return the fields that a surface accepts."""
    return tuple(field for field in PROGRAM_FIELDS if surface in field.surfaces)
