"""The compat profile as a whole, and its tools, with their exact texts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from paddock.engines.servers.catalog.provisioning.service import NO_MATCH
from paddock.engines.servers.catalog.search import compute_confidence, keyword_search
from paddock.foundation.schema.check import Problem
from paddock.gate.gate import Gate
from paddock.model.base import Json
from paddock.model.invisible import spell_invisible
from paddock.model.limits import KIB, LimitOverrides
from paddock.model.outcome import Status
from paddock.model.request import ExecutionRequest, GuestRun, ServerCall, Work
from paddock.policy.settings.profiles import ExecuteLimits
from paddock.surfaces.mcp_server.compat.programs import build_compat_program_tools, build_error
from paddock.surfaces.mcp_server.compat.repositories import Repositories
from paddock.surfaces.mcp_server.tool_results import build_result
from paddock.surfaces.mcp_server.toolbox import Arguments, McpCaller, McpTool, ToolAnswer, text_block
from paddock.surfaces.mcp_server.tools.compute import ANNOTATIONS, run_computation
from paddock.surfaces.mcp_server.tools.discovery import SEARCH_WAIT_S
from paddock.surfaces.mcp_server.tools.programs import ProgramTools
from paddock.surfaces.rendering import render
from paddock.surfaces.rendering.computation import (
    COMPAT_LIMITS,
    Envelope,
    InvalidInput,
    build_refused_envelope,
    convert_request,
)

if TYPE_CHECKING:
    from paddock.engines.servers.catalog.provisioning.service import ProvisionMatch
    from paddock.gate.open_paddock import OpenPaddock

NO_OUTPUT = "(no output)"
MAX_CODE_BYTES = 50 * KIB
"""Maximum size of a program, in bytes of UTF-8, unless settings name another one."""
COMPUTE_TOOL = "code.sandbox.js.run"

_COMPUTE_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "source": {"type": "string"},
        "input": {"type": "string"},
        "limits": {"type": "object", "properties": COMPAT_LIMITS},
    },
    "required": ["source"],
}
"""The compat tool overlooks members that it does not know."""


class CompatTools:
    """The tools of the compat profile on one session."""

    def __init__(self, opened: "OpenPaddock", workspace: Path, limits: ExecuteLimits) -> None:
        """Run programs of agents within `limits`."""
        self._opened = opened
        self._workspace = workspace
        is_default = limits.code_bytes == ExecuteLimits().code_bytes
        self._limits = LimitOverrides(code_bytes=MAX_CODE_BYTES if is_default else None)

    async def discover_tools(self, arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        """List the servers, or find tools by the compat score."""
        catalog = self._opened.servers.catalog
        listing = await catalog.list_tools(patience_s=SEARCH_WAIT_S)
        if not arguments.get("query"):
            status = self._opened.servers.server_statuses()
            counts = {name: sum(tool.server == name for tool in listing.tools) for name in status}
            return _build_json_answer(
                [
                    {"name": name, "state": facts.state, "toolCount": counts[name], "criticality": "vital"}
                    for name, facts in status.items()
                ]
            )
        server = arguments.get("server")
        tools = [tool for tool in listing.tools if server in (None, "", tool.server)]
        query = arguments["query"]
        return _build_json_answer(
            [
                {
                    "tool": hit.tool.tool.name,
                    "server": hit.tool.server,
                    "description": spell_invisible(hit.tool.tool.description),
                    "score": hit.score,
                    "confidence": round(compute_confidence(hit.score, query), 2),
                }
                for hit in keyword_search(tools, query)
            ]
        )

    async def provision_server(self, arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        """Return the tools for an intent, or the servers that could be enabled. Installs and starts nothing."""
        intent, context = arguments["intent"], arguments.get("context") or ""
        if not intent.strip():
            return _report_missing(["intent"])
        tools = (await self._opened.servers.catalog.list_tools(patience_s=SEARCH_WAIT_S)).tools
        hits = keyword_search(tools, f"{intent} {context}".strip())
        found = self._opened.servers.provisioning.answer_intent(intent, hits, context=context)
        match found.source:
            case "local":
                matches = [
                    {
                        "tool": hit.tool.tool.name,
                        "server": hit.tool.server,
                        "description": spell_invisible(hit.tool.tool.description),
                        "confidence": sure,
                    }
                    for hit, sure in found.tools
                ]
                return _build_json_answer({"source": "local", "tools": matches})
            case "registry":
                auto = arguments.get("autoProvision") is True
                return _build_json_answer(
                    {
                        "source": "registry",
                        "matches": [_describe_match(each, auto=auto) for each in found.matches],
                    }
                )
            case "none":
                return _build_json_answer({"source": "none", "message": NO_MATCH})

    async def call_tool(self, arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        """Make one call and return its result verbatim."""
        server, tool = arguments["server"], arguments["tool"]
        work = ServerCall(server=server, tool=tool, arguments=arguments.get("args") or {}, raw=True)
        request = self._build_request(work, caller)
        outcome = await caller.execute(self._opened.gate, request)
        if outcome.ok:
            return build_result(outcome)
        message = outcome.error.message if outcome.error else outcome.status.value
        if outcome.status is Status.UNAVAILABLE:
            begun = f"Failed to connect to server {server}: "
            message = begun + message.removeprefix(begun)
        elif outcome.status is not Status.INVALID:
            message = f"Error calling {tool} on {server}: {message}"
        return build_error(message)

    async def execute_code(self, arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        """Run a program and return console lines and value as one text."""
        if not arguments["code"]:
            return _report_missing(["code"])
        work = GuestRun(source=arguments["code"], raw_results=True)
        request = self._build_request(work, caller).replace(limits=self._limits)
        outcome = await caller.execute(self._opened.gate, request, on_console=caller.on_console)
        text = render.output_text(outcome)
        if outcome.ok:
            return ToolAnswer([text_block(text or NO_OUTPUT)])
        return build_error(
            "\n".join(filter(None, [f"mcp_execute error: {render.error_text(outcome)}", text]))
        )

    def _build_request(self, work: Work, caller: McpCaller) -> ExecutionRequest:
        return ExecutionRequest(actor=caller.actor, surface="mcp", workspace=self._workspace, work=work)


def build_compat_profile(
    opened: "OpenPaddock",
    workspace: Path,
    programs: ProgramTools,
    repositories: Repositories,
    limits: ExecuteLimits,
) -> list[McpTool]:
    """Return the tools of the compat profile, whose arguments and texts are exact."""
    tools = [
        *build_compat_tools(opened, workspace, limits),
        *build_compat_program_tools(programs, repositories),
        _build_compute_tool(opened.gate, workspace),
    ]
    return [replace(tool, exact=True) for tool in tools]


def build_compat_tools(opened: "OpenPaddock", workspace: Path, limits: ExecuteLimits) -> list[McpTool]:
    """Return `mcp_discover`, `mcp_provision`, `mcp_call` and `mcp_execute`, which runs programs within `limits`."""
    seed = CompatTools(opened, workspace, limits)
    return [
        McpTool(
            name="mcp_discover",
            title="Discover tools",
            description="Find tools of the configured MCP servers by keywords; without a query, list the servers.",
            input_schema=_build_schema([], query="string", server="string"),
            run=seed.discover_tools,
            explain=_reject_arguments,
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
        McpTool(
            name="mcp_provision",
            title="Find a server",
            description="Find tools for an intent: among the configured servers, else servers that could be had.",
            input_schema=_build_schema(
                ["intent"], intent="string", context="string", autoProvision="boolean"
            ),
            run=seed.provision_server,
            explain=_reject_arguments,
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
        McpTool(
            name="mcp_call",
            title="Call one tool",
            description="Call one tool of a configured MCP server.",
            input_schema=_build_schema(["server", "tool"], server="string", tool="string", args="object"),
            run=seed.call_tool,
            explain=_reject_arguments,
        ),
        McpTool(
            name="mcp_execute",
            title="Run a program",
            description="Run JavaScript that calls tools: `await servers.NAME.call('TOOL', {...})`; return a value.",
            input_schema=_build_schema(["code"], code="string"),
            run=seed.execute_code,
            explain=_reject_arguments,
        ),
    ]


def _describe_match(match: "ProvisionMatch", *, auto: bool) -> dict[str, Json]:
    entry = match.offer.entry
    command = (
        " ".join([str(entry["command"]), *entry.get("args", [])]) if "command" in entry else str(entry["url"])
    )
    facts: dict[str, Json] = {
        "name": match.offer.name,
        "description": match.offer.description,
        "confidence": match.confidence,
        "installCommand": command,
    }
    return {**facts, "trusted": match.trusted, "autoProvisionable": match.allowed} if auto else facts


def _build_compute_tool(gate: Gate, workspace: Path) -> McpTool:
    """Return `code.sandbox.js.run`, which answers with one line for each of the two streams."""

    def render_lines(done: Envelope) -> ToolAnswer:
        lines = [text_block(line) for line in (done.stdout, done.stderr) if line]
        return ToolAnswer(lines, is_error=not done.ok)

    async def compute(arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        done, _ = await run_computation(
            caller, gate, workspace, lambda: convert_request(cast("Json", arguments)), exact=False
        )
        return render_lines(done)

    def explain(_tool: McpTool, given: Json, problems: tuple[Problem, ...]) -> ToolAnswer:
        refused = InvalidInput("; ".join(problem.text for problem in problems))
        try:
            convert_request(given)
        except InvalidInput as problem:
            refused = problem
        return render_lines(build_refused_envelope(refused))

    return McpTool(
        name=COMPUTE_TOOL,
        title="Compute a text",
        description="Run JavaScript that reads `read_input()` and writes `emit(text)`, and can do nothing else.",
        input_schema=_COMPUTE_SCHEMA,
        run=compute,
        annotations=ANNOTATIONS,
        explain=explain,
    )


def _reject_arguments(tool: McpTool, arguments: Json, problems: tuple[Problem, ...]) -> ToolAnswer:
    given = cast("dict[str, Any]", arguments if isinstance(arguments, dict) else {})
    required = cast("list[str]", tool.input_schema["required"])
    missing = [name for name in required if not given.get(name)]
    if missing:
        return _report_missing(required)
    return build_error("\n".join(problem.text for problem in problems))


def _report_missing(names: list[str]) -> ToolAnswer:
    return build_error(f"Missing required parameter{'s'[: len(names) != 1]}: {', '.join(names)}")


def _build_json_answer(value: Json) -> ToolAnswer:
    return ToolAnswer([text_block(json.dumps(value, indent=2, ensure_ascii=False))])


def _build_schema(required: list[str], **types: str) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in types.items()},
        "required": required,
    }
