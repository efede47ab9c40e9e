"""Pass results of upstream tools to the client, changed only where they are too large or break the protocol."""

import re
import sys
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from paddock.model.numbers import dumps
from paddock.model.outcome import Outcome
from paddock.model.texts import cut_text
from paddock.surfaces.mcp_server.replies import build_answer, compact
from paddock.surfaces.mcp_server.toolbox import ToolAnswer, text_block
from paddock.surfaces.rendering.render import console_text
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from paddock.model.base import Json

_OWN = "(modelcontextprotocol|mcp)"
_RESERVED_PATTERN = re.compile(
    rf"([^/]*\.)?{_OWN}\.[^/]*/|[^/.]*\.{_OWN}/|(traceparent|tracestate|baggage|progressToken)$"
)
"""Reserved names in `_meta`, by their prefixes in any revision, or of a trace."""


def forward_result(outcome: Outcome, cap: int) -> ToolAnswer:
    """Return the result of a single call. Its texts have at most `cap` characters, and so does its data.

    Paddock's warnings about the call follow the server's content, each in its own block.
    """
    if not outcome.ok:
        return build_answer(outcome, cap, single=True)
    result = build_result(outcome, cap)
    if not outcome.console:
        return result
    warnings = [text_block(make_encodable(console_text(line))) for line in outcome.console]
    return replace(result, content=[*result.content, *warnings])


def build_result(outcome: Outcome, cap: int = sys.maxsize) -> ToolAnswer:
    """Return the result of a call."""
    raw = cast("dict[str, Any]", outcome.value)
    blocks: list[dict[str, Json]] = []
    room = cap
    for part in raw["content"]:
        try:
            _content_block().validate_python(part, by_name=False)
            block = cast("dict[str, Json]", part)
        except ValidationError:  # some servers send blocks that are not of the protocol
            block = text_block(compact(part))
        if isinstance(text := block.get("text"), str):
            block = {**block, "text": cut_text(text, room)}
            room = max(0, room - len(text))
        blocks.append(block)
    structured = raw.get("structuredContent")
    if structured is not None and len(text := compact(structured)) > cap:
        structured = None
        blocks = blocks or [text_block(cut_text(text, cap))]
    given = raw.get("_meta")
    meta = cast("dict[str, Json]", given) if isinstance(given, dict) else {}
    # Reserved names concern one connection, such as a task.
    meta = {name: value for name, value in meta.items() if not _RESERVED_PATTERN.match(name)}
    if len(compact(meta)) > cap:
        meta = {}
    return ToolAnswer(blocks, structured, is_error=raw.get("isError") is True, meta=meta)


def is_larger(outcome: Outcome, cap: int) -> bool:
    """Return whether the texts or the data of a result exceed the size of an answer."""
    raw = cast("dict[str, Any]", outcome.value)
    texts: list[object] = [part.get("text") for part in raw["content"] if isinstance(part, dict)]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    shown = sum(len(text) for text in texts if isinstance(text, str))
    structured = raw.get("structuredContent")
    return shown > cap or (structured is not None and len(compact(structured)) > cap)


def render_result_text(outcome: Outcome) -> str:
    """Return a whole result as text for searches and line ranges: texts unchanged, everything else as JSON."""
    raw = cast("dict[str, Any]", outcome.value)
    parts: list[str] = []
    for part in raw["content"]:
        text: object = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        parts.append(text if isinstance(text, str) else compact(part))
    if (structured := raw.get("structuredContent")) is not None:
        parts.append(dumps(structured, ensure_ascii=False, indent=1))
    return "\n".join(parts)


@cache
def _content_block() -> Any:  # noqa: ANN401 - pydantic's adapter of a union
    from mcp_types import ContentBlock  # already loaded in a server
    from pydantic import TypeAdapter

    return TypeAdapter[Any](ContentBlock)
