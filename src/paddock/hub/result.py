"""What a tool call gave: the raw result, and the value that a program wants to see."""

import json
import string
from typing import Any, NamedTuple, cast

from paddock.model.base import Json
from paddock.model.errors import (
    InvalidArguments,
    ServerError,
    ServerRejected,
    ServerTimeout,
    ServerUnavailable,
    ToolChanged,
    UnknownServer,
    UnknownTool,
)
from paddock.model.numbers import dumps, loads
from paddock.model.outcome import Status

_EXACT = 2**53 - 1
_FIELDS = ("content", "structuredContent", "isError", "_meta")


class ToolResult(NamedTuple):
    """The CallToolResult of a server as plain JSON, unchanged but for fields of the transport."""

    raw: dict[str, Json]
    """`content` (always a list), and `structuredContent`, `isError`, `_meta` where the server sent them."""
    warnings: tuple[str, ...] = ()
    """Where the result breaks the protocol; it is passed on all the same."""

    @property
    def said(self) -> str:
        """What it says to people: its texts, one below the other."""
        blocks = [block for block in cast("list[Any]", self.raw["content"]) if _is_block(block)]
        texts = [block.get("text") for block in blocks if block["type"] == "text"]
        return "\n".join(text for text in texts if isinstance(text, str))

    @property
    def is_error(self) -> bool:
        """Whether the tool itself reports failure (X27: a value, not an exception)."""
        return self.raw.get("isError") is True


class ToolInfo(NamedTuple):
    """What a server says about one of its tools. Claims of a stranger: never trusted, only shown."""

    name: str
    description: str
    input_schema: dict[str, Json]
    output_schema: dict[str, Json] | None
    annotations: dict[str, Json]


def read_result(answer: object) -> ToolResult:
    """Return the result in an answer to `tools/call`, with a warning for each broken rule."""
    if not isinstance(answer, dict):
        return ToolResult(
            {"content": [{"type": "text", "text": _text(answer)}]}, ("the result is not an object",)
        )
    fields = cast("dict[str, Json]", answer)
    raw: dict[str, Json] = {name: fields[name] for name in _FIELDS if fields.get(name) is not None}
    warnings: list[str] = []
    content = raw.get("content")
    if not isinstance(content, list):
        warnings.append("`content` is missing" if content is None else "`content` is not an array")
        raw["content"] = [] if content is None else [{"type": "text", "text": _text(content)}]
    elif not all(_is_block(block) for block in cast("list[object]", content)):
        warnings.append("a part of `content` is not a content block")
    if not isinstance(raw.get("isError", False), bool):
        warnings.append("`isError` is not a boolean")
        raw["isError"] = bool(raw["isError"])
    return ToolResult({"content": raw.pop("content"), **raw}, tuple(warnings))


def read_tools(entries: object) -> tuple[list[ToolInfo], list[str]]:
    """Return the tools in an answer to `tools/list`, and a warning for each entry with a fault."""
    tools: list[ToolInfo] = []
    warnings: list[str] = []
    for entry in cast("list[object]", entries) if isinstance(entries, list) else []:
        fields = cast("dict[str, Json]", entry) if isinstance(entry, dict) else {}
        name = fields.get("name")
        if not isinstance(name, str) or not name:
            warnings.append("a listed tool has no name")
            continue
        schema = fields.get("inputSchema")
        if not isinstance(schema, dict):
            warnings.append(f"tool {name!r} has no input schema")
        description, output, notes = (fields.get(k) for k in ("description", "outputSchema", "annotations"))
        tools.append(
            ToolInfo(
                name=name,
                description=description if isinstance(description, str) else "",
                input_schema=_object(schema) or {"type": "object"},
                output_schema=_object(output),
                annotations=_object(notes) or {},
            )
        )
    return tools, warnings


def native_value(result: ToolResult) -> Json:
    """Return what a program wants: structured content, else JSON in text, else text, else the content array.

    A number alone is read only when nothing is lost: `1.10`, `007` and integers over 2**53 stay text.
    """
    structured = result.raw.get("structuredContent")
    if structured is not None:
        return structured
    content = cast("list[Any]", result.raw["content"])
    if len(content) != 1 or not isinstance(content[0], dict):
        return content
    block = cast("dict[str, Json]", content[0])
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        return content
    if text[:1] in _LETTERS:
        return text
    try:
        value: Json = loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict | list | str | bool | None):
        return cast("Json", value)
    exact = json.dumps(value) == text.strip() and not (isinstance(value, int) and abs(value) > _EXACT)
    return value if exact else text


def _object(value: Json) -> dict[str, Json] | None:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else None


def _is_block(block: object) -> bool:
    return isinstance(block, dict) and isinstance(cast("dict[str, Json]", block).get("type"), str)


_LETTERS = frozenset(string.ascii_letters) - frozenset("tfn")
"""What no JSON begins with, and most texts do."""


def _text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


def blame(error: ServerError) -> Status:
    """Return who is to blame for a call that brought no result."""
    match error:
        case UnknownServer() | UnknownTool() | InvalidArguments():
            return Status.INVALID
        case ToolChanged():
            return Status.DENIED
        case ServerTimeout():
            return Status.TIMEOUT
        case ServerRejected():
            return Status.FAILED
        case ServerUnavailable() if error.sent:
            return Status.LOST
        case _:
            return Status.UNAVAILABLE
