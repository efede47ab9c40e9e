"""What is said of how a program ended, and what of it helps."""

import signal
from pathlib import Path

import pytest

from paddock.engines.programs import outcome_mapping
from paddock.engines.programs.outcome_mapping import (
    StepStart,
    error_of,
    explain_starvation,
    is_out_of_memory,
    result_of,
    slow,
    withheld,
)
from paddock.engines.programs.recipe import recipes
from paddock.model.outcome import ErrorInfo, SandboxFacts, Status, Usage
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult, ProcessUsage
from paddock.model.program import CapturedStream, Phase, ProgramEnd
from paddock.model.starvation import Spent

LIMITS = ProcessLimits(timeout_ms=1500, memory_bytes=64 << 20)
CPU = "it had 60000 ms on all processors together; use fewer of them, or request more time"
MEMORY = "it had 64 MiB; runtimes.memory_bytes is the maximum"


def error(phase: str = "run", message: str = "", hint: str = "", **end: object) -> ErrorInfo | None:
    """Return the error of a step that ended so."""
    ended = ProcessResult.model_validate(end)
    step: Phase = "compile" if phase == "compile" else "run"
    told = None if ended.status is Status.OK else error_of(ended, step, LIMITS, message, hint)
    result = result_of(ended, StepStart("c", phase=step), told)
    assert (result.status, result.program) == (
        ended.status,
        ProgramEnd(
            runtime="c",
            phase=step,
            exit_code=ended.exit_code,
            signal=ended.signal,
            limit=ended.limit,
            stderr=ended.stderr,
        ),
    )
    return result.error


def test_processor_time_of_user_and_system_is_one_number():
    cost = ProcessUsage(wall_ms=21.349, cpu_user_ms=0.1, cpu_system_ms=0.2, peak_bytes=7)
    ended = ProcessResult(status=Status.OK, exit_code=0, usage=cost)
    assert 0.1 + 0.2 != 0.3
    assert result_of(ended, StepStart("c")).usage == Usage(wall_ms=21.349, cpu_ms=0.3, peak_bytes=7)


@pytest.mark.parametrize(
    ("status", "limit", "why", "hint"),
    [
        ("timeout", "wall", "ran out of time", "it had 1500 ms; runtimes.timeout_ms is the maximum"),
        ("timeout", "cpu", "used more CPU time than it may", CPU),
        ("memory_limit", "memory", "used more memory than it may", MEMORY),
        ("process_limit", "processes", "started more processes than it may", "it may have 256 at a time"),
        ("output_limit", "file_size", "wrote a larger file than it may", "a file may have 256 MiB"),
        ("output_limit", "scratch", "filled its scratch directory", "it may hold 512 MiB, and no path over 4,096 bytes"),
        ("output_limit", "stdout", "wrote more to standard output than it may", "at most 256 MiB"),
        ("output_limit", "stderr", "wrote more to standard error than it may", "at most 64 MiB"),
        ("cancelled", None, "was cancelled", ""),
    ],
)  # fmt: skip
def test_a_limit_is_told_with_its_size(status: str, limit: str | None, why: str, hint: str) -> None:
    told = ErrorInfo(name="Program", message=f"The program {why}", hint=hint, phase="run")
    assert error(status=status, limit=limit, hint="" if limit == "wall" else "something else") == told
    named = told.model_copy(update={"message": f"The compiler {why}", "phase": "parse"})
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
    stderr = CapturedStream(head="...\n", tail=f"{said}\n  at line 7\n")
    told = ErrorInfo(name="Program", message="The program exited with code 1", hint=MEMORY, phase="run")
    assert error(status="failed", exit_code=1, stderr=stderr, hint="something else") == told


@pytest.mark.parametrize(
    "said", ["OSError: [Errno 27] File too large", "Error: EFBIG: file too large, write"]
)
def test_a_runtime_that_may_write_no_more_to_a_file_is_told_how_large_one_may_be(said: str) -> None:
    told = error(status="failed", exit_code=1, stderr=CapturedStream(head=said), hint="something else")
    assert told is not None
    assert told.hint == "a file may have 256 MiB"


def test_what_ran_out_of_time_may_lack_a_warm_start_or_the_network() -> None:
    assert slow("go") == "run `paddock runtimes warm go` once to make its compiler faster"
    for phase in ("compile", "run"):
        told = error(phase, status="timeout", limit="wall", hint="it has no network")
        assert told is not None
        assert told.hint == "it had 1500 ms; runtimes.timeout_ms is the maximum; it has no network"
    told = error(status="memory_limit", limit="memory", hint="it has no network")
    assert told is not None
    assert told.hint == MEMORY


