"""`paddock sequence` as people call it."""

import json
import os
import re

import pytest
from tests.support.command import run_paddock

FLOW = """
description = "Greets"
required = ["NAME"]
[[step]]
name = "greet"
script = "greet"
vars = {NAME = "${NAME}"}
[[step]]
name = "fail"
script = "greet"
when = "NAME == 'nobody'"
input = "${steps.none}"
"""


@pytest.fixture
def paddock(tmp_path):
    for name, text in (
        ("sequences/flow.toml", FLOW.replace("none", "greet.missing")),
        ("sequences/broken.toml", "step = 1"),
        ("scripts/greet.js", "console.log('in the script'); return 'Hello, ' + paddock.vars.NAME"),
    ):
        path = tmp_path / ".paddock" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def call(*arguments):
        environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
        done = run_paddock(tmp_path, "sequence", *arguments, environment=environment)
        return done.returncode, done.stdout, re.sub(r"\(\d+ ms\)", "(N ms)", done.stderr)

    return call


def test_the_name_of_a_server_may_hold_slashes(paddock, tmp_path):
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a/b": {"command": "/nowhere/at/all"}}}')
    (tmp_path / ".paddock/sequences/call.toml").write_text("[[step]]\nname = 'call'\nserver = 'a/b/c'\n")
    code, _, told = paddock("run", "call")
    assert code == 1
    assert "server a/b" in told.replace("Server", "server")


def test_run(paddock):
    told = "in the script\ngreet: ok (N ms)\nfail: skipped\n"
    assert paddock("run", "flow", "--var", "NAME=world") == (0, "Hello, world\n", told)
    code, out, err = paddock("run", "flow", "--var", "NAME=world", "--json")
    assert (code, err) == (0, told)
    assert [step.get("value") for step in json.loads(out)["steps"]] == ["Hello, world", None]


def test_a_failing_step_is_exit_code_1(paddock):
    why = "${steps.greet.missing}: there is no 'missing'"
    told = f"in the script\ngreet: ok (N ms)\nfail: invalid (N ms): {why}\n"
    assert paddock("run", "flow", "--var", "NAME=nobody") == (1, "", told)


def test_misuse(paddock):
    assert paddock("run", "flow") == (
        1,
        "",
        "sequence flow needs the variable NAME, which was not given; give it with --var NAME=VALUE, or in `vars` of a program or a schedule\n",
    )
    code, out, err = paddock("run", "flwo")
    assert (code, out, err.splitlines()[0]) == (1, "", "there is no sequence called flwo")
    assert err.endswith("did you mean: flow?\n")


def test_list_and_show(paddock, tmp_path):
    problem = f"{tmp_path}/.paddock/sequences/broken.toml: step: Input should be a valid tuple"
    assert paddock("list") == (0, f"broken\t\t{problem}\nflow\tGreets\t\n", "")
    facts = {"name": "flow", "description": "Greets", "vars": {}, "required": ["NAME"], "steps": 2}
    assert json.loads(paddock("list", "--json")[1]) == [{"name": "broken", "problem": problem}, facts]
    assert paddock("show", "flow") == (
        0,
        "variable\tNAME\trequired\nscript\tgreet\tgreet\nscript\tfail\tgreet\n",
        "",
    )
    shown = json.loads(paddock("show", "flow", "--json")[1])
    assert shown["step"][0] == {"name": "greet", "script": "greet", "vars": {"NAME": "${NAME}"}}
