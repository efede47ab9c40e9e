"""The tools for programs in language runtimes: `run_program` and `query_output`."""

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from paddock.mcp_server import output_schemas
from paddock.mcp_server.argument_errors import reject_arguments
from paddock.mcp_server.progress import OutputLines
from paddock.mcp_server.query_reply import fit_found_output, render_found_output
from paddock.mcp_server.replies import compact, cut_text
from paddock.mcp_server.stored_output import build_links, read_address
from paddock.mcp_server.toolbox import (
    Arguments,
    Caller,
    Tool,
    ToolAnswer,
    build_refusal,
    object_schema,
    reject_invalid_arguments,
    text_block,
)
from paddock.model.artifact import STREAMS, OutputQuery, Stream
from paddock.model.base import Json, count
from paddock.model.errors import PaddockError
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome, Status
from paddock.model.program import ACCESSES, NETWORKS, OUTPUT_MODES, OutputMode
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.rendering.program_response import program_response, put_back
from paddock.settings.schema import RuntimeSettings

if TYPE_CHECKING:
    from paddock.app.session import Session
    from paddock.model.artifact import OutputFound

RUN_PROGRAM = (
    "Use this to run a program, confined in the workspace. "
    "Returns its output; query_output reads what was cut."
)
QUERY_OUTPUT = "Use this to search or page stored output."
_MAX_LISTED_ITEMS = 8
_OF_A_PROGRAM = "Program"
"""The name of the errors that say by themselves that they are of the program."""
_LINES = {"type": "integer"}
_COMBINED: dict[str, Json] = {
    "type": "boolean",
    "description": "stderr into stdout",
}
_OUTPUT_ARGUMENTS = {
    "output_mode": "mode",
    "query_terms": "query_terms",
    "max_response_lines": "max_lines",
    "context_lines": "context_lines",
    "persist_output": "persist",
    "combined": "combined",
}
"""Arguments that speak of the output, and what the model calls them."""
_PLAIN_ARGUMENTS = {
    "language": "runtime",
    "relative_cwd": "cwd",
    **{name: name for name in ("code", "args", "executable", "access", "network")},
}
"""Other arguments that the model takes as they are, and what it calls them."""
_PHRASES = frozenset({"query_terms"})
ALIASES = {"runtime": "language"}
"""LangChain's adapters keep `runtime` for themselves: an argument of that name never arrives."""


