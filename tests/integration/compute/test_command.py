"""`paddock compute` as people use it: exit code, both streams, and nothing else on them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PADDOCK = str(Path(sys.executable).with_name("paddock"))


@pytest.fixture
def environment(tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}


@pytest.fixture
def run(tmp_path, environment):
    """Run the command; return exit code, standard output and standard error."""

    def run(stdin, *arguments, **variables):
        done = subprocess.run(
            [PADDOCK, "compute", *arguments],
            cwd=tmp_path,
            env={**environment, **variables},
            input=stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode(),
            capture_output=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def test_g1_g2_g5_g9_streams_and_exit_codes(run):
    assert run({"source": "emit(read_input())", "input": "hello"}) == (0, '{"output":"hello"}\n', "")
    assert run({"source": "emit(read_input())", "input": "a" * 1500, "limits": {"output_kb": 1}}) == (
        1,
        f'{{"output":"{"a" * 1024}"}}\n',
        '{"code":"OUTPUT_LIMIT","message":"output exceeded 1 KB"}\n',
    )
    told = '{"code":"EVAL_ERROR","message":"Error: boom at \\u003ceval\\u003e:1:7"}\n'
    assert run({"source": "throw new Error('boom')"}) == (1, "", told)
    told = '{"code":"INVALID_INPUT","message":"invalid JSON: Expecting value: line 1 column 1 (char 0)"}\n'
    assert run(b"not-json") == (1, "", told)
    assert run(b"") == (1, "", told)
    told = "SyntaxError: Half of a character (a lone surrogate); write it as an escape like \\\\ud83d"
    assert run(rb'{"source": "emit(\ud83d)"}') == (1, "", f'{{"code":"EVAL_ERROR","message":"{told}"}}\n')


def test_the_whole_outcome(run):
    code, output, errors = run({"source": "emit(1); throw 5", "limits": {"partial": True}}, "--json")
    outcome = json.loads(output)
    assert (code, errors) == (1, "")
    assert (outcome["status"], outcome["value"], outcome["error"]["line"]) == ("failed", "1", 1)
    assert outcome["decision"]["grants"]["servers"] == []


def test_a_request_has_a_size(run):
    setting = ("--set", "limits.compute.frame_bytes=100")
    told = '{"code":"INVALID_INPUT","message":"invalid JSON: the request is larger than 100 bytes"}\n'
    assert run({"source": "emit(1)", "input": "x" * 100}, *setting) == (1, "", told)


def test_what_is_not_allowed(run):
    told = (
        '{"code":"DENIED","message":"timeout_ms = 600001 is over the ceiling of 600000 '
        '(limits.compute.max_timeout_ms); ask for less or raise the ceiling in paddock.toml"}\n'
    )
    assert run({"source": "emit(1)", "limits": {"wall_ms": 600_001}}) == (1, "", told)
    told = '{"code":"DENIED","message":"Code size exceeds limit (1048576 bytes)"}\n'
    assert run({"source": " " * 2**20 + "1"}) == (1, "", told)


def test_g28_the_directory_of_the_record_is_not_writable(run, tmp_path):
    (tmp_path / "audit").write_text("no directory")
    variables = {"PADDOCK_AUDIT_DIRECTORY": str(tmp_path / "audit")}
    code, output, errors = run({"source": "emit(1)"}, **variables)
    assert (code, output, json.loads(errors)["code"]) == (1, "", "ERROR")
    assert "Nothing runs without its record" in errors
    variables["PADDOCK_AUDIT_REQUIRED"] = "effects"
    assert run({"source": "emit(1)"}, **variables) == (0, '{"output":"1"}\n', "")


def test_an_interrupt_ends_in_order(tmp_path, environment):
    command = [PADDOCK, "compute"]
    audit = tmp_path / "audit"
    environment = {**environment, "PADDOCK_AUDIT_DIRECTORY": str(audit)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        process.stdin.write('{"source": "for (;;) {}", "limits": {"wall_ms": 60000}}')
        process.stdin.close()
        wait_for_record(audit)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stdout.read() == ""
        assert process.stderr.read() == '{"code":"CANCELLED","message":"cancelled"}\n'


def wait_for_record(audit):
    """Return once something is on the record, that is: the gate has begun."""
    deadline = time.monotonic() + 30
    while not any(b'"started"' in path.read_bytes() for path in audit.glob("*.ndjson")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
