"""The bodies of requests and answers, with the field names, types and defaults of SandboxFusion's own server.

Source: bytedance/SandboxFusion 469de08 and the clients `sandbox-fusion` 0.3.7 and `verl` 0.9.1. Unknown fields of a
request are ignored, and every field of an answer is always sent, null if it has no value.
"""

import re
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from paddock.model.languages import read_language
from paddock.model.program import CODE_CHARS, MAX_TIMEOUT_MS

_MAX_SECONDS = MAX_TIMEOUT_MS / 1000
_MAX_MEBIBYTES = 2**31 - 1
DEFAULT_TOTAL_TIMEOUT = 45.0
"""The default of `total_timeout`, in seconds, which clients send even if nothing was asked for."""
MAX_FETCHED_FILES = 100
RUN_CODE_PATH: Final = "/run_code"
RUN_JUPYTER_PATH: Final = "/run_jupyter"
TEST_PROGRAM_PATH: Final = "/test_program"
TEST_PROGRAM_STDIO_PATH: Final = "/test_program_stdio"
PATHS = frozenset({RUN_CODE_PATH, RUN_JUPYTER_PATH, TEST_PROGRAM_PATH, TEST_PROGRAM_STDIO_PATH})
MAX_CELLS = 1000
MAX_TESTS = 1000

Language = Literal[
    "python", "cpp", "nodejs", "go", "go_test", "java", "php", "csharp", "bash", "typescript", "sql", "rust", "cuda",
    "lua", "R", "perl", "D_ut", "ruby", "scala", "julia", "pytest", "junit", "kotlin_script", "jest", "verilog",
    "python_gpu", "lean", "swift", "racket",
]  # fmt: skip
_LANGUAGE_NAMES: tuple[Language, ...] = get_args(Language)
_NAMES_OF_RUNTIMES = {"node": "nodejs", "shell": "bash", "r": "R", "kotlin": "kotlin_script"}
"""The names of languages that Paddock calls otherwise."""


def _read_language(value: object) -> object:
    if not isinstance(value, str) or value in _LANGUAGE_NAMES:
        return value
    runtime = read_language(value)
    name = _NAMES_OF_RUNTIMES.get(runtime, runtime)
    return name if name in _LANGUAGE_NAMES else value


_NUMBER_PATTERN = r"^\s*[+-]?[0-9]{1,15}(\.[0-9]{0,15})?\s*$"
_number = re.compile(_NUMBER_PATTERN, re.ASCII)


def _read_number(value: object) -> object:
    """Return a number, also from text, which clients send. Raises ValueError for a boolean."""
    if isinstance(value, bool) or (isinstance(value, str) and not _number.fullmatch(value)):
        raise ValueError("it must be a number")
    return value


_NumberText = Annotated[str, Field(pattern=_NUMBER_PATTERN)]
_AnyNumber = Annotated[float, BeforeValidator(_read_number, json_schema_input_type=float | _NumberText)]
_Limit = Annotated[float, Field(le=_MAX_SECONDS, allow_inf_nan=False)]
Seconds = Annotated[_Limit, BeforeValidator(_read_number, json_schema_input_type=_Limit | _NumberText)]
"""A time limit, also as text. Zero or less is a limit that is over at once."""
_Mebibytes = Annotated[
    int,
    Field(alias="memory_limit_MB", le=_MAX_MEBIBYTES),
    BeforeValidator(
        _read_number, json_schema_input_type=Annotated[int, Field(le=_MAX_MEBIBYTES)] | _NumberText
    ),
]


class Body(BaseModel):
    """The body of a request; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True, hide_input_in_errors=True)


class RunCodeAnswer(BaseModel):
    """The body of an answer; every field is sent."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class RunCodeRequest(Body):
    """One program."""

    code: Annotated[str, Field(max_length=CODE_CHARS)]
    """The program."""
    language: Annotated[Language, BeforeValidator(_read_language)]
    """Its language; an alias such as `python3` is accepted, too."""
    compile_timeout: Seconds = 10
    """Wall time of the compile command, in seconds."""
    run_timeout: Seconds = 10
    """Wall time of the program, in seconds. It does not run while the request waits."""
    memory_limit: _Mebibytes = -1
    """Resident memory of the program, in MiB; zero or less for the maximum of the server."""
    stdin: str | None = None
    """Standard input, UTF-8; null is empty."""
    files: dict[str, str | None] = Field(default_factory=dict)
    """Contents in base64 by path, relative to the working directory. Null contents are skipped."""
    fetch_files: Annotated[list[str], Field(max_length=MAX_FETCHED_FILES)] = Field(default_factory=list)
    """Paths of files to return, relative to the working directory. Files that do not exist are left out."""


