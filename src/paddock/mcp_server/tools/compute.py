"""The tool `compute`."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

from paddock.app.gate import Gate
from paddock.mcp_server import output_schemas
from paddock.mcp_server.overflow import OverflowStore
from paddock.mcp_server.replies import cut_text
from paddock.mcp_server.toolbox import Arguments, Caller, Tool, ToolAnswer, text_block
from paddock.model.outcome import Outcome
from paddock.rendering.computation import (
    Envelope,
    InvalidInput,
    build_envelope,
    build_refused_envelope,
    build_schema,
    check_request,
    convert_request,
)

if TYPE_CHECKING:
    from paddock.model.base import Json

DESCRIPTION = "Compute text from text: deterministic JavaScript with `read_input()` and `emit(text)`."

ANNOTATIONS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


def build_compute_tool(
    gate: Gate, workspace: Path, cap: int, overflow: OverflowStore, *, jit: bool = False
) -> Tool:
    """Return `compute`. Its answers have at most `cap` characters of output; `rest` stores larger ones.

    With `jit`, its limits may request just-in-time compilation.
    """

    async def compute(arguments: Arguments, caller: Caller) -> ToolAnswer:
        done, outcome = await run_computation(gate, workspace, arguments, caller)
        shown, emitted = render_envelope(done, cap), done.output or done.partial or ""
        if outcome is None or len(emitted) <= cap:
            return shown
        data: dict[str, Json] = {**cast("dict[str, Json]", shown.structured), "truncated": True}
        return await overflow.add_handle(outcome, shown, what="compute", value=emitted, data=data)

    return Tool(
        name="compute",
        title="Compute a text",
        description=DESCRIPTION,
        input_schema=build_schema(jit=jit),
        run=compute,
        output_schema=output_schemas.COMPUTATION_SCHEMA,
        annotations=ANNOTATIONS,
        explain=lambda _tool, _given, problems: render_envelope(
            build_refused_envelope(InvalidInput("; ".join(problems))), cap
        ),
    )


async def run_computation(
    gate: Gate, workspace: Path, arguments: Arguments, caller: Caller, *, exact: bool = True
) -> tuple[Envelope, Outcome | None]:
    """Return the envelope of a computation, and its outcome if it ran."""
    try:
        if exact:
            check_request(cast("Json", arguments), ())
        wish = convert_request(cast("Json", arguments))
    except InvalidInput as problem:
        return build_refused_envelope(problem), None
    request = wish.build_request(actor=caller.actor, surface="mcp", workspace=workspace, exact=exact)
    outcome = await caller.execute(gate, request)
    return build_envelope(outcome), outcome


def render_envelope(done: Envelope, cap: int) -> ToolAnswer:
    """Return the output as text; after a failure the error, then the partial output."""
    data: dict[str, Json] = {} if done.ok else done.error
    texts = [] if done.ok else [f"{done.code}: {cut_text(done.message, cap // 2)}"]
    if done.hint:
        data["hint"] = done.hint
        texts.append(f"hint: {done.hint}")
    for name, whole in (("output", done.output), ("partial", done.partial)):
        if whole is not None:
            data[name] = cut_text(whole, cap)
            texts.append(cut_text(whole, cap))
    if done.warnings:
        data["warnings"] = list(done.warnings)
        texts += [f"warning: {warning}" for warning in done.warnings]
    return ToolAnswer([text_block("\n".join(texts))], data, is_error=not done.ok)