class Programs:
    """What the two tools do, on one session; results have at most `cap` characters."""

    def __init__(
        self, session: "Session", workspace: Path, cap: int, runtimes: "RuntimeSettings | None" = None
    ) -> None:
        """Offer the languages of `runtimes`, or else the built-in ones."""
        self.runtimes = runtimes or RuntimeSettings()
        self._session = session
        self._workspace = workspace
        self._cap = cap

    async def execute_program(
        self, arguments: Arguments, caller: Caller, *, mode: OutputMode
    ) -> tuple[Outcome, RuntimeRun]:
        """Return what became of a program, and what was asked: in `mode` unless the arguments name another one.

        The arguments are those of `run_program`.

        Raises pydantic's ValidationError.
        Cancelled, which nobody may be answered, the program ends and what it wrote is kept like that of any other.
        """
        work = RuntimeRun.model_validate({"kind": "runtime", **_build_fields(arguments, mode)})
        request = ExecutionRequest(
            actor=caller.actor,
            surface="mcp",
            workspace=self._workspace,
            work=work,
            limits=LimitOverrides(timeout_ms=arguments.get("timeout_ms")),
        )
        take = OutputLines(caller.on_console).take_output if caller.on_console else None
        outcome = await caller.execute(self._session.gate, request, on_output=take)
        return outcome, work

    async def find_output(self, asked: OutputQuery, workspace: Path | None = None) -> "OutputFound":
        """Return what a query finds in the output of this workspace, or of another.

        Raises PaddockError for what cannot be read.
        """
        from paddock.output.query import query

        return await asyncio.to_thread(
            query, self._session.output.artifacts(), asked, workspace or self._workspace
        )

    async def run_program(self, arguments: Arguments, caller: Caller) -> ToolAnswer:
        """Run a program and tell of it as its output mode says."""
        try:
            outcome, work = await self.execute_program(arguments, caller, mode="summary")
        except ValidationError as problem:
            return reject_arguments("run_program", problem)
        response = {**program_response(outcome, work), "run": outcome.id}
        if outcome.status is Status.DENIED and (error := outcome.error) is not None:
            response["error"] = {"name": error.name, "message": error.message, "hint": error.hint}
        text = cut_text(_render_response(response, outcome), self._cap)
        data = (
            response
            if len(compact(response)) <= self._cap
            else {key: response[key] for key in ("status", "run", "artifactHandle")} | {"truncated": True}
        )
        handle, program = response["artifactHandle"], outcome.program
        pointers: list[dict[str, Json]] = []
        if isinstance(handle, str) and program is not None:
            written: list[Stream] = [name for name in STREAMS if getattr(program, name).total_bytes]
            pointers = build_links(handle, written, work.runtime)
        return ToolAnswer([text_block(text), *pointers], data, is_error=not outcome.ok)

    async def query_output(self, arguments: Arguments, _caller: Caller) -> ToolAnswer:
        """Search stored output, or read lines of it; without terms and lines, from the start."""
        try:
            asked = OutputQuery.model_validate(_default_to_start(_resolve_link(arguments)))
            found = await self.find_output(asked)
        except ValidationError as problem:
            return reject_arguments("query_output", problem)
        except PaddockError as error:
            return build_refusal(Status.INVALID, type(error).__name__, str(error))
        shown = fit_found_output(found, self._cap, within=asked.cursor.after_char if asked.cursor else None)
        data = shown.to_wire() if shown is found else {**shown.to_wire(), "truncated": True}
        return ToolAnswer([text_block(cut_text(render_found_output(shown), self._cap))], data)


def _resolve_link(arguments: Arguments) -> Arguments:
    """Return the arguments of a query, with handle and stream where the address of a stored stream is given."""
    if (found := read_address(arguments["artifact_handle"])) is None:
        return arguments
    handle, stream = found
    return {"stream": stream, **arguments, "artifact_handle": handle}


def _default_to_start(arguments: Arguments) -> Arguments:
    """Return the arguments of a query, which asks for the first lines when it asks for nothing else."""
    if any(arguments.get(name) for name in ("query_terms", "cursor", "line_range")):
        return arguments
    stream = arguments.get("stream", "both")
    return {**arguments, "cursor": {"stream": "stdout" if stream == "both" else stream, "after_line": 0}}


