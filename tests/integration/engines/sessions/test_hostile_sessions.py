"""Programs that attack their own session: it ends or goes on, and nobody else notices."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.processes import all_end, descendants, watched

from paddock import BlockingPaddock, Outcome, Status

PATIENT = {"runtimes": {"timeout_ms": 120_000}}
SEND = """
import json, os, struct
def send(body, size=None):
    for fd in range(200, 210):
        try:
            if os.readlink(f'/proc/self/fd/{fd}').startswith('socket'): break
        except OSError: pass
    os.write(fd, struct.pack('<I', len(body) if size is None else size) + body)
"""
DONE = b'{"done": {"exit_code": 0}}'


def run_all(workspace: Path, *programs: str, **limits: int) -> list[Outcome]:
    with BlockingPaddock(workspace, overrides={**PATIENT, **limits}) as p, p.session("python") as s:
        return [s.run(program) for program in programs]


CORRUPTING = {
    "no JSON": "send(b'{')",
    "no object": "send(b'[1]')",
    "deep JSON": "send(b'[' * 100_000)",
    "a frame over the limit": "send(b'', size=2**32 - 1)",
    "an unknown message": 'send(b\'{"open": "/etc/shadow"}\')',
    "no UTF-8": "send(b'\\xff\\xfe')",
}


@pytest.mark.parametrize("attack", CORRUPTING)
def test_a_channel_that_carries_anything_else_is_cut(workspace: Path, attack: str) -> None:
    program = f"{SEND}\n{CORRUPTING[attack]}\nimport time; time.sleep(1000)"
    (outcome,) = run_all(workspace, program)
    assert outcome.status is Status.LOST
    assert outcome.error is not None
    assert outcome.error.message.startswith(
        "The channel to the session's interpreter is of no use any more: it sent"
    )
    assert outcome.session is not None
    assert outcome.session.state == "lost"


def test_a_forged_end_ends_the_execution(workspace: Path) -> None:
    """The program does not run on by itself; in the next execution it goes on until that is interrupted."""
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        first = s.run(f"{SEND}\nsend({DONE!r})\nwhile True: pass")
        second = s.run("print('second')", timeout_ms=400)
    assert (first.status, second.status, second.session and second.session.state) == (
        Status.OK,
        Status.TIMEOUT,
        "kept",
    )


def test_forged_values_are_only_shown(workspace: Path) -> None:
    forged = {
        "text/plain": "x",
        "text/html": 5,
        "image/png": "bm8=",
        "image/gif": "R0lGODlh",
        "application/x-python": "os.system('id')",
        "handles": {"text/html": "another"},
    }
    body = json.dumps({"display": forged}).encode()
    (outcome,) = run_all(workspace, f"{SEND}\nsend({body!r})\nsend(b'{{\"display\": 7}}')\nNone")
    assert outcome.status is Status.OK
    assert [(result.data, result.handles) for result in outcome.results][1:] == [({"text/plain": ""}, {})]
    shown = outcome.results[0]
    assert shown.data == {"text/plain": "x", "image/gif": "R0lGODlh"}
    assert list(shown.handles) == ["image/gif"]


def test_too_many_values_are_cut(workspace: Path) -> None:
    outcome, after = run_all(workspace, "for n in range(5000): display(n)", "6")
    assert outcome.status is Status.OK
    assert len(outcome.results) == 100
    assert after.text == "6\n"


def test_a_value_with_too_many_elements_is_not_shown(workspace: Path) -> None:
    programs = [
        f"{SEND}\nsend(b'{{\"display\": {{\"application/json\": [' + b'[],' * {count} + b'0]}}}}')"
        for count in (200_000, 5_000_000)
    ]
    few, many = run_all(workspace, *programs)
    assert few.results[0].data.keys() == {"text/plain", "application/json"}
    assert (many.status, [result.data for result in many.results]) == (
        Status.OK,
        [{"text/plain": "a value with more than 250,000 elements, which is not shown"}],
    )


SURVIVED = {
    "it removes modules": "import sys\nfor name in [*sys.modules]:\n  if name not in ('sys', 'builtins'): del sys.modules[name]",
    "it closes descriptors": "import os; os.closerange(0, 100)",
    "it replaces builtins": "import builtins; builtins.print = builtins.display = builtins.open = None",
    "it ignores signals": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "it replaces sys.stdout": "import sys; sys.stdout = sys.stderr = None",
    "it has a million variables": "globals().update((f'v{n}', n) for n in range(1_000_000))",
    "its value has a broken repr": "class A:\n  def __repr__(self): raise SystemExit(9)\nA()",
    "its error has a broken text": "class E(Exception):\n  def __str__(self): raise KeyboardInterrupt\nraise E",
    "it forks and both return": "import os\npid = os.fork()",
    "it sets a recursion limit": "import sys; sys.setrecursionlimit(50)",
    "it removes its directory": "import shutil, os; shutil.rmtree(os.getcwd())",
}


@pytest.mark.parametrize("attack", SURVIVED)
def test_the_session_goes_on(workspace: Path, attack: str) -> None:
    first, second = run_all(
        workspace, f"x = 5\n{SURVIVED[attack]}", "x = x + 1\nif x != 6: raise ValueError(x)"
    )
    assert first.session is not None
    assert first.session.state == "kept", first
    assert second.status is Status.OK, second


LOST = {
    "it exits behind Python's back": ("import os; os._exit(3)", Status.FAILED),
    "it kills itself": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", Status.FAILED),
    "it closes every descriptor": ("import os; os.closerange(0, 1000)", Status.FAILED),
    "it becomes another program": ("import os; os.execv('/bin/true', ['true'])", Status.OK),
    "it needs too much memory": ("x = [b'1' * (1 << 20) for _ in range(2000)]", Status.MEMORY_LIMIT),
}


@pytest.mark.parametrize("attack", LOST)
def test_the_session_is_lost_and_says_so(workspace: Path, attack: str) -> None:
    program, _ = LOST[attack]
    first, second = run_all(workspace, f"x = 5\n{program}", "x")
    if first.session is not None and first.session.state == "kept":  # Python itself refused the memory
        assert attack == "it needs too much memory"
        assert first.status is Status.MEMORY_LIMIT
        return
    assert first.status is LOST[attack][1] or first.status is Status.LOST, first
    assert second.status is Status.LOST


def test_memory_counts_over_executions(workspace: Path) -> None:
    with (
        BlockingPaddock(workspace, overrides=PATIENT) as p,
        p.session("python", memory_bytes=200 << 20) as s,
    ):
        outcomes = [s.run(f"x{n} = b'1' * (60 << 20)") for n in range(4)]
    assert [outcome.status for outcome in outcomes[:2]] == [Status.OK, Status.OK]
    assert Status.MEMORY_LIMIT in {outcome.status for outcome in outcomes}


def test_a_stream_of_forks_in_a_later_execution_ends_it(workspace: Path) -> None:
    program = "import os, time\nfor _ in range(1000):\n  if os.fork() == 0: time.sleep(1000)"
    first, second, third = run_all(workspace, "x = 1", program, "x")
    assert first.status is Status.OK
    assert second.status in {Status.PROCESS_LIMIT, Status.FAILED}
    assert third.status is (Status.LOST if second.status is Status.PROCESS_LIMIT else Status.OK)


def test_endless_output_interrupts(workspace: Path) -> None:
    outcome, after = run_all(workspace, "x = 5\nwhile True: print('x' * 100_000)", "x")
    assert (outcome.status, outcome.program and outcome.program.limit) == (Status.OUTPUT_LIMIT, "stdout")
    assert after.text == "5\n"


SERVER = """
import asyncio, sys
from paddock import Paddock
async def main():
    async with Paddock(sys.argv[1], overrides={"runtimes": {"timeout_ms": 120_000}}) as p:
        o = await p.exec("python", "import os\\nif os.fork() == 0:\\n  os.setsid()\\n  import time; time.sleep(1000)", session="new")
        sandbox = o.sandbox.tier
        print(sandbox, flush=True)
        await asyncio.sleep(1000)
asyncio.run(main())
"""


def test_nothing_survives_a_killed_paddock(workspace: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)  # pytest's own directories are closed to programs
        with subprocess.Popen(
            [sys.executable, "-c", SERVER, workspace],
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": scratch},
        ) as server:
            assert server.stdout is not None
            told = server.stdout.readline().strip()
            handles = watched(descendants(server.pid))
            server.send_signal(signal.SIGKILL)
        assert (told, len(handles) >= 3) in {(b"namespaces", True), (b"landlock", True)}
        assert all_end(handles)
        assert [*Path(scratch).iterdir()] == []
