"""The response to a program in a language runtime, for agents and for `--json`."""

import shlex
from typing import Annotated, Literal, NotRequired, TypedDict

from paddock.model.artifact import Excerpt
from paddock.model.base import Json
from paddock.model.changes import ChangesSummary, DirectoryChanges
from paddock.model.network import Connection
from paddock.model.outcome import Outcome, SandboxFacts, Status, Usage
from paddock.model.program import CapturedStream, ProgramEnd, signal_name
from paddock.model.request import RuntimeRun
from paddock.model.work_files import OutputFile
from paddock.record.output.digest.digest import Digest, digest
from paddock.record.output.digest.faults import faults
from paddock.record.output.text import gist
from paddock.surfaces.rendering import answers

MAX_EXCERPTS = 10
"""Maximum number of excerpts in one response, over both streams, standard output first."""

_MAX_EXPLAINED = 5
"""Maximum number of refused connections that are explained."""
_DIGEST_LINES = 2000
"""Maximum number of lines from each end of a stream for a digest."""


class ProgramFailure(answers.ErrorFields):
    """Why a program is not ok."""

    hint: NotRequired[str]
    file: NotRequired[Annotated[str, "The first file that its errors name."]]
    line: NotRequired[int]


class StoredForm(TypedDict):
    """A form of a shown value that is stored."""

    mediaType: str
    handle: str


class ShownValue(TypedDict):
    """A value that a program shows, without images and other large forms, which have handles."""

    text: str
    mediaTypes: list[str]
    stored: list[StoredForm]


class ConnectionFacts(TypedDict):
    """A connection of a program to a host."""

    host: str
    port: int
    verdict: Literal["allowed", "refused"]
    rule: str
    sentBytes: int
    receivedBytes: int
    reason: NotRequired[Annotated[str, "Why it was refused or failed, and what would allow it."]]


class FileFacts(TypedDict):
    """A file of a program."""

    path: str
    size: int
    mediaType: str
    sha256: str
    handle: answers.Handle | None
    notKept: NotRequired[str]


class Truncation(TypedDict):
    """How much of the output is kept."""

    stdoutTruncated: bool
    stderrTruncated: bool
    totalStdoutBytes: int
    totalStderrBytes: int


class PolicyFacts(TypedDict):
    """The decision of policy."""

    auditHash: str
    deniedReasons: NotRequired[list[str]]


class ProgramAnswer(answers.RunAnswer, TypedDict, total=False):
    """The response to a request for a program."""

    exitCode: int | None
    signal: Annotated[str | None, "Name of the signal that ended it: `SIGKILL`."]
    durationMs: int
    redactions: answers.Redactions
    artifactHandle: answers.Handle | None
    notKept: Annotated[str, "Why the output is not stored."]
    stdoutSummary: str
    stderrSummary: str
    excerpts: list[Annotated[dict[str, Json], Excerpt]]
    outputLines: Annotated[int, "In the mode `minimal`: lines of both streams."]
    outputBytes: int
    digest: Annotated[dict[str, Json], Digest, "In the mode `digest`: the failures and their places."]
    session: answers.Session
    results: Annotated[list[ShownValue], "The values that it showed."]
    network: Annotated[list[ConnectionFacts], "Its connections to hosts."]
    combined: Annotated[bool, "Whether stdout contains both streams."]
    truncation: Truncation
    limit: Annotated[str, "The limit that ended it: `wall`, `memory`, `processes`."]
    violations: Annotated[list[str], "Protected files that it changed; they were restored."]
    changes: Annotated[dict[str, Json], ChangesSummary, "What it changed in its overlay of the workspace."]
    directoryChanges: Annotated[
        list[Annotated[dict[str, Json], DirectoryChanges]],
        "What it changed in overlays of other directories.",
    ]
    stdinBytes: int
    stdinSha256: str
    error: ProgramFailure
    policyDecision: PolicyFacts
    usage: Annotated[dict[str, Json], Usage]
    sandbox: Annotated[dict[str, Json], SandboxFacts]
    files: Annotated[list[FileFacts], "Files that the program created or changed in a separate directory."]