def build_program_tools(programs: Programs) -> list[Tool]:
    """Return `run_program` and `query_output`."""
    texts = {"type": "array", "items": {"type": "string"}}
    place = {"type": "object"}
    return [
        Tool(
            name="run_program",
            title="Run a program in a language runtime",
            description=RUN_PROGRAM,
            input_schema=object_schema(
                ["language"],
                language={"enum": [*programs.runtimes.languages]},
                code={"type": "string"},
                args=texts,
                executable={"type": "string"},
                stdin={"type": "string"},
                relative_cwd={"type": "string"},
                access={"enum": [*ACCESSES]},
                network={"enum": [*NETWORKS]},
                timeout_ms=_LINES,
                output_mode={"enum": [*OUTPUT_MODES]},
                query_terms=texts,
                max_response_lines=_LINES,
                context_lines=_LINES,
                persist_output={"type": "boolean"},
                combined=_COMBINED,
            ),
            run=programs.run_program,
            phrases=_PHRASES,
            explain=partial(_reject_arguments, programs.runtimes),
            aliases=ALIASES,
            output_schema=output_schemas.PROGRAM_SCHEMA,
            annotations={"destructiveHint": True, "openWorldHint": True},
        ),
        Tool(
            name="query_output",
            title="Search stored output",
            description=QUERY_OUTPUT,
            input_schema=object_schema(
                ["artifact_handle"],
                artifact_handle={"type": "string"},
                query_terms=texts,
                stream={"enum": ["stdout", "stderr", "both"]},
                max_excerpts=_LINES,
                context_lines=_LINES,
                cursor={**place, "description": "from an answer"},
                line_range={**place, "description": "{stream, start_line, end_line}"},
            ),
            run=programs.query_output,
            phrases=_PHRASES,
            unlisted={
                "cursor": object_schema([], stream={}, after_line=_LINES, after_char=_LINES),
                "line_range": object_schema([], stream={}, start_line=_LINES, end_line=_LINES),
            },
            output_schema=output_schemas.STORED_OUTPUT_SCHEMA,
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
    ]


def _reject_arguments(
    runtimes: RuntimeSettings, tool: Tool, arguments: Json, problems: tuple[str, ...]
) -> ToolAnswer:
    """Return the answer to arguments that break the schema; models know languages by other names."""
    given = cast("Arguments", arguments if isinstance(arguments, dict) else {})
    language, args = given.get("language"), given.get("args")
    if isinstance(args, str) and args.split():
        hint = (
            f"; give a list with one item for each argument: {json.dumps(args.split()[:_MAX_LISTED_ITEMS])}"
        )
        problems = tuple(f"{text}{hint}" if text.startswith("`args` ") else text for text in problems)
    if isinstance(language, str) and language not in runtimes.languages:
        from paddock.runtimes.recipe import no_runtime

        others = (problem for problem in problems if not problem.startswith("`language` "))
        problems = (no_runtime(cut_text(language, 200), runtimes.recipes), *others)
    return reject_invalid_arguments(tool, arguments, problems)


def _build_fields(arguments: Arguments, mode: OutputMode) -> dict[str, Json]:
    """Return the fields of a program under their names of the model."""
    fields: dict[str, Json] = {
        ours: arguments[theirs] for theirs, ours in _PLAIN_ARGUMENTS.items() if theirs in arguments
    }
    if "stdin" in arguments:
        fields["stdin"] = cast("str", arguments["stdin"]).encode("utf-8", "replace")
    wishes = {ours: arguments[theirs] for theirs, ours in _OUTPUT_ARGUMENTS.items() if theirs in arguments}
    fields["output"] = {"mode": mode, **wishes}
    return fields


def _render_response(response: Mapping[str, Any], outcome: Outcome) -> str:
    code, number = response["exitCode"], response["signal"]
    end = [f"exit {code}"] if code is not None else [number] if number else []
    lines = [" · ".join([response["status"], *end, f"{response['durationMs']} ms", f"run {outcome.id}"])]
    reasons = response["policyDecision"].get("deniedReasons", [])
    lines += [f"denied: {reason}" for reason in reasons]
    if error := response.get("error"):
        if not reasons:
            name = "" if error["name"] == _OF_A_PROGRAM else f"{error['name']}: "
            lines.append(f"{name}{error['message']}")
        lines += [f"hint: {error['hint']}"] if error["hint"] else []
    if changed := put_back(outcome):
        lines.append(changed)
    if handle := response["artifactHandle"]:
        lines.append(f"output: {handle}")
    if "outputLines" in response:
        lines.append(f"{count(response['outputLines'], 'line')}, {count(response['outputBytes'], 'byte')}")
    both = "output" if response.get("combined") else "stdout"
    for name, title in (("stdoutSummary", both), ("stderrSummary", "stderr")):
        if shown := response.get(name):  # excerpts stand alone
            lines += [f"--- {title}", shown]
    if "digest" in response:
        lines += ["--- digest", compact(response["digest"])]
    for excerpt in response.get("excerpts", []):
        lines += [f"--- {excerpt['source']} {excerpt['lineStart']}-{excerpt['lineEnd']}", excerpt["content"]]
    return "\n".join(lines)
