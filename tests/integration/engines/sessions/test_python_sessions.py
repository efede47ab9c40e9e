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


USED_UP = (
    "import os\nheld = []\ntry:\n    while True: held.append(os.open('/dev/null', os.O_RDONLY))\n"
    "except OSError: pass\n"
)
OWN_JSON = "import os, sys\nos.mkdir('own'); open('own/json.py', 'w').write('1 / 0')\nsys.path.insert(0, os.path.abspath('own'))\n"
LATE_FAILURES = {
    "descriptors are used up": (USED_UP, "1 / 0", "ZeroDivisionError"),
    "the path is empty": ("import sys; sys.path[:] = []", "1 / 0", "division by zero"),
    "the path is deleted": ("import sys; del sys.path", "1 / 0", "division by zero"),
    "no finder is left": ("import sys; sys.meta_path[:] = []", "1 / 0", "division by zero"),
    "no hook for paths is left": (
        "import sys; sys.path_hooks[:] = []; sys.path_importer_cache.clear()",
        "1 / 0",
        "division by zero",
    ),
    "a finder raises": (
        "import sys\nclass Finder:\n    def find_spec(self, *_): raise OSError('no')\nsys.meta_path.insert(0, Finder())",
        "1 / 0",
        "division by zero",
    ),
    "a module has the name of a standard one": (OWN_JSON, "1 / 0", "division by zero"),
    "imports are forbidden": (
        "import builtins\ndef refuse(*_, **__): raise OSError('no')\nbuiltins.__import__ = refuse",
        "1 / 0",
        "ZeroDivisionError",
    ),
    "a standard module is another": (
        "import sys; sys.modules['json'] = sys.modules['re'] = 1",
        "1 / 0",
        "Zero",
    ),
    "the name of an error raises": (
        "class Meta(type):\n    @property\n    def __name__(cls): raise OSError('no')\n"
        "class Odd(Exception, metaclass=Meta): pass",
        "raise Odd",
        "",
    ),
}


@pytest.mark.parametrize("what", LATE_FAILURES)
def test_a_failure_is_reported_whatever_programs_did_to_imports(workspace: Path, what: str) -> None:
    before, failure, told = LATE_FAILURES[what]
    first, failed, last = run_each(workspace, before, failure, "print(8)")
    assert (first, failed[0], last) == (("ok", ""), "failed", ("ok", "8\n"))
    assert told in failed[1]


@pytest.mark.parametrize("what", [what for what in LATE_FAILURES if "another" not in what])
def test_values_are_shown_whatever_programs_did_to_imports(workspace: Path, what: str) -> None:
    values = "display([1, {'a': 'é\\n\"\\\\'}, None]); 8"
    shown = "[1, {'a': 'é\\n\"\\\\'}, None]\n8\n"
    assert run_each(workspace, LATE_FAILURES[what][0], values) == [("ok", ""), ("ok", shown)]


def test_bytes_and_json_are_shown_after_the_search_for_modules_has_changed(workspace: Path) -> None:
    show = "display({'text/plain': 'a', 'text/html': b'ab', 'application/json': {'a': [True, 1.5, {}]}}, raw=True)"
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        s.run(OWN_JSON + "sys.meta_path[:] = []").check()
        [shown] = s.run(show).check().results
        assert shown.data == {
            "text/plain": "a",
            "text/html": "YWI=",
            "application/json": {"a": [True, 1.5, {}]},
        }
        assert s.run("(sys.meta_path, 'own' in sys.path[0])").check().text == "([], True)\n"


def test_programs_import_their_own_modules_with_names_that_the_driver_does_not_need(workspace: Path) -> None:
    own = "import os, sys\nos.mkdir('own'); open('own/token.py', 'w').write('mine = 1')\nsys.path.insert(0, os.path.abspath('own'))\n"
    assert run_each(workspace, own, "import token; token.mine") == [("ok", ""), ("ok", "1\n")]


def test_a_forked_process_never_reports_an_end_in_place_of_its_parent(workspace: Path) -> None:
    fork = "import os\nif os.fork() == 0:\n    raise Odd\nos.wait()[1] >> 8"
    odd = LATE_FAILURES["the name of an error raises"][0]
    outcomes = run_each(workspace, odd, fork, "8")
    assert (outcomes[1][0], outcomes[2]) == ("ok", ("ok", "8\n"))
    assert outcomes[1][1].endswith("1\n")
