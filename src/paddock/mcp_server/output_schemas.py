"""What the data of each native tool's answers look like: every member that there may be, and no others.

A client that builds types from a schema sees all members. One that validates answers may validate all of them: results,
failures, refusals, answers that wait for a person, and those that are cut to fit. Clients show models the schemas of
arguments, not these. Therefore they cost no context.
"""

from typing import get_args

from paddock.hub.typescript import Output
from paddock.mcp_server.toolbox import object_schema
from paddock.model.artifact import STREAMS, MatchStatus
from paddock.model.base import Json
from paddock.model.outcome import Status
from paddock.output.digest.digest import Kind

Schema = dict[str, Json]

_TEXT: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_FLAG: Schema = {"type": "boolean"}
_ANY_JSON: Schema = {
    "anyOf": [{"type": kind} for kind in ("object", "array", "string", "number", "boolean", "null")]
}
"""Any JSON value, for clients that take an empty schema for a mistake."""


def _build_list_schema(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _allow_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _add_description(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _build_enum_schema(*words: str) -> Schema:
    return {"type": "string", "enum": [*words]}


_NOT_RUN = (Status.INVALID.value, Status.ERROR.value, Status.CANCELLED.value)
"""How any call may end of which nothing ran."""
_WAITING = "waiting"
_TRUNCATED = _add_description(_FLAG, "Whether something was left out to fit into the answer.")
_HANDLE = _add_description(_TEXT, "Handle of the whole in stored output, for `query_output`.")
_REDACTIONS = _add_description(
    _INTEGER, "How many secrets were removed from the answer; missing when none were."
)
_REFUSAL = object_schema(["name", "message"], name=_TEXT, message=_TEXT)
_WAITS: dict[str, Schema] = {
    "run": _add_description(_TEXT, "Id of the run, as the record has it."),
    "command": _add_description(_TEXT, "Where a person has to act: what they run in a terminal."),
    "message": _add_description(_TEXT, "Where a person has to act: what to tell them, and how to go on."),
}

OUTCOME_SCHEMA = object_schema(
    ["status"],
    status=_build_enum_schema(*(status.value for status in Status), _WAITING),
    **_WAITS,
    ms=_add_description(_INTEGER, "Wall time in milliseconds."),
    redactions=_REDACTIONS,
    calls=_add_description(
        {"type": "object", "additionalProperties": _INTEGER}, "Calls of tools, by server."
    ),
    value=_add_description(
        _ANY_JSON, "What the program returned, any JSON; missing when it returned nothing."
    ),
    excerpt=_add_description(_TEXT, "The beginning of a value that is too large, as text."),
    artifactHandle=_HANDLE,
    console=_add_description(_build_list_schema(_TEXT), "Lines of the console."),
    planned=_add_description(
        _build_list_schema(
            object_schema(
                ["server", "tool"],
                server=_TEXT,
                tool=_TEXT,
                asks=_add_description(_build_list_schema(_TEXT), "Why a person would be asked first."),
                args=_add_description(_allow_null({"type": "object"}), "The arguments, where they fit."),
            )
        ),
        "In the mode `dry_run`: the calls that were not made.",
    ),
    truncated=_TRUNCATED,
    error=object_schema(
        ["name", "message"],
        name=_TEXT,
        message=_TEXT,
        line=_add_description(_INTEGER, "Line of the program, from 1."),
        column=_add_description(_INTEGER, "Column of the line, from 1."),
        hint=_add_description(_TEXT, "What to write instead."),
        code=_add_description(_INTEGER, "JSON-RPC code of a server's error."),
        data=_add_description(_ANY_JSON, "What the server said beside it."),
        frames=_add_description(
            _build_list_schema(
                object_schema(["function", "line", "column"], function=_TEXT, line=_INTEGER, column=_INTEGER)
            ),
            "The program's functions that were running, innermost first.",
        ),
    ),
    happened=_add_description(
        _build_enum_schema("not_started", "no_calls", "calls_completed", "in_flight_unknown"),
        "Of a program that did not end well: what it had done to the world.",
    ),
)
"""Of `execute_code`; `paddock.mcp_server.replies` makes them."""

_EXCERPT = object_schema(
    ["lineStart", "lineEnd", "content", "source"],
    lineStart=_INTEGER,
    lineEnd=_INTEGER,
    content=_TEXT,
    source=_build_enum_schema(*STREAMS),
)
_FAILURE = object_schema(["message"], name=_TEXT, file=_TEXT, line=_INTEGER, message=_TEXT)

PROGRAM_SCHEMA = object_schema(
    ["status"],
    status=_build_enum_schema("success", "failure", "timeout", "denied", "unavailable", _WAITING, *_NOT_RUN),
    **_WAITS,
    exitCode=_allow_null(_INTEGER),
    signal=_add_description(_allow_null(_TEXT), "Name of the signal that ended it: `SIGKILL`."),
    durationMs=_INTEGER,
    redactions=_REDACTIONS,
    artifactHandle=_allow_null(_HANDLE),
    notKept=_add_description(_TEXT, "Why the output is not stored."),
    stdoutSummary=_TEXT,
    stderrSummary=_TEXT,
    excerpts=_build_list_schema(_EXCERPT),
    outputLines=_add_description(_INTEGER, "In the mode `minimal`: lines of both streams."),
    outputBytes=_INTEGER,
    digest=_add_description(
        object_schema(
            ["kind", "ok", "summary", "failures"],
            kind=_build_enum_schema(*get_args(Kind)),
            ok=_FLAG,
            summary=_TEXT,
            failures=_build_list_schema(_FAILURE),
            truncatedFailures=_add_description(_INTEGER, "Failures that are not listed."),
            excerpt=_TEXT,
        ),
        "In the mode `digest`: what failed, and where.",
    ),
    combined=_add_description(_FLAG, "Whether stdout has both streams."),
    truncation=object_schema(
        ["stdoutTruncated", "stderrTruncated", "totalStdoutBytes", "totalStderrBytes"],
        stdoutTruncated=_FLAG,
        stderrTruncated=_FLAG,
        totalStdoutBytes=_INTEGER,
        totalStderrBytes=_INTEGER,
    ),
    truncated=_TRUNCATED,
    limit=_add_description(_TEXT, "The limit that ended it: `wall`, `memory`, `processes`."),
    violations=_add_description(
        _build_list_schema(_TEXT), "Protected files that it changed, and that were put back."
    ),
    stdinBytes=_INTEGER,
    stdinSha256=_TEXT,
    error=object_schema(
        ["name", "message"],
        name=_TEXT,
        message=_TEXT,
        hint=_TEXT,
        file=_add_description(_TEXT, "The first file that its errors name."),
        line=_INTEGER,
    ),
    policyDecision=object_schema(["auditHash"], auditHash=_TEXT, deniedReasons=_build_list_schema(_TEXT)),
    usage=object_schema(
        ["wall_ms", "cpu_ms", "peak_bytes", "host_calls", "console_bytes", "emitted_bytes"],
        wall_ms=_NUMBER,
        cpu_ms=_NUMBER,
        peak_bytes=_INTEGER,
        host_calls=_INTEGER,
        console_bytes=_INTEGER,
        emitted_bytes=_INTEGER,
    ),
    sandbox=object_schema(
        ["tier", "layers", "residual"],
        tier=_TEXT,
        layers=_build_list_schema(_TEXT),
        residual=_build_list_schema(_TEXT),
    ),
    files=_add_description(
        _build_list_schema(
            object_schema(
                ["path", "size", "mediaType", "sha256", "handle"],
                path=_TEXT,
                size=_INTEGER,
                mediaType=_TEXT,
                sha256=_TEXT,
                handle={"type": ["string", "null"]},
                notKept=_TEXT,
            )
        ),
        "Files that the program created or changed in a directory of its own.",
    ),
)
"""Of `run_program`; `paddock.rendering.program_response` makes them."""

_CURSOR = object_schema(
    ["stream", "afterLine"], stream=_build_enum_schema(*STREAMS), afterLine=_INTEGER, afterChar=_INTEGER
)

STORED_OUTPUT_SCHEMA = object_schema(
    [],
    artifactHandle=_TEXT,
    excerpts=_build_list_schema(_EXCERPT),
    totalLines=_INTEGER,
    totalBytes=_INTEGER,
    searchedStreams=_build_list_schema(_build_enum_schema(*STREAMS)),
    matchStatus=_build_enum_schema(*get_args(MatchStatus)),
    matchCount=_INTEGER,
    nextCursor=_add_description(_CURSOR, "Where to read on."),
    lineCursor=_add_description(_CURSOR, "Where to read on in the first line that was cut."),
    truncated=_TRUNCATED,
    status=_add_description(
        _build_enum_schema("ok", "failed", _WAITING, *_NOT_RUN), "Missing where stored output was searched."
    ),
    result=_add_description(_ANY_JSON, "The data of the call that waited for a person."),
    **_WAITS,
    error=_REFUSAL,
)
"""Of `query_output`, which also fetches the answers of calls that waited for a person."""

FOUND_TOOLS = object_schema(
    ["status"],
    status=_build_enum_schema("ok", *_NOT_RUN),
    tools=_build_list_schema(
        object_schema(
            ["server", "tool", "signature"],
            server=_TEXT,
            tool=_TEXT,
            signature=_add_description(_TEXT, "TypeScript, on one line."),
        )
    ),
    notes=_add_description(_build_list_schema(_TEXT), "What is missing or wrong, and why."),
    error=_REFUSAL,
)
"""Of `search_tools`."""

DESCRIBED_TOOLS = object_schema(
    ["status"],
    status=_build_enum_schema("ok", *_NOT_RUN),
    tools=_build_list_schema(
        object_schema(
            ["name", "declaration", "output"],
            name=_TEXT,
            declaration=_add_description(_TEXT, "TypeScript."),
            output=_add_description(
                _build_enum_schema(*get_args(Output)), "Where the type of the result comes from."
            ),
        )
    ),
    notes=_add_description(_build_list_schema(_TEXT), "What is missing or wrong, and why."),
    error=_REFUSAL,
)
"""Of `describe_tools`."""

SERVERS_SCHEMA = object_schema(
    ["status"],
    status=_build_enum_schema("ok", "denied", *_NOT_RUN),
    servers=_build_list_schema(object_schema(["name", "enabled"], name=_TEXT, enabled=_FLAG)),
    offers=_build_list_schema(
        object_schema(
            ["name", "description", "confidence", "trusted"],
            name=_TEXT,
            description=_TEXT,
            confidence=_NUMBER,
            trusted=_FLAG,
        )
    ),
    note=_TEXT,
    command=_WAITS["command"],
    truncated=_TRUNCATED,
    error=_REFUSAL,
)
"""Of `provision_server`."""

COMPUTATION_SCHEMA = object_schema(
    [],
    output=_add_description(_TEXT, "What was emitted."),
    code=_add_description(_TEXT, "The error: `INVALID_INPUT`, `EVAL_ERROR`, `TIMEOUT`, `OUTPUT_LIMIT`, ..."),
    message=_add_description(_TEXT, "Why it did not end well; where a person has to act, what to tell them."),
    partial=_add_description(_TEXT, "What was emitted before the error, where that was asked for."),
    hint=_add_description(_TEXT, "What to write instead."),
    warnings=_add_description(_build_list_schema(_TEXT), "Where a number may lack digits."),
    truncated=_TRUNCATED,
    artifactHandle=_HANDLE,
    status=_add_description(_build_enum_schema(_WAITING, *_NOT_RUN), "Given where nothing was computed."),
    run=_WAITS["run"],
    command=_WAITS["command"],
    error=_REFUSAL,
)
"""Of `compute`."""
