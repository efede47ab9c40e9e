"""The words of SandboxFusion for every end of a program."""

from typing import Any

import pytest

from paddock.model.outcome import ErrorInfo, Outcome, Status, Usage
from paddock.model.program import ProgramEnd
from paddock.surfaces.http_api.sandboxfusion.errors import InvalidRequest, Refused
from paddock.surfaces.http_api.sandboxfusion.language_table import LANGUAGES
from paddock.surfaces.http_api.sandboxfusion.models import Language
from paddock.surfaces.http_api.sandboxfusion.responses import ProgramOutput, render_outcome


def end(
    status: Status = Status.OK,
    *,
    exit_code: int | None = None,
    number: int | None = None,
    phase: str = "run",
    message: str = "",
    redactions: int = 0,
) -> Outcome:
    program = ProgramEnd.model_validate(
        {"runtime": "any", "exit_code": exit_code, "signal": number, "phase": phase, "compile_ms": 250}
    )
    error = None if status is Status.OK else ErrorInfo(name="Program", message=message, hint="", phase="run")
    return Outcome(
        id="x", status=status, program=program, error=error, usage=Usage(wall_ms=1500), redactions=redactions
    )


def render(outcome: Outcome, language: Language = "python", stdout: bytes = b"", stderr: bytes = b"") -> Any:
    return render_outcome(outcome, LANGUAGES[language], ProgramOutput(stdout, stderr)).model_dump()


def result(status: str = "Finished", code: int | None = 0, *, seconds: float = 1.5, stdout: str = "",
           stderr: str = "") -> dict[str, Any]:  # fmt: skip
    return {
        "status": status, "execution_time": seconds, "return_code": code, "stdout": stdout, "stderr": stderr,
    }  # fmt: skip


def answer(status: str, compiled: Any = None, run: Any = None, message: str = "") -> dict[str, Any]:
    return {
        "status": status, "message": message, "compile_result": compiled, "run_result": run,
        "executor_pod_name": None, "files": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (end(exit_code=0), answer("Success", run=result())),
        (end(Status.FAILED, exit_code=3), answer("Failed", run=result(code=3))),
        (end(Status.FAILED, number=11), answer("Failed", run=result(code=-11))),
        (end(Status.TIMEOUT, number=9), answer("Failed", run=result("TimeLimitExceeded", None))),
        (
            end(Status.MEMORY_LIMIT, number=9, message="used more memory than it may"),
            answer("Failed", run=result(code=-9, stderr="paddock: used more memory than it may\n")),
        ),
        (
            end(Status.MEMORY_LIMIT, exit_code=1, message="used more memory than it may"),
            answer("Failed", run=result(code=1, stderr="paddock: used more memory than it may\n")),
        ),
        (
            end(Status.OUTPUT_LIMIT, number=9, message="wrote too much"),
            answer("Failed", run=result(code=-9, stderr="paddock: wrote too much\n")),
        ),
        (
            end(Status.PROCESS_LIMIT, exit_code=0, message="started too many"),
            answer("Failed", run=result(code=1, stderr="paddock: started too many\n")),
        ),
    ],
)
def test_the_end_of_a_program(outcome: Outcome, expected: dict[str, Any]) -> None:
    assert render(outcome) == expected


def test_a_language_with_a_compile_command_has_its_result() -> None:
    compiled = result(seconds=0.25)
    assert render(end(exit_code=0), "cpp") == answer("Success", compiled, result())
    assert render(end(Status.FAILED, exit_code=1), "java") == answer("Failed", compiled, result(code=1))
    late = end(Status.TIMEOUT, number=9)
    assert render(late, "rust") == answer("Failed", compiled, result("TimeLimitExceeded", None))


def test_what_the_compiler_rejects_is_not_started() -> None:
    rejected = end(Status.FAILED, exit_code=2, phase="compile")
    assert render(rejected, "go", stderr=b"x:1") == answer("Failed", result(code=2, stderr="x:1"))
    late = end(Status.TIMEOUT, number=9, phase="compile")
    assert render(late, "cpp") == answer("Failed", result("TimeLimitExceeded", None))
    empty = end(Status.FAILED, exit_code=0, phase="compile")
    assert render(empty, "cpp", stderr=b"no main") == answer("Failed", result(code=1, stderr="no main"))


