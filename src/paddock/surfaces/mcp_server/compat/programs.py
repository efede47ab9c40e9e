"""Programs and their stored output under the names, schemas and responses of the compat profile."""

import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from paddock.gate.program_service import BUSY_ERROR_NAME
from paddock.model.artifact import OutputQuery
from paddock.model.base import Json
from paddock.model.compat import QUERY_TOOL
from paddock.model.errors import ConfigurationError, PaddockError, UnknownArtifact
from paddock.model.outcome import Outcome, Status
from paddock.model.program import CODE_CHARS, MAX_ARGUMENTS, OUTPUT_MODES
from paddock.model.request import RuntimeRun
from paddock.surfaces.mcp_server.argument_errors import reject_compat_arguments
from paddock.surfaces.mcp_server.arguments import to_snake_case
from paddock.surfaces.mcp_server.compat.repositories import Repositories
from paddock.surfaces.mcp_server.replies import compact
from paddock.surfaces.mcp_server.toolbox import (
    Arguments,
    McpCaller,
    McpTool,
    ToolAnswer,
    object_schema,
    text_block,
)
from paddock.surfaces.mcp_server.tools.programs import ALIASES, ProgramTools
from paddock.surfaces.rendering import render
from paddock.surfaces.rendering.program_response import program_response

if TYPE_CHECKING:
    from paddock.model.artifact import OutputFound

EXECUTE_TOOL = "sdl.runtime.execute"

_EXIT_NOT_STARTED = 1
"""Exit code of a program whose runtime is not available."""
_FAILURE = "failure"
_STATUS_WORDS = {
    Status.OK: "success",
    Status.FAILED: _FAILURE,
    Status.MEMORY_LIMIT: _FAILURE,
    Status.OUTPUT_LIMIT: _FAILURE,
    Status.PROCESS_LIMIT: _FAILURE,
    Status.UNAVAILABLE: _FAILURE,
    Status.LOST: _FAILURE,
}
"""Words of this profile for the ends of programs; every other status has its own name."""

_ERROR_STATUSES = frozenset({Status.INVALID, Status.ERROR})
"""Statuses that are errors of the call. Every other end is a response, including a denial."""
_REPOSITORY: dict[str, Json] = {"type": "string", "minLength": 1, "maxLength": 128}
_TERMS: dict[str, Json] = {"type": "array", "items": {"type": "string"}, "maxItems": 10}

_log = logging.getLogger("paddock.mcp")


