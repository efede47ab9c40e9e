"""From the end of a process to the result of a program: who is to blame, and in which words."""

import re
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from paddock.model.limits import MIB
from paddock.model.outcome import ErrorInfo, RawResult, Status, Usage
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.program import Phase, ProgramEnd, Runtime, signal_name
from paddock.settings.recipes import OutOfMemory

_LIMIT_MESSAGES = {
    "wall": (
        "ran out of time",
        "it had {timeout_ms} ms; runtimes.timeout_ms is the most that it may ask for",
    ),
    "cpu": (
        "used more CPU time than it may",
        "it had {cpu_ms} ms of all processors together; use fewer of them, or ask for more time",
    ),
    "memory": (
        "used more memory than it may",
        "it had {memory_bytes}; runtimes.memory_bytes is the most that it may ask for",
    ),
    "processes": ("started more processes than it may", "it may have {processes} at a time"),
    "file_size": ("wrote a larger file than it may", "a file may have {file_bytes}"),
    "scratch": ("filled its scratch directory", "it may hold {scratch_bytes}"),
    "stdout": ("wrote more to standard output than it may", "at most {stdout_bytes}"),
    "stderr": ("wrote more to standard error than it may", "at most {stderr_bytes}"),
    "stdin": ("was given more standard input than it may have", "at most {stdin_bytes}"),
}
"""What is told of each limit, after `The program` or `The compiler`, and how much of it there was; places in braces are
fields of `ProcessLimits`."""

_NO_MEMORY = (
    *("out of memory", "outofmemory", "memoryerror", "cannot allocate", "failed to allocate memory"),
    *("allowed memory size", "memory allocation of", "bad_alloc"),
)
"""What runtimes say, in lower case, that find no more memory before they are found to have too much."""
_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS})
_FAULT = "it used memory that is not its own; recursion without end ends like this, too"

_COLD = "`paddock runtimes warm {runtime}`, run once, makes its compiler faster"

_NO_FILE = ("file too large", "efbig")
"""What runtimes say, in lower case, that get an error where others get SIGXFSZ."""
_NO_NETWORK = (
    *("name resolution", "nameresolution", "service not known", "eai_again", "resolve host", "nxdomain"),
    *(
        "socket",
        "econnrefused",
        "connect eperm",
        "listen eperm",
        "failed to connect",
        "network is unreachable",
    ),
)
_OFFLINE = (
    "it has no network, not even 127.0.0.1 between its own processes; "
    "ask for it with `--network full`, which `runtimes.network` must allow"
)
_NO_UNIX_SOCKET = ("multiprocessing/forkserver.py", "multiprocessing/managers.py", "af_unix", "unixlistener")
_PATHLESS = (
    "programs have no Unix sockets, which multiprocessing needs for a Manager and for the start method forkserver; "
    "use multiprocessing.set_start_method('spawn') or 'fork', and a Queue or Pipe instead of a Manager"
)
_NO_REPOSITORY = "not a git repository"
_OUTSIDE_REPOSITORY = (
    "the workspace is part of a Git repository whose .git directory is outside of it, and a program sees the "
    "workspace alone; take the directory that holds .git as the workspace, or for a linked worktree a directory that "
    "holds both, with --workspace DIR"
)
_NO_WRITING = (
    "read-only file system",
    "permission denied",
    "accessdenied",
    "eacces",
    "could not open file",
    "rplots.pdf",
)
_WRITES = {
    "none": "it may write to its own directory and to TMPDIR alone",
    "read-only": "it may write to TMPDIR alone; writing to the workspace needs the access workspace-write, which a "
    "person grants: `paddock exec --access workspace-write`, or for agents `access` under [runtimes] in paddock.toml",
    "workspace-write": "it may write to the workspace and to TMPDIR alone",
}
_NO_SEMAPHORE = ("semlock",)
_UNSHARED = "semaphores and shared memory need the tier namespaces (paddock doctor says what it lacks); threads do not"
_NO_MODULE = (
    *("no module named", "cannot find module", "cannot load such file", "failed opening required"),
    *("can't locate", "cannot find package"),
)
_APART = (
    "it was run from a copy, with nothing beside it; a FILE of the workspace that its runtime takes as it is runs "
    "where it is"
)
_UNREAD = (
    "it may not read the workspace (access none), so it finds no file and no module there; "
    "ask for the access read-only, up to runtimes.access"
)
_NO_SUCH_FILE = ("no such file or directory", "enoent", "filenotfoundexception", "nosuchfileexception")
_NO_INPUT = ("eof when reading a line", "no line found", "nosuchelementexception", "end of file reached")
_UNASKED = "it was given no standard input; pass some on with --stdin, or stdin of a tool call"
_NO_SOURCE = (
    *("no such file or directory", "file not found for module", "is not in std", "cannot find package"),
    *("does not exist", "undeclared crate", "unlinked crate", "can't find crate"),
    *("unresolved reference 'kotlinx'", "unresolved reference: kotlinx"),
)
_ALONE = (
    "a compiler sees the program alone: nothing of the workspace, no libraries but its own; several files are compiled "
    'by a shell program, into TMPDIR: paddock exec shell -c \'gcc *.c -o "$TMPDIR/a" && "$TMPDIR/a"\''
)
"""What runtimes say, in lower case, that lack what was not granted, and what is told of it."""


class StepStart(NamedTuple):
    """A step of a program, as it is known before it has ended; its fields are those of `ProgramEnd`."""

    runtime: Runtime
    executable: str = ""
    phase: Phase = "run"
    compile_ms: float = 0.0
    cached: bool = False
    stdin_bytes: int = 0
    stdin_sha256: str = ""
    combined: bool = False


