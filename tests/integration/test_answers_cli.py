"""What `paddock exec` answers, and what `paddock output` finds of it: real programs, one after the other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PADDOCK = Path(sys.executable).with_name("paddock")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A workspace, and no settings but its own."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (workspace := tmp_path / "workspace").mkdir()
    return workspace


def paddock(place, *args):
    """Return exit code, output and errors; programs have two minutes."""
    patience = ("--set", "runtimes.timeout_ms=120000") if args[0] == "exec" else ()
    done = subprocess.run(
        [PADDOCK, *args, *patience], capture_output=True, text=True, cwd=place, check=False, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


def answer(place, code, *options):
    """Return the response to a shell program."""
    _, out, err = paddock(place, "exec", "shell", "-c", code, "--json", *options)
    assert err == ""
    return json.loads(out)


def artifacts(place):
    directory = place.parent / "XDG_STATE_HOME/paddock/artifacts"
    return sorted(path.name for path in directory.glob("runtime-*")) if directory.exists() else []


def test_s32_s39_minimal_then_query(place):
    found = answer(place, "printf 'a\\nb\\nc\\n'; echo 'token=a1b2c3d4e5' >&2; exit 42")
    assert (found["status"], found["exitCode"], found["signal"]) == ("failure", 42, None)
    assert (found["outputLines"], found["outputBytes"]) == (6, 23)
    assert (found["stdoutSummary"], found["stderrSummary"]) == ("", "")
    assert found["sandbox"]["tier"] in ("namespaces", "landlock")
    assert artifacts(place) == [found["artifactHandle"]]
    code, out, err = paddock(
        place, "output", "query", found["artifactHandle"], "-t", "secret", "-t", "B", "--context", "0"
    )
    assert (code, out, err) == (0, "stdout:2: b\n--\nstderr:1: token=[REDACTED:secret]\n", "")
    _, out, _ = paddock(place, "output", "show", found["artifactHandle"], "--json")
    manifest = json.loads(out)["manifest"]
    assert {
        key: manifest[key] for key in ("workspace", "runtime", "status", "phase", "exitCode", "stdoutBytes")
    } == {
        "workspace": str(place),
        "runtime": "shell",
        "status": "failed",
        "phase": "run",
        "exitCode": 42,
        "stdoutBytes": 6,
    }
    assert manifest["policyAuditHash"] == found["policyDecision"]["auditHash"]


def test_s33_s34_summary_of_a_real_program(place):
    found = answer(place, "seq 300; seq 100 >&2", "--mode", "summary", "--max-lines", "20")
    head = "\n".join(str(number) for number in range(1, 11))
    tail = "\n".join(str(number) for number in range(291, 301))
    assert found["stdoutSummary"] == f"{head}\n\n... (280 lines omitted) ...\n\n{tail}"
    assert found["stderrSummary"] == "96\n97\n98\n99\n100"


def test_s36_s37_intent(place):
    found = answer(place, "seq 100000", "--mode", "intent", "--query", "99999")
    [excerpt] = found["excerpts"]
    assert excerpt == {
        "lineStart": 99996,
        "lineEnd": 100000,
        "content": "99996\n99997\n99998\n99999\n100000",
        "source": "stdout",
    }
    assert "excerpts" not in answer(place, "seq 10", "--mode", "intent", "--query", "absent")


def test_s40_nothing_is_kept_when_nobody_wants_it(place):
    found = answer(place, "echo x", "--no-keep")
    assert (found["artifactHandle"], "notKept" in found) == (None, False)
    assert artifacts(place) == []


def test_s41_more_than_the_limit_is_not_kept(place):
    found = answer(place, "head -c 2000 /dev/zero", "--set", "artifacts.max_bytes=1024")
    assert (found["status"], found["artifactHandle"], found["outputBytes"]) == ("success", None, 2000)
    assert found["notKept"] == "output is not kept: it is larger than artifacts.max_bytes = 1024"
    assert artifacts(place) == []


def test_s43_patterns_of_settings_hold_live_and_stored(place):
    (place / "paddock.toml").write_text(
        '[[redaction.patterns]]\nname = "employee"\npattern = "emp-[0-9]+"\n'
        '[[redaction.patterns]]\nname = "bad"\npattern = "(?=x)"\n'
    )
    code, out, err = paddock(place, "exec", "shell", "-c", "printf em; echo p-77 password=hunter2")
    assert (code, out) == (0, "[REDACTED:employee] password=[REDACTED:secret]\n")
    assert err == (
        "warning: redaction.patterns: `bad` is not used: invalid perl operator: (?=; "
        "write it in the syntax of RE2\n"
    )
    [handle] = artifacts(place)
    assert paddock(place, "output", "show", handle)[1] == out


def test_answers_for_people(place):
    code, out, err = paddock(place, "exec", "shell", "-c", "seq 3; echo bad >&2; exit 3", "--mode", "summary")
    [handle] = artifacts(place)
    assert (code, out, err) == (3, "1\n2\n3\n", f"bad\nall of it: paddock output show {handle}\n")
    code, out, err = paddock(place, "exec", "shell", "-c", "seq 3", "--query", "2", "--no-keep")
    assert (code, out, err) == (0, "stdout:1: 1\nstdout:2: 2\nstdout:3: 3\n", "")
    code, out, err = paddock(place, "exec", "shell", "-c", "seq 3", "--mode", "minimal", "--no-keep")
    assert (code, out, err) == (0, "success: 6 bytes of output\n", "")
