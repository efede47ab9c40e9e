"""Map the outcome of a program to an answer in SandboxFusion's words.

gate's status                               command's status       top-level status
ok                                          Finished, 0            Success
failed; a limit other than time             Finished, code or -N   Failed
timeout                                     TimeLimitExceeded      Failed
unavailable: no toolchain                   Finished, 127          Failed
lost, error                                 no command             SandboxError
unavailable, invalid, denied                no answer of this kind: 504, 422, 403
"""

from collections.abc import Mapping
from typing import NamedTuple

from paddock.model.base import count
from paddock.model.outcome import Outcome, Status
from paddock.model.program import ProgramEnd
from paddock.surfaces.http_api.sandboxfusion.errors import Refused, reject_value
from paddock.surfaces.http_api.sandboxfusion.language_table import (
    MISSING_EXIT_CODE,
    LanguageEntry,
    render_missing,
)
from paddock.surfaces.http_api.sandboxfusion.models import CommandResult, RunCodeResponse, RunStatus

_ENDED = frozenset(
    {
        *(Status.OK, Status.FAILED, Status.TIMEOUT),
        *(Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT, Status.PROCESS_LIMIT),
    }
)
"""Statuses of programs and compilers that ended."""
OVER_AT_ONCE = CommandResult(
    status="TimeLimitExceeded", execution_time=0.0, return_code=None, stdout="", stderr=""
)
"""The result of a command whose time limit is zero or less."""


class ProgramOutput(NamedTuple):
    """What a program or a compiler wrote, without secrets."""

    stdout: bytes = b""
    stderr: bytes = b""


def render_outcome(
    outcome: Outcome, entry: LanguageEntry, output: ProgramOutput, files: Mapping[str, str] | None = None
) -> RunCodeResponse:
    """Return the answer for an outcome. Raises Refused and InvalidRequest if nothing ran, for that reason."""
    program = outcome.program
    if program is not None and has_ended(outcome):
        result = render_command(outcome, program, output)
        if program.phase == "compile" and entry.compiles:
            return combine(result, None, files)
        if program.phase == "run" and entry.launcher and program.exit_code == MISSING_EXIT_CODE:
            # The launcher of a tool did not find it. A program could imitate that, for itself alone.
            return render_missing_command(entry, "")
        compiled = None
        if entry.compiles:
            seconds = program.compile_ms / 1000
            compiled = CommandResult(
                status="Finished", execution_time=seconds, return_code=0, stdout="", stderr=""
            )
        return combine(compiled, result, files)
    explanation = explain(outcome)
    if is_missing(outcome):
        return render_missing_command(entry, explanation)
    raise_refusal(outcome)
    return RunCodeResponse(status="SandboxError", message=explanation)


def raise_refusal(outcome: Outcome) -> None:
    """Raise Refused or InvalidRequest if nothing ran."""
    explanation = explain(outcome)
    match outcome.status:
        case Status.UNAVAILABLE:
            raise Refused(504, explanation)
        case Status.CANCELLED if outcome.error is not None and outcome.error.phase == "decide":
            raise Refused(504, explanation)
        case Status.DENIED:
            raise Refused(403, explanation)
        case Status.INVALID:
            raise reject_value([], explanation, None)
        case _:
            return


def explain(outcome: Outcome) -> str:
    """Return the error of an outcome in one line, or "" without one."""
    error = outcome.error
    if error is None:
        return ""
    return f"{error.message} ({error.hint})" if error.hint else error.message


def is_missing(outcome: Outcome) -> bool:
    """Return whether a program could not run because its language is not installed."""
    error = outcome.error
    return outcome.status is Status.UNAVAILABLE and error is not None and error.name == "Unavailable"


def has_ended(outcome: Outcome) -> bool:
    """Return whether a program or its compiler ran, and how it ended is known."""
    return outcome.status in _ENDED


def render_missing_command(entry: LanguageEntry, explanation: str) -> RunCodeResponse:
    """Return the answer for a language that is not installed, as a shell reports a missing command."""
    note = f"paddock: {explanation}\n" if explanation else ""
    result = CommandResult(
        status="Finished",
        execution_time=0.0,
        return_code=MISSING_EXIT_CODE,
        stdout="",
        stderr=f"{render_missing(entry)}{note}",
    )
    return combine(result, None) if entry.compiles else combine(None, result)


def combine(
    compiled: CommandResult | None, run: CommandResult | None, files: Mapping[str, str] | None = None
) -> RunCodeResponse:
    """Return the answer for the results of both commands."""
    failed = any(
        each is not None and (each.status == "TimeLimitExceeded" or each.return_code != 0)
        for each in (compiled, run)
    )
    status: RunStatus = "Failed" if failed else "Success"
    return RunCodeResponse(status=status, compile_result=compiled, run_result=run, files={**(files or {})})


def render_command(outcome: Outcome, program: ProgramEnd, output: ProgramOutput) -> CommandResult:
    """Return the result of a program or compiler that ended."""
    out_of_time = outcome.status is Status.TIMEOUT
    return_code: int | None = program.exit_code or 0
    if out_of_time:
        return_code = None
    elif program.signal is not None:
        return_code = -program.signal
    elif return_code == 0 and outcome.status is not Status.OK:
        return_code = 1  # a compiler that makes nothing ends with 0, and yet nothing can run
    # What a client cannot see in the words of this contract follows as lines of standard error.
    notes: list[str] = []
    if outcome.redactions:
        removed = count(outcome.redactions, "secret")
        notes.append(f"{removed} removed from the output ([redaction] in the settings of the server)")
    if outcome.status not in {Status.OK, Status.FAILED, Status.TIMEOUT}:
        notes.append(explain(outcome))
    stderr = output.stderr.decode("utf-8", "replace")
    begin = "" if not notes or not stderr or stderr.endswith("\n") else "\n"
    return CommandResult(
        status="TimeLimitExceeded" if out_of_time else "Finished",
        execution_time=outcome.usage.wall_ms / 1000,
        return_code=return_code,
        stdout=output.stdout.decode("utf-8", "replace"),
        stderr=f"{stderr}{begin}" + "".join(f"paddock: {note}\n" for note in notes),
    )
