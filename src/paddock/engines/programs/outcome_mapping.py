"""Map the end of a process to the result of a program: status, error and hint."""

import re
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from paddock.confinement.sandbox.hidden_files import explain_hidden
from paddock.confinement.sandbox.processors import count_processors
from paddock.model.base import count
from paddock.model.limits import MIB
from paddock.model.outcome import ErrorInfo, RawResult, Status, Usage
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.program import Phase, ProgramEnd, Runtime, signal_name
from paddock.model.starvation import STARVED, Spent, describe_starvation, is_starved
from paddock.policy.settings.recipes import OutOfMemory

_LIMIT_MESSAGES = {
    "wall": (
        "ran out of time",
        "it had {timeout_ms} ms; runtimes.timeout_ms is the maximum",
    ),
    "cpu": (
        "used more CPU time than it may",
        "it had {cpu_ms} ms on all processors together; use fewer of them, or request more time",
    ),
    "memory": (
        "used more memory than it may",
        "it had {memory_bytes}; runtimes.memory_bytes is the maximum",
    ),
    "processes": ("started more processes than it may", "it may have {processes} at a time"),
    "file_size": ("wrote a larger file than it may", "a file may have {file_bytes}"),
    "scratch": ("filled its scratch directory", "it may hold {scratch_bytes}, and no path over 4,096 bytes"),
    "stdout": ("wrote more to standard output than it may", "at most {stdout_bytes}"),
    "stderr": ("wrote more to standard error than it may", "at most {stderr_bytes}"),
    "stdin": ("received more standard input than it may", "at most {stdin_bytes}"),
}
"""For each limit, the message after `The program` or `The compiler`, and the hint; names in braces are fields of
`ProcessLimits`."""

_SUBJECTS: dict[Phase, str] = {"compile": "The compiler", "run": "The program"}

_NO_MEMORY = (
    *("out of memory", "outofmemory", "memoryerror", "cannot allocate", "failed to allocate memory"),
    *("allowed memory size", "memory allocation of", "bad_alloc"),
)
"""Messages, in lower case, of runtimes that failed to allocate memory before Paddock found that they exceeded it."""
_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS})
_FAULT = "it accessed memory that is not its own; endless recursion ends like this, too"

_COLD = "run `paddock runtimes warm {runtime}` once to make its compiler faster"

