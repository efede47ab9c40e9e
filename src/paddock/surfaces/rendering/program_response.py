"""The response to a program in a language runtime, for agents and for `--json`."""

from paddock.model.base import Json
from paddock.model.network import Connection
from paddock.model.outcome import Outcome, Status
from paddock.model.program import CapturedStream, ProgramEnd, signal_name
from paddock.model.request import RuntimeRun
from paddock.model.session import Result
from paddock.model.work_files import OutputFile
from paddock.record.output.digest.digest import digest
from paddock.record.output.digest.faults import faults
from paddock.record.output.text import gist

MAX_EXCERPTS = 10
"""Maximum number of excerpts in one response, over both streams, standard output first."""

_MAX_EXPLAINED = 5
"""Maximum number of refused connections that are explained."""
_DIGEST_LINES = 2000
"""Maximum number of lines from each end of a stream for a digest."""


def program_response(outcome: Outcome, work: RuntimeRun) -> dict[str, Json]:
    """Return the response to a request for a program as JSON, for every status."""
    program = outcome.program
    response: dict[str, Json] = {
        "status": outcome.status.value,
        "exitCode": program.exit_code if program else None,
        "signal": None if program is None or program.signal is None else signal_name(program.signal),
        "durationMs": round(outcome.usage.wall_ms),
        "artifactHandle": program.artifact if program else None,
        "truncation": _build_truncation(program),
        "policyDecision": {"auditHash": outcome.decision.audit_hash},
        **_select_output(outcome, program, work),
        "usage": outcome.usage.model_dump(mode="json"),
        "sandbox": outcome.sandbox.model_dump(mode="json"),
    }
    if outcome.status is Status.DENIED:
        response["policyDecision"]["deniedReasons"] = list(outcome.decision.reasons)
    if outcome.redactions:
        response["redactions"] = outcome.redactions
    if program is not None and program.limit is not None:
        response["limit"] = program.limit
    if program is not None and program.not_kept:
        response["notKept"] = program.not_kept
    if program is not None and program.combined:
        response["combined"] = True
    if program is not None and program.violations:
        response["violations"] = list(program.violations)
    if program is not None and program.stdin_sha256:
        response |= {"stdinBytes": program.stdin_bytes, "stdinSha256": program.stdin_sha256}
    response |= _describe_surroundings(outcome)
    if outcome.files or work.has_workdir:
        response["files"] = [_describe_file(file) for file in outcome.files]
    if (error := outcome.error) is not None and outcome.status is not Status.DENIED:
        fault = {"name": error.name, "message": error.message, "hint": error.hint}
        response["error"] = fault | (_find_place(program) if outcome.status is Status.FAILED else {})
    return response


def _describe_surroundings(outcome: Outcome) -> dict[str, Json]:
    """Return the connections of a program, and its session with the values that it shows."""
    network = [_describe_connection(each) for each in outcome.network]
    found: dict[str, Json] = {"network": network} if network else {}
    if (session := outcome.session) is not None:
        found["session"] = session.model_dump(mode="json")
    shown = [_describe_result(result) for result in outcome.results]
    return {**found, **({"results": shown} if shown else {})}


def _describe_result(result: Result) -> dict[str, Json]:
    """Return a value that a program shows, without images and other large forms, which have handles."""
    stored = [{"mediaType": kind, "handle": handle} for kind, handle in result.handles.items()]
    return {"text": result.text, "mediaTypes": sorted(result.data), "stored": stored}


def _describe_file(file: OutputFile) -> dict[str, Json]:
    return {
        "path": file.path,
        "size": file.size,
        "mediaType": file.media_type,
        "sha256": file.sha256,
        "handle": file.handle,
        **({"notKept": file.not_kept} if file.not_kept else {}),
    }


def _describe_connection(connection: Connection) -> dict[str, Json]:
    return {
        "host": connection.host,
        "port": connection.port,
        "verdict": connection.verdict,
        "rule": connection.rule,
        "sentBytes": connection.sent_bytes,
        "receivedBytes": connection.received_bytes,
        **({"reason": connection.reason} if connection.reason else {}),
    }


