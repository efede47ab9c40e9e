"""The response of spec 5.6, in every mode and for every end."""

import pytest

from paddock.model.capture import HeadAndTail
from paddock.model.outcome import Decision, ErrorInfo, Outcome, SandboxFacts, Status, Usage
from paddock.model.program import CapturedStream, OutputOptions, ProgramEnd
from paddock.model.request import RuntimeRun
from paddock.surfaces.rendering.program_response import program_response, put_back

OURS = {
    "usage": {
        "wall_ms": 12.4,
        "cpu_ms": 0.0,
        "peak_bytes": 0,
        "host_calls": 0,
        "console_bytes": 0,
        "emitted_bytes": 0,
    },
    "sandbox": {"tier": "landlock", "layers": [], "residual": []},
}


def captured(text: str, kept: int = 100_000) -> CapturedStream:
    ends = HeadAndTail(kept)
    ends.take(text.encode())
    return ends.make_captured()


def work(**wishes: object) -> RuntimeRun:
    return RuntimeRun(runtime="node", code="1", output=OutputOptions.model_validate(wishes))


def outcome(stdout: str = "", stderr: str = "", *, status: Status = Status.OK, **end: object) -> Outcome:
    program = ProgramEnd(runtime="node", executable="node", stdout=captured(stdout), stderr=captured(stderr))
    return Outcome(
        id="r",
        status=status,
        decision=Decision(allowed=True, audit_hash="ab"),
        usage=Usage(wall_ms=12.4),
        sandbox=SandboxFacts(tier="landlock"),
        program=program.model_copy(update={"exit_code": 0, **end}),
    )


def test_s32_minimal_shows_no_output() -> None:
    found = outcome("a\nb\nc\n", artifact="runtime-w-1-0123456789abcdef")
    assert program_response(found, work()) == {
        "status": "ok",
        "exitCode": 0,
        "signal": None,
        "durationMs": 12,
        "artifactHandle": "runtime-w-1-0123456789abcdef",
        "truncation": {
            "stdoutTruncated": False,
            "stderrTruncated": False,
            "totalStdoutBytes": 6,
            "totalStderrBytes": 0,
        },
        "policyDecision": {"auditHash": "ab"},
        "outputLines": 4,
        "outputBytes": 6,
        "stdoutSummary": "",
        "stderrSummary": "",
        **OURS,
    }


def test_s33_s34_summary() -> None:
    stdout = "".join(f"{number}\n" for number in range(1, 301))
    stderr = "".join(f"e{number}\n" for number in range(1, 101))
    found = program_response(outcome(stdout, stderr), work(mode="summary", max_lines=20))
    assert found["stdoutSummary"].split("\n")[9:14] == ["10", "", "... (280 lines omitted) ...", "", "291"]
    assert found["stderrSummary"] == "e96\ne97\ne98\ne99\ne100"
    assert not {"excerpts", "outputLines", "digest"} & set(found)


def test_s36_intent_shows_excerpts_alone() -> None:
    wishes = work(mode="intent", query_terms=["target"], context_lines=0)
    found = program_response(outcome("one\nTARGET only\nthree\n", "no\n"), wishes)
    assert found["excerpts"] == [{"lineStart": 2, "lineEnd": 2, "content": "TARGET only", "source": "stdout"}]
    assert not {"stdoutSummary", "stderrSummary", "outputLines"} & set(found)


@pytest.mark.parametrize("terms", [[], ["absent"]])
def test_s37_intent_without_a_match_has_no_excerpts(terms: list[str]) -> None:
    assert "excerpts" not in program_response(outcome("one\n"), work(mode="intent", query_terms=terms))


def test_s38_ten_excerpts_standard_output_first() -> None:
    stdout, stderr = ("hit\n" + "x\n" * 9) * 8, ("hit\n" + "x\n" * 9) * 50
    found = program_response(outcome(stdout, stderr), work(mode="summary", query_terms=["HIT"]))
    assert [(each["source"], each["lineStart"]) for each in found["excerpts"]] == [
        ("stdout", 1),
        *(("stdout", 10 * number - 2) for number in range(1, 8)),
        ("stderr", 1),
        ("stderr", 8),
    ]
    assert found["excerpts"][0]["content"] == "hit\nx\nx\nx"


def test_s35_long_lines_are_cut_in_every_mode() -> None:
    cut = "x" * 500 + "[truncated]"
    long = outcome("x" * 2000 + "\n", "x" * 2000 + "\n", status=Status.FAILED)
    summary = program_response(long, work(mode="summary", query_terms=["x"]))
    assert (summary["stdoutSummary"], summary["stderrSummary"]) == (cut, cut)
    assert [each["content"] for each in summary["excerpts"]] == [cut, cut]
    assert program_response(long, work(mode="digest"))["digest"]["excerpt"] == f"{cut}\n{cut}"


