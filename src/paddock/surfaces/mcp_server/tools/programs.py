"""The tools for programs in language runtimes: `run_program` and `query_output`."""

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

from pydantic import ValidationError

from paddock.foundation.schema.check import Problem
from paddock.model.artifact import STREAMS, Cursor, Excerpt, MatchStatus, OutputFound, OutputQuery, Stream
from paddock.model.base import Json, count
from paddock.model.errors import PaddockError
from paddock.model.fields import list_fields, make_limits, make_work
from paddock.model.network import NETWORKS
from paddock.model.outcome import Outcome, Status
from paddock.model.program import ACCESSES, OUTPUT_MODES, OutputMode
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.session import KERNELS, NEW
from paddock.model.texts import cut_text
from paddock.model.work_files import GivenFile
from paddock.policy.settings.schema import RuntimeSettings
from paddock.record.output.text import CUT_MARK, excerpt
from paddock.surfaces.mcp_server.argument_errors import reject_arguments
from paddock.surfaces.mcp_server.change_resources import (
    ChangeDifferences,
    build_changes_links,
    read_changes_id,
)
from paddock.surfaces.mcp_server.output_resources import (
    build_file_blocks,
    build_links,
    build_result_blocks,
    read_address,
)
from paddock.surfaces.mcp_server.output_schemas import build_schema
from paddock.surfaces.mcp_server.progress import OutputLines
from paddock.surfaces.mcp_server.replies import compact, render_session
from paddock.surfaces.mcp_server.toolbox import (
    Arguments,
    McpCaller,
    McpTool,
    ToolAnswer,
    build_refusal,
    object_schema,
    reject_invalid_arguments,
    text_block,
)
from paddock.surfaces.rendering import answers
from paddock.surfaces.rendering.program_response import ProgramAnswer, list_notes, program_response

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock

RUN_PROGRAM = (
    "Use this to run a confined program in the workspace. Returns output; query_output reads what was cut."
)
QUERY_OUTPUT = "Use this to search or page stored output."
_MODES = "summary: its lines; minimal: a handle alone; intent: lines with query_terms; digest: errors and failed tests"
_FILES_EXAMPLE = 'give a list such as [{"path": "a.csv", "text": "x,y"}]'
_MAX_LISTED_ITEMS = 8
_FRAME_CHARS = 200
"""Characters that are reserved in an answer with excerpts for everything else."""
_OF_A_PROGRAM = "Program"
"""Name of errors whose text already says that they are the program's own."""
_LINES = {"type": "integer"}
_TEXT: dict[str, Json] = {"type": "string"}
_TEXTS: dict[str, Json] = {"type": "array", "items": _TEXT}
_OBJECT: dict[str, Json] = {"type": "object"}
_COMBINED: dict[str, Json] = {
    "type": "boolean",
    "description": "stderr into stdout",
}
_ARGUMENTS = list_fields("mcp")
_NETWORK: dict[str, Json] = {"type": ["string", "array"], "items": {"type": "string"}}
_PHRASES = frozenset({"query_terms"})
ALIASES = {"runtime": "language"}
"""LangChain's adapters reserve `runtime`: an argument of that name never arrives."""


class StoredOutputAnswer(TypedDict, total=False):
    """The answer of `query_output`: an `OutputFound`, or the answer of a call that waited for a person."""

    artifactHandle: str
    excerpts: list[Annotated[dict[str, Json], Excerpt]]
    totalLines: int
    totalBytes: int
    searchedStreams: list[Stream]
    matchStatus: MatchStatus
    matchCount: int
    nextCursor: Annotated[dict[str, Json], Cursor, "Cursor for the next page."]
    lineCursor: Annotated[dict[str, Json], Cursor, "Cursor for the rest of the first line that was cut."]
    truncated: answers.Truncated
    status: Annotated[answers.FetchStatus, "Missing if stored output was searched."]
    result: Annotated[Json, "The data of the call that waited for a person."]
    run: answers.Run
    command: answers.Command
    message: answers.Message
    error: answers.ErrorFields


