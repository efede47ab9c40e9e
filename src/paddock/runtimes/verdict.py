"""From the end of a process to the result of a program: who is to blame, and in which words."""

import signal

from paddock.confine.protected import MOST_BYTES
from paddock.model.limits import MIB
from paddock.model.outcome import ErrorInfo, RawResult, Status, Usage
from paddock.model.process import ProcessLimits, ProcessResult
from paddock.model.program import ProgramEnd, signal_name

_LIMITS = {
    "wall": ("it ran out of time", "it had {wall_ms} ms; ask for more, up to runtimes.max_duration_ms"),
    "cpu": (
        "it used more CPU time than it may",
        "it had {cpu_ms} ms of all processors together; use fewer of them, or ask for more time",
    ),
    "memory": (
        "it used more memory than it may",
        "it had {memory_bytes}; ask for more, up to runtimes.max_memory_bytes",
    ),
    "processes": ("it started more processes than it may", "it may have {processes} at a time"),
    "file_size": ("it wrote a larger file than it may", "it may have {file_bytes}"),
    "scratch": ("it filled its scratch directory", "it may hold {scratch_bytes}"),
    "stdout": ("it wrote more to standard output than it may", "at most {stdout_bytes}"),
    "stderr": ("it wrote more to standard error than it may", "at most {stderr_bytes}"),
    "stdin": ("standard input is larger than it may be", "at most {stdin_bytes}"),
    "protected": (
        "the protected paths of the workspace are too large to watch",
        f"they may hold {MOST_BYTES // MIB} MiB; ask for read-only access, or make them smaller",
    ),
}
"""What is told of each limit, and how much of it there was; places in braces are fields of `ProcessLimits`."""

_NO_MEMORY = (
    *("out of memory", "outofmemory", "memoryerror", "cannot allocate", "failed to allocate memory"),
    *("allowed memory size", "memory allocation of", "bad_alloc"),
)
"""What runtimes say, in lower case, that find no more memory before they are found to have too much."""
_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS})
_FAULT = "it used memory that is not its own; recursion without end ends like this, too"


def result_of(
    ended: ProcessResult, end: ProgramEnd, limits: ProcessLimits, message: str = "", hint: str = ""
) -> RawResult:
    """Return the result of the step `end` speaks of; `message` says more than the process does.

    `limits` are those of all steps together; `hint` is what may be behind it when the program failed.
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
    error = None if ended.status is Status.OK else _error(ended, end, limits, message, hint)
    return RawResult(status=ended.status, program=program, error=error, usage=usage, sandbox=ended.sandbox)


def _error(
    ended: ProcessResult, end: ProgramEnd, limits: ProcessLimits, message: str, hint: str
) -> ErrorInfo:
    what = "The compiler" if end.phase == "compile" else "The program"
    text = message or f"{what}: {_why(ended)}"
    phase = "parse" if end.phase == "compile" else "run"
    return ErrorInfo(name="Program", message=text, hint=_hint(ended, limits, hint), phase=phase)


def _hint(ended: ProcessResult, limits: ProcessLimits, otherwise: str) -> str:
    """Return how much of what it ran out of there was, or what is likely behind a failure."""
    if ended.limit is not None:
        return _sized(_LIMITS[ended.limit][1], limits)
    if ended.status is not Status.FAILED:
        return ""
    said = (ended.stderr.head + ended.stderr.tail).lower()
    if any(words in said for words in _NO_MEMORY):
        return _sized(_LIMITS["memory"][1], limits)
    return _FAULT if ended.signal in _FAULTS else otherwise


def _sized(text: str, limits: ProcessLimits) -> str:
    sizes = {
        name: f"{size // MIB} MiB" if name.endswith("_bytes") else size
        for name, size in limits.model_dump().items()
    }
    return text.format(**sizes)


def _why(ended: ProcessResult) -> str:
    if ended.status is Status.CANCELLED:
        return "it was cancelled"
    if ended.limit is not None:
        return _LIMITS[ended.limit][0]
    if ended.reason:
        return ended.reason
    if ended.signal is not None:
        return f"it was ended by {signal_name(ended.signal)}"
    return f"its exit code is {ended.exit_code}"
