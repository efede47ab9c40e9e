"""The clients that others wrote grade programs with a real server: verl, and `sandbox-fusion`."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.grading import Grader, open_grader
from tests.support.processes import PATIENCE_S

CLIENTS = Path(__file__).resolve().parents[3] / "clients"
SETTINGS = "[runtimes]\ntimeout_ms = 120_000\n"
PATIENT = {"run_timeout": 60, "compile_timeout": 60}


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory, toolchain_path: str) -> Iterator[Grader]:
    with open_grader(tmp_path_factory.mktemp("grader"), SETTINGS, toolchain_path) as grader:
        yield grader


@pytest.fixture
def ask(client_python: Callable[[str], Path]) -> Callable[[str, object], Any]:
    """Return what a client prints for its input."""
    python = client_python("python-grading")

    def ask(client: str, given: object) -> Any:
        done = subprocess.run(
            [python, CLIENTS / client],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    return ask


def make_call(
    generation: str, inputs: list[str], outputs: list[str | None], **fields: object
) -> dict[str, Any]:
    cases = {name: fields.pop(name) for name in ("fn_name", "assert_case") if name in fields}
    in_outs = {"inputs": inputs, "outputs": outputs, **cases}
    return {"in_outs": in_outs, "generation": generation, "timeout": 60, **fields}


def test_verl_gives_every_verdict(grader: Grader, ask: Callable[[str, object], Any]) -> None:
    double = "print(int(input()) * 2)"
    cpp = "#include <iostream>\nint main() { int n; std::cin >> n; std::cout << n * n; }"
    calls = [
        make_call(double, ["1\n", "2\n", "x\n"], ["2", "5", "0"]),
        make_call("while True: pass", ["1"], ["2"], timeout=2),
        make_call(cpp, ["3"], ["9\n\n"], language="cpp"),
        make_call("int main() { return nothing; }", ["3", "4"], ["9", "16"], language="cpp"),
        make_call("class Solution:\n    def total(self, a, b): return a + b", ["1\n2"], ["3"], fn_name="total"),
        make_call("def f(x): return x + 1", ["", ""], [None, None],
                  assert_case=["assert f(1) == 2", "assert f(1) == 3"]),
        make_call("held = []\nwhile True: held.append(bytearray(2**20))", [""], [""], memory_limit_mb=64),
        make_call("print(1)", [""], ["1"], timeout=200),
    ]  # fmt: skip
    answers = ask("grade_with_verl.py", [f"{grader.url}/run_code", calls])
    assert [results for results, _ in answers] == [
        [True, False, -2],
        [-3],
        [True],
        [-4, -4],
        [True],
        [True, -2],
        [-2],
        [-1],
    ]
    words = [[word for word, _ in metadata] for _, metadata in answers]
    assert words == [
        ["success", "wrong_answer", "runtime_error"],
        ["timeout"],
        ["success"],
        ["compile_error", "compile_error"],
        ["success"],
        ["success", "runtime_error"],
        ["runtime_error"],
        ["api_error"],
    ]


def test_verl_grades_many_cases_at_once(grader: Grader, ask: Callable[[str, object], Any]) -> None:
    count = 40
    numbers = [str(number) for number in range(count)]
    calls = [make_call("print(int(input()) ** 2)", numbers, [str(number**2) for number in range(count)])]
    ((results, _),) = ask("grade_with_verl.py", [f"{grader.url}/run_code", calls])
    assert results == [True] * count


def test_sandbox_fusion_reads_every_answer(grader: Grader, ask: Callable[[str, object], Any]) -> None:
    requests: list[dict[str, Any]] = [
        {"code": "print(1)", "language": "python"},
        {"code": "exit(3)", "language": "python"},
        {"code": "while True: pass", "language": "python", "run_timeout": 2},
        {"code": "int main() { return nothing; }", "language": "cpp"},
        {"code": "int main() {}", "language": "cpp", "compile_timeout": 0},
        {
            "code": "print(open('a').read())",
            "language": "python",
            "files": {"a": "aGk="},
            "fetch_files": ["a"],
        },
    ]
    answers = ask("run_with_sandbox_fusion.py", [grader.url, [{**PATIENT, **each} for each in requests]])
    assert [same for same, _ in answers] == [
        ["success"] * 2,
        ["run failed"] * 2,
        ["run timeout"] * 2,
        ["compile failed"] * 2,
        ["compile timeout"] * 2,
        ["success"] * 2,
    ]
    assert (answers[5][1]["run_result"]["stdout"], answers[5][1]["files"]) == ("hi\n", {"a": "aGk="})


def test_sandbox_fusion_runs_cells(grader: Grader, ask: Callable[[str, object], Any]) -> None:
    (answer,) = ask("run_with_sandbox_fusion.py", [grader.url, [{"cells": ["x = 1", "x + 1", "1 / 0"]}]])
    assert (answer["status"], [cell["display"] for cell in answer["cells"]]) == (
        "Success", [[], [{"text/plain": "2"}], []],
    )  # fmt: skip
    assert answer["cells"][2]["error"][0]["ename"] == "ZeroDivisionError"


def test_sandbox_fusion_reports_what_nothing_runs(grader: Grader, ask: Callable[[str, object], Any]) -> None:
    requests = [{"code": "select 1", "language": "sql"}, {"code": "1", "language": "python2"}]
    sql, unknown = ask("run_with_sandbox_fusion.py", [grader.url, requests])
    assert (
        sql == "Sandbox responded with error: exception on running code: no command runs the language 'sql'"
    )
    assert unknown.startswith("Faas api responded with code 422: ")
