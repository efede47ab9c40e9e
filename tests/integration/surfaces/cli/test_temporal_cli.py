"""`paddock temporal` as people call it."""

import json
import os
import signal
import subprocess

import pytest
from tests.support.command import PADDOCK, run_paddock
from tests.support.processes import PATIENCE_S


@pytest.fixture
def paddock(tmp_path):
    for name, text in (
        ("temporals/tick.toml", "sequence = 'flow'\nevery = '1s'\nvars = {A = 'x'}\n"),
        ("temporals/broken.toml", "sequence = 1\n"),
        ("sequences/flow.toml", "vars = {A = ''}\n[[step]]\nname = 'a'\nscript = 's'\nvars = {A = '${A}'}\n"),
        ("scripts/s.js", "return paddock.vars.A"),
    ):
        path = tmp_path / ".paddock" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}

    def start(*arguments):
        return subprocess.Popen(
            [PADDOCK, "temporal", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environment,
            text=True,
        )

    return start


def test_fire_and_list(paddock, tmp_path):
    out, _ = paddock("list", "--json").communicate(timeout=PATIENCE_S)
    broken, tick = json.loads(out)
    assert broken["problem"].endswith("broken.toml: sequence: Input should be a valid string")
    assert (tick["name"], tick["sequence"], tick["last"]) == ("tick", "flow", None)
    firing = paddock("fire", "tick", "--json")
    out, err = firing.communicate(timeout=PATIENCE_S)
    answer = json.loads(out)
    assert (firing.returncode, answer["name"], answer["ok"]) == (0, "tick", True)
    assert answer["sequence"]["steps"][0]["value"] == "x"
    assert err.startswith("a: ok (")
    assert json.loads(paddock("list", "--json").communicate(timeout=PATIENCE_S)[0])[1]["last"] is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_runs_what_is_due_and_ends_in_order(paddock, tmp_path, number):
    (tmp_path / ".paddock" / "temporals" / "broken.toml").unlink()
    serving = paddock("serve", "--json")
    line = json.loads(serving.stdout.readline())
    serving.send_signal(number)
    serving.communicate(timeout=PATIENCE_S)
    assert (line["name"], line["ok"], line["problem"]) == ("tick", True, "")
    assert serving.returncode == 0
    where = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    checked = run_paddock(None, "audit", "verify", "--json", environment=where)
    assert json.loads(checked.stdout)["ok"] is True


def test_a_file_with_mistakes_is_told_before_anything_is_served(paddock):
    serving = paddock("serve")
    _, err = serving.communicate(timeout=PATIENCE_S)
    assert serving.returncode == 1
    assert err.endswith("broken.toml: sequence: Input should be a valid string\n")