_NO_FILE = ("file too large", "efbig")
"""Messages, in lower case, of runtimes that handle SIGXFSZ as an error."""
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
    "it has no network; request the network loopback (`--network loopback`, or the argument `network` of a tool) for "
    "its own servers on 127.0.0.1, hosts for hosts that a [[network.rule]] allows, or full, within `runtimes.network`"
)
_LOOPBACK_ONLY = (
    "its network has nothing but itself on 127.0.0.1; request the network hosts (`--network hosts`, or the argument "
    "`network` of a tool) for hosts that a [[network.rule]] allows, or full, within `runtimes.network`"
)
PROXY_ONLY = (
    "it reaches hosts only by its proxy, which HTTP_PROXY and HTTPS_PROXY name; use a client that reads these "
    "variables, or give it the proxy"
)
"""Wrong for a program whose connections show that it used the proxy."""
_UNREACHABLE = (
    *(
        "name resolution",
        "nameresolution",
        "service not known",
        "eai_again",
        "enotfound",
        "resolve host",
        "nxdomain",
    ),
    *("network is unreachable", "enetunreach"),
)
"""Messages, in lower case, of programs that cannot reach a host from their own network."""
_NO_UNIX_SOCKET = ("multiprocessing/forkserver.py", "multiprocessing/managers.py", "af_unix", "unixlistener")
_PATHLESS = (
    "Unix sockets, which multiprocessing needs for a Manager and the start method forkserver, need a network of the "
    "program's own; request the network loopback (`--network loopback`, or the argument `network` of a tool), or "
    "use multiprocessing.set_start_method('spawn') or 'fork', and a Queue or Pipe instead of a Manager"
)
_NO_OWN_NETWORK = (
    "Unix sockets, which multiprocessing needs for a Manager and the start method forkserver, need the tier namespaces "
    "(paddock doctor says what it lacks), and so do Queue and Pool; use threads, or multiprocessing.Process with the "
    "start method 'spawn' or 'fork', and a Pipe"
)
_OFFLINE_THERE = (
    "it has no network; request the network full (`--network full`, or the argument `network` of a tool), within "
    "`runtimes.network`; less than that needs the tier namespaces (paddock doctor says what it lacks)"
)
_OUTSIDE_PRIVATE = (
    "its Unix sockets must be streams below $TMPDIR, /tmp or /dev/shm, or have abstract names; those of the workspace "
    "and of the machine cannot be reached"
)
_NO_REPOSITORY = "not a git repository"
_IN_GIT_FOLDER = ".git/"
_OUTSIDE_REPOSITORY = (
    "the workspace is part of a Git repository whose .git directory is outside of it, and a program sees only the "
    "workspace; set workspace.repository = true, the default, which grants any repository except that of a submodule, "
    "or choose the directory that contains .git, or for a linked worktree a directory that contains both, with "
    "--workspace DIR"
)
_WITHHELD = "the git repository of the workspace is not granted{how}: {why}"
_NO_IDENTITY = ("please tell me who you are",)
_HOMELESS = (
    "git reads no configuration of your home directory here; set the author in the repository: git config user.name "
    "NAME && git config user.email ADDRESS"
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
    "none": "it may write only to its own directory and to TMPDIR",
    "read-only": "it may write only to TMPDIR; writing to the workspace needs the access workspace-write, or overlay, "
    "which keeps the changes until a person accepts them; a person grants both: `paddock exec --access overlay`, or "
    "for agents `access` under [runtimes] in paddock.toml",
    "overlay": "it may write only to TMPDIR and to its overlay of the workspace; if that is a copy, PADDOCK_WORKSPACE "
    "has its path",
    "workspace-write": "it may write only to the workspace and to TMPDIR",
}
_NO_SEMAPHORE = ("semlock",)
_UNSHARED = (
    "semaphores and shared memory need the tier namespaces (paddock doctor says what it lacks); use threads"
)
_NO_MODULE = (
    *("no module named", "cannot find module", "cannot load such file", "failed opening required"),
    *("can't locate", "cannot find package"),
)
_APART = (
    "inline code cannot import files beside it; save it in the workspace and run that file, for instance: paddock exec "
    "python ./main.py"
)
_UNREAD = (
    "it may not read the workspace (access none), so it finds no file, module or Git repository there; "
    "request the access read-only, which runtimes.access must allow"
)
_NO_SUCH_FILE = ("no such file or directory", "enoent", "filenotfoundexception", "nosuchfileexception")
_NO_INPUT = ("eof when reading a line", "no line found", "nosuchelementexception", "end of file reached")
_UNASKED = "it has no standard input; pass it with --stdin, or with `stdin` of a tool call"
_UNASKED_IN_SESSION = (
    "a program of a session cannot ask; pass its input as `stdin` of the call, or assign the value "
    "at a prompt"
)
_NO_SOURCE = (
    *("no such file or directory", "file not found for module", "is not in std", "cannot find package"),
    *("does not exist", "undeclared crate", "unlinked crate", "can't find crate"),
    *("unresolved reference 'kotlinx'", "unresolved reference: kotlinx"),
)
_ALONE = (
    "a compiler sees only the program and its own libraries, not the workspace; compile several files with a shell "
    'program, into TMPDIR: paddock exec shell -c \'gcc *.c -o "$TMPDIR/a" && "$TMPDIR/a"\''
)
"""Messages, in lower case, of runtimes that lack a grant, and the hints on them."""


class StepStart(NamedTuple):
    """What is known of a step before it has ended; its fields are those of `ProgramEnd`."""

    runtime: Runtime
    executable: str = ""
    phase: Phase = "run"
    compile_ms: float = 0.0
    cached: bool = False
    stdin_bytes: int = 0
    stdin_sha256: str = ""
    combined: bool = False


def result_of(ended: ProcessResult, begun: StepStart, error: ErrorInfo | None = None) -> RawResult:
    """Return the result of a step that has ended; `error` is set unless it is ok."""
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


def is_out_of_memory(ended: ProcessResult, signs: Iterable[OutOfMemory]) -> bool:
    """Return whether a step failed because its runtime was out of memory, by the patterns of its recipe.

    A program could imitate that on purpose, which affects only its own result.
    """
    if ended.status is not Status.FAILED:
        return False
    stderr = "\n".join(filter(None, (ended.stderr.head, ended.stderr.tail))).rstrip()
    number = None if ended.signal is None else signal_name(ended.signal)
    return any(
        (sign.exit_code, sign.signal) == (ended.exit_code, number)
        and re.search(rf"(?:\A|\n)(?:{sign.said})\Z", stderr)
        for sign in signs
    )