class ProgramTools:
    """The two tools, on one session; results have at most `cap` characters."""

    def __init__(
        self, opened: "OpenPaddock", workspace: Path, cap: int, runtimes: "RuntimeSettings | None" = None
    ) -> None:
        """Offer the languages of `runtimes`, or else the built-in ones."""
        self.runtimes = runtimes or RuntimeSettings()
        self._opened = opened
        self._workspace = workspace
        self._cap = cap

    async def execute_program(
        self, arguments: Arguments, caller: McpCaller, *, mode: OutputMode
    ) -> tuple[Outcome, RuntimeRun]:
        """Run a program. Return its outcome and the request, in `mode` unless the arguments name another mode.

        The arguments are those of `run_program`. Raises pydantic's ValidationError. When cancelled, the program ends
        and its output is stored as usual, although no answer is sent.
        """
        arguments = self._name_language(arguments, caller)
        given = {field.name: arguments[name] for name, field in _ARGUMENTS.items() if name in arguments}
        if "stdin" in given:
            given["stdin"] = cast("str", given["stdin"]).encode("utf-8", "replace")
        if "files" in given:
            given["files"] = [GivenFile.model_validate(file).to_input_file() for file in given["files"]]
        work = make_work(arguments.get("language"), arguments.get("code"), {"output_mode": mode, **given})
        request = ExecutionRequest(
            actor=caller.actor,
            surface="mcp",
            workspace=self._workspace,
            work=work,
            limits=make_limits(given),
        )
        take = OutputLines(caller.on_console).take_output if caller.on_console else None
        outcome = await caller.execute(self._opened.gate, request, on_output=take)
        return outcome, work

    def _name_language(self, arguments: Arguments, caller: McpCaller) -> Arguments:
        """Return the arguments with the language of their session, which need not be given again."""
        handle = arguments.get("session")
        if "language" in arguments or not isinstance(handle, str) or handle == NEW:
            return arguments
        session = self._opened.programs.find_session(caller.actor, handle)
        # Without one, nothing runs, and the answer says why.
        return {**arguments, "language": "python" if session is None else session.work.runtime}

    async def find_output(
        self, asked: OutputQuery, caller: McpCaller, workspace: Path | None = None
    ) -> OutputFound:
        """Return the result of a query in the output of this workspace, or of another.

        The ID of a change set stands for its difference. Raises PaddockError for output that cannot be read.
        """
        from paddock.record.output.query import query, query_text

        where = workspace or self._workspace
        if (set_id := read_changes_id(asked.artifact_handle)) is not None:
            text = await ChangeDifferences(self._opened, where).read_text(set_id, caller.conversation)
            return await asyncio.to_thread(query_text, text, asked)
        found = await asyncio.to_thread(query, self._opened.output.artifacts(), asked, where)
        shown: list[Json] = [each.content for each in found.excerpts]
        await self._opened.gate.note_output(caller.conversation, found.artifact_handle, where, shown)
        return found

    async def run_program(self, arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        """Run a program and report it in its output mode."""
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
        pointers += build_changes_links(outcome.changes)
        pointers += build_result_blocks(outcome.results)
        pointers += await asyncio.to_thread(build_file_blocks, outcome.files, self._read_file)
        return ToolAnswer([text_block(text), *pointers], data, is_error=not outcome.ok)

    def _read_file(self, handle: str) -> bytes:
        return self._opened.output.artifacts().read(handle, self._workspace)

    async def query_output(self, arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        """Search stored output, or read lines of it; without terms and lines, from the start.

        The handle is never the id of a run: such a call fetches a result from `pending_calls`, and does not come here.
        """
        if (link := read_address(arguments["artifact_handle"])) is not None:
            handle, stream = link
            arguments = {"stream": stream, **arguments, "artifact_handle": handle}
        if not any(arguments.get(name) for name in ("query_terms", "cursor", "line_range")):
            stream = arguments.get("stream", "both")
            start = {"stream": "stdout" if stream == "both" else stream, "after_line": 0}
            arguments = {**arguments, "cursor": start}
        try:
            asked = OutputQuery.model_validate(arguments)
            found = await self.find_output(asked, caller)
        except ValidationError as problem:
            return reject_arguments("query_output", problem)
        except PaddockError as error:
            return build_refusal(Status.INVALID, type(error).__name__, str(error))
        shown = fit_found_output(found, self._cap, within=asked.cursor.after_char if asked.cursor else None)
        data = shown.to_wire() if shown is found else {**shown.to_wire(), "truncated": True}
        return ToolAnswer([text_block(cut_text(render_found_output(shown), self._cap))], data)


def build_program_tools(programs: ProgramTools) -> list[McpTool]:
    """Return `run_program` and `query_output`."""
    return [
        McpTool(
            name="run_program",
            title="Run a program in a language runtime",
            description=RUN_PROGRAM,
            input_schema=object_schema(
                [],
                language={"enum": [*programs.runtimes.languages]},
                code={"type": "string"},
                args=_TEXTS,
                executable={"type": "string"},
                stdin={"type": "string"},
                relative_cwd={"type": "string"},
                access={"enum": [*ACCESSES]},
                network={"enum": [*NETWORKS]},
                timeout_ms=_LINES,
                output_mode={"enum": [*OUTPUT_MODES], "description": _MODES},
                query_terms=_TEXTS,
                max_response_lines=_LINES,
                context_lines=_LINES,
                persist_output={"type": "boolean"},
                combined=_COMBINED,
                files={
                    "type": "array",
                    "items": {"type": "object"},
                    "description": "{path, text | base64 | workspace | artifact}",
                },
                outputs={**_TEXTS, "description": "files to keep: *.csv; figures shown come back as images"},
                env={"type": "object"},
                session={**_TEXT, "description": '"new" or handle'},
                packages={**_TEXTS, "description": "installed first; a person may be asked"},
            ),
            run=programs.run_program,
            phrases=_PHRASES,
            unlisted={
                "memory_bytes": _LINES,
                "cpu_ms": _LINES,
                "kernel": {"enum": [*KERNELS]},
                "background": {"type": "boolean"},
                "files": {
                    "type": "array",
                    "items": object_schema(
                        ["path"], path=_TEXT, text=_TEXT, base64=_TEXT, workspace=_TEXT, artifact=_TEXT
                    ),
                },
            },
            wider={"network": _NETWORK},
            explain=partial(_reject_arguments, programs.runtimes),
            aliases=ALIASES,
            output_schema=build_schema(ProgramAnswer),
            annotations={"destructiveHint": True, "openWorldHint": True},
        ),
        McpTool(
            name="query_output",
            title="Search stored output",
            description=QUERY_OUTPUT,
            input_schema=object_schema(
                ["artifact_handle"],
                artifact_handle={"type": "string"},
                query_terms=_TEXTS,
                stream={"enum": ["stdout", "stderr", "both"]},
                max_excerpts=_LINES,
                context_lines=_LINES,
                cursor={**_OBJECT, "description": "from an answer"},
                line_range={**_OBJECT, "description": "{stream, start_line, end_line}"},
            ),
            run=programs.query_output,
            phrases=_PHRASES,
            unlisted={
                "cursor": object_schema([], stream={}, after_line=_LINES, after_char=_LINES),
                "line_range": object_schema([], stream={}, start_line=_LINES, end_line=_LINES),
            },
            output_schema=build_schema(StoredOutputAnswer),
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
    ]


def _reject_arguments(
    runtimes: RuntimeSettings, tool: McpTool, arguments: Json, problems: tuple[Problem, ...]
) -> ToolAnswer:
    """Return the error for arguments that break the schema; models use other names for languages."""
    given = cast("Arguments", arguments if isinstance(arguments, dict) else {})
    language, args = given.get("language"), given.get("args")
    if isinstance(args, str) and args.split():
        hint = (
            f"; give a list with one item for each argument: {json.dumps(args.split()[:_MAX_LISTED_ITEMS])}"
        )
        problems = tuple(_add_hint(each, hint) if each.path == "args" else each for each in problems)
    problems = tuple(
        _add_hint(each, f"; {_FILES_EXAMPLE}") if each.path.startswith("files") else each for each in problems
    )
    if isinstance(language, str) and language not in runtimes.languages:
        from paddock.engines.programs.recipe import no_runtime

        others = (problem for problem in problems if problem.path != "language")
        problems = (Problem(no_runtime(cut_text(language, 200), runtimes.recipes)), *others)
    return reject_invalid_arguments(tool, arguments, problems)


def _add_hint(problem: Problem, hint: str) -> Problem:
    return problem._replace(text=f"{problem.text}{hint}")


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
    lines += list_notes(outcome)
    if handle := response["artifactHandle"]:
        lines.append(f"output: {handle}")
    for file in response.get("files", []):
        kept = file["handle"] or f"not kept: {file['notKept']}"
        lines.append(f"file: {file['path']} ({file['mediaType']}, {count(file['size'], 'byte')}) {kept}")
    lines += render_session(outcome.session)
    if "outputLines" in response:
        lines.append(f"{count(response['outputLines'], 'line')}, {count(response['outputBytes'], 'byte')}")
    both = "output" if response.get("combined") else "stdout"
    for name, title in (("stdoutSummary", both), ("stderrSummary", "stderr")):
        if shown := response.get(name):  # excerpts are rendered below
            lines += [f"--- {title}", shown]
    if outcome.changes is not None and outcome.changes.diff:
        lines += ["--- changes", outcome.changes.diff]
        if not outcome.changes.incomplete:
            accept = f'await paddock.changes.accept("{outcome.changes.id}")'
            lines.append(f"--- to accept the changes, run with execute_code: {accept}")
    for each in outcome.directory_changes:
        lines += [f"--- changes in {each.directory}", each.diff] if each.diff else []
    if "digest" in response:
        lines += ["--- digest", compact(response["digest"])]
    for part in response.get("excerpts", []):
        lines += [f"--- {part['source']} {part['lineStart']}-{part['lineEnd']}", part["content"]]
    return "\n".join(lines)


def render_found_output(found: OutputFound) -> str:
    """Return a query's result as text, with the cursors for the rest."""
    matches = count(found.match_count, "match", "matches")
    lines = [f"ok · {found.match_status} · {matches} · {count(found.total_lines, 'line')}"]
    for each in found.excerpts:
        lines += [f"--- {each.source} {each.line_start}-{each.line_end}", each.content]
    for label, place in (("more", found.next_cursor), ("the rest of a cut line", found.line_cursor)):
        if place is not None:
            lines.append(f"{label}: cursor {compact(place.model_dump(by_alias=True, exclude_none=True))}")
    return "\n".join(lines)


def fit_found_output(found: OutputFound, cap: int, *, within: int | None = None) -> OutputFound:
    """Return a query's result, shortened to `cap` characters, with a cursor for the rest.

    `within` is the character in a line after which the query began, if it continues within a line.
    """
    if len(compact(found.to_wire())) <= cap:
        return found
    room = cap - 2 * _FRAME_CHARS
    kept: list[Excerpt] = []
    for each in found.excerpts:
        room -= _FRAME_CHARS
        lines: list[str] = []
        for line in each.content.split("\n"):
            room -= len(compact(line))
            if room < 0:
                break
            lines.append(line)
        if lines:
            kept.append(excerpt(each.source, each.line_start, lines))
        if room < 0:
            break
    if not kept:  # the first line alone exceeds an answer: return its beginning
        first = found.excerpts[0]
        line = first.content.partition("\n")[0]
        room = max(cap - 3 * _FRAME_CHARS, _FRAME_CHARS)
        while len(compact(line)) > room:
            line = line[: len(line) // 2]
        after = 0 if line.startswith(CUT_MARK) else (within or 0) + len(line)
        following = Cursor(stream=first.source, after_line=first.line_start - 1, after_char=after)
        shown = excerpt(first.source, first.line_start, [line])
        return found.model_copy(update={"excerpts": (shown,), "next_cursor": following, "line_cursor": None})
    last = kept[-1]
    following = Cursor(stream=last.source, after_line=last.line_end)
    return found.model_copy(update={"excerpts": tuple(kept), "next_cursor": following})
