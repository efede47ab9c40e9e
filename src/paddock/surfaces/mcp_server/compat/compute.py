"""The tool `compute` under the name, schema and texts of the compat profile."""

from pathlib import Path
from typing import cast

from paddock.gate.gate import Gate
from paddock.model.base import Json
from paddock.surfaces.mcp_server.toolbox import Arguments, McpCaller, McpTool, ToolAnswer, text_block
from paddock.surfaces.mcp_server.tools.compute import ANNOTATIONS, run_computation
from paddock.surfaces.rendering.computation import (
    COMPAT_LIMITS,
    Envelope,
    InvalidInput,
    build_refused_envelope,
    convert_request,
)

COMPUTE_TOOL = "code.sandbox.js.run"

_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "source": {"type": "string"},
        "input": {"type": "string"},
        "limits": {"type": "object", "properties": COMPAT_LIMITS},
    },
    "required": ["source"],
}
"""The compat tool overlooks members that it does not know."""


def build_compat_compute_tool(gate: Gate, workspace: Path) -> McpTool:
    """Return `code.sandbox.js.run`, which answers with one line for each of the two streams."""

    async def compute(arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        done, _ = await run_computation(
            caller, gate, workspace, lambda: convert_request(cast("Json", arguments)), exact=False
        )
        return _render_lines(done)

    return McpTool(
        name=COMPUTE_TOOL,
        title="Compute a text",
        description="Run JavaScript that reads `read_input()` and writes `emit(text)`, and can do nothing else.",
        input_schema=_SCHEMA,
        run=compute,
        annotations=ANNOTATIONS,
        explain=lambda _tool, given, problems: _render_lines(_reject_arguments(given, problems)),
    )


def _reject_arguments(arguments: Json, problems: tuple[str, ...]) -> Envelope:
    """Return the refusal of arguments that break the schema."""
    try:
        convert_request(arguments)
    except InvalidInput as problem:
        unknown = [text for text in problems if "` is unknown" in text]
        return build_refused_envelope(InvalidInput("; ".join([str(problem), *unknown])))
    return build_refused_envelope(InvalidInput("; ".join(problems)))


def _render_lines(done: Envelope) -> ToolAnswer:
    return ToolAnswer([text_block(line) for line in (done.stdout, done.stderr) if line], is_error=not done.ok)