def explain_connections(outcome: Outcome) -> str:
    """Return why connections of a program were refused or failed, a line each, or ""."""
    told = [f"network: {each.reason}" for each in outcome.network if each.reason]
    more = len(told) - _MAX_EXPLAINED
    return "\n".join(
        told[:_MAX_EXPLAINED] + ([f"network: {more} more; `--json` lists them"] if more > 0 else [])
    )


def list_notes(outcome: Outcome) -> list[str]:
    """Return what a person should know of a program besides its output and its error."""
    return [*filter(None, (explain_connections(outcome), put_back(outcome)))]


def put_back(outcome: Outcome) -> str:
    """Return, for people, which changes of a program or script tool to the workspace were undone, or ""."""
    end = outcome.program or outcome.tool
    changed = end.violations if end else ()
    paths = ", ".join(changed)
    return f"restored, because your own tools run or trust it: {paths}" if changed else ""


def _find_place(program: ProgramEnd | None) -> dict[str, Json]:
    """Return the first file and line in a failed program's errors, if any."""
    if program is None:
        return {}
    stderr = gist(program.stderr, "stderr", keep=_DIGEST_LINES)
    stdout = gist(program.stdout, "stdout", keep=_DIGEST_LINES)
    found = next((each for each in faults([*stderr.lines(), *stdout.lines()]) if each.line), None)
    return {"file": found.file, "line": int(found.line)} if found and found.line else {}


def _select_output(outcome: Outcome, program: ProgramEnd | None, work: RuntimeRun) -> dict[str, Json]:
    """Return the part of the output that the mode shows."""
    if program is None:
        return {"stdoutSummary": "", "stderrSummary": ""}
    wishes, terms = work.output, work.output.query_terms
    match wishes.mode:
        case "minimal":
            size = program.stdout.total_bytes + program.stderr.total_bytes
            lines = _count_compat_lines(program.stdout) + _count_compat_lines(program.stderr)
            return {"outputLines": lines, "outputBytes": size, "stdoutSummary": "", "stderrSummary": ""}
        case "digest":
            command = " ".join([program.executable, *work.args, work.code or ""])
            stdout = gist(program.stdout, "stdout", keep=_DIGEST_LINES)
            stderr = gist(program.stderr, "stderr", keep=_DIGEST_LINES)
            found = digest([*stdout.lines(), *stderr.lines()], command=command, ok=outcome.ok)
            return {"digest": found.to_wire(), "stdoutSummary": found.summary, "stderrSummary": ""}
        case "summary" | "intent":
            keep, context = wishes.max_lines, wishes.context_lines
            stdout = gist(
                program.stdout, "stdout", keep=keep, terms=terms, context=context, limit=MAX_EXCERPTS
            )
            left = MAX_EXCERPTS - len(stdout.excerpts)
            stderr = gist(program.stderr, "stderr", keep=keep, terms=terms, context=context, limit=left)
            shown: dict[str, Json] = {}
            if wishes.mode == "summary":
                last = stderr.last[-(keep // 4) :]
                shown |= {"stdoutSummary": stdout.summary(keep), "stderrSummary": "\n".join(last)}
            if excerpts := [*stdout.excerpts, *stderr.excerpts]:
                shown["excerpts"] = [each.model_dump(mode="json", by_alias=True) for each in excerpts]
            return shown


def _build_truncation(program: ProgramEnd | None) -> dict[str, Json]:
    stdout, stderr = (program.stdout, program.stderr) if program else (CapturedStream(), CapturedStream())
    return {
        "stdoutTruncated": stdout.truncated,
        "stderrTruncated": stderr.truncated,
        "totalStdoutBytes": stdout.total_bytes,
        "totalStderrBytes": stderr.total_bytes,
    }


def _count_compat_lines(captured: CapturedStream) -> int:
    """Return the number of lines for a response: one more than line ends, none for an empty stream."""
    line_ends = captured.head.count("\n") + captured.omitted_line_ends + captured.tail.count("\n")
    return line_ends + 1 if captured.total_bytes else 0
