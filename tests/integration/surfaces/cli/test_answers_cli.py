"""What `paddock exec` answers, and what `paddock output` finds of it: real programs, one after the other."""

import json

from tests.support.command import PATIENT, run_paddock


def paddock(workspace, *args):
    """Return exit code, output and errors; programs have two minutes."""
    return run_paddock(workspace, *args, *(PATIENT if args[0] == "exec" else ()))


def answer(workspace, code, *options):
    """Return the response to a shell program."""
    _, out, err = paddock(workspace, "exec", "shell", "-c", code, "--json", *options)
    assert err == ""
    return json.loads(out)


def artifacts(workspace):
    directory = workspace.parent / "XDG_STATE_HOME/paddock/artifacts"
    return sorted(path.name for path in directory.glob("runtime-*")) if directory.exists() else []


def test_s32_s39_minimal_then_query(workspace):
    found = answer(workspace, "printf 'a\\nb\\nc\\n'; echo 'token=a1b2c3d4e5' >&2; exit 42")
    assert (found["status"], found["exitCode"], found["signal"]) == ("failed", 42, None)
    assert (found["outputLines"], found["outputBytes"]) == (6, 23)
    assert (found["stdoutSummary"], found["stderrSummary"]) == ("", "")
    assert found["sandbox"]["tier"] in ("namespaces", "landlock")
    assert artifacts(workspace) == [found["artifactHandle"]]
    code, out, err = paddock(
        workspace, "output", "query", found["artifactHandle"], "-t", "secret", "-t", "B", "--context", "0"
    )
    assert (code, out, err) == (0, "stdout:2: b\n--\nstderr:1: token=[REDACTED:secret]\n", "")
    _, out, _ = paddock(workspace, "output", "show", found["artifactHandle"], "--json")
    manifest = json.loads(out)["manifest"]
    assert {
        key: manifest[key] for key in ("workspace", "runtime", "status", "phase", "exitCode", "stdoutBytes")
    } == {
        "workspace": str(workspace),
        "runtime": "shell",
        "status": "failed",
        "phase": "run",
        "exitCode": 42,
        "stdoutBytes": 6,
    }
    assert manifest["policyAuditHash"] == found["policyDecision"]["auditHash"]


def test_s33_s34_summary_of_a_real_program(workspace):
    found = answer(workspace, "seq 300; seq 100 >&2", "--mode", "summary", "--max-lines", "20")
    head = "\n".join(str(number) for number in range(1, 11))
    tail = "\n".join(str(number) for number in range(291, 301))
    assert found["stdoutSummary"] == f"{head}\n\n... (280 lines omitted) ...\n\n{tail}"
    assert found["stderrSummary"] == "96\n97\n98\n99\n100"


def test_s36_s37_intent(workspace):
    found = answer(workspace, "seq 100000", "--mode", "intent", "--query", "99999")
    [excerpt] = found["excerpts"]
    assert excerpt == {
        "lineStart": 99996,
        "lineEnd": 100000,
        "content": "99996\n99997\n99998\n99999\n100000",
        "source": "stdout",
    }
    assert "excerpts" not in answer(workspace, "seq 10", "--mode", "intent", "--query", "absent")


def test_s40_nothing_is_kept_when_nobody_wants_it(workspace):
    found = answer(workspace, "echo x", "--no-keep")
    assert (found["artifactHandle"], "notKept" in found) == (None, False)
    assert artifacts(workspace) == []


def test_s41_more_than_the_limit_is_not_kept(workspace):
    found = answer(workspace, "head -c 2000 /dev/zero", "--set", "artifacts.max_bytes=1024")
    assert (found["status"], found["artifactHandle"], found["outputBytes"]) == ("ok", None, 2000)
    assert found["notKept"] == "output is not kept: it is larger than artifacts.max_bytes = 1024"
    assert artifacts(workspace) == []


def test_s43_patterns_of_settings_hold_live_and_stored(workspace):
    (workspace / "paddock.toml").write_text(
        '[[redaction.patterns]]\nname = "employee"\npattern = "emp-[0-9]+"\n'
        '[[redaction.patterns]]\nname = "bad"\npattern = "(?=x)"\n'
    )
    code, out, err = paddock(workspace, "exec", "shell", "-c", "printf em; echo p-77 password=hunter2")
    assert (code, out) == (0, "[REDACTED:employee] password=[REDACTED:secret]\n")
    assert err == (
        "warning: redaction.patterns: `bad` is not used: invalid perl operator: (?=; "
        "write it in the syntax of RE2\n"
    )
    [handle] = artifacts(workspace)
    assert paddock(workspace, "output", "show", handle)[1] == out


def test_answers_for_people(workspace):
    code, out, err = paddock(
        workspace, "exec", "shell", "-c", "seq 3; echo bad >&2; exit 3", "--mode", "summary"
    )
    [handle] = artifacts(workspace)
    assert (code, out, err) == (3, "1\n2\n3\n", f"bad\nall of it: paddock output show {handle}\n")
    code, out, err = paddock(workspace, "exec", "shell", "-c", "seq 3", "--query", "2", "--no-keep")
    assert (code, out, err) == (0, "stdout:1: 1\nstdout:2: 2\nstdout:3: 3\n", "")
    code, out, err = paddock(workspace, "exec", "shell", "-c", "seq 3", "--mode", "minimal", "--no-keep")
    assert (code, out, err) == (0, "ok: 6 bytes of output\n", "")
