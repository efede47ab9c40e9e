"""`paddock compute` as people use it: exit code, both streams, and nothing else on them."""

import json
import signal
import subprocess
import time

import pytest
from tests.support.command import PADDOCK, make_environment, run_paddock
from tests.support.processes import PATIENCE_S


@pytest.fixture
def environment(tmp_path):
    return make_environment(tmp_path)


@pytest.fixture
def run(tmp_path, environment):
    """Run the command; return exit code, standard output and standard error."""

    def run(stdin, *arguments, **variables):
        given = stdin if isinstance(stdin, bytes) else json.dumps(stdin)
        where = {**environment, **variables}
        return run_paddock(tmp_path, "compute", *arguments, stdin=given, environment=where)

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


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"code": "emit(1)"}, "`code` is unknown; known: source, input, limits; `source` is missing"),
        ({"source": "emit(1)", "inptu": "x"}, "`inptu` is unknown; did you mean `input`?"),
        ({"source": 5}, "`source` must be a text, not 5"),
        ({"source": ""}, "`source` is empty"),
        ({"source": "emit(1)", "limits": {"timeout_ms": 50.5}}, "`limits.timeout_ms` must be a whole number, not 50.5"),
        ({"source": "emit(1)", "limits": {"timout_ms": 50}}, "`limits.timout_ms` is unknown; did you mean `timeout_ms`?"),
        ({"source": "emit(1)", "limits": {"partial": 1}}, "`limits.partial` must be true or false, not 1"),
        ({"source": "emit(1)", "limits": {"timeout_ms": 5, "timeoutMs": 5}}, "`timeout_ms` and `timeoutMs` are one argument, given twice: give `limits.timeout_ms` alone"),
        ({"source": "emit(1)", "limits": {"timeout_ms": 5, "wallMs": 5}}, "`limits.wall_ms` is the deprecated name of `limits.timeout_ms`, which is also given; remove `limits.wall_ms`"),
        ([1], "the value must be an object, not a list"),
    ],
)  # fmt: skip
def test_a_request_that_makes_no_sense_is_explained_as_by_other_commands(run, body, told):
    code, output, errors = run(body)
    assert (code, output, json.loads(errors)) == (1, "", {"code": "INVALID_INPUT", "message": told})


@pytest.mark.parametrize(
    "body",
    [
        {"source": "emit(1)", "input": None, "limits": None},
        {"source": "emit(1)", "limits": {"wall_ms": None, "output_kb": "64", "partial": "true"}},
        {"source": "emit(1)", "limits": {"timeoutMs": 5e3}},
        {"source": "emit(1)", "limits": {"wallMs": 5e3}},
    ],
)
def test_a_request_is_read_as_an_agents_arguments_are(run, body):
    assert run(body) == (0, '{"output":"1"}\n', "")


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
        '{"code":"DENIED","message":"timeout_ms = 600001 exceeds the maximum of 600000 '
        '(limits.compute.max_timeout_ms); ask for less, or raise the maximum in paddock.toml"}\n'
    )
    assert run({"source": "emit(1)", "limits": {"timeout_ms": 600_001}}) == (1, "", told)
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
        assert process.wait(PATIENCE_S) == 130
        assert process.stdout.read() == ""
        assert process.stderr.read() == '{"code":"CANCELLED","message":"cancelled"}\n'


def wait_for_record(audit):
    """Return once something is on the record, that is: the gate has begun."""
    deadline = time.monotonic() + 30
    while not any(b'"started"' in path.read_bytes() for path in audit.glob("*.ndjson")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