def test_a_wrong_address_is_explained() -> None:
    told = error(status="failed", signal=signal.SIGSEGV)
    assert told is not None
    hint = "it accessed memory that is not its own; endless recursion ends like this, too"
    assert (told.message, told.hint) == ("The program was ended by SIGSEGV", hint)


def test_what_else_may_be_behind_a_failure() -> None:
    told = error(status="failed", exit_code=7, message="It is so", hint="something else")
    assert told == ErrorInfo(name="Program", message="It is so", hint="something else", phase="run")
    assert error(status=Status.OK, exit_code=0, hint="something else") is None


OFFLINE = (
    "it has no network; request the network loopback (`--network loopback`, or the argument `network` of a tool) for "
    "its own servers on 127.0.0.1, hosts for hosts that a [[network.rule]] allows, or full, within `runtimes.network`"
)
LOOPBACK_ONLY = (
    "its network has nothing but itself on 127.0.0.1; request the network hosts (`--network hosts`, or the argument "
    "`network` of a tool) for hosts that a [[network.rule]] allows, or full, within `runtimes.network`"
)
PROXY_ONLY = (
    "it reaches hosts only by its proxy, which HTTP_PROXY and HTTPS_PROXY name; use a client that reads these "
    "variables, or give it the proxy"
)
PATHLESS = (
    "Unix sockets, which multiprocessing needs for a Manager and the start method forkserver, need a network of the "
    "program's own; request the network loopback (`--network loopback`, or the argument `network` of a tool), or "
    "use multiprocessing.set_start_method('spawn') or 'fork', and a Queue or Pipe instead of a Manager"
)
OUTSIDE_PRIVATE = (
    "its Unix sockets must be streams below $TMPDIR, /tmp or /dev/shm, or have abstract names; those of the workspace "
    "and of the machine cannot be reached"
)
OUTSIDE_REPOSITORY = (
    "the workspace is part of a Git repository whose .git directory is outside of it, and a program sees only the "
    "workspace; set workspace.repository = true, the default, which grants any repository except that of a submodule, "
    "or choose the directory that contains .git, or for a linked worktree a directory that contains both, with "
    "--workspace DIR"
)
WRITES = {
    "none": "it may write only to its own directory and to TMPDIR",
    "read-only": "it may write only to TMPDIR; writing to the workspace needs the access workspace-write, or overlay, "
    "which keeps the changes until a person accepts them; a person grants both: `paddock exec --access overlay`, or "
    "for agents `access` under [runtimes] in paddock.toml",
    "workspace-write": "it may write only to the workspace and to TMPDIR",
}
APART = (
    "inline code cannot import files beside it; save it in the workspace and run that file, for instance: paddock "
    "exec python ./main.py"
)
UNREAD = (
    "it may not read the workspace (access none), so it finds no file, module or Git repository there; request "
    "the access read-only, which runtimes.access must allow"
)
ALONE = (
    "a compiler sees only the program and its own libraries, not the workspace; compile several files with a shell "
    'program, into TMPDIR: paddock exec shell -c \'gcc *.c -o "$TMPDIR/a" && "$TMPDIR/a"\''
)


def missed(
    said: str, phase: str = "run", *, runs_files: bool = True, has_input: bool = True, **grants: object
) -> str:
    """Return what a program that ended with these words may have missed."""
    ended = ProcessResult(
        status=Status.FAILED, exit_code=1, stderr=CapturedStream(head="...\n", tail=f"{said}\n")
    )
    given = ProcessGrants.model_validate(grants)
    return withheld(ended, phase, given, runs_files=runs_files, has_input=has_input)


@pytest.mark.parametrize(
    "said",
    [
        "[Errno -2] Name or service not known",
        "Unhandled Exception: System.Net.WebException: Error: NameResolutionFailure",
        "connect: Network is unreachable",
        "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
        "Error: getaddrinfo EAI_AGAIN example.com",
        "curl: (6) Could not resolve host: example.com",
        "curl: (7) Failed to connect to 127.0.0.1 port 80",
        "{:error, {:failed_connect, [{:inet, [:inet], :nxdomain}]}}",
        "dial tcp 127.0.0.1:80: socket: operation not permitted",
        "java.net.SocketException: Operation not permitted",
        "System.Net.Sockets.SocketException (13): Permission denied",
        "error: connect ECONNREFUSED 127.0.0.1:80",
        "Error: connect EPERM 127.0.0.1:80 - Local (undefined:undefined)",
        "Error: listen EPERM: operation not permitted 127.0.0.1",
    ],
)
def test_who_misses_the_network_is_told_how_to_get_it(said: str) -> None:
    assert missed(said, access="read-only") == OFFLINE
    assert missed(said, network="full", access="workspace-write") != OFFLINE


