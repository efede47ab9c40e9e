"""A program of a batch, its tests, and its result."""

import base64
import binascii
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from paddock.model.base import PositiveInt, Texts, Value
from paddock.model.fields import make_limits, make_work
from paddock.model.ids import new_id
from paddock.model.limits import LimitOverrides
from paddock.model.network import Network
from paddock.model.outcome import Outcome
from paddock.model.program import (
    CODE_CHARS,
    MAX_ARGUMENTS,
    MAX_TIMEOUT_MS,
    MIN_TIMEOUT_MS,
    STDIN_BYTES,
    Access,
    Runtime,
)
from paddock.model.request import RuntimeRun
from paddock.model.texts import explain
from paddock.model.work_files import INPUT_BYTES, InputFile, Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_TESTS = 10_000
MAX_EXPECTED_BYTES = 16 * 1024 * 1024
"""Maximum size of the expected output of a test, in bytes."""
MAX_OUTPUT_BYTES = 256 * 1024 * 1024
"""Maximum of `output_bytes`, which is the maximum of any program."""
MAX_CHECKED_BYTES = INPUT_BYTES - STDIN_BYTES - MAX_EXPECTED_BYTES
"""Maximum of `output_bytes` with a checker, which gets input, expected and actual output as files."""
_ID_CHARS = 200

Comparison = Literal["lines", "exact", "tokens", "float"]
"""How output is compared: `lines` ignores white space at line ends and empty lines at the end; `exact` compares every
byte; `tokens` ignores all differences in white space; `float` accepts numbers that differ by at most 1e-6, absolutely
or relatively, and otherwise compares tokens."""


