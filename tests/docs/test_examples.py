"""The examples run as their pages say, each as a reader would start it."""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.command import ANY_LOAD

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def environment(tmp_path):
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        **ANY_LOAD,
    }


@pytest.fixture
def run(tmp_path, environment):
    """Run an example in an empty directory, and return exit code, output and errors."""

    def run(*command, code=0):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


def test_the_agent_mends_its_program(run, tmp_path, real_servers):
    command, *arguments = real_servers.time
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"time": {"command": command, "args": arguments}}}))
    printed = run(sys.executable, EXAMPLES / "agent" / "agent.py", servers)
    told = [line for line in printed.splitlines() if line.startswith("-> ")]
    assert told[0].startswith(
        "-> failed, line 1: time.convert_time was not called: `source_timezone` is missing"
    )
    assert told[1:] == ["-> ok: ['Africa/Nairobi']"]
    assert printed.endswith(
        "\n\nNairobi: it is afternoon there. In Tokyo it is evening, in Lima early morning.\n"
    )


def test_an_agent_whose_server_is_away_claims_nothing(run, tmp_path):
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"time": {"command": str(tmp_path / "away")}}}))
    printed = run(sys.executable, EXAMPLES / "agent" / "agent.py", servers)
    assert printed.count("\n-> failed, line ") == 2
    assert printed.endswith("\n\nI could not find out.\n")


def test_a_session_makes_a_table_and_a_picture(run, tmp_path):
    printed = run(sys.executable, EXAMPLES / "sessions" / "sessions.py", "out")
    assert printed.splitlines() == [
        "-> 9 rows with city, month, visits",
        "-> Rome    1710",
        "Lima    1240",
        "Oslo    1010",
        "-> ",
        "-> an image of 655 bytes: out/visits.png",
    ]
    assert (tmp_path / "out" / "visits.png").read_bytes().startswith(b"\x89PNG")


def test_solutions_are_graded_by_the_same_tests(run):
    assert run(sys.executable, EXAMPLES / "batch" / "grade.py").splitlines() == [
        "3 of 3  in C++ (small: accepted, equal: accepted, large: accepted)",
        "3 of 3  sorted (small: accepted, equal: accepted, large: accepted)",
        "2 of 3  forgets equal numbers (small: accepted, equal: wrong_answer, large: accepted)",
        "0 of 3  does not compile (small: runtime_error, equal: runtime_error, large: runtime_error)",
        "0 of 3  searches for the answers (small: wrong_answer, equal: wrong_answer, large: wrong_answer)",
    ]


@pytest.mark.parametrize("path", sorted((EXAMPLES / "integrations").glob("*.py")), ids=lambda path: path.stem)
def test_an_agent_of_each_framework_does_what_the_page_shows(run, path):
    page = (EXAMPLES.parent / "docs" / "integrations.md").read_text()
    assert f"```python\n{path.read_text()}```\n\nprints\n\n```text\n{run(sys.executable, path)}```\n" in page


def test_the_page_of_agent_frameworks_has_no_other_programs():
    page = (EXAMPLES.parent / "docs" / "integrations.md").read_text()
    assert page.count("```python\n") == len(list((EXAMPLES / "integrations").glob("*.py")))


def test_the_tests_of_a_change_reach_nothing(run):
    lines = run(sys.executable, EXAMPLES / "test_suite" / "check.py", code=1).splitlines()
    assert lines[0] in ("failed under namespaces", "failed under landlock")
    assert "ERROR: test_that_phones_home (test_change.Change.test_that_phones_home)" in lines
    assert lines[-1] == "left in .git/hooks: nothing"


def test_the_tests_of_a_good_change_pass(run, tmp_path):
    (tmp_path / "good" / "tests").mkdir(parents=True)
    (tmp_path / "good" / "tests" / "test_nothing.py").write_text(
        "import unittest\n\nclass Nothing(unittest.TestCase):\n    def test_nothing(self):\n        pass\n"
    )
    lines = run(sys.executable, EXAMPLES / "test_suite" / "check.py", tmp_path / "good").splitlines()
    assert lines[0].startswith("ok under ")
    assert lines[1:] == ["left in .git/hooks: nothing"]


@contextmanager
def served(environment, place):
    """Give a function that posts to the service."""
    command = [sys.executable, EXAMPLES / "computation" / "service.py", "0"]
    process = subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()

        def post(body):
            try:
                with urllib.request.urlopen(address, data=body, timeout=60) as reply:
                    return reply.status, json.load(reply)
            except urllib.error.HTTPError as refused:
                return refused.code, json.load(refused)

        yield post
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0].splitlines()[-1] == "stopped"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_service_computes_and_refuses(environment, tmp_path):
    with served(environment, tmp_path) as post:
        asked = {"source": "emit(read_input().toUpperCase())", "input": "hello"}
        assert post(json.dumps(asked).encode()) == (200, {"status": "ok", "output": "HELLO", "error": None})
        code, told = post(b'{"source": "for (;;) {}"}')
        assert (code, told["status"], told["output"]) == (200, "timeout", None)
        code, told = post(b'{"source": "nothing.there"}')
        assert (code, told["status"], "nothing is not defined" in told["error"]) == (200, "failed", True)
        wrong = (400, {"error": 'send {"source": "...", "input": "..."}'})
        for body in (b"", b"[]", b"{}", b'{"source": 5}', b'{"source": "emit(1)", "input": 5}', b"\xff"):
            assert post(body) == wrong


def test_the_notebook_reads_the_record_and_plots_it(run, tmp_path):
    shutil.copy(EXAMPLES / "audit" / "audit.ipynb", tmp_path)
    run("jupyter-execute", "--output=done", "audit.ipynb")
    cells = json.loads((tmp_path / "done.ipynb").read_text())["cells"]
    outputs = [
        output.get("data", {}) for cell in cells for output in cell.get("outputs", ()) if "data" in output
    ]
    drawn = [base64.b64decode(data["image/png"]) for data in outputs if "image/png" in data]
    assert [data[:4] for data in drawn] == [b"\x89PNG"] * 2
    assert "text/html" in outputs[0]
    texts = ["".join(data.get("text/plain", "")) for data in outputs if "image/png" not in data]
    assert texts[1:] == ["12", "True"]


def test_the_notebook_is_kept_without_results():
    cells = json.loads((EXAMPLES / "audit" / "audit.ipynb").read_text())["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


def test_every_example_is_in_the_list():
    text = (EXAMPLES / "README.md").read_text()
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert {name for name in folders if f"| [{name}](" in text} == folders
