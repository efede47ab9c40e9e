"""`paddock runtimes`, on a machine that has everything and on one that has little."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.command import make_environment, run_paddock

from paddock.engines.programs.recipe import recipes


@pytest.fixture
def paddock(tmp_path):
    """Run the command in an empty workspace and with an own home; return exit code, output and errors."""

    def run(*words, path):
        environment = make_environment(tmp_path, PATH=path, XDG_STATE_HOME=str(tmp_path / "state"))
        return run_paddock(tmp_path, *words, environment=environment)

    return run


def test_every_runtime_greets_through_the_gate(paddock, toolchain_path):
    code, text, errors = paddock("runtimes", "--check", "--json", path=toolchain_path)
    rows = json.loads(text)
    states = {row["runtime"]: row["state"] for row in rows}
    assert states == {name: "missing" if name == "powershell" else "works" for name in recipes()}, rows
    assert (code, errors) == (0, "")
    assert [row["runtime"] for row in rows if not row["version"]] == ["powershell"]
    assert all(row["ms"] > 0 for row in rows if row["state"] == "works")


SLOW = """#!/bin/sh
case $1 in
version) echo go version go9.9;;
env) dirname "$(dirname "$0")";;
*) sleep 3600;;
esac
"""


def test_a_compiler_that_is_too_slow_comes_with_its_remedy(paddock):
    wall = ("--set", "runtimes.timeout_ms=500")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:  # where the user of programs can look
        program = Path(place, "go/bin/go")
        program.parent.mkdir(parents=True)
        program.write_text(SLOW)
        for path in (Path(place), program):
            path.chmod(0o755)
        path = f"{program.parent}:/usr/bin:/bin"
        _, text, _ = paddock("runtimes", "--check", "--json", *wall, path=path)
        ran = paddock("exec", "go", "-c", "package main", *wall, path=path)
        alone = paddock("exec", "go", *wall, "--", "test", "./...", path=path)
    [row] = [row for row in json.loads(text) if row["runtime"] == "go"]
    remedy = (
        "it had 500 ms; runtimes.timeout_ms is the maximum; "
        "run `paddock runtimes warm go` once to make its compiler faster"
    )
    assert (row["state"], row["reason"], row["remedy"]) == (
        "fails",
        "The compiler ran out of time",
        remedy,
    )
    assert ran == (124, "", f"The compiler ran out of time\n  hint: {remedy}\n")
    assert alone == (124, "", f"The program ran out of time\n  hint: {remedy}\n")


def test_runtimes_doctor_and_exec_speak_of_the_same_interpreter(paddock, toolchain_path):
    """Also where it is in a home that only programs with a workspace get at."""
    base = Path(sys.base_prefix, "bin")
    for path in (f"{base}:{toolchain_path}", toolchain_path, "/usr/bin:/bin"):
        code, told, _ = paddock("exec", "python", "-c", "import sys; print(sys.executable)", path=path)
        _, rows, _ = paddock("runtimes", "--json", path=path)
        _, facts, _ = paddock("doctor", "--json", path=path)
        [row] = [row for row in json.loads(rows) if row["runtime"] == "python"]
        assert (code, row["executable"]) == (0, told.strip())
        assert json.loads(facts)["python"] == {"state": "available", "executable": told.strip()}


@pytest.mark.usefixtures("as_root")
def test_an_interpreter_of_programs_without_the_workspace_is_told_apart(paddock):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as closed:  # to the user of programs
        shutil.copy("/bin/bash", f"{closed}/bash")
        path = f"{closed}:/usr/bin:/bin"
        _, rows, _ = paddock("runtimes", "--json", path=path)
        usual, alone = (
            paddock("exec", "shell", "-c", "echo $BASH", *words, path=path)[1].strip()
            for words in ((), ("--access", "none"))
        )
        failed = paddock("exec", "shell", "-c", "cat rows.csv", "--access", "none", path=path)
    [row] = [row for row in json.loads(rows) if row["runtime"] == "shell"]
    assert (
        (row["executable"], row["note"])
        == (usual, f"with --access none: {alone}")
        == (
            f"{closed}/bash",
            f"with --access none: {Path(shutil.which('bash', path='/usr/bin:/bin')).resolve()}",
        )
    )
    assert failed[2].endswith("request the access read-only, which runtimes.access must allow\n")


def test_what_is_missing_comes_with_its_remedy(paddock):
    code, text, errors = paddock("runtimes", path="/nowhere")
    lines = [line.split("\t") for line in text.splitlines()]
    assert (code, errors) == (0, "")
    assert lines[2] == [
        "python",
        "missing",
        "",
        "",
        "",
        "python3 or python is not on PATH; paddock runtimes install python",
    ]
    assert {line[1] for line in lines} == {"missing"}


def test_install_only_prints_unless_told(paddock):
    code, text, errors = paddock("runtimes", "install", "ruby", "perl", path="/usr/bin:/bin")
    apt = "apt-get" if os.geteuid() == 0 else "sudo apt-get"
    install = f"{apt} install --yes --no-install-recommends"
    assert text == f"{apt} update\n{install} ruby\n{install} perl\n"
    assert (code, errors) == (0, "")


def test_install_prints_what_can_be_installed_and_tells_of_the_rest(paddock):
    code, text, errors = paddock("runtimes", "install", "powershell", "ruby", path="/usr/bin:/bin")
    assert (code, text.endswith("install --yes --no-install-recommends ruby\n")) == (1, True)
    assert (
        errors == "PowerShell needs brew or the powershell package of its makers, which this machine lacks\n"
    )


def test_an_unknown_runtime_is_refused_by_name(paddock):
    code, _, errors = paddock("runtimes", "install", "cobol", path="/usr/bin:/bin")
    assert code == 2
    assert "there is no runtime cobol; there are node, typescript, python," in errors


def test_warm_needs_the_toolchain(paddock):
    code, text, errors = paddock("runtimes", "warm", "kotlin", path="/nowhere")
    assert (code, text) == (1, "")
    assert errors == "Kotlin: kotlinc is not on PATH; paddock runtimes install kotlin\n"


def test_warm_makes_nothing_twice(paddock, toolchain_path):
    code, text, _ = paddock("runtimes", "warm", "java", "--json", path=toolchain_path)
    made = Path(json.loads(text)["java"])
    assert (code, [path.name for path in made.iterdir()]) == (0, ["javac.jsa"])
    before = made.stat().st_mtime_ns
    paddock("runtimes", "warm", "java", path=toolchain_path)
    assert made.stat().st_mtime_ns == before