@pytest.mark.parametrize(
    "said",
    [
        "Error: getaddrinfo EAI_AGAIN example.com",
        "Error: getaddrinfo ENOTFOUND example.com",
        "[Errno -2] Name or service not known",
        "OSError: [Errno 101] Network is unreachable",
        "Error: connect ENETUNREACH 192.0.2.1:443",
        "curl: (6) Could not resolve host: example.com",
    ],
)
def test_who_misses_a_host_is_told_how_to_reach_it(said: str) -> None:
    told = {network: missed(said, network=network) for network in ("loopback", "hosts", "full")}
    assert told == {"loopback": LOOPBACK_ONLY, "hosts": PROXY_ONLY, "full": ""}
    refused = "ConnectionRefusedError: [Errno 111] Connection refused"
    assert {missed(refused, network=network) for network in told} == {""}


@pytest.mark.parametrize("network", ["none", "full"])
@pytest.mark.parametrize(
    "said",
    [
        'File "/usr/lib/python3.11/multiprocessing/forkserver.py", line 136, in ensure_running\n'
        'File "/usr/lib/python3.11/socket.py", line 232, in __init__\nPermissionError: [Errno 1] Operation not permitted',
        'File "/usr/lib/python3.11/multiprocessing/managers.py", line 567, in start\n    raise EOFError\nEOFError',
        "socket.socket(socket.AF_UNIX)\nPermissionError: [Errno 1] Operation not permitted",
    ],
)
def test_a_program_that_wants_a_unix_socket_gets_the_hint_that_helps(said: str, network: str) -> None:
    assert missed(said, network=network, has_input=False) == PATHLESS


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "socket.socket(socket.AF_UNIX)\nPermissionError: [Errno 1] Operation not permitted",
            "Unix sockets, which multiprocessing needs for a Manager and the start method forkserver, need the tier "
            "namespaces (paddock doctor says what it lacks), and so do Queue and Pool; use threads, or "
            "multiprocessing.Process with the start method 'spawn' or 'fork', and a Pipe",
        ),
        (
            "curl: (6) Could not resolve host: example.com",
            "it has no network; request the network full (`--network full`, or the argument `network` of a tool), within "
            "`runtimes.network`; less than that needs the tier namespaces (paddock doctor says what it lacks)",
        ),
    ],
)
def test_no_hint_names_a_network_that_the_tier_lacks(said: str, told: str) -> None:
    ended = ProcessResult(
        status=Status.FAILED,
        exit_code=1,
        stderr=CapturedStream(head=said),
        sandbox=SandboxFacts(tier="landlock"),
    )
    assert withheld(ended, "run", ProcessGrants(), runs_files=True) == told


@pytest.mark.parametrize("network", ["loopback", "hosts"])
def test_a_unix_socket_outside_of_private_directories_gets_a_hint_of_its_own(network: str) -> None:
    said = "socket.socket(socket.AF_UNIX).bind('server')\nPermissionError: [Errno 1] Operation not permitted"
    assert missed(said, network=network) == OUTSIDE_PRIVATE


def test_git_in_a_part_of_a_repository_gets_a_hint(tmp_path: Path) -> None:
    said = "fatal: not a git repository (or any parent up to mount point /w)"
    (tmp_path / ".git").mkdir()
    below, linked, alone = (tmp_path / name for name in ("below", "linked", "alone"))
    for folder in (below, linked, alone):
        folder.mkdir()
    (linked / ".git").write_text("gitdir: /elsewhere/.git/worktrees/linked\n")
    (alone / ".git").mkdir()
    hints = {
        folder.name: missed(said, workspace=folder, access="read-only") for folder in (below, linked, alone)
    }
    assert hints == {"below": OUTSIDE_REPOSITORY, "linked": OUTSIDE_REPOSITORY, "alone": ""}
    assert missed(said, workspace=below, access="none") == missed(said, access="none") == UNREAD
    assert missed("fatal: bad revision", workspace=below, access="read-only") == ""


def test_a_commit_without_an_author_gets_a_hint() -> None:
    said = "Author identity unknown\n\n*** Please tell me who you are.\n\nfatal: unable to auto-detect email address"
    assert missed(said, access="workspace-write") == (
        "git reads no configuration of your home directory here; set the author in the repository: "
        "git config user.name NAME && git config user.email ADDRESS"
    )