def test_s55_digest() -> None:
    found = program_response(outcome("a.ts(1,2): error TS1: no\n", status=Status.FAILED), work(mode="digest"))
    assert found["digest"] == {
        "kind": "tsc",
        "ok": False,
        "summary": "tsc: 1 error in 1 file",
        "failures": [{"name": "TS1", "file": "a.ts", "line": 1, "message": "no"}],
    }
    assert (found["stdoutSummary"], found["stderrSummary"]) == ("tsc: 1 error in 1 file", "")


def test_what_is_omitted_is_said() -> None:
    found = outcome(stdout="")
    assert found.program is not None
    ends = captured("x\n" * 500, kept=100)
    program = found.program.model_copy(update={"stdout": ends})
    told = program_response(found.model_copy(update={"program": program}), work())
    assert told["truncation"]["stdoutTruncated"] is True
    assert (told["outputLines"], told["outputBytes"]) == (501, 1000)


@pytest.mark.parametrize("status", Status)
def test_the_status_of_a_response_is_that_of_the_outcome(status: Status) -> None:
    assert program_response(outcome(status=status), work())["status"] == status.value


def test_s1_a_denial_is_a_response() -> None:
    decision = Decision(allowed=False, reasons=("no", "never"), audit_hash="cd")
    error = ErrorInfo(name="PolicyError", message="no; never", phase="decide")
    found = Outcome(id="r", status=Status.DENIED, decision=decision, error=error)
    response = program_response(found, work(mode="summary"))
    assert {key: response[key] for key in response if key not in OURS} == {
        "status": "denied",
        "exitCode": None,
        "signal": None,
        "durationMs": 0,
        "artifactHandle": None,
        "truncation": {
            "stdoutTruncated": False,
            "stderrTruncated": False,
            "totalStdoutBytes": 0,
            "totalStderrBytes": 0,
        },
        "policyDecision": {"auditHash": "cd", "deniedReasons": ["no", "never"]},
        "stdoutSummary": "",
        "stderrSummary": "",
    }


def test_a_missing_executable_is_unavailable_with_a_remedy() -> None:
    error = ErrorInfo(name="Unavailable", message="Node.js cannot be run here", hint="apt install nodejs")
    found = program_response(Outcome(id="r", status=Status.UNAVAILABLE, error=error), work())
    assert (found["status"], found["exitCode"], found["signal"]) == ("unavailable", None, None)
    assert found["error"] == {
        "name": "Unavailable",
        "message": "Node.js cannot be run here",
        "hint": "apt install nodejs",
    }


def test_a_signal_is_named_and_standard_input_is_told_by_its_hash() -> None:
    found = program_response(
        outcome(status=Status.FAILED, exit_code=None, signal=9, stdin_bytes=4, stdin_sha256="ef"), work()
    )
    assert (found["exitCode"], found["signal"]) == (None, "SIGKILL")
    assert (found["stdinBytes"], found["stdinSha256"]) == (4, "ef")


def test_the_limit_that_ended_a_program_has_a_name() -> None:
    found = outcome(status=Status.MEMORY_LIMIT, exit_code=None, signal=9, limit="memory")
    response = program_response(found, work())
    assert (response["status"], response["limit"]) == ("memory_limit", "memory")
    assert "limit" not in program_response(outcome(), work())


def test_protected_paths_that_were_put_back_are_named() -> None:
    found = outcome(violations=(".git/hooks", ".vscode"))
    assert program_response(found, work())["violations"] == [".git/hooks", ".vscode"]
    told = "restored, because your own tools run or trust it: .git/hooks, .vscode"
    assert put_back(found) == told
    assert ("violations" in program_response(outcome(), work()), put_back(outcome())) == (False, "")


def test_what_an_engine_denied_has_its_reason() -> None:
    error = ErrorInfo(
        name="Overlay", message="it would be copied, and it is too large", hint="raise the setting"
    )
    found = outcome(status=Status.DENIED).replace(error=error, program=None)
    shown = program_response(found, work())
    assert (shown["status"], shown["policyDecision"]["deniedReasons"]) == ("denied", [])
    assert shown["error"] == {"name": error.name, "message": error.message, "hint": error.hint}


def test_what_policy_denied_has_its_reasons_once() -> None:
    reason = "access overlay is not granted"
    found = outcome(status=Status.DENIED).replace(
        error=ErrorInfo(name="PolicyError", message=reason),
        decision=Decision(allowed=False, reasons=(reason,)),
        program=None,
    )
    shown = program_response(found, work())
    assert shown["policyDecision"]["deniedReasons"] == [reason]
    assert "error" not in shown
