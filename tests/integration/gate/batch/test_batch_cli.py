"""`paddock batch` as a process: answers, progress, exit codes, and what is left when it is killed."""

import json
import os
import signal
import subprocess

import pytest
from tests.support.command import PADDOCK, PATIENT, make_environment, run_paddock
from tests.support.processes import PATIENCE_S


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "workspace").mkdir()
    return make_environment(tmp_path)


@pytest.fixture
def place(tmp_path, environment):
    return tmp_path / "workspace"


def line(name, code="print(6 * 7)", **more):
    return json.dumps({"id": name, "language": "python", "code": code, **more})


def read(text):
    return {answer["id"]: answer for answer in map(json.loads, text.splitlines())}


def test_each_line_has_an_answer(place, environment):
    programs = [
        line(1),
        line(
            "judged",
            "print(int(input()) * 2)",
            tests=[{"stdin": "2", "expect": "4"}, {"stdin": "3", "expect": "7"}],
        ),
        line("fails", "exit(3)"),
        "",
    ]
    done = run_paddock(place, "batch", "-", *PATIENT, stdin="\n".join(programs), environment=environment)
    assert (done.returncode, done.stderr) == (0, "3 programs: 1 ok, 2 failed\n")
    found = read(done.stdout)
    assert set(found) == {"1", "judged", "fails"}
    plain = found["1"]
    usage = {key: plain.pop(key) for key in ("request", "wall_ms", "cpu_ms", "peak_bytes")}
    assert all(usage.values())
    assert plain == {
        "id": "1",
        "status": "ok",
        "phase": "run",
        "exit_code": 0,
        "signal": None,
        "limit": None,
        "stdout": "42\n",
        "stderr": "",
        "stdout_truncated": False,
        "stderr_truncated": False,
        "compile_ms": 0.0,
    }
    assert (found["fails"]["status"], found["fails"]["exit_code"]) == ("failed", 3)
    judged = found["judged"]
    assert (judged["verdict"], [(case["verdict"], case["message"]) for case in judged["tests"]]) == (
        "wrong_answer",
        [("accepted", ""), ("wrong_answer", "line 1 differs")],
    )


def test_named_files_are_stored_and_listed(place, environment):
    code = "open('a.csv', 'w').write('1,2')"
    programs = [line("keeps", code, outputs=["*.csv"]), line("leaves", code)]
    done = run_paddock(place, "batch", "-", *PATIENT, stdin="\n".join(programs), environment=environment)
    found = read(done.stdout)
    [file] = found["keeps"]["files"]
    assert (file["path"], file["size"]) == ("a.csv", 3)
    assert "files" not in found["leaves"]
    got = run_paddock(place, "output", "get", file["handle"], environment=environment)
    assert got.stdout == "1,2"


def test_an_invalid_line_is_answered_and_the_rest_goes_on(place, environment):
    programs = [line("a"), "not json", line("a"), line("b", unknown=1), line("c")]
    (place / "programs.jsonl").write_text("\n".join(programs))
    done = run_paddock(place, "batch", "programs.jsonl", *PATIENT, environment=environment)
    answers = [json.loads(text) for text in done.stdout.splitlines()]
    faults = sorted(
        (each["line"], each["id"], each["error"]["message"]) for each in answers if "line" in each
    )
    assert faults == [
        (2, None, "the line is not JSON: Expecting value"),
        (3, "a", "id: an earlier line has the same one; each needs its own"),
        (4, "b", "unknown: is not a field here"),
    ]
    assert sorted(each["id"] for each in answers if "line" not in each) == ["a", "c"]
    assert (done.returncode, done.stderr) == (1, "2 programs: 2 ok, 0 failed, 3 invalid lines\n")


def test_a_program_that_did_not_run_is_not_answered(place, environment):
    done = run_paddock(
        place,
        "batch",
        "-",
        stdin=f'{{"id": "x", "language": "no-such", "code": ""}}\n{line("y")}',
        environment=environment,
    )
    assert (done.returncode, done.stderr) == (1, "2 programs: 1 ok, 0 failed, 1 not run to an end\n")
    assert read(done.stdout)["x"]["error"]["message"].startswith("there is no runtime no-such")