def withheld(
    ended: ProcessResult,
    phase: Phase,
    grants: ProcessGrants,
    *,
    runs_files: bool,
    has_input: bool = True,
    in_session: bool = False,
) -> str:
    """Return a hint on the grant or input that a failed step may have lacked, by its last output, or "".

    `runs_files` says whether its runtime can run a file of the workspace in place, `has_input` whether it had standard
    input, even if empty.
    """
    stderr = _stderr_text(ended)
    if phase == "run" and (hint := explain_hidden(ended, grants.access)):
        return hint
    if phase == "run" and ended.withheld and (_NO_REPOSITORY in stderr or _IN_GIT_FOLDER in stderr):
        how = "" if _NO_REPOSITORY in stderr else " for writing"
        return _WITHHELD.format(how=how, why=ended.withheld)
    shares_network = ended.sandbox.tier == "landlock"
    pathless, offline = (_NO_OWN_NETWORK, _OFFLINE_THERE) if shares_network else (_PATHLESS, _OFFLINE)
    for applies, words, hint in (
        (phase == "compile", _NO_SOURCE, _ALONE),
        (phase == "run" and shares_network, _NO_SEMAPHORE, _UNSHARED),
        (phase == "run" and grants.network not in {"loopback", "hosts"}, _NO_UNIX_SOCKET, pathless),
        (phase == "run" and grants.network in {"loopback", "hosts"}, _NO_UNIX_SOCKET, _OUTSIDE_PRIVATE),
        (phase == "run" and grants.network == "none", _NO_NETWORK, offline),
        (phase == "run" and grants.network == "loopback", _UNREACHABLE, _LOOPBACK_ONLY),
        (phase == "run" and grants.network == "hosts", _UNREACHABLE, PROXY_ONLY),
        (phase == "run", _NO_IDENTITY, _HOMELESS),
        (phase == "run", _NO_WRITING, _WRITES[grants.access]),
        (phase == "run" and runs_files and grants.access != "none", _NO_MODULE, _APART),
        (phase == "run" and grants.access == "none", (*_NO_MODULE, *_NO_SUCH_FILE, _NO_REPOSITORY), _UNREAD),
        (phase == "run" and not has_input, _NO_INPUT, _UNASKED_IN_SESSION if in_session else _UNASKED),
    ):
        if applies and any(word in stderr for word in words):
            return hint
    if _NO_REPOSITORY in stderr and is_in_outer_repository(grants.workspace):
        return _OUTSIDE_REPOSITORY
    return ""


def is_in_outer_repository(workspace: Path | None) -> bool:
    """Return whether `workspace` belongs to a Git repository whose `.git` directory is outside of it.

    That is a linked worktree or a submodule, where `.git` is a file, or a directory below the top of a repository.
    """
    if workspace is None:
        return False
    own = workspace / ".git"
    return own.is_file() or (
        not own.exists() and any((folder / ".git").exists() for folder in workspace.parents)
    )


def slow(runtime: str) -> str:
    """Return the hint on a compiler that ran out of time and lacks its warm start."""
    return _COLD.format(runtime=runtime)


def explain_starvation(ended: ProcessResult, step: Phase, before: Spent) -> tuple[str, str] | None:
    """Return message and hint for a step that others kept from running until its time was up; None for another end.

    `before` is what an earlier step spent of the same time.
    """
    spent = ended.usage.spent.add(before)
    if ended.limit != "wall" or not is_starved(spent, count_processors()):
        return None
    return f"{_SUBJECTS[step]} {STARVED}", describe_starvation(spent)


def error_of(ended: ProcessResult, step: Phase, limits: ProcessLimits, message: str, hint: str) -> ErrorInfo:
    """Return the error of a step that is not ok; `message` replaces the one about the end of its process.

    `limits` are those of all steps together; `hint` is a likely reason if the program failed.
    """
    text = message or f"{_SUBJECTS[step]} {_explain_end(ended)}"
    phase = "parse" if step == "compile" else "run"
    return ErrorInfo(name="Program", message=text, hint=_make_hint(ended, phase, limits, hint), phase=phase)


def _make_hint(ended: ProcessResult, phase: str, limits: ProcessLimits, otherwise: str) -> str:
    """Return the size of the exceeded limit, or the likely reason of a failure."""
    if ended.limit in _LIMIT_MESSAGES:
        hint = _add_limits(_LIMIT_MESSAGES[ended.limit][1], limits)
        return f"{hint}; {otherwise}" if otherwise and (phase == "parse" or ended.limit == "wall") else hint
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
        name: size
        if not name.endswith("_bytes")
        else count(size, "byte")
        if size % MIB
        else f"{size // MIB} MiB"
        for name, size in limits.model_dump(exclude_none=True).items()
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
