"""What is said of how a program ended, and what of it helps."""

import signal

import pytest

from paddock.model.outcome import ErrorInfo, Status
from paddock.model.process import ProcessLimits, ProcessResult
from paddock.model.program import Captured, ProgramEnd
from paddock.runtimes.verdict import result_of

LIMITS = ProcessLimits(wall_ms=1500, memory_bytes=64 << 20)
CPU = "it had 60000 ms of all processors together; use fewer of them, or ask for more time"
PROTECTED = "they may hold 64 MiB; ask for read-only access, or make them smaller"
MEMORY = "it had 64 MiB; ask for more, up to runtimes.max_memory_bytes"


def error(phase: str = "run", message: str = "", hint: str = "", **end: object) -> ErrorInfo | None:
    """Return the error of a step that ended so."""
    ended = ProcessResult.model_validate(end)
    known = ProgramEnd.model_validate({"runtime": "c", "phase": phase})
    result = result_of(ended, known, LIMITS, message, hint)
    assert (result.status, result.program) == (
        ended.status,
        known.model_copy(
            update={
                "exit_code": ended.exit_code,
                "signal": ended.signal,
                "limit": ended.limit,
                "stderr": ended.stderr,
            }
        ),
    )
    return result.error


@pytest.mark.parametrize(
    ("status", "limit", "why", "hint"),
    [
        ("timeout", "wall", "it ran out of time", "it had 1500 ms; ask for more, up to runtimes.max_duration_ms"),
        ("timeout", "cpu", "it used more CPU time than it may", CPU),
        ("memory_limit", "memory", "it used more memory than it may", MEMORY),
        ("process_limit", "processes", "it started more processes than it may", "it may have 256 at a time"),
        ("output_limit", "file_size", "it wrote a larger file than it may", "it may have 256 MiB"),
        ("output_limit", "scratch", "it filled its scratch directory", "it may hold 512 MiB"),
        ("output_limit", "stdout", "it wrote more to standard output than it may", "at most 256 MiB"),
        ("output_limit", "stderr", "it wrote more to standard error than it may", "at most 64 MiB"),
        ("failed", "protected", "the protected paths of the workspace are too large to watch", PROTECTED),
        ("cancelled", None, "it was cancelled", ""),
    ],
)  # fmt: skip
def test_a_limit_is_told_with_its_size(status: str, limit: str | None, why: str, hint: str) -> None:
    told = ErrorInfo(name="Program", message=f"The program: {why}", hint=hint, phase="run")
    assert error(status=status, limit=limit, hint="something else") == told
    named = told.model_copy(update={"message": f"The compiler: {why}", "phase": "parse"})
    assert error("compile", status=status, limit=limit) == named


@pytest.mark.parametrize(
    "said",
    [
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        "Terminating due to java.lang.OutOfMemoryError: Java heap space",
        "PHP Fatal error:  Allowed memory size of 805306368 bytes exhausted",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "memory allocation of 1048576 bytes failed",
        "MemoryError",
        "[FATAL] failed to allocate memory",
        "Error: cannot allocate vector of size 781 Kb",
    ],
)
def test_a_runtime_that_finds_no_more_memory_is_told_how_much_there_was(said: str) -> None:
    stderr = Captured(head="...\n", tail=f"{said}\n  at line 7\n")
    told = ErrorInfo(name="Program", message="The program: its exit code is 1", hint=MEMORY, phase="run")
    assert error(status="failed", exit_code=1, stderr=stderr, hint="something else") == told


def test_a_wrong_address_is_explained() -> None:
    told = error(status="failed", signal=signal.SIGSEGV)
    assert told is not None
    hint = "it used memory that is not its own; recursion without end ends like this, too"
    assert (told.message, told.hint) == ("The program: it was ended by SIGSEGV", hint)


def test_what_else_may_be_behind_a_failure() -> None:
    told = error(status="failed", exit_code=7, message="It is so", hint="something else")
    assert told == ErrorInfo(name="Program", message="It is so", hint="something else", phase="run")
    assert error(status=Status.OK, exit_code=0, hint="something else") is None