def result_of(ended: ProcessResult, begun: StepStart, error: ErrorInfo | None = None) -> RawResult:
    """Return the result of a step that has ended; `error` says why it is not ok."""
    program = ProgramEnd(
        **begun._asdict(),
        exit_code=ended.exit_code,
        signal=ended.signal,
        limit=ended.limit,
        stdout=ended.stdout,
        stderr=ended.stderr,
        processes_peak=ended.usage.processes_peak,
        kill=ended.kill,
        survivors=ended.survivors,
        violations=ended.violations,
    )
    usage = Usage(
        wall_ms=ended.usage.wall_ms,
        cpu_ms=round(ended.usage.cpu_user_ms + ended.usage.cpu_system_ms, 3),
        peak_bytes=ended.usage.peak_bytes,
        console_bytes=ended.stdout.total_bytes + ended.stderr.total_bytes,
    )
    return RawResult(status=ended.status, program=program, error=error, usage=usage, sandbox=ended.sandbox)


def is_out_of_memory(ended: ProcessResult, ways: Iterable[OutOfMemory]) -> bool:
    """Return whether a step failed because its runtime got no more memory, as its recipe describes that.

    A program could end in the same way on purpose, and would deceive nobody except its caller.
    """
    if ended.status is not Status.FAILED:
        return False
    said = "\n".join(filter(None, (ended.stderr.head, ended.stderr.tail))).rstrip()
    number = None if ended.signal is None else signal_name(ended.signal)
    return any(
        (way.exit_code, way.signal) == (ended.exit_code, number)
        and re.search(rf"(?:\A|\n)(?:{way.said})\Z", said)
        for way in ways
    )


def withheld(
    ended: ProcessResult, phase: Phase, grants: ProcessGrants, *, runs_files: bool, has_input: bool = True
) -> str:
    """Return what a failed step may have missed that it is not granted or given, by its last words, or "".

    `runs_files` says whether its runtime can be asked to run a file of the workspace where it is, `has_input` whether
    there was any standard input, be it empty.
    """
    said = _stderr_text(ended)
    for applies, words, told in (
        (phase == "compile", _NO_SOURCE, _ALONE),
        (phase == "run" and ended.sandbox.tier == "landlock", _NO_SEMAPHORE, _UNSHARED),
        (phase == "run", _NO_UNIX_SOCKET, _PATHLESS),
        (phase == "run" and grants.network == "none", _NO_NETWORK, _OFFLINE),
        (phase == "run", _NO_WRITING, _WRITES[grants.access]),
        (phase == "run" and runs_files and grants.access != "none", _NO_MODULE, _APART),
        (phase == "run" and grants.access == "none", (*_NO_MODULE, *_NO_SUCH_FILE), _UNREAD),
        (phase == "run" and not has_input, _NO_INPUT, _UNASKED),
    ):
        if applies and any(word in said for word in words):
            return told
    if _NO_REPOSITORY in said and is_in_outer_repository(grants.workspace):
        return _OUTSIDE_REPOSITORY
    return ""


def is_in_outer_repository(workspace: Path | None) -> bool:
    """Return whether `workspace` belongs to a Git repository whose `.git` directory lies outside of it.

    It is a linked worktree or a submodule, where `.git` is a file, or a directory below the top of a repository.
    """
    if workspace is None:
        return False
    own = workspace / ".git"
    return own.is_file() or (
        not own.exists() and any((folder / ".git").exists() for folder in workspace.parents)
    )


def slow(runtime: str) -> str:
    """Return what makes a compiler faster that ran out of time and lacks its warm start."""
    return _COLD.format(runtime=runtime)


def error_of(
    ended: ProcessResult, step: Phase, limits: ProcessLimits, message: str = "", hint: str = ""
) -> ErrorInfo:
    """Return why a step is not ok; `message` says more than the process does.

    `limits` are those of all steps together; `hint` is what may be behind it when the program failed.
    """
    what = "The compiler" if step == "compile" else "The program"
    text = message or f"{what} {_explain_end(ended)}"
    phase = "parse" if step == "compile" else "run"
    return ErrorInfo(name="Program", message=text, hint=_make_hint(ended, phase, limits, hint), phase=phase)


def _make_hint(ended: ProcessResult, phase: str, limits: ProcessLimits, otherwise: str) -> str:
    """Return how much of what it ran out of there was, or what is likely behind a failure."""
    if ended.limit in _LIMIT_MESSAGES:
        told = _add_limits(_LIMIT_MESSAGES[ended.limit][1], limits)
        return f"{told}; {otherwise}" if otherwise and (phase == "parse" or ended.limit == "wall") else told
    if ended.status is not Status.FAILED:
        return ""
    for words, limit in ((_NO_MEMORY, "memory"), (_NO_FILE, "file_size")):
        if any(word in _stderr_text(ended) for word in words):
            return _add_limits(_LIMIT_MESSAGES[limit][1], limits)
    return _FAULT if ended.signal in _FAULTS else otherwise


def _stderr_text(ended: ProcessResult) -> str:
    return (ended.stderr.head + ended.stderr.tail).lower()


def _add_limits(text: str, limits: ProcessLimits) -> str:
    sizes = {
        name: f"{size // MIB} MiB" if name.endswith("_bytes") else size
        for name, size in limits.model_dump().items()
    }
    return text.format(**sizes)


def _explain_end(ended: ProcessResult) -> str:
    if ended.status is Status.CANCELLED:
        return "was cancelled"
    if ended.limit in _LIMIT_MESSAGES:
        return _LIMIT_MESSAGES[ended.limit][0]
    if ended.reason:
        return f"did not run to its end: {ended.reason}"
    if ended.signal is not None:
        return f"was ended by {signal_name(ended.signal)}"
    return f"exited with code {ended.exit_code}"