def program_response(outcome: Outcome, work: RuntimeRun) -> ProgramAnswer:
    """Return the response to a request for a program, for every status."""
    program, policy = outcome.program, PolicyFacts(auditHash=outcome.decision.audit_hash)
    if outcome.status is Status.DENIED:
        policy["deniedReasons"] = list(outcome.decision.reasons)
    stdout, stderr = (program.stdout, program.stderr) if program else (CapturedStream(), CapturedStream())
    response: ProgramAnswer = {
        "status": outcome.status.value,
        "exitCode": program.exit_code if program else None,
        "signal": None if program is None or program.signal is None else signal_name(program.signal),
        "durationMs": round(outcome.usage.wall_ms),
        "artifactHandle": program.artifact if program else None,
        "truncation": {
            "stdoutTruncated": stdout.truncated,
            "stderrTruncated": stderr.truncated,
            "totalStdoutBytes": stdout.total_bytes,
            "totalStderrBytes": stderr.total_bytes,
        },
        "policyDecision": policy,
    }
    _add_output(response, outcome, work)
    response["usage"] = outcome.usage.model_dump(mode="json")
    response["sandbox"] = outcome.sandbox.model_dump(mode="json")
    if outcome.redactions:
        response["redactions"] = outcome.redactions
    if program is not None:
        if program.limit is not None:
            response["limit"] = program.limit
        if program.not_kept:
            response["notKept"] = program.not_kept
        if program.combined:
            response["combined"] = True
        if program.violations:
            response["violations"] = list(program.violations)
        if program.stdin_sha256:
            response["stdinBytes"], response["stdinSha256"] = program.stdin_bytes, program.stdin_sha256
    _add_changes(response, outcome)
    if outcome.network:
        response["network"] = [_describe_connection(each) for each in outcome.network]
    if outcome.session is not None:
        response["session"] = outcome.session.model_dump(mode="json")
    if outcome.results:
        response["results"] = [
            {
                "text": result.text,
                "mediaTypes": sorted(result.data),
                "stored": [{"mediaType": kind, "handle": handle} for kind, handle in result.handles.items()],
            }
            for result in outcome.results
        ]
    if outcome.files or work.has_workdir:
        response["files"] = [_describe_file(file) for file in outcome.files]
    # What an engine denied has no reason of policy: an overlay that would copy too much, for example.
    if (error := outcome.error) is not None and not policy.get("deniedReasons"):
        fault = ProgramFailure(name=error.name, message=error.message, hint=error.hint)
        if program is not None and outcome.status is Status.FAILED:
            _add_place(fault, program)
        response["error"] = fault
    return response


def _describe_file(file: OutputFile) -> FileFacts:
    facts: FileFacts = {
        "path": file.path,
        "size": file.size,
        "mediaType": file.media_type,
        "sha256": file.sha256,
        "handle": file.handle,
    }
    if file.not_kept:
        facts["notKept"] = file.not_kept
    return facts


def _describe_connection(connection: Connection) -> ConnectionFacts:
    facts: ConnectionFacts = {
        "host": connection.host,
        "port": connection.port,
        "verdict": connection.verdict,
        "rule": connection.rule,
        "sentBytes": connection.sent_bytes,
        "receivedBytes": connection.received_bytes,
    }
    if connection.reason:
        facts["reason"] = connection.reason
    return facts


def _add_changes(response: ProgramAnswer, outcome: Outcome) -> None:
    if outcome.changes is not None:
        response["changes"] = outcome.changes.model_dump(mode="json")
    if outcome.directory_changes:
        response["directoryChanges"] = [each.model_dump(mode="json") for each in outcome.directory_changes]


def explain_connections(outcome: Outcome) -> str:
    """Return why connections of a program were refused or failed, a line each, or ""."""
    told = [f"network: {each.reason}" for each in outcome.network if each.reason]
    more = len(told) - _MAX_EXPLAINED
    return "\n".join(
        told[:_MAX_EXPLAINED] + ([f"network: {more} more; `--json` lists them"] if more > 0 else [])
    )


def list_notes(outcome: Outcome) -> list[str]:
    """Return what a person should know of a program besides its output and its error."""
    return [*filter(None, (explain_connections(outcome), put_back(outcome), describe_changes(outcome)))]


