"""What programs of a Python session do to the interpreter that later programs use."""

from pathlib import Path
from typing import Any

import pytest

from paddock import BlockingPaddock, Outcome
from paddock.model.outcome import read_outcome, write_outcome

PATIENT: dict[str, Any] = {"runtimes": {"timeout_ms": 120_000}}


def run_each(workspace: Path, *programs: str) -> list[tuple[str, str]]:
    """Return status and output of programs that run one after another in a session, which is kept."""

    def look(outcome: Outcome) -> tuple[str, str]:
        assert outcome.session is not None
        assert outcome.session.state == "kept"
        return outcome.status.value, outcome.text

    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        return [look(s.run(program)) for program in programs]


STREAMS = {
    "an object that only writes": (
        "import sys\nclass Tee:\n    def write(self, text): return sys.__stdout__.write('> ' + text)\nsys.stdout = Tee()",
        "> 8> \n9\n",
    ),
    "an object that raises": (
        "import sys\nclass Odd:\n    def write(self, text): pass\n    def flush(self): raise OSError\nsys.stdout = Odd()",
        "9\n",
    ),
    "nothing": ("import sys; sys.stdout = None", "9\n"),
    "closed": ("import sys; sys.stdout.close(); sys.stderr.close()", "8\n9\n"),
    "detached": ("import sys; sys.stdout.detach();", "8\n9\n"),
    "deleted": ("import sys; del sys.stdout, sys.stderr", "8\n9\n"),
    "a file that is closed": ("import sys\nwith open('log', 'w') as sys.stdout: print('hidden')", "8\n9\n"),
    "descriptors that are closed": ("import os; os.close(1); os.close(2)", "8\n9\n"),
    "a descriptor of a file": ("import os; os.dup2(os.open('log', os.O_RDWR | os.O_CREAT), 1);", "8\n9\n"),
}


@pytest.mark.parametrize("what", STREAMS)
def test_output_survives_what_a_program_does_to_it(workspace: Path, what: str) -> None:
    program, after = STREAMS[what]
    assert run_each(workspace, program, "print(8); 9") == [("ok", ""), ("ok", after)]


def test_tasks_of_an_interrupted_program_do_not_go_on(workspace: Path) -> None:
    start = (
        "import asyncio, time\n"
        "async def slow(): time.sleep(60)\n"
        "async def stay():\n"
        "    try: await asyncio.sleep(60)\n"
        "    finally: print('cleaned up')\n"
        "async def refuse():\n"
        "    while True:\n"
        "        try: await asyncio.sleep(60)\n"
        "        except asyncio.CancelledError: pass\n"
        "async def quick(): return 1\n"
    )
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        s.run(start).check()
        for program, cleaned in (
            ("await asyncio.gather(slow(), slow())", 0),
            ("await asyncio.gather(stay(), stay())", 2),
            ("await asyncio.gather(stay(), refuse())", 1),
        ):
            outcome = s.run(program, timeout_ms=400)
            assert outcome.session is not None
            assert (outcome.status.value, outcome.session.state) == ("timeout", "kept")
            assert outcome.text.count("cleaned up") == cleaned
            assert s.run("await quick()").check().text == "1\n"


def test_a_task_is_created_in_one_program_and_awaited_in_another(workspace: Path) -> None:
    assert run_each(
        workspace,
        "import asyncio\nasync def f():\n    print('begun'); await asyncio.sleep(0.01); print('ended'); return 5",
        "task = asyncio.create_task(f())",
        "await task",
        "asyncio.run(f())",
    ) == [("ok", ""), ("ok", "begun\n"), ("ok", "ended\n5\n"), ("ok", "begun\nended\n5\n")]


def test_the_source_of_classes_is_found(workspace: Path) -> None:
    first = "class A:\n    x = 1\n"
    second = "from dataclasses import dataclass\n@dataclass\nclass A:\n    y: int = 2\n"
    show = "import inspect; print(inspect.getsource(A).strip())"
    assert run_each(workspace, first, show, second, show)[1::2] == [
        ("ok", "class A:\n    x = 1\n"),
        ("ok", "@dataclass\nclass A:\n    y: int = 2\n"),
    ]


def test_processes_that_are_started_anew_know_what_the_session_defined(workspace: Path) -> None:
    pool = "with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(%s, [1, 2]))"
    (_, known), (status, unknown) = run_each(
        workspace,
        "import multiprocessing; print('not again')\nN = 3\ndef f(x): return x * N",
        pool % "f",
        "exec('def g(x): return x')\n" + pool % "g",
    )[1:]
    assert (known, status) == ("[3, 6]\n", "failed")
    assert unknown.splitlines()[-1] == (
        "NameError: 'g' of the session is not known in a process that was started by `spawn`: define it by `def` or "
        '`class` at the beginning of a line, or use multiprocessing.get_context("fork")'
    )


def test_a_program_that_installs_packages_reads_how_a_session_gets_them(workspace: Path) -> None:
    program = "import subprocess; subprocess.run(['true', 'pip', 'install', '-q', 'emoji', 'numpy>2']);"
    assert run_each(workspace, program) == [
        (
            "ok",
            'A running session gets no packages: open a session with packages=["emoji", "numpy>2"], or paddock repl '
            "--package emoji --package numpy>2\n",
        )
    ]


def test_whole_numbers_of_any_size_are_exact(workspace: Path) -> None:
    exact = {"n": 2**64 + 1, "list": [-(2**70), [10**3999]], "float": 1e22}
    code = f"class N:\n    def _repr_json_(self): return {exact!r}\nN()"
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        outcome = s.run(code).check()
    assert outcome.results[0].json_value == exact
    assert read_outcome(write_outcome(outcome).encode()).results[0].json_value == exact