def test_who_may_make_no_semaphore_is_told_what_that_takes() -> None:
    said = "    sl = self._semlock = _multiprocessing.SemLock(\nPermissionError: [Errno 13] Permission denied"
    ended = ProcessResult(
        status=Status.FAILED,
        exit_code=1,
        stderr=CapturedStream(head=said),
        sandbox=SandboxFacts(tier="landlock"),
    )
    told = "semaphores and shared memory need the tier namespaces (paddock doctor says what it lacks); use threads"
    assert withheld(ended, "run", ProcessGrants(), runs_files=True) == told


@pytest.mark.parametrize("access", ["none", "read-only", "workspace-write"])
@pytest.mark.parametrize(
    "said",
    [
        "OSError: [Errno 30] Read-only file system: 'x'",
        "java.nio.file.AccessDeniedException: x",
        "Error: EACCES: permission denied, open 'x'",
        "code.sh: line 1: /tmp/x: Permission denied",
        "Error in plot.new() : could not open file 'plot.png'",
        "cannot open file 'Rplots.pdf'",
    ],
)
def test_who_may_not_write_is_told_where_it_may(said: str, access: str) -> None:
    assert missed(said, access=access) == WRITES[access]


@pytest.mark.parametrize(
    "said",
    [
        "ModuleNotFoundError: No module named 'sub'",
        "Error: Cannot find module './sub/lib'",
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/tmp/x/1/sub/lib.js' imported from /tmp/x/1/code.js",
        "`require_relative': cannot load such file -- /tmp/x/1/sub/lib (LoadError)",
        "Failed opening required '/tmp/x/1/sub/lib.php'",
        "Can't locate Sub/Lib.pm in @INC",
    ],
)
def test_who_misses_a_neighbour_is_told_how_to_run_in_place(said: str) -> None:
    assert missed(said, access="read-only") == APART
    assert missed(said, access="none") == UNREAD
    assert missed(said, access="read-only", runs_files=False) == ""


@pytest.mark.parametrize(
    "said",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'rows.csv'",
        "Error: ENOENT: no such file or directory, open 'rows.csv'",
        'Exception in thread "main" java.nio.file.NoSuchFileException: rows.csv',
    ],
)
def test_a_file_that_a_program_may_not_see_gets_a_hint(said: str) -> None:
    assert missed(said, access="none") == UNREAD
    assert missed(said, access="read-only") == ""


@pytest.mark.parametrize(
    "said",
    [
        'code.c:1:10: fatal error: sub/x.h: No such file or directory\n    1 | #include "sub/x.h"',
        "error[E0583]: file not found for module `lib`",
        "code.go:3:8: package example.com/x is not in std",
        "Main.java:1: error: package org.json does not exist",
        "use of undeclared crate or module `rand`",
        "use of unresolved module or unlinked crate `rand`",
        "code.kt:1:8: error: unresolved reference 'kotlinx'.",
    ],
)
def test_who_compiles_more_than_one_file_is_told_what_a_compiler_sees(said: str) -> None:
    assert missed(said, "compile") == ALONE
    assert missed(said, "run", access="read-only") == ""


@pytest.mark.parametrize(
    "said",
    [
        "EOFError: EOF when reading a line",
        'Exception in thread "main" java.util.NoSuchElementException: No line found',
        "`readline': end of file reached (EOFError)",
    ],
)
def test_who_reads_what_was_not_passed_on_is_told_how_to(said: str) -> None:
    told = "it has no standard input; pass it with --stdin, or with `stdin` of a tool call"
    assert missed(said, has_input=False) == told
    assert missed(said) == ""


def test_what_is_granted_is_not_missed() -> None:
    assert missed("ValueError: x", access="read-only") == ""
    assert missed("error: expected ';'", "compile") == ""


def ends_out_of_memory(
    runtime: str, said: str, *, code: int | None = None, number: int | None = None
) -> bool:
    """Return whether a program that failed like this is taken to be out of memory."""
    ended = ProcessResult(
        status=Status.FAILED, exit_code=code, signal=number, stderr=CapturedStream(head=said)
    )
    return is_out_of_memory(ended, recipes()[runtime].variants[0].out_of_memory)


TRACEBACK = 'Traceback (most recent call last):\n  File "code.py", line 1, in <module>\n'