CommandStatus = Literal["Finished", "Error", "TimeLimitExceeded"]
RunStatus = Literal["Success", "Failed", "SandboxError"]


class CommandResult(RunCodeAnswer):
    """How a command ended: the compiler, or the program."""

    status: CommandStatus
    """`Finished` if it ended by itself, by a signal, or at another limit than its time."""
    execution_time: float | None = None
    """Wall time, in seconds."""
    return_code: int | None = None
    """The exit code, -N after signal N; null at a time limit."""
    stdout: str | None = None
    """Standard output; bytes that are not UTF-8 are replaced by U+FFFD."""
    stderr: str | None = None
    """Standard error, the same way."""


class RunCodeResponse(RunCodeAnswer):
    """How a program ended."""

    status: RunStatus
    """`Success` if every command ended with 0."""
    message: str = ""
    """What failed, with `SandboxError`."""
    compile_result: CommandResult | None = None
    """How the compiler ended; null for a language without a compile command."""
    run_result: CommandResult | None = None
    """How the program ended; null if it was not started."""
    executor_pod_name: str | None = None
    """Always null: there are no pods."""
    files: dict[str, str] = Field(default_factory=dict)
    """The fetched files, in base64 by path."""


class RunJupyterRequest(Body):
    """Cells of a notebook, to run one after the other."""

    cells: Annotated[list[Annotated[str, Field(max_length=CODE_CHARS)]], Field(max_length=MAX_CELLS)]
    """The cells."""
    cell_timeout: _AnyNumber = 0
    """Accepted and not used, as by SandboxFusion."""
    total_timeout: Seconds = DEFAULT_TOTAL_TIMEOUT
    """Wall time of all cells together, in seconds."""
    memory_limit: _Mebibytes = -1
    """Resident memory, in MiB; zero or less for the maximum of the server."""
    kernel: Literal["python3"] = "python3"
    """The kernel."""
    files: dict[str, str | None] = Field(default_factory=dict)
    """As for `/run_code`."""
    fetch_files: Annotated[list[str], Field(max_length=MAX_FETCHED_FILES)] = Field(default_factory=list)
    """As for `/run_code`."""


class CellError(RunCodeAnswer):
    """An exception that a cell raised."""

    ename: str
    """Its type."""
    evalue: str
    """Its text."""
    traceback: list[str]
    """The traceback, as parts to print one after the other."""


class CellResult(RunCodeAnswer):
    """What one cell did."""

    stdout: str
    """Its standard output."""
    stderr: str
    """Its standard error."""
    display: list[dict[str, Any]]
    """What it displayed, each as a MIME bundle."""
    error: list[CellError]
    """Its exception, if it raised one."""


class RunJupyterResponse(RunCodeAnswer):
    """What the cells did."""

    status: RunStatus
    """`Success` if all cells ran, whatever they raised."""
    message: str = ""
    """What failed, with `SandboxError`."""
    driver: CommandResult | None = None
    """How the interpreter ended."""
    cells: list[CellResult] = Field(default_factory=list)
    """What each cell did; empty if the interpreter did not end well."""
    executor_pod_name: str | None = None
    """Always null."""
    files: dict[str, str] = Field(default_factory=dict)
    """The fetched files, in base64 by path."""


class StdioTest(Body):
    """A test of a program by standard input and output."""

    input: str | list[str]
    """Standard input; a list is joined to lines."""
    output: str
    """The expected output."""


AssertTests = Annotated[list[Annotated[str, Field(max_length=CODE_CHARS)]], Field(max_length=MAX_TESTS)]
StdioTests = Annotated[list[StdioTest], Field(max_length=MAX_TESTS)]


class TestProgramRequest(Body):
    """A Python program and its tests, as open-instruct sends them."""

    program: Annotated[str, Field(max_length=CODE_CHARS)]
    """The program."""
    tests: list[Any] | str
    """`AssertTests` or `StdioTests`; or a string that packs them."""
    max_execution_time: Seconds = 1.0
    """Wall time of each test, in seconds."""


class TestProgramResponse(RunCodeAnswer):
    """The results of all tests, in their order."""

    results: list[Literal[0, 1]]
    """1 for a test that passed."""
    runtimes: list[float]
    """Wall time of the process of each test that passed, in seconds; -1 for one that did not."""
