"""The acceptance cases of programs (spec 5.10), through the gate and in the tiers that confine."""

import asyncio
import hashlib
import os
import time
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.engines.programs import running_task
from paddock.model.limits import LimitOverrides
from paddock.model.program import CapturedStream

SHORT = LimitOverrides(timeout_ms=200)
TIME_TO_PRINT = LimitOverrides(timeout_ms=3000)
"""By then a program has printed, on busy machines, too."""
C_ECHO = (
    "#include <stdio.h>\nint main(int n, char **a) { for (int i = 0; i < n; i++) puts(a[i]); return n; }\n"
)


def gone(path: str) -> bool:
    """Wait until a path is gone: its warden removes it when the outcome is out."""
    deadline = time.monotonic() + PATIENCE_S
    while os.path.lexists(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not os.path.lexists(path)


def alive(word: str) -> list[str]:
    """Return the command lines of processes that hold a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and "pytest" not in line:
            found.append(line)
    return found


def test_s18_the_executable_itself(programs):
    assert programs.text("node", args=("-e", "console.log('hello')")) == "hello\n"


def test_s19_the_exit_code_is_the_programs(programs):
    outcome = programs.run("shell", "echo out; echo err >&2; exit 42")
    assert (outcome.status, outcome.program.exit_code, outcome.program.signal) == ("failed", 42, None)
    assert outcome.program.stdout == CapturedStream(head="out\n", total_bytes=4)
    assert outcome.program.stderr == CapturedStream(head="err\n", total_bytes=4)
    assert outcome.error.message == "The program exited with code 42"


def test_s20_out_of_time_with_what_it_said(programs):
    outcome = programs.run("shell", "echo first; sleep 3600", limits=TIME_TO_PRINT)
    assert (outcome.status, outcome.program.limit, outcome.program.exit_code) == ("timeout", "wall", None)
    assert outcome.program.stdout.head == "first\n"
    assert outcome.usage.wall_ms >= 3000


def test_s21_deaf_to_termination(programs):
    outcome = programs.run("shell", "trap '' TERM; while :; do :; done", limits=SHORT)
    assert (outcome.status, outcome.program.survivors) == ("timeout", 0)


def test_s22_grandchildren_end_too(programs):
    word = f"36{os.getpid()}.{time.monotonic_ns()}"
    code = f"sleep {word} & setsid sleep {word} & (setsid sh -c 'sleep {word} & exec sleep {word}' &) ; sleep {word}"
    outcome = programs.run("shell", code, limits=SHORT)
    assert (outcome.status, outcome.program.survivors, alive(word)) == ("timeout", 0, [])


def test_s23_cancelled_on_the_record(programs):
    async def go():
        running = asyncio.Event()
        request = programs.request("shell", "echo go; sleep 3600")
        execute = programs.session.gate.execute(request, on_output=lambda *_: running.set())
        task = asyncio.create_task(execute)
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    programs.runner.run(go())
    assert programs.records("finished")[0]["status"] == "cancelled"


def test_s23_stopped_by_the_caller(programs):
    """Who stops a program gets what it wrote until then; who cancels the task that waits gets nothing."""

    async def go():
        stop = asyncio.Event()
        code = "echo go; echo bad >&2; sleep 3600 & sleep 3600"
        return await programs.session.gate.execute(
            programs.request("shell", code), on_output=lambda *_: stop.set(), stop=stop
        )

    outcome = programs.runner.run(go())
    program = outcome.program
    assert (outcome.status, outcome.error.message) == ("cancelled", "The program was cancelled")
    assert (program.exit_code, program.survivors, program.stdout.head) == (None, 0, "go\n")
    record = programs.records("finished")[0]
    assert (record["status"], record["artifact"]) == ("cancelled", program.artifact)


@pytest.mark.parametrize("runtime", ["shell", "c"])
def test_s23_stopped_before_it_began(programs, runtime):
    async def go():
        stop = asyncio.Event()
        stop.set()
        return await programs.session.gate.execute(programs.request(runtime, "echo ran"), stop=stop)

    outcome = programs.runner.run(go())
    assert (outcome.status, outcome.program) == ("cancelled", None)
    assert outcome.error.message == "It was cancelled while it waited for its turn; nothing ran."


def test_s23_the_compiler_is_stopped_too(programs, monkeypatch):
    async def go():
        stop, compiling = asyncio.Event(), asyncio.Event()
        launch = KernelSandbox.launch

        async def noting(*given, **named):
            job = await launch(*given, **named)
            compiling.set()
            return job

        monkeypatch.setattr(KernelSandbox, "launch", noting)
        bomb = '#include "/dev/zero"\nint main() {}'
        running = asyncio.create_task(programs.session.gate.execute(programs.request("c", bomb), stop=stop))
        await compiling.wait()
        stop.set()
        return await running

    outcome = programs.runner.run(go())
    assert (outcome.status, outcome.program.phase) == ("cancelled", "compile")
    assert outcome.error.message == "The compiler was cancelled"


def test_s24_s25_more_output_than_is_kept(open_programs):
    programs = open_programs("landlock", stdout_bytes=1024, stderr_bytes=2048)
    for size in (1024, 1025, 10_000):
        outcome = programs.run("python", f"print('x' * {size}, end='')")
        assert (outcome.status, outcome.program.exit_code) == ("ok", 0)
        stdout = outcome.program.stdout
        assert (stdout.truncated, stdout.total_bytes) == (size > 1024, size)
        assert len(stdout.head + stdout.tail) == 1024


def test_s26_a_missing_executable_is_no_crash(programs, monkeypatch):
    monkeypatch.setenv("PATH", str(programs.workspace))
    outcome = programs.run("ruby", "1")
    assert (outcome.status, outcome.program) == ("unavailable", None)
    assert outcome.error.message == "Ruby cannot be run here: ruby is not on PATH"
    assert outcome.error.hint == "paddock runtimes install ruby"


def test_s27_only_allowed_variables(open_programs, monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    monkeypatch.setenv("ALLOWED", "a")
    programs = open_programs("landlock", environment=("ALLOWED", "MISSING"))
    names = {line.partition("=")[0] for line in programs.text("shell", "env").splitlines()}
    assert "SECRET" not in names
    assert "ALLOWED" in names
    assert {"PATH", "HOME", "TMPDIR"} <= names


@pytest.mark.parametrize(
    ("runtime", "code"),
    [
        ("c", C_ECHO),
        ("cpp", C_ECHO),
        (
            "rust",
            'fn main() { for a in std::env::args() { println!("{a}"); } std::process::exit(3) }',
        ),
    ],
)
def test_s29_compiled_and_run_with_arguments(programs, runtime, code):
    outcome = programs.run(runtime, code, args=("-a", "b c"))
    assert (outcome.status, outcome.program.exit_code) == ("failed", 3), outcome
    itself, *arguments = outcome.program.stdout.head.splitlines()
    assert (arguments, outcome.program.phase) == (["-a", "b c"], "run")
    assert gone(str(Path(itself).parent))


def test_s30_what_does_not_compile_does_not_run(programs):
    outcome = programs.run("c", '#include <stdio.h>\nint main( { puts("ran"); }\n')
    assert (outcome.status, outcome.program.phase, outcome.program.exit_code) == ("failed", "compile", 1)
    assert "code.c:2:" in outcome.program.stderr.head
    assert (outcome.program.stdout.head, outcome.error.phase) == ("", "parse")


def test_s31_compiling_took_all_the_time(programs, monkeypatch):
    monkeypatch.setattr(running_task, "MIN_RUN_MS", 10**9)
    outcome = programs.run("c", f"/* {time.monotonic_ns()} */ int main() {{ return 0; }}")
    assert (outcome.status, outcome.program.exit_code) == ("timeout", None)
    assert outcome.program.stderr.head == "Compile succeeded but execution budget exhausted."


def test_s52_the_source_is_private_and_goes(programs):
    show = 'stat -c "%a %n" "$0"; echo "$0"'
    for code, limits in ((show, None), (f"{show}; exit 3", None), (f"{show}; sleep 3600", TIME_TO_PRINT)):
        lines = programs.run("shell", code, limits=limits).program.stdout.head.splitlines()
        assert lines[0] == f"600 {lines[1]}"
        assert gone(str(Path(lines[1]).parent))


@pytest.mark.parametrize("code", ["", "  \n ", "// nothing"])
def test_a_java_program_with_nothing_to_run_says_what_it_lacks(programs, code):
    outcome = programs.run("java", code)
    told = (
        "Compile succeeded but output binary not found at expected path: program; the source declares nothing that "
        "could be run, so give it a `main`"
    )
    assert (outcome.status, outcome.error.message) == ("failed", told)
    assert outcome.program.stderr.head == f"{told}\n"


def test_java_has_the_home_of_its_job(programs):
    code = 'class A { public static void main(String[] a) { System.out.println(System.getProperty("user.home")); } }'
    assert programs.text("java", code).endswith("/home\n")
    assert "/paddock-" in programs.text("java", code)


@pytest.mark.usefixtures("as_root")
def test_a_workspace_of_somebody_else_is_named_when_a_program_fails(open_programs):
    """Root without its powers cannot write where another user is the owner, as in a container."""
    programs = open_programs("namespaces", access="workspace-write")
    os.chown(programs.workspace, 54321, 54321)
    try:
        outcome = programs.run("shell", "echo x > file", access="workspace-write")
        other = programs.run("shell", "exit 3", access="read-only")
    finally:
        os.chown(programs.workspace, os.geteuid(), os.getegid())
    assert (outcome.status, outcome.error.hint) == (
        "failed",
        f"{programs.workspace} belongs to user 54321, and programs run as user 0, which may not write to it; "
        'set job_user = "54321" under [sandbox]',
    )
    assert (other.status, other.error.hint) == ("failed", "")


def test_s53_a_shell_program(programs):
    assert programs.text("shell", "echo shell-ok") == "shell-ok\n"


def test_s54_standard_input(programs):
    stdin = b"a\nb\n"
    outcome = programs.run("python", "import sys; print(sys.stdin.read().upper(), end='')", stdin=stdin)
    assert outcome.program.stdout.head == "A\nB\n"
    assert (outcome.program.stdin_bytes, outcome.program.stdin_sha256) == (
        4,
        hashlib.sha256(stdin).hexdigest(),
    )


def test_s54_standard_input_that_nobody_reads(programs):
    outcome = programs.run("shell", "exit 0", stdin=b"x" * 524_288)
    assert (outcome.status, outcome.program.stdin_bytes) == ("ok", 524_288)


def test_s54_without_standard_input_there_is_its_end(programs):
    outcome = programs.run("shell", "cat; echo end")
    assert (outcome.program.stdout.head, outcome.program.stdin_sha256) == ("end\n", "")


def test_s14_everything_at_its_bound(programs):
    code = (
        "import sys; d = sys.stdin.buffer.read(); print(len(sys.argv), len(d), len(open(sys.argv[0]).read()))"
    )
    outcome = programs.run("python", code.ljust(1_048_576, "\n"), args=("x",) * 100, stdin=b"x" * 524_288)
    assert outcome.program.stdout.head == "101 524288 1048576\n"


def test_s12_a_missing_directory_is_a_denial_on_the_record(programs):
    outcome = programs.run("shell", "pwd", cwd="missing")
    assert (outcome.status, outcome.decision.reasons) == (
        "denied",
        ("Working directory does not exist: missing",),
    )
    assert outcome.program is None
    assert programs.records("decided")[0]["rule"] == "runtimes.cwd"


def test_s11_the_working_directory(programs):
    (programs.workspace / "inside").mkdir(exist_ok=True)
    assert programs.text("shell", "pwd", cwd="inside") == f"{programs.workspace.resolve() / 'inside'}\n"


def test_s16_a_place_is_free_again(open_programs):
    programs = open_programs("landlock", max_jobs=1, max_waiting=0)

    async def go():
        running = asyncio.Event()
        first = programs.request("shell", "echo go; sleep 3600")
        task = asyncio.create_task(programs.session.gate.execute(first, on_output=lambda *_: running.set()))
        await running.wait()
        second = await programs.session.gate.execute(programs.request("shell", "echo second"))
        task.cancel()
        await asyncio.wait({task})
        return second, await programs.session.gate.execute(programs.request("shell", "echo third"))

    second, third = programs.runner.run(go())
    assert (second.status, second.program) == ("unavailable", None)
    assert second.error.message == (
        "Concurrency limit reached (1/1 active jobs): the queue is full (runtimes.max_waiting = 0). Nothing started; it "
        "is safe to retry."
    )
    assert second.error.hint == "raise runtimes.max_waiting or runtimes.max_jobs"
    assert programs.records("decided")[0]["status"] == "unavailable"
    assert third.program.stdout.head == "third\n"


def test_a_hundred_programs_at_once_all_run(open_programs):
    """With the settings that hold where nobody sets any."""
    programs = open_programs("landlock")
    requests = [programs.request("shell", f"echo {number}") for number in range(100)]

    async def go():
        return await asyncio.gather(*map(programs.session.gate.execute, requests))

    outcomes = programs.runner.run(go())
    assert [(outcome.status, outcome.program.stdout.head) for outcome in outcomes] == [
        ("ok", f"{number}\n") for number in range(100)
    ]


def test_s23_stopped_while_it_waits_for_its_turn(open_programs):
    """It does not run, and is not told of only when its turn comes."""
    programs = open_programs("landlock", max_jobs=1, max_wait_ms=120_000)
    gate = programs.session.gate

    async def go():
        running, stop = asyncio.Event(), asyncio.Event()
        first = programs.request("shell", "echo go; sleep 3600")
        task = asyncio.create_task(gate.execute(first, on_output=lambda *_: running.set()))
        await running.wait()
        second = asyncio.create_task(gate.execute(programs.request("shell", "echo second"), stop=stop))
        while not gate.engines.programs.waiting:  # noqa: ASYNC110 - nothing tells of a turn that is waited for
            await asyncio.sleep(0)
        stop.set()
        outcome = await second
        assert not task.done()
        task.cancel()
        await asyncio.wait({task})
        return outcome

    outcome = programs.runner.run(go())
    assert (outcome.status, outcome.program) == ("cancelled", None)
    assert outcome.error.message == "It was cancelled while it waited for its turn; nothing ran."
    assert programs.records("decided")[0]["status"] == "cancelled"


def test_what_the_record_keeps(programs):
    outcome = programs.run("python", "print('pay' + 'load')", args=("argument",), stdin=b"stdin")
    finished = programs.records("finished")[0]
    assert (finished["kind"], finished["name"], finished["status"]) == ("runtime", "python", "ok")
    assert (finished["exit_code"], finished["stdout_bytes"], finished["survivors"]) == (0, 8, 0)
    assert finished["audit_hash"] == outcome.decision.audit_hash
    assert finished["artifact"] == outcome.program.artifact
    assert not any(word in str(finished) for word in ("payload", "argument'", "stdin'"))