@pytest.mark.parametrize(
    ("runtime", "said", "end"),
    [
        ("python", f"{TRACEBACK}    x = bytearray(8 << 30)\n        ^^^^\nMemoryError\n", {"code": 1}),
        ("python", f"{TRACEBACK}    f()\nMemoryError: no room\n", {"code": 1}),
        (
            "python",
            f"{TRACEBACK}    np.ones(10**10)\nnumpy._core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB\n",
            {"code": 1},
        ),
        (
            "node",
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"
            "----- Native stack trace -----\n\n 1: 0xb78db3 node::OOMErrorHandler [/usr/bin/node]\n",
            {"number": signal.SIGABRT},
        ),
        ("java", "Terminating due to java.lang.OutOfMemoryError: Java heap space\n", {"code": 3}),
        ("go", "fatal error: runtime: out of memory\n\nruntime stack:\nruntime.throw()\n", {"code": 2}),
        ("rust", "memory allocation of 8589934592 bytes failed\n", {"number": signal.SIGABRT}),
        (
            "cpp",
            "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
            {"number": signal.SIGABRT},
        ),
        (
            "ruby",
            "code.rb:1:in `*': failed to allocate memory (NoMemoryError)\n\tfrom code.rb:1\n",
            {"code": 1},
        ),
    ],
)
def test_the_end_of_a_runtime_without_memory_needs_its_words_and_its_exit(
    runtime: str, said: str, end: dict[str, int]
):
    assert ends_out_of_memory(runtime, said, **end)
    assert ends_out_of_memory(runtime, f"other words\n{said}", **end)
    assert not ends_out_of_memory(runtime, said, code=7)
    assert not ends_out_of_memory(runtime, said, number=signal.SIGTERM)
    assert not ends_out_of_memory(runtime, f"it said: {said.splitlines()[-1]}\n", **end)


@pytest.mark.parametrize(
    ("runtime", "said", "end"),
    [
        ("python", "MemoryError\n", {"code": 1}),
        ("python", f"{TRACEBACK}    raise MemoryError\nMemoryError\n", {"code": 1}),
        ("python", f"{TRACEBACK}    f()\nMemoryError\nand went on\n", {"code": 1}),
        ("python", f"{TRACEBACK}    f()\ntorch.cuda.OutOfMemoryError: CUDA out of memory\n", {"code": 1}),
        ("python", f"{TRACEBACK}    f()\nValueError: MemoryError\n", {"code": 1}),
        ("node", "Error: JavaScript heap out of memory\n", {"code": 1}),
        (
            "java",
            'Exception in thread "main" java.lang.OutOfMemoryError: thrown by the program\n',
            {"code": 1},
        ),
        ("go", "panic: runtime: out of memory\n", {"code": 2}),
        ("perl", "Out of memory!\n", {"code": 1}),
        ("shell", "xrealloc: cannot allocate 18446744071562067968 bytes\n", {"code": 2}),
    ],
)
def test_words_that_a_program_may_have_for_other_reasons_are_no_evidence(
    runtime: str, said: str, end: dict[str, int]
):
    assert not ends_out_of_memory(runtime, said, **end)


def test_only_a_failure_is_taken_to_be_out_of_memory() -> None:
    said = CapturedStream(head="memory allocation of 1 bytes failed")
    for status in (Status.OK, Status.TIMEOUT, Status.CANCELLED):
        ended = ProcessResult(status=status, signal=signal.SIGABRT, stderr=said)
        assert not is_out_of_memory(ended, recipes()["rust"].variants[0].out_of_memory)


@pytest.mark.parametrize(
    ("limit", "cost", "before", "told"),
    [
        ("wall", Spent(3000, 273, 2700), Spent(), (273, 2700)),
        (
            "wall",
            Spent(1000, 900, 50),
            Spent(3000, 100, 2900),
            (1000, 2950),
        ),  # others took it while it was compiled
        ("wall", Spent(3000, 2900, 100), Spent(), None),
        ("cpu", Spent(3000, 273, 2700), Spent(), None),
        (None, Spent(3000, 273, 2700), Spent(), None),
    ],
)
def test_a_step_that_others_kept_from_running_is_told_from_a_slow_one(monkeypatch, limit, cost, before, told):
    monkeypatch.setattr(outcome_mapping, "count_processors", lambda: 2.0)
    usage = ProcessUsage(wall_ms=cost.wall_ms, cpu_user_ms=cost.cpu_ms, stalled_ms=cost.stalled_ms)
    ended = ProcessResult(status=Status.TIMEOUT, limit=limit, usage=usage)
    hint = "it waited {} ms for a processor and had one for {} ms; run it again when the machine is less busy"
    message = "The program ran out of time while other processes used the processors"
    expected = None if told is None else (message, hint.format(told[1], told[0]))
    assert explain_starvation(ended, "run", before) == expected