class CompatPrograms:
    """The two tools, in the workspaces that `repoId` may name."""

    def __init__(self, programs: ProgramTools, repositories: Repositories) -> None:
        self._programs = programs
        self._repositories = repositories

    async def run_program(self, arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        """Run a program and return the compat response."""
        if unknown := self._reject_unknown_repository(arguments):
            return unknown
        name = arguments["repoId"]
        try:
            programs = await self._repositories.open_programs(name)
            native = {ALIASES.get(name, to_snake_case(name)): value for name, value in arguments.items()}
            outcome, work = await programs.execute_program(native, caller, mode="minimal")
        except ValidationError as problem:
            return reject_compat_arguments(EXECUTE_TOOL, problem)
        except ConfigurationError as problem:
            _log.warning("repository %s: %s", name, problem)
            return build_error(
                f"Repository {name} cannot be used: its settings are wrong; the server's log says how"
            )
        if outcome.status in _ERROR_STATUSES:
            return build_error(render.explain_outcome(outcome))
        return _build_response(build_compat_response(outcome, work))

    async def query_output(self, arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        """Search stored output and return the compat response."""
        if unknown := self._reject_unknown_repository(arguments):
            return unknown
        asked = {name: value for name, value in arguments.items() if name != "repoId"}
        roots = self._repositories.list_roots(arguments.get("repoId"))
        try:
            found = await self._find_output(OutputQuery.model_validate(asked), caller, roots)
            return _build_response(found.to_wire())
        except ValidationError as problem:
            return reject_compat_arguments(QUERY_TOOL, problem)
        except PaddockError as error:
            return build_error(str(error))

    async def _find_output(self, asked: OutputQuery, caller: McpCaller, roots: list[Path]) -> "OutputFound":
        """Return the result of a query, searched in each workspace until one has the output."""
        own, *others = roots
        for root in others:
            with suppress(UnknownArtifact):
                return await self._programs.find_output(asked, caller, root)
        return await self._programs.find_output(asked, caller, own)

    def _reject_unknown_repository(self, arguments: Arguments) -> ToolAnswer | None:
        """Return the error for an unknown repository; None for a known one."""
        named = arguments.get("repoId")
        known = named is None or self._repositories.has_name(named)
        return None if known else build_error(f"Repository {named} not found")


def build_compat_program_tools(programs: ProgramTools, repositories: Repositories) -> list[McpTool]:
    """Return `sdl.runtime.execute` and `sdl.runtime.queryOutput`."""
    seed = CompatPrograms(programs, repositories)
    return [
        McpTool(
            name=EXECUTE_TOOL,
            title="Run a program in a language runtime",
            description="Run code, or an executable with arguments, confined in the workspace whose name is repoId.",
            input_schema=object_schema(
                ["repoId", "runtime"],
                repoId=_REPOSITORY,
                runtime={"enum": [*programs.runtimes.languages]},
                executable={"type": "string", "minLength": 1},
                args={"type": "array", "items": {"type": "string"}, "maxItems": MAX_ARGUMENTS},
                code={"type": "string", "maxLength": CODE_CHARS},
                stdin={"type": "string"},
                relativeCwd={"type": "string", "default": "."},
                timeoutMs=_build_integer_schema(100, 600_000),
                queryTerms=_TERMS,
                maxResponseLines=_build_integer_schema(10, 1000, 100),
                contextLines=_build_integer_schema(0, 20, 3),
                persistOutput={"type": "boolean", "default": True},
                outputMode={"enum": [*OUTPUT_MODES], "default": "minimal"},
            ),
            run=seed.run_program,
            annotations={"destructiveHint": True, "openWorldHint": True},
        ),
        McpTool(
            name=QUERY_TOOL,
            title="Search stored output",
            description="Search the stored output of sdl.runtime.execute, or read lines of it.",
            input_schema=object_schema(
                ["artifactHandle"],
                repoId=_REPOSITORY,
                artifactHandle={"type": "string"},
                queryTerms=_TERMS,
                maxExcerpts=_build_integer_schema(1, 100, 10),
                contextLines=_build_integer_schema(0, 20, 3),
                stream={"enum": ["stdout", "stderr", "both"], "default": "both"},
                cursor={"type": "object"},
                lineRange={"type": "object"},
            ),
            run=seed.query_output,
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
    ]


def build_compat_response(outcome: Outcome, work: RuntimeRun) -> dict[str, Json]:
    """Return the response to a program in the words of this profile."""
    if outcome.error is not None and outcome.error.name == BUSY_ERROR_NAME:
        # In this profile a program without a slot counts as denied.
        reasons = (outcome.error.message.partition(":")[0],)
        changes = {"allowed": False, "rule": "runtimes.max_jobs", "reasons": reasons}
        decision = outcome.decision.model_copy(update=changes)
        outcome = outcome.model_copy(update={"status": Status.DENIED, "decision": decision})
    response: dict[str, Json] = {**program_response(outcome, work)}
    response["status"] = _STATUS_WORDS.get(outcome.status, outcome.status.value)
    if outcome.status is Status.UNAVAILABLE:
        response["exitCode"] = _EXIT_NOT_STARTED
    return response


def _build_integer_schema(minimum: int, maximum: int, default: int | None = None) -> dict[str, Json]:
    """Return the schema of a whole number."""
    bounds: dict[str, Json] = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return bounds if default is None else {**bounds, "default": default}


def _build_response(response: dict[str, Json]) -> ToolAnswer:
    return ToolAnswer([text_block(compact(response))], response)


def build_error(text: str) -> ToolAnswer:
    """Return the answer of a tool of this profile that failed."""
    return ToolAnswer([text_block(text)], is_error=True)
