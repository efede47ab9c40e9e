"""From the end of a process to the result of a program: who is to blame, and in which words."""

from paddock.model.outcome import ErrorInfo, RawResult, Status, Usage
from paddock.model.process import ProcessResult
from paddock.model.program import ProgramEnd, signal_name

_LIMITS = {
    "wall": "it ran out of time",
    "cpu": "it used more CPU time than it may",
    "memory": "it used more memory than it may",
    "processes": "it started more processes than it may",
    "file_size": "it wrote a larger file than it may",
    "scratch": "it filled its scratch directory",
    "stdout": "it wrote more to standard output than it may",
    "stderr": "it wrote more to standard error than it may",
    "stdin": "standard input is larger than it may be",
    "protected": "the protected paths of the workspace are too large to watch",
}


def result_of(ended: ProcessResult, end: ProgramEnd, message: str = "", hint: str = "") -> RawResult:
    """Return the result of the step `end` speaks of; `message` says more than the process does.

    `hint` is what may be behind it when the program failed.
    """
    program = end.model_copy(
        update={
            "exit_code": ended.exit_code,
            "signal": ended.signal,
            "limit": ended.limit,
            "stdout": ended.stdout,
            "stderr": ended.stderr,
            "processes_peak": ended.usage.processes_peak,
            "kill": ended.kill,
            "survivors": ended.survivors,
            "violations": ended.violations,
        }
    )
    usage = Usage(
        wall_ms=ended.usage.wall_ms,
        cpu_ms=ended.usage.cpu_user_ms + ended.usage.cpu_system_ms,
        peak_bytes=ended.usage.peak_bytes,
        console_bytes=ended.stdout.total_bytes + ended.stderr.total_bytes,
    )
    error = None if ended.status is Status.OK else _error(ended, end, message, hint)
    return RawResult(status=ended.status, program=program, error=error, usage=usage, sandbox=ended.sandbox)


def _error(ended: ProcessResult, end: ProgramEnd, message: str, hint: str) -> ErrorInfo:
    what = "The compiler" if end.phase == "compile" else "The program"
    text = message or f"{what}: {_why(ended)}"
    phase = "parse" if end.phase == "compile" else "run"
    hint = hint if ended.status is Status.FAILED else ""
    return ErrorInfo(name="Program", message=text, hint=hint, phase=phase)


def _why(ended: ProcessResult) -> str:
    if ended.status is Status.CANCELLED:
        return "it was cancelled"
    if ended.limit is not None:
        return _LIMITS[ended.limit]
    if ended.reason:
        return ended.reason
    if ended.signal is not None:
        return f"it was ended by {signal_name(ended.signal)}"
    return f"its exit code is {ended.exit_code}"