@pytest.mark.parametrize("language", ["csharp", "typescript", "kotlin_script"])
def test_where_there_is_no_compile_command_it_is_an_error_of_the_run(language: Language) -> None:
    rejected = end(Status.FAILED, exit_code=1, phase="compile")
    assert render(rejected, language) == answer("Failed", run=result(code=1))
    late = end(Status.TIMEOUT, number=9, phase="compile")
    assert render(late, language) == answer("Failed", run=result("TimeLimitExceeded", None))


def test_bytes_that_are_not_utf_8_are_replaced_one_by_one() -> None:
    shown = render(end(exit_code=0), stdout=b"a\xff\xfeb\xc3\xa9", stderr=b"\x80")
    assert shown == answer("Success", run=result(stdout="a\ufffd\ufffdb\xe9", stderr="\ufffd"))


def test_notes_begin_on_a_line_of_their_own() -> None:
    killed = end(Status.MEMORY_LIMIT, number=9, message="over")
    assert render(killed, stderr=b"half")["run_result"]["stderr"] == "half\npaddock: over\n"
    assert render(killed, stderr=b"line\n")["run_result"]["stderr"] == "line\npaddock: over\n"


def test_removed_secrets_are_reported() -> None:
    shown = render(end(exit_code=0, redactions=2), stdout=b"x")
    note = "paddock: 2 secrets removed from the output ([redaction] in the settings of the server)\n"
    assert shown == answer("Success", run=result(stdout="x", stderr=note))


def refuse(status: Status, *, name: str = "Busy", phase: str = "decide") -> Outcome:
    error = ErrorInfo.model_validate({"name": name, "message": "why", "hint": "remedy", "phase": phase})
    return Outcome(id="x", status=status, error=error)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (refuse(Status.UNAVAILABLE), 504),
        (refuse(Status.UNAVAILABLE, name="EngineError"), 504),
        (refuse(Status.CANCELLED, name="Cancelled"), 504),
        (refuse(Status.DENIED), 403),
    ],
)
def test_what_did_not_start_is_refused(outcome: Outcome, code: int) -> None:
    with pytest.raises(Refused, match="why") as caught:
        render(outcome)
    assert (caught.value.status_code, caught.value.detail) == (code, "why (remedy)")


def test_an_invalid_request_is_422() -> None:
    with pytest.raises(InvalidRequest) as caught:
        render(refuse(Status.INVALID))
    assert caught.value.errors == [
        {"type": "value_error", "loc": ["body"], "msg": "Value error, why (remedy)", "input": None}
    ]


@pytest.mark.parametrize("status", [Status.LOST, Status.ERROR, Status.CANCELLED])
def test_what_started_and_has_no_end_is_an_error_of_the_sandbox(status: Status) -> None:
    assert render(refuse(status, phase="run")) == answer("SandboxError", message="why (remedy)")


def test_a_missing_language_ends_as_in_a_shell_without_the_command() -> None:
    missing = refuse(Status.UNAVAILABLE, name="Unavailable")
    stderr = "bash: line 1: lua: command not found\npaddock: why (remedy)\n"
    assert render(missing, "lua") == answer("Failed", run=result(code=127, seconds=0, stderr=stderr))
    stderr = stderr.replace("lua", "g++")
    assert render(missing, "cpp") == answer("Failed", result(code=127, seconds=0, stderr=stderr))


def test_a_missing_tool_of_a_language_ends_alike() -> None:
    stderr = "bash: line 1: pytest: command not found\n"
    missing = end(Status.FAILED, exit_code=127)
    assert render(missing, "pytest") == answer("Failed", run=result(code=127, seconds=0, stderr=stderr))
    assert render(missing, "bash") == answer("Failed", run=result(code=127))
