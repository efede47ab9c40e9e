"""Schemas of the native tools' structured answers: every possible member, and no others.

Clients can build types with all members, and validate every answer: results, failures, refusals, answers that wait for
a person, and shortened ones. Clients do not show these schemas to models. Therefore they cost no context.
"""

from typing import get_args

from paddock.engines.servers.typescript import Output
from paddock.model.artifact import STREAMS, MatchStatus
from paddock.model.base import Json
from paddock.model.outcome import Status
from paddock.record.output.digest.digest import Kind
from paddock.surfaces.mcp_server.toolbox import object_schema

Schema = dict[str, Json]

_TEXT: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_FLAG: Schema = {"type": "boolean"}
_ANY_JSON: Schema = {
    "anyOf": [{"type": kind} for kind in ("object", "array", "string", "number", "boolean", "null")]
}
"""Any JSON value, for clients that reject an empty schema."""


def _build_list_schema(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _allow_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _add_description(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _build_enum_schema(*words: str) -> Schema:
    return {"type": "string", "enum": [*words]}


_NOT_RUN = (Status.INVALID.value, Status.ERROR.value, Status.CANCELLED.value)
"""The statuses of a call that did not run."""
_WAITING = "waiting"
_STATUS = _build_enum_schema(*(status.value for status in Status), _WAITING)
_TRUNCATED = _add_description(_FLAG, "Whether the answer was shortened.")
_HANDLE = _add_description(_TEXT, "Handle of the complete output, for `query_output`.")
_REDACTIONS = _add_description(
    _INTEGER, "Number of secrets that were removed from the answer; missing for none."
)
_REFUSAL = object_schema(["name", "message"], name=_TEXT, message=_TEXT)
_WAITS: dict[str, Schema] = {
    "run": _add_description(_TEXT, "Id of the run in the record."),
    "command": _add_description(_TEXT, "If a person must act: the command for their terminal."),
    "message": _add_description(_TEXT, "If a person must act: what to tell them, and how to continue."),
}

_SESSION = object_schema(
    ["id", "state"],
    id=_TEXT,
    state=_build_enum_schema("kept", "lost"),
    reason=_TEXT,
    number=_INTEGER,
    expires_in_s={"type": "number"},
)
OUTCOME_SCHEMA = object_schema(
    ["status"],
    status=_STATUS,
    **_WAITS,
    ms=_add_description(_INTEGER, "Wall time in milliseconds."),
    session=_SESSION,
    redactions=_REDACTIONS,
    calls=_add_description(
        {"type": "object", "additionalProperties": _INTEGER}, "Number of tool calls, by server."
    ),
    value=_add_description(_ANY_JSON, "The program's result, any JSON; missing if it returned nothing."),
    excerpt=_add_description(_TEXT, "The beginning of a value that is too large, as text."),
    artifactHandle=_HANDLE,
    console=_add_description(_build_list_schema(_TEXT), "Console lines."),
    planned=_add_description(
        _build_list_schema(
            object_schema(
                ["server", "tool"],
                server=_TEXT,
                tool=_TEXT,
                asks=_add_description(
                    _build_list_schema(_TEXT), "Reasons why a person would be asked first."
                ),
                args=_add_description(_allow_null({"type": "object"}), "The arguments, if they fit."),
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
        data=_add_description(_ANY_JSON, "Data of the server's error."),
        frames=_add_description(
            _build_list_schema(
                object_schema(["function", "line", "column"], function=_TEXT, line=_INTEGER, column=_INTEGER)
            ),
            "The program's call stack, innermost function first.",
        ),
    ),
    happened=_add_description(
        _build_enum_schema("not_started", "no_calls", "calls_completed", "in_flight_unknown"),
        "After a failure: which effects the program already had.",
    ),
)
"""For `execute_code`; built by `paddock.surfaces.mcp_server.replies`."""

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
    status=_STATUS,
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
            truncatedFailures=_add_description(_INTEGER, "Number of failures that are not listed."),
            excerpt=_TEXT,
        ),
        "In the mode `digest`: the failures and their places.",
    ),
    session=_SESSION,
    results=_add_description(
        _build_list_schema(
            object_schema(
                ["text"],
                text=_TEXT,
                mediaTypes=_build_list_schema(_TEXT),
                stored=_build_list_schema(
                    object_schema(["mediaType", "handle"], mediaType=_TEXT, handle=_TEXT)
                ),
            )
        ),
        "The values that it showed.",
    ),
    network=_add_description(
        _build_list_schema(
            object_schema(
                ["host", "port", "verdict"],
                host=_TEXT,
                port=_INTEGER,
                verdict=_build_enum_schema("allowed", "refused"),
                rule=_TEXT,
                reason=_add_description(_TEXT, "Why it was refused or failed, and what would allow it."),
                sentBytes=_INTEGER,
                receivedBytes=_INTEGER,
            )
        ),
        "Its connections to hosts.",
    ),
    combined=_add_description(_FLAG, "Whether stdout contains both streams."),
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
        _build_list_schema(_TEXT), "Protected files that it changed; they were restored."
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
                handle=_allow_null(_HANDLE),
                notKept=_TEXT,
            )
        ),
        "Files that the program created or changed in a separate directory.",
    ),
)
"""For `run_program`; built by `paddock.surfaces.rendering.program_response`."""

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
    nextCursor=_add_description(_CURSOR, "Cursor for the next page."),
    lineCursor=_add_description(_CURSOR, "Cursor for the rest of the first line that was cut."),
    truncated=_TRUNCATED,
    status=_add_description(
        _build_enum_schema("ok", "failed", _WAITING, *_NOT_RUN), "Missing if stored output was searched."
    ),
    result=_add_description(_ANY_JSON, "The data of the call that waited for a person."),
    **_WAITS,
    error=_REFUSAL,
)
"""For `query_output`, which also returns the answers of calls that waited for a person."""

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
            output=_add_description(_build_enum_schema(*get_args(Output)), "Source of the result's type."),
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
    ["status"],
    status=_STATUS,
    output=_add_description(_TEXT, "The emitted text."),
    partial=_add_description(_TEXT, "Text that was emitted before the error, if requested."),
    warnings=_add_description(_build_list_schema(_TEXT), "Numbers that may lack digits."),
    truncated=_TRUNCATED,
    artifactHandle=_HANDLE,
    **_WAITS,
    error=object_schema(
        ["name", "message"],
        name=_TEXT,
        message=_TEXT,
        code=_add_description(_TEXT, "`INVALID_INPUT`, `EVAL_ERROR`, `TIMEOUT`, `OUTPUT_LIMIT`, ..."),
        hint=_add_description(_TEXT, "What to write instead."),
    ),
)
"""Of `compute`."""
