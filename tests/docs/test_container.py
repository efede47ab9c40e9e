"""The Dockerfile without a container engine: what it says, and its steps carried out in a scratch directory."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser

from paddock.engines.programs.install import NotInstallableError, commands
from paddock.engines.programs.recipe import recipes

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
USER = 10001
IN_EVERY_IMAGE = {"node", "python", "shell"}
FROM_ITS_MAKERS = {"powershell"}
AS_IN_A_CONTAINER = f"""
import os, sys
sys.path.insert(0, {str(ROOT / "tests" / "escape" / "processes")!r})
import places
places.enter("docker")
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid({USER}, {USER}, {USER})
    os.setresuid({USER}, {USER}, {USER})
os.execv(sys.argv[1], sys.argv[1:])
"""


def steps(instruction):
    """Return the values of an instruction for each stage."""
    stages = []
    with tempfile.TemporaryFile() as file:
        parser = DockerfileParser(fileobj=file)
        parser.content = TEXT
        for step in parser.structure:
            if step["instruction"] == "FROM":
                stages.append([])
            elif step["instruction"] == instruction:
                stages[-1].append(step["value"])
    return stages


def bare(command):
    """Return a command with single spaces and without make's names for things."""
    names = {
        "$(UV)": ".venv/bin/uv",
        "$(WHEEL_VENV)": "/opt/paddock",
        "$(VENV)": ".venv",
        "\\": "",
        '--python "$(PYTHON)"': "",  # an image has one, which it names in UV_PYTHON
        "--no-dev": "",
    }
    for name, stands_for in names.items():
        command = command.replace(name, stands_for)
    return " ".join(command.split()).lstrip("@")


def test_the_linter_has_nothing_to_say():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, "-"], input=TEXT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_what_is_copied_is_there_and_not_ignored():
    first, last = steps("COPY")
    sources = [source for value in first for source in value.split()[:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert kept == set(sources)
    assert last == ["--from=build /opt/paddock /opt/paddock"]


def test_it_runs_as_an_ordinary_user_in_debian_12():
    assert steps("USER") == [[], [f"{USER}:{USER}"]]
    images = re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE)
    assert len(images) == 2
    assert len({*images}) == 1
    assert re.fullmatch(r"node:24\.\d+\.\d+-bookworm-slim@sha256:[0-9a-f]{64}", images[0])


def test_it_builds_as_make_does():
    made = {bare(line) for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("\t")}
    made |= {
        bare(line).replace('"$python"', "python3")
        for line in (ROOT / "scripts/bootstrap").read_text().splitlines()
    }
    commands = [bare(part) for value in steps("RUN")[0][1:] for part in value.split("&&")]
    assert len(commands) == 5
    assert [command for command in commands if command not in made] == []


def test_the_languages_of_the_guide_can_be_had_in_the_image():
    """The image has apt-get and npm."""
    [line] = re.findall(r'RUNTIMES="(.*)"', (ROOT / "docs" / "docker.md").read_text())
    assert line.split() == [name for name in recipes() if name not in IN_EVERY_IMAGE | FROM_ITS_MAKERS]
    for name in line.split():
        assert commands(recipes()[name], Path("/there"), has={"apt", "npm"}.__contains__), name
    with pytest.raises(
        NotInstallableError, match="PowerShell needs brew or the powershell package of its makers"
    ):
        commands(recipes()["powershell"], Path("/there"), has={"apt", "npm"}.__contains__)
    [run] = [value for value in steps("RUN")[1] if "RUNTIMES" in value]
    assert "paddock runtimes install --yes ${RUNTIMES}" in run


def test_the_health_check_asks_the_port_that_is_served():
    [[], [value]] = steps("HEALTHCHECK")
    _, _, command = value.partition("CMD ")
    python, flag, code = json.loads(command)
    assert (python, flag) == ("/opt/paddock/bin/python", "-c")
    compile(code, "health", "exec")
    assert "'127.0.0.1', 8700" in code
    assert steps("EXPOSE") == [[], ["8700"]]


def test_the_guide_runs_the_servers_own_command():
    told = (ROOT / "docs" / "docker.md").read_text().replace(" \\\n ", "")
    [[], [command]] = steps("CMD")
    assert f"paddock {' '.join(json.loads(command))} --token-file" in told
    assert "--publish 127.0.0.1:8700:8700" in told


def test_its_steps_make_a_paddock_that_confines_in_a_container():
    """Build and install as the Dockerfile does, then ask `doctor` as its user under the denials of Docker."""
    scratch = Path(tempfile.mkdtemp(prefix="paddock-image-"))
    try:
        scratch.chmod(0o755)
        source, target, state = scratch / "source", scratch / "opt", scratch / "state"
        source.mkdir()
        state.mkdir()
        if os.geteuid() == 0:
            os.chown(state, USER, USER)
        ignored = shutil.ignore_patterns("__pycache__", "vendor")
        for path in (each for value in steps("COPY")[0] for each in value.split()[:-1]):
            if (ROOT / path).is_dir():
                shutil.copytree(ROOT / path, source / path, ignore=ignored)
            else:
                shutil.copy(ROOT / path, source / path)
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        environment = {
            **os.environ,
            "UV_PYTHON": python,
            "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
        }
        environment.pop("VIRTUAL_ENV", None)
        for value in steps("RUN")[0][1:]:
            step = value.replace("/opt/paddock", str(target))
            subprocess.run(
                ["/bin/bash", "-euo", "pipefail", "-c", step],
                cwd=source,
                env=environment,
                check=True,
                timeout=500,
            )
        (source / "dist").rename(scratch / "dist")
        shutil.rmtree(source)  # what is left of it must not be needed
        subprocess.run(["chmod", "-R", "a+rX", target], check=True)
        command = [
            sys.executable,
            "-c",
            AS_IN_A_CONTAINER,
            str(target / "bin" / "paddock"),
            "doctor",
            "--json",
        ]
        done = subprocess.run(
            command,
            env={"PATH": f"{target}/bin:/usr/bin:/bin", "HOME": str(state), "XDG_STATE_HOME": str(state)},
            cwd=state,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        tiers = {each["tier"]: each["proved"] for each in json.loads(done.stdout)["tiers"]}
        assert tiers == {"namespaces": False, "landlock": True, "unconfined": False}
    finally:
        shutil.rmtree(scratch)
