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


GRANTING = '[runtimes]\naccess = "overlay"\n'
ACCEPTING = """
[[step]]
name = "format"
runtime = "shell"
access = "overlay"
code = "echo formatted > out.txt; echo other > other.txt"
[[step]]
name = "test"
runtime = "shell"
code = "exit ${CODE}"
on_failure = "continue"
[[step]]
name = "keep"
accept = "format"
paths = ["out.txt"]
when = "steps.test.ok"
"""


def test_a_step_accepts_what_an_earlier_one_changed_where_a_rule_allows_it(paddock, tmp_path):
    settings = tmp_path / ".config/paddock/paddock.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(GRANTING)
    for name, code in (("bad", 1), ("good", 0)):
        (tmp_path / f".paddock/sequences/{name}.toml").write_text(ACCEPTING.replace("${CODE}", str(code)))
    assert paddock("run", "bad")[2].splitlines()[-1] == "keep: skipped"
    assert not (tmp_path / "out.txt").exists()
    code, _, told = paddock("run", "good")  # there is nobody to ask
    assert (code, (tmp_path / "out.txt").exists()) == (1, False), told
    settings.write_text(f'{GRANTING}[[policy.rule]]\nchanges = "accept"\neffect = "allow"\n')
    code, out, told = paddock("run", "good", "--json")
    assert code == 0, told
    assert json.loads(out)["steps"][2]["value"]["paths"] == ["out.txt"]
    assert (tmp_path / "out.txt").read_text() == "formatted\n"
    assert not (tmp_path / "other.txt").exists()


def test_a_step_that_changed_nothing_leaves_nothing_to_accept(paddock, tmp_path):
    text = ACCEPTING.replace("${CODE}", "0").replace(
        "echo formatted > out.txt; echo other > other.txt", "true"
    )
    settings = tmp_path / ".config/paddock/paddock.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(GRANTING)
    (tmp_path / ".paddock/sequences/empty.toml").write_text(text)
    code, _, told = paddock("run", "empty")
    assert (code, told.splitlines()[-1]) == (0, "keep: skipped")
    (tmp_path / ".paddock/sequences/wrong.toml").write_text(text.replace('"format"\npaths', '"test"\npaths'))
    code, _, told = paddock("run", "wrong")
    assert code == 1
    assert 'step test has no changes to accept: it did not run with `access = "overlay"`' in " ".join(
        told.split()
    )
    (tmp_path / ".paddock/sequences/later.toml").write_text(text.replace('"format"\npaths', '"keep"\npaths'))
    assert "step keep accepts the changes of keep, which is no earlier step" in " ".join(
        paddock("run", "later")[2].split()
    )