def test_a_batch_goes_on_where_it_was_killed(place, environment):
    """Killed with SIGKILL between two answers, with a line that is torn as by a full disk."""
    programs = [line(str(number), f"print({number})") for number in range(6)]
    (place / "programs.jsonl").write_text(
        "\n".join([*programs[:3], line("waits", "import time; time.sleep(3600)")])
    )
    command = [PADDOCK, "batch", "programs.jsonl", "--output", "answers.jsonl", "--max-parallel", "1"]
    running = subprocess.Popen(command, cwd=place, env=environment, stderr=subprocess.DEVNULL)
    answers = place / "answers.jsonl"
    try:
        wait_for_lines(answers, 3)
    finally:
        running.kill()
        running.wait(PATIENCE_S)
    before = answers.read_bytes()
    answers.write_bytes(before + b'{"id": "3", "stat')
    (place / "programs.jsonl").write_text("\n".join(programs))
    done = run_paddock(
        place, "batch", "programs.jsonl", "--output", "answers.jsonl", *PATIENT, environment=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "",
        "3 programs: 3 ok, 0 failed; 3 answers kept from before\n",
    )
    assert answers.read_bytes().startswith(before)
    assert {name: each["stdout"] for name, each in read(answers.read_text()).items()} == {
        str(number): f"{number}\n" for number in range(6)
    }
    again = run_paddock(
        place, "batch", "programs.jsonl", "--output", "answers.jsonl", *PATIENT, environment=environment
    )
    assert again.stderr == "0 programs: 0 ok, 0 failed; 6 answers kept from before\n"


def wait_for_lines(path, number):
    """Wait until a file has so many lines."""
    watch = subprocess.run(
        ["timeout", str(PATIENCE_S), "sh", "-c", f'until [ "$(wc -l < "{path}" 2>/dev/null)" -ge {number} ] 2>/dev/null; '
         "do sleep 0.05; done"],
        check=False,
    )  # fmt: skip
    assert watch.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_was_answered(place, environment, number):
    reader, writer = os.pipe()
    command = [PADDOCK, "batch", "-", "--output", "answers.jsonl"]
    with os.fdopen(reader, "rb") as given, os.fdopen(writer, "w") as programs:
        running = subprocess.Popen(
            command, cwd=place, env=environment, stdin=given, stderr=subprocess.PIPE, text=True
        )
        try:
            programs.write(f"{line('a')}\n{line('waits', 'import time; time.sleep(3600)')}\n")
            programs.flush()
            wait_for_lines(place / "answers.jsonl", 1)
            running.send_signal(number)
            _, told = running.communicate(timeout=PATIENCE_S)  # although standard input stays open
        finally:
            running.kill()
    assert (running.returncode, told) == (128 + number, "1 program: 1 ok, 0 failed\n")
    assert set(read((place / "answers.jsonl").read_text())) == {"a"}


def test_a_file_of_something_else_is_not_touched(place, environment):
    (place / "programs.jsonl").write_text(line("a"))
    done = run_paddock(
        place, "batch", "programs.jsonl", "--output", "programs.jsonl", environment=environment
    )
    assert (done.returncode, done.stderr) == (
        1,
        "programs.jsonl: line 1 is no answer of `paddock batch`, so nothing was written; name another file with "
        "--output\n",
    )
    assert (place / "programs.jsonl").read_text() == line("a")


def test_a_reader_that_leaves_ends_the_batch(place, environment):
    programs = "\n".join(line(str(number)) for number in range(200))
    done = subprocess.run(
        ["bash", "-c", f'"{PADDOCK}" batch - | head -1; exit "${{PIPESTATUS[0]}}"'],
        cwd=place, env=environment, input=programs, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 141
    assert len(done.stdout.splitlines()) == 1
