"""The fields of a program's request: one row for each, with the surfaces that leave it out, and why.

Signatures, models and options are written out; `tests/unit/model/test_fields.py` compares them with the table.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from paddock.model.limits import LimitOverrides
from paddock.model.request import RuntimeRun

Surface = Literal["command", "library", "http", "mcp", "sdk", "sequence", "batch"]
"""`command` is `paddock exec`, `mcp` the tool `run_program`, `sdk` the method `paddock.exec` of programs."""
Place = Literal["work", "output", "limits"]
"""Where a request has the field: in its `RuntimeRun`, in the `OutputOptions` of that, or in its `LimitOverrides`."""


class ProgramField(NamedTuple):
    """One field of a program's request, besides its language and its text."""

    name: str
    place: Place = "work"
    model_name: str = ""
    """Its name where a request has it, if that is another one."""
    absent: Mapping[Surface, str] = {}
    """The surfaces that leave it out, and the reason of each."""
    names: Mapping[Surface, str] = {}
    """Its name on the surfaces that call it otherwise."""
    session: Literal["", "opens", "same"] = ""
    """Whether a session is opened with it, and whether all later programs of the session have the same."""

    @property
    def path(self) -> str:
        """Where a request has it, as errors of the model say: `cwd`, `output.mode`."""
        name = self.model_name or self.name
        return f"output.{name}" if self.place == "output" else name

    def get_name(self, surface: Surface) -> str:
        """Return its name on a surface. The SDK writes names in camel case."""
        name = self.names.get(surface, self.name)
        return to_camel_case(name) if surface == "sdk" else name


def to_camel_case(name: str) -> str:
    """Return `time_limit` as `timeLimit`."""
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


_AS_TEXT = "the caller sends the text of the program"
_NO_SESSIONS: dict[Surface, str] = {
    "sdk": "its sessions would take the place of the caller's",
    "sequence": "a step leaves nothing that runs",
    "batch": "each program starts anew",
}
_KINDS_OF_SESSIONS: dict[Surface, str] = {**_NO_SESSIONS, "command": "`paddock repl` has it"}
_PROGRAM_READS = "a program reads the result, not a person"
_NO_ANSWER: dict[Surface, str] = {
    "library": "the caller gets the output, and renders what it wants",
    "http": "the caller gets the output, and renders what it wants",
    "sdk": _PROGRAM_READS,
    "sequence": _PROGRAM_READS,
    "batch": _PROGRAM_READS,
}
_ONE_WALL_TIME = "`timeout_ms` covers the compile step"
_ALL_OUTPUT = "more output than is kept does not end a program"

PROGRAM_FIELDS = (
    ProgramField("args"),
    ProgramField("executable", session="same"),
    ProgramField("stdin", names={"command": "with_stdin"}),
    ProgramField(
        "cwd", absent={"batch": "its programs belong to no workspace"}, names={"mcp": "relative_cwd"}
    ),
    ProgramField("file", absent=dict.fromkeys(("http", "mcp", "sdk", "sequence", "batch"), _AS_TEXT)),
    ProgramField("access", session="same"),
    ProgramField("network", session="same"),
    ProgramField("files", names={"command": "file_in"}, session="opens"),
    ProgramField("outputs"),
    ProgramField("env", session="opens"),
    ProgramField("packages", session="same"),
    ProgramField("session", absent=_NO_SESSIONS),
    ProgramField("kernel", absent=_KINDS_OF_SESSIONS, session="same"),
    ProgramField("background", absent=_KINDS_OF_SESSIONS, session="same"),
    ProgramField("combined", "output", absent={"batch": "standard output alone is judged"}),
    ProgramField(
        "keep",
        "output",
        "persist",
        absent={"batch": "it stores what `outputs` names, and nothing else"},
        names={"command": "no_keep", "mcp": "persist_output"},
    ),
    ProgramField("output_mode", "output", "mode", absent=_NO_ANSWER, names={"command": "mode"}),
    ProgramField("query_terms", "output", absent=_NO_ANSWER, names={"command": "terms"}),
    ProgramField("max_lines", "output", absent=_NO_ANSWER, names={"mcp": "max_response_lines"}),
    ProgramField(
        "context_lines", "output", absent={**_NO_ANSWER, "command": "`paddock output query` has it"}
    ),
    ProgramField("timeout_ms", "limits"),
    ProgramField(
        "compile_timeout_ms",
        "limits",
        absent=dict.fromkeys(("command", "library", "http", "mcp"), _ONE_WALL_TIME),
    ),
    ProgramField("cpu_ms", "limits"),
    ProgramField("memory_bytes", "limits", session="same"),
    ProgramField(
        "output_bytes",
        "limits",
        absent=dict.fromkeys(("command", "library", "http", "mcp"), _ALL_OUTPUT),
    ),
)


_MODEL_NAMES = {
    place: {field.name: field.model_name or field.name for field in PROGRAM_FIELDS if field.place == place}
    for place in get_args(Place)
}


def list_fields(surface: Surface) -> dict[str, ProgramField]:
    """Return the fields that a surface offers, by their names there."""
    return {field.get_name(surface): field for field in PROGRAM_FIELDS if surface not in field.absent}


def make_work(language: object, code: object, given: Mapping[str, object]) -> RuntimeRun:
    """Return a program with the fields `given`, of which null and unknown ones do not count. Raises ValidationError."""
    parts = {"runtime": language, "code": code, "output": _choose("output", given) or None}
    named = {name: part for name, part in parts.items() if part is not None}
    return RuntimeRun.model_validate({**named, **_choose("work", given)})


def make_limits(given: Mapping[str, object]) -> LimitOverrides:
    """Return the limits among the fields `given` of a program. Raises ValidationError."""
    return LimitOverrides.model_validate(_choose("limits", given))


def _choose(place: Place, given: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that a place of the request has, by their names there."""
    return {
        theirs: given[ours] for ours, theirs in _MODEL_NAMES[place].items() if given.get(ours) is not None
    }