def describe_changes(outcome: Outcome) -> str:
    """Return, for people, what a program changed in its overlays, or ""."""
    own = _list_changes(outcome.changes, "the workspace") if outcome.changes is not None else []
    beside = [
        line
        for each in outcome.directory_changes
        for line in _list_changes(each, each.directory, where=each.directory)
    ]
    return "\n".join([*own, *beside])


def _list_changes(changes: ChangesSummary, unchanged: str, where: str = "") -> list[str]:
    title = f"changes in {where}" if where else "changes"
    counts = (("added", changes.added), ("modified", changes.modified), ("deleted", changes.deleted))
    listed = ", ".join(f"{number} {kind}" for kind, number in counts if number)
    lines = [f"{title}: {listed or 'none'}"]
    if changes.id and not changes.incomplete:
        place = f" --workspace {shlex.quote(where)}" if where else ""
        lines[0] += f"; {unchanged} is as before: paddock changes show {changes.id}{place}"
    if changes.protected:
        lines.append(f"{title}: accepted only by name: {', '.join(changes.protected)}")
    if changes.left_out:
        lines.append(f"{title}: cannot be accepted: {', '.join(changes.left_out)}")
    if changes.incomplete:
        lines.append(f"{title}: incomplete, and cannot be accepted: {changes.incomplete}")
    return lines


def put_back(outcome: Outcome) -> str:
    """Return, for people, which changes of a program or script tool to the workspace were undone, or ""."""
    end = outcome.program or outcome.tool
    changed = end.violations if end else ()
    paths = ", ".join(changed)
    return f"restored, because your own tools run or trust it: {paths}" if changed else ""


def _add_place(fault: ProgramFailure, program: ProgramEnd) -> None:
    """Add the first file and line in a failed program's errors, if any."""
    stderr = gist(program.stderr, "stderr", keep=_DIGEST_LINES)
    stdout = gist(program.stdout, "stdout", keep=_DIGEST_LINES)
    found = next((each for each in faults([*stderr.lines(), *stdout.lines()]) if each.line), None)
    if found and found.file is not None and found.line:
        fault["file"], fault["line"] = found.file, int(found.line)


def _add_output(response: ProgramAnswer, outcome: Outcome, work: RuntimeRun) -> None:
    """Add the part of the output that the mode shows."""
    wishes, terms, program = work.output, work.output.query_terms, outcome.program
    if program is None:
        response["stdoutSummary"] = response["stderrSummary"] = ""
        return
    match wishes.mode:
        case "minimal":
            lines = _count_compat_lines(program.stdout) + _count_compat_lines(program.stderr)
            response["outputLines"] = lines
            response["outputBytes"] = program.stdout.total_bytes + program.stderr.total_bytes
            response["stdoutSummary"] = response["stderrSummary"] = ""
        case "digest":
            command = " ".join([program.executable, *work.args, work.code or ""])
            stdout = gist(program.stdout, "stdout", keep=_DIGEST_LINES)
            stderr = gist(program.stderr, "stderr", keep=_DIGEST_LINES)
            found = digest([*stdout.lines(), *stderr.lines()], command=command, ok=outcome.ok)
            response["digest"] = found.to_wire()
            response["stdoutSummary"], response["stderrSummary"] = found.summary, ""
        case "summary" | "intent":
            keep, context = wishes.max_lines, wishes.context_lines
            stdout = gist(
                program.stdout, "stdout", keep=keep, terms=terms, context=context, limit=MAX_EXCERPTS
            )
            left = MAX_EXCERPTS - len(stdout.excerpts)
            stderr = gist(program.stderr, "stderr", keep=keep, terms=terms, context=context, limit=left)
            if wishes.mode == "summary":
                response["stdoutSummary"] = stdout.summary(keep)
                response["stderrSummary"] = "\n".join(stderr.last[-(keep // 4) :])
            if excerpts := [*stdout.excerpts, *stderr.excerpts]:
                response["excerpts"] = [each.model_dump(mode="json", by_alias=True) for each in excerpts]


def _count_compat_lines(captured: CapturedStream) -> int:
    """Return the number of lines for a response: one more than line ends, none for an empty stream."""
    line_ends = captured.head.count("\n") + captured.omitted_line_ends + captured.tail.count("\n")
    return line_ends + 1 if captured.total_bytes else 0