def _read_data(value: object) -> object:
    """Return bytes also from `{"base64": "..."}`, as JSON holds them."""
    if not isinstance(value, dict) or value.keys() != {"base64"}:
        return cast("object", value)
    try:
        return base64.b64decode(cast("dict[str, Any]", value)["base64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise PydanticCustomError("base64", "`base64` is not valid base64 (RFC 4648)") from None


Data = Annotated[bytes, BeforeValidator(_read_data)]
"""Bytes; from a text (UTF-8), or in JSON from `{"base64": "..."}`."""
_Stdin = Annotated[bytes, Field(max_length=STDIN_BYTES), BeforeValidator(_read_data)]
_Timeout = Annotated[int, Field(ge=MIN_TIMEOUT_MS, le=MAX_TIMEOUT_MS)]


def _read_id(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


ProgramId = Annotated[str, Field(min_length=1, max_length=_ID_CHARS), BeforeValidator(_read_id)]
"""The id of a program: a text, or a whole number, which becomes a text."""


class Case(Value):
    """A test of a program: its input and the output that it must write."""

    stdin: _Stdin = b""
    """Standard input."""
    expect: Annotated[bytes, Field(max_length=MAX_EXPECTED_BYTES), BeforeValidator(_read_data)] = b""
    """Expected standard output."""
    name: Annotated[str, Field(max_length=_ID_CHARS)] = ""
    """A name for the result."""
    timeout_ms: _Timeout | None = None
    """Wall time of this test, in milliseconds; None for that of the program."""
    memory_bytes: PositiveInt | None = None
    """Memory of this test, in bytes; None for that of the program."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            stdin: bytes | str = b"",
            expect: bytes | str = b"",
            name: str = "",
            timeout_ms: int | None = None,
            memory_bytes: int | None = None,
        ) -> None: ...


class Checker(Value):
    """A program that judges output, in a separate sandbox.

    Its arguments are the names of three files in its working directory: `input`, `expected` and `actual`. Exit code 0
    accepts the output, 1 is a wrong answer, and everything else is a fault of the checker. The first line that it
    prints becomes the message of the test.
    """

    language: Runtime
    """The language."""
    code: Annotated[str, Field(max_length=CODE_CHARS)]
    """The text of the checker."""
    timeout_ms: _Timeout | None = None
    """Wall time of one check, in milliseconds; None for the maximum of policy."""
    memory_bytes: PositiveInt | None = None
    """Memory of one check, in bytes; None for the maximum of policy."""


class Program(Value):
    """A program with its input, its limits and, to have it judged, its tests.

    The fields are arguments of `Paddock.exec`. It can read the workspace only if `access` grants that; a program
    with tests never does, and has no network, because the tests may be there.
    """

    language: Runtime
    """The language, such as `python`."""
    code: Annotated[str, Field(max_length=CODE_CHARS)]
    """The text of the program."""
    id: ProgramId = Field(default_factory=new_id)
    """The id of its result; a new one by default."""
    executable: str | None = None
    """The executable to use instead of the first choice of the language."""
    args: Annotated[tuple[str, ...], Field(max_length=MAX_ARGUMENTS)] = ()
    """Arguments."""
    stdin: _Stdin | None = None
    """Standard input; tests have their own."""
    files: dict[str, Data] = Field(default_factory=dict)
    """Files in a separate working directory, by relative path."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables that policy grants."""
    packages: tuple[str, ...] = ()
    """Packages of its language, such as `pandas>=2`."""
    outputs: tuple[Pattern, ...] | None = None
    """Patterns of files to store, such as `*.csv`, of a program without tests; its output is stored with them. By
    default nothing is stored."""
    access: Access = "none"
    """Access to the workspace."""
    network: Network = "none"
    """Access to the network, except `hosts`."""
    timeout_ms: _Timeout | None = None
    """Wall time, of each test if it has tests, in milliseconds; None for the maximum of policy."""
    compile_timeout_ms: _Timeout | None = None
    """Wall time of the compile step, in milliseconds. By default a program without tests shares `timeout_ms` with it,
    and one with tests has the maximum of policy."""
    cpu_ms: PositiveInt | None = None
    """CPU time, of each test if it has tests, in milliseconds."""
    memory_bytes: PositiveInt | None = None
    """Resident memory, in bytes; None for the maximum of policy."""
    output_bytes: Annotated[PositiveInt, Field(le=MAX_OUTPUT_BYTES)] | None = None
    """Maximum output on each stream, in bytes; beyond it the program ends. By default 256 MiB, with tests 16 MiB. With
    a checker at most 32 MiB."""
    tests: Annotated[tuple[Case, ...], Field(max_length=MAX_TESTS)] = ()
    """The tests that judge it. Without any it only runs."""
    compare: Comparison = "lines"
    """How the output of a test is compared with what it expects."""
    checker: Checker | None = None
    """A program that judges the output instead of a comparison."""
    stop_on_failure: bool = False
    """Whether the first test that is not accepted is the last one to run."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            language: str,
            code: str,
            id: str | int = ...,  # noqa: A002 - its field
            executable: str | None = None,
            args: Texts = (),
            stdin: bytes | str | None = None,
            files: Mapping[str, bytes | str] = ...,
            env: Mapping[str, str] = ...,
            packages: Texts = (),
            outputs: Texts | None = None,
            access: Access = "none",
            network: Literal["none", "loopback", "full"] = "none",
            timeout_ms: int | None = None,
            compile_timeout_ms: int | None = None,
            cpu_ms: int | None = None,
            memory_bytes: int | None = None,
            output_bytes: int | None = None,
            tests: Sequence[Case] = (),
            compare: Comparison = "lines",
            checker: Checker | None = None,
            stop_on_failure: bool = False,
        ) -> None: ...

    @model_validator(mode="after")
    def _can_run(self) -> Self:
        try:
            self.make_work(self.stdin)
        except ValidationError as problem:
            names = {"runtime": "language"}
            raise ValueError("; ".join(explain(problem, names=names, limit=None))) from None
        if self.network == "hosts":
            raise ValueError("`network` is none, loopback or full; a batch has no lists of hosts")
        return self

    @model_validator(mode="after")
    def _is_judged_fairly(self) -> Self:
        if not self.tests:
            if self.checker is not None:
                raise ValueError("a `checker` judges tests: give `tests`")
            return self
        if self.checker is None and not all("expect" in case.model_fields_set for case in self.tests):
            raise ValueError(
                "each test needs `expect`, the output to compare with, unless there is a `checker`"
            )
        if self.checker is not None and (self.output_bytes or 0) > MAX_CHECKED_BYTES:
            raise ValueError(
                f"a checker takes at most {MAX_CHECKED_BYTES} bytes of output; give a lower `output_bytes`"
            )
        if self.stdin is not None:
            raise ValueError("a program with tests gets their `stdin`; leave its own out")
        if self.outputs is not None:
            raise ValueError("a program with tests is judged by its standard output; leave `outputs` out")
        if self.access != "none" or self.network != "none":
            raise ValueError(
                "a program with tests has neither access to the workspace nor to the network, because the expected "
                "output may be there; leave `access` and `network` out"
            )
        return self

    def make_work(self, stdin: bytes | None) -> RuntimeRun:
        """Return the program as the work of one request. Raises ValueError."""
        files = [InputFile(path=path, data=data) for path, data in self.files.items()]
        given = {**vars(self), "stdin": stdin, "files": files, "keep": self.outputs is not None}
        return make_work(self.language, self.code, given)

    def make_limits(self) -> LimitOverrides:
        """Return the limits of a run without tests."""
        return make_limits(vars(self))


class CaseVerdict(StrEnum):
    """How a test ended, or a program with all of its tests."""

    ACCEPTED = "accepted"
    """The output is right, and the exit code is 0."""
    WRONG_ANSWER = "wrong_answer"
    """It ended with exit code 0, and the output is wrong."""
    TIME_LIMIT = "time_limit"
    """It exceeded its wall time or CPU time."""
    MEMORY_LIMIT = "memory_limit"
    """It exceeded its memory."""
    OUTPUT_LIMIT = "output_limit"
    """It wrote more than its limit, to a stream or to its disk."""
    RUNTIME_ERROR = "runtime_error"
    """It ended with another exit code, or by a signal; in an interpreted language also for a syntax error."""
    COMPILE_ERROR = "compile_error"
    """The compiler failed, or exceeded a limit. Nothing ran."""
    INTERNAL = "internal"
    """Not the program's fault: policy refused it, the checker failed, or Paddock did."""
    LOST = "lost"
    """The worker died after the start. Nothing is known of the program."""
    UNAVAILABLE = "unavailable"
    """It never started, or other programs kept it from running each time; safe to retry."""

    @property
    def is_known(self) -> bool:
        """Whether it says something about the program."""
        return self not in {CaseVerdict.INTERNAL, CaseVerdict.LOST, CaseVerdict.UNAVAILABLE}


class CaseResult(Value):
    """How a program ended with one test."""

    name: str = ""
    """The name of the test."""
    verdict: CaseVerdict
    """The verdict."""
    message: str = ""
    """What differs or failed; without the expected output."""
    outcome: Outcome
    """The run, with at most 8 KiB of each stream. All tests share that of a failed compile step."""


class ProgramResult(Value):
    """What became of one program of a batch."""

    id: str
    """The id of the program."""
    outcome: Outcome
    """How it ran. With tests, the run that decided the verdict."""
    verdict: CaseVerdict | None = None
    """None without tests. `accepted` if all tests were accepted; else the first verdict that says something about the
    program; else the first other one."""
    tests: tuple[CaseResult, ...] = ()
    """One result for each test, in their order; with `stop_on_failure` they end with the one that failed."""

    @property
    def ok(self) -> bool:
        """Whether it was accepted; without tests, whether it ran to its end."""
        return self.outcome.ok if self.verdict is None else self.verdict is CaseVerdict.ACCEPTED
