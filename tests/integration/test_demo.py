"""`make demo` keeps its promises, on a repository with one commit too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
IDENTITY = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]


def git(*arguments, cwd):
    subprocess.run(
        ["git", *IDENTITY, *arguments], cwd=cwd, check=True, capture_output=True, timeout=PATIENCE_S
    )


def demo(state, repository):
    """Run the demo with the installed servers of the tests, and return exit code and standard output."""
    command = [sys.executable, ROOT / "scripts" / "demo.py", "--state", state, "--repository", repository]
    home = {"HOME": str(state.parent), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def state(tmp_path, real_servers):
    """A directory for the demo's files in which the servers are installed already."""
    installed = next(
        path for path in Path(real_servers.everything[1]).parents if (path / "complete").exists()
    )
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "servers").symlink_to(installed)
    return tmp_path / "state"


@pytest.fixture
def history(tmp_path):
    """A repository with three commits that say what they changed."""
    place = tmp_path / "project"
    (place / "src").mkdir(parents=True)
    git("init", "--quiet", cwd=place)
    (place / "pyproject.toml").write_text('[project]\nname = "ship"\nversion = "1.2.3"\n')
    for number, name in enumerate(["pyproject.toml", "src/keel.py", "src/mast.py"], 1):
        (place / name).touch()
        (place / "log.md").write_text(f"Commit: {'0' * 40}\n{number}\n")
        git("add", ".", cwd=place)
        git("commit", "--quiet", "-m", f"Build {name}", cwd=place)
    return place


def report(printed):
    """Return the part of the demo's output that tells what the program found."""
    return printed.split("--json\n", 1)[1].split('"remembered"')[0]


def test_the_demo_reads_a_history(state, history):
    code, printed, errors = demo(state, history)
    assert (code, errors) == (0, ""), printed
    assert report(printed) == (
        'ship 1.2.3: 3 commits, the last one is "Build src/mast.py"\n'
        "   3  log.md\n"
        "   2  src/\n"
        "   1  pyproject.toml\n"
        '{\n  "project": "ship 1.2.3",\n  "commits": 3,\n  "authors": 1,\n  "areas": 3,\n  '
    )
    assert '  {"cities": {"Oslo": 2, "Rome": 0}, "total": 2}\n' in printed
    assert (
        "  refused: Input validation failed: Field 'at_most': 99 is greater than the maximum of 60\n"
        in printed
    )
    assert "  step read: ok\n  step count: ok\n  step sentence: ok\n  it froze 2 times\n" in printed
    assert "  found: reading 12345 SENSOR FAULT\n" in printed
    assert re.search("^  (timeout|unavailable) after ", printed, re.MULTILINE)
    assert "  memory_limit after " in printed
    assert ": EvalError: " in printed
    assert printed.endswith("\nDone\n----\n")


def test_the_demo_reads_a_shallow_clone_with_one_commit(state, history, tmp_path):
    git("clone", "--quiet", "--depth", "1", history.as_uri(), "shallow", cwd=tmp_path)
    code, printed, errors = demo(state, tmp_path / "shallow")
    assert (code, errors) == (0, ""), printed
    assert report(printed) == (
        'ship 1.2.3: 1 commit, the last one is "Build src/mast.py"\n'
        "   1  log.md\n"
        "   1  pyproject.toml\n"
        "   1  src/\n"
        '{\n  "project": "ship 1.2.3",\n  "commits": 1,\n  "authors": 1,\n  "areas": 3,\n  '
    )


def test_the_demo_says_what_is_not_as_promised(state, tmp_path):
    (tmp_path / "empty").mkdir()
    code, printed, _ = demo(state, tmp_path / "empty")
    assert code == 1
    assert "\nNot as promised\n---------------\n  demo.ts: failed: " in printed
