"""The tool `compute`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from paddock.gate.gate import Gate
from paddock.model.outcome import Outcome
from paddock.surfaces.mcp_server import output_schemas
from paddock.surfaces.mcp_server.computation_request import read_computation_request
from paddock.surfaces.mcp_server.overflow import OverflowStore
from paddock.surfaces.mcp_server.replies import cut_text
from paddock.surfaces.mcp_server.toolbox import Arguments, McpCaller, McpTool, ToolAnswer, text_block
from paddock.surfaces.rendering.computation import (
    ComputationRequest,
    Envelope,
    InvalidInput,
    build_envelope,
    build_refused_envelope,
    build_schema,
)

if TYPE_CHECKING:
    from paddock.model.base import Json

DESCRIPTION = "Compute text from text: deterministic JavaScript with `read_input()` and `emit(text)`."

ANNOTATIONS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


def build_compute_tool(
    gate: Gate, workspace: Path, cap: int, overflow: OverflowStore, *, jit: bool = False
) -> McpTool:
    """Return `compute`. Its answers have at most `cap` characters of output; `rest` stores larger ones.

    With `jit`, its limits may request just-in-time compilation.
    """

    async def compute(arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        done, outcome = await run_computation(
            caller, gate, workspace, lambda: read_computation_request(cast("Json", arguments), jit=jit)
        )
        shown, emitted = render_envelope(done, cap), done.output or done.partial or ""
        if outcome is None or len(emitted) <= cap:
            return shown
        data: dict[str, Json] = {**cast("dict[str, Json]", shown.structured), "truncated": True}
        return await overflow.add_handle(outcome, shown, what="compute", value=emitted, data=data)

    return McpTool(
        name="compute",
        title="Compute a text",
        description=DESCRIPTION,
        input_schema=build_schema(jit=jit),
        run=compute,
        output_schema=output_schemas.COMPUTATION_SCHEMA,
        annotations=ANNOTATIONS,
        checks=False,
    )


async def run_computation(
    caller: McpCaller,
    gate: Gate,
    workspace: Path,
    read: Callable[[], ComputationRequest],
    *,
    exact: bool = True,
) -> tuple[Envelope, Outcome | None]:
    """Return the envelope of the computation that `read` returns, and its outcome if it ran."""
    try:
        wish = read()
    except InvalidInput as problem:
        return build_refused_envelope(problem), None
    request = wish.build_request(actor=caller.actor, surface="mcp", workspace=workspace, exact=exact)
    outcome = await caller.execute(gate, request)
    answer = build_envelope(outcome)
    return answer.replace(warnings=(*wish.warnings, *answer.warnings)), outcome


def render_envelope(done: Envelope, cap: int) -> ToolAnswer:
    """Return the output as text; after a failure the error, then the partial output."""
    data: dict[str, Json] = {"status": done.status.value}
    texts: list[str] = []
    if not done.ok:
        data["error"] = {"name": done.name, "message": done.message, "code": done.code}
        texts.append(f"{done.status.value}: {cut_text(done.message, cap // 2)}")
        if done.hint:
            data["error"]["hint"] = done.hint
            texts.append(f"hint: {done.hint}")
    for name, whole in (("output", done.output), ("partial", done.partial)):
        if whole is not None:
            data[name] = cut_text(whole, cap)
            texts.append(cut_text(whole, cap))
    if done.warnings:
        data["warnings"] = list(done.warnings)
        texts += [f"warning: {warning}" for warning in done.warnings]
    return ToolAnswer([text_block("\n".join(texts))], data, is_error=not done.ok)
