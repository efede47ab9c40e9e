"""The tool `call_tool`: one call of a server's tool, without a program."""

from pathlib import Path

from paddock.gate.gate import Gate
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.surfaces.mcp_server.overflow import OverflowStore
from paddock.surfaces.mcp_server.tool_results import forward_result, is_larger, render_result_text
from paddock.surfaces.mcp_server.toolbox import Arguments, McpCaller, McpTool, ToolAnswer, object_schema

CALL_TOOL = "Use this for one call without code; the result stays untouched."


def build_call_tool(gate: Gate, workspace: Path, cap: int, overflow: OverflowStore) -> McpTool:
    """Return `call_tool`. Its results have at most `cap` characters; `overflow` stores larger ones."""

    async def call_tool(arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        work = ServerCall(
            server=arguments["server"], tool=arguments["tool"], arguments=arguments.get("args", {}), raw=True
        )
        request = ExecutionRequest(actor=caller.actor, surface="mcp", workspace=workspace, work=work)
        outcome = await caller.execute(gate, request)
        shown = forward_result(outcome, cap)
        if not outcome.ok or not is_larger(outcome, cap):
            return shown
        return await overflow.add_handle(outcome, shown, what="call_tool", value=render_result_text(outcome))

    return McpTool(
        name="call_tool",
        title="Call one tool",
        description=CALL_TOOL,
        input_schema=object_schema(
            ["server", "tool"],
            server={"type": "string"},
            tool={"type": "string"},
            args={"type": "object"},
        ),
        run=call_tool,
        aliases={"arguments": "args"},
        annotations={"destructiveHint": True, "openWorldHint": True},
    )
