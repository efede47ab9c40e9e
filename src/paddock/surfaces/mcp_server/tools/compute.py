"""The tool `compute`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict, cast

from paddock.gate.gate import Gate
from paddock.model.outcome import Outcome
from paddock.model.texts import cut_text
from paddock.surfaces.mcp_server.computation_request import read_computation_request
from paddock.surfaces.mcp_server.output_schemas import build_schema
from paddock.surfaces.mcp_server.overflow import OverflowStore
from paddock.surfaces.mcp_server.toolbox import Arguments, McpCaller, McpTool, ToolAnswer, text_block
from paddock.surfaces.rendering import answers
from paddock.surfaces.rendering.computation import (
    ComputationRequest,
    Envelope,
    InvalidInput,
    build_envelope,
    build_refused_envelope,
    build_request_schema,
)

if TYPE_CHECKING:
    from paddock.model.base import Json

DESCRIPTION = "Compute text from text: deterministic JavaScript with `read_input()` and `emit(text)`."


class ComputationError(answers.ErrorFields):
    """Why a computation is not ok."""

    code: NotRequired[Annotated[str, "`INVALID_INPUT`, `EVAL_ERROR`, `TIMEOUT`, `OUTPUT_LIMIT`, ..."]]
    hint: NotRequired[Annotated[str, "What to write instead."]]


class ComputationAnswer(answers.RunAnswer, TypedDict, total=False):
    """The answer of `compute`."""

    output: Annotated[str, "The emitted text."]
    partial: Annotated[str, "Text that was emitted before the error, if requested."]
    warnings: Annotated[list[str], "Numbers that may lack digits."]
    artifactHandle: answers.Handle
    error: ComputationError


ANNOTATIONS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


def build_compute_tool(
    gate: Gate, workspace: Path, cap: int, overflow: OverflowStore, *, jit: bool = False
) -> McpTool:
    """Return `compute`. Its answers have at most `cap` characters of output; `overflow` stores larger ones.

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
        input_schema=build_request_schema(jit=jit),
        run=compute,
        output_schema=build_schema(ComputationAnswer),
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
    data: ComputationAnswer = {"status": done.status.value}
    texts: list[str] = []
    if not done.ok:
        error: ComputationError = {"name": done.name, "message": done.message, "code": done.code}
        texts.append(f"{done.status.value}: {cut_text(done.message, cap // 2)}")
        if done.hint:
            error["hint"] = done.hint
            texts.append(f"hint: {done.hint}")
        data["error"] = error
    if done.output is not None:
        data["output"] = cut_text(done.output, cap)
        texts.append(data["output"])
    if done.partial is not None:
        data["partial"] = cut_text(done.partial, cap)
        texts.append(data["partial"])
    if done.warnings:
        data["warnings"] = list(done.warnings)
        texts += [f"warning: {warning}" for warning in done.warnings]
    return ToolAnswer([text_block("\n".join(texts))], data, is_error=not done.ok)
