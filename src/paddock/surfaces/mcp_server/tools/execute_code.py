"""The tool `execute_code`."""

from pathlib import Path
from typing import Any, cast, get_args

from pydantic import ValidationError

from paddock.gate.gate import Gate
from paddock.model.base import Json
from paddock.model.limits import Calls, LimitOverrides
from paddock.model.request import Check, ExecutionRequest, GuestRun
from paddock.surfaces.mcp_server.argument_errors import reject_arguments
from paddock.surfaces.mcp_server.output_schemas import build_schema
from paddock.surfaces.mcp_server.overflow import OverflowStore
from paddock.surfaces.mcp_server.replies import CodeAnswer, build_answer
from paddock.surfaces.mcp_server.toolbox import Arguments, McpCaller, McpTool, ToolAnswer, object_schema

EXECUTE_CODE = (
    "Use this for several steps: a JavaScript/TypeScript program that calls tools "
    "and returns only what you need. `await servers.NAME.TOOL({...})`, Promise.all, console.log, "
    "`input`, top-level `return`. No files, no network."
)

_ANY_TYPES = ("object", "array", "string", "number", "boolean")
"""Any JSON value, for clients that accept only one type per schema."""
_JIT_PARAMETER: dict[str, Json] = {
    "jit": {"type": "boolean", "description": "compile: for long calculations"}
}
_RECORD_PARAMETER: dict[str, Json] = {
    "record": {"type": "boolean", "description": "keep for replay by a person"}
}


def build_execute_code_tool(
    gate: Gate,
    workspace: Path,
    cap: int,
    overflow: OverflowStore,
    *,
    jit: bool = False,
    record: bool = False,
) -> McpTool:
    """Return `execute_code`. Its results have at most `cap` characters; `overflow` stores larger ones.

    With `jit`, programs may request just-in-time compilation, and with `record` a recording. Otherwise the argument is
    not listed, which saves tokens.
    """

    async def execute_code(arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        try:
            work = GuestRun(
                source=arguments["code"],
                input=arguments.get("input"),
                session=arguments.get("session"),
                check=arguments.get("check"),
                record=arguments.get("record", False),
            )
        except ValidationError as problem:  # the session is no handle, or cannot be recorded
            return reject_arguments("execute_code", problem)
        limits = LimitOverrides(timeout_ms=arguments.get("timeout_ms"))
        request = ExecutionRequest(
            actor=caller.actor,
            surface="mcp",
            workspace=workspace,
            work=work,
            limits=limits,
            jit=arguments.get("jit", False),
            calls=arguments.get("mode", "run"),
        )
        outcome = await caller.execute(gate, request, on_console=caller.on_console)
        shown = build_answer(outcome, cap)
        data = cast("dict[str, Any]", shown.structured)
        cut = "truncated" in data or outcome.artifact is not None
        if outcome.console_truncated:  # lines beyond the limit do not exist, so none can be stored
            data["truncated"] = True
        return await overflow.add_handle(outcome, shown, what="execute_code", data=data) if cut else shown

    return McpTool(
        name="execute_code",
        title="Run a program",
        description=EXECUTE_CODE,
        input_schema=object_schema(
            ["code"],
            code={"type": "string"},
            input={"anyOf": [{"type": kind} for kind in _ANY_TYPES]},
            timeout_ms={"type": "integer", "minimum": 1},
            session={"type": "string", "description": '"new", or handle'},
            mode={"enum": [*get_args(Calls)], "description": "dry_run: stub writing calls"},
            check={"enum": [*get_args(Check)]},
            **(_JIT_PARAMETER if jit else {}),
            **(_RECORD_PARAMETER if record else {}),
        ),
        run=execute_code,
        output_schema=build_schema(CodeAnswer),
        annotations={"destructiveHint": True, "openWorldHint": True},
    )
