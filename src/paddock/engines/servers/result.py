"""Tools and results of upstream servers, as values that all parts share; the value of a result for a program."""

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from paddock.engines.servers.output import MAX_DEPTH
from paddock.foundation.large_json import JsonLimitError, read_json
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
from paddock.model.invisible import has_invisible, spell_invisible
from paddock.model.json_meter import COUNTED_BYTES, MAX_VALUES
from paddock.model.numbers import dumps, loads
from paddock.model.outcome import Status

_MAX_EXACT_INTEGER = 2**53 - 1
_WRAP_MARK, _WRAPPED = "x-fastmcp-wrap-result", "result"
"""FastMCP's mark in an output schema: MCP requires an object, so that it puts any other result into one."""
_FIELDS = ("content", "structuredContent", "isError", "_meta")


class ToolResult(NamedTuple):
    """A server's CallToolResult as plain JSON, unchanged except for fields of the transport."""

    raw: dict[str, Json]
    """`content` (always a list), and `structuredContent`, `isError`, `_meta` if the server sent them."""
    warnings: tuple[str, ...] = ()
    """How the result breaks the protocol; it is passed on nevertheless."""
    server: str = ""
    """The server that returned it."""
    max_values: int = MAX_VALUES
    """Maximum number of values in a text that is parsed as JSON."""
    is_wrapped: bool = False
    """Whether the tool's declared result is the member `result` of the structured content (`find_wrapped`)."""
    unchecked: str = ""
    """Which arguments of the call were not checked, and why; empty if all were."""

    @property
    def text(self) -> str:
        """The text for people: its text blocks, one below the other."""
        blocks = [block for block in cast("list[Any]", self.raw["content"]) if _is_block(block)]
        texts = [block.get("text") for block in blocks if block["type"] == "text"]
        return "\n".join(text for text in texts if isinstance(text, str))

    @property
    def is_error(self) -> bool:
        """Whether the tool itself reports failure (a value, not an exception)."""
        return self.raw.get("isError") is True


class ToolInfo(NamedTuple):
    """A tool as its server describes it. Untrusted: it is only shown."""

    name: str
    description: str
    input_schema: dict[str, Json]
    output_schema: dict[str, Json] | None
    annotations: dict[str, Json]


@dataclass(frozen=True, slots=True)
class CatalogTool:
    """A tool of an upstream server in the catalog."""

    server: str
    tool: ToolInfo
    changed: bool = False
    """The server's current definition differs from the pin; this is the pinned definition."""
    hides: bool = False
    """It was `changed` from the start: its definition contains invisible characters, which a person must accept."""
    alias: str = ""
    """A second name that is an identifier; empty if there is none."""

    @property
    def name(self) -> str:
        """Its name for people and programs: `server.tool`."""
        return f"{self.server}.{self.tool.name}"

    @property
    def warning(self) -> str:
        """Warning for readers of its definition; empty if there is none."""
        if not self.hides and not has_hidden(self.tool):
            return ""
        return (
            f"{spell_invisible(self.name)} has invisible characters in its definition; they are spelled out"
        )


def has_hidden(tool: ToolInfo) -> bool:
    """Return whether a definition has invisible characters."""
    texts = (tool.name, tool.description)
    schemas = (tool.input_schema, tool.output_schema, tool.annotations)
    return any(map(has_invisible, texts)) or any(
        has_invisible(json.dumps(schema, ensure_ascii=False)) for schema in schemas if schema
    )


def read_result(answer: object, server: str = "", max_values: int = MAX_VALUES) -> ToolResult:
    """Return the result in an answer to `tools/call`, with a warning for each broken rule."""
    if not isinstance(answer, dict):
        return ToolResult(
            {"content": [{"type": "text", "text": _render_text(answer)}]},
            ("the result is not an object",),
            server,
            max_values,
        )
    fields = cast("dict[str, Json]", answer)
    raw: dict[str, Json] = {name: fields[name] for name in _FIELDS if fields.get(name) is not None}
    warnings: list[str] = []
    content = raw.get("content")
    if not isinstance(content, list):
        warnings.append("`content` is missing" if content is None else "`content` is not an array")
        raw["content"] = [] if content is None else [{"type": "text", "text": _render_text(content)}]
    elif not all(_is_block(block) for block in cast("list[object]", content)):
        warnings.append("a part of `content` is not a content block")
    if not isinstance(raw.get("isError", False), bool):
        warnings.append("`isError` is not a boolean")
        raw["isError"] = bool(raw["isError"])
    return ToolResult({"content": raw.pop("content"), **raw}, tuple(warnings), server, max_values)


def read_tools(entries: object) -> tuple[list[ToolInfo], list[str]]:
    """Return the tools in an answer to `tools/list`, and a warning for each faulty entry."""
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
                input_schema=_as_object(schema) or {"type": "object"},
                output_schema=_as_object(output),
                annotations=_as_object(notes) or {},
            )
        )
    return tools, warnings


def without_hidden_names(tools: Sequence[ToolInfo]) -> tuple[list[ToolInfo], list[str]]:
    """Return the tools with visible names, and a warning for each other tool."""
    seen = [tool for tool in tools if not has_invisible(tool.name)]
    hidden = [spell_invisible(tool.name) for tool in tools if has_invisible(tool.name)]
    return seen, [f'tool "{name}" is left out: its name has invisible characters' for name in hidden]


async def read_native(result: ToolResult) -> Json:
    """Return the result of `native_value`, computed in slices if it is large.

    Raises ServerUnavailable if a text is JSON with too many values.
    """
    text = _single_text(result)
    if text is None:
        return _other_value(result)
    if len(text) <= COUNTED_BYTES or text[:1] in _NON_JSON_LETTERS:
        return _value_of(text)
    data = text.encode("utf-8", "surrogatepass")
    try:
        value, _ = await read_json(data, result.max_values, MAX_DEPTH, errors="surrogatepass")
    except JsonLimitError as fault:
        if fault.too_deep:
            return _value_of(text)
        what = f"its text is JSON of more than {result.max_values} values"
        how = "ask for less at once, raise `servers.answer_values`, or read the text with `callRaw`"
        why = f"Server {result.server} sent no complete answer: {what}; {how}."
        raise ServerUnavailable(why, sent=True) from None
    except ValueError:
        return text
    return _keep_digits(value, text)


def native_value(result: ToolResult) -> Json:
    """Return the value for a program: structured content, else JSON in text, else text, else the content array.

    A result that FastMCP has put into an object is taken out of it.
    """
    text = _single_text(result)
    return _other_value(result) if text is None else _value_of(text)


def find_wrapped(schema: Mapping[str, Json] | None) -> dict[str, Json] | None:
    """Return the schema of the result that FastMCP has put into an object; None if an output schema is not marked."""
    if schema is None or schema.get(_WRAP_MARK) is not True:
        return None
    members = schema.get("properties")
    wrapped = cast("dict[str, Json]", members).get(_WRAPPED) if isinstance(members, dict) else None
    if not isinstance(wrapped, dict) or len(cast("dict[str, Json]", members)) != 1:
        return None
    shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return {**shared, **cast("dict[str, Json]", wrapped)}


def _other_value(result: ToolResult) -> Json:
    structured = result.raw.get("structuredContent")
    if result.is_wrapped and isinstance(structured, dict):
        fields = cast("dict[str, Json]", structured)
        if [*fields] == [_WRAPPED]:
            return fields[_WRAPPED]
    return result.raw["content"] if structured is None else cast("Json", structured)


def _value_of(text: str) -> Json:
    """Return a text parsed as JSON, else the text itself.

    A number alone is parsed only without loss: `1.10`, `007` and integers over 2**53 stay text.
    """
    if text[:1] in _NON_JSON_LETTERS:
        return text
    try:
        value: Json = loads(text)
    except (ValueError, RecursionError):
        return text
    return _keep_digits(value, text)


def _keep_digits(value: Json, text: str) -> Json:
    if isinstance(value, dict | list | str | bool | None):
        return cast("Json", value)
    exact = json.dumps(value) == text.strip() and not (
        isinstance(value, int) and abs(value) > _MAX_EXACT_INTEGER
    )
    return value if exact else text


def _single_text(result: ToolResult) -> str | None:
    """Return the text of a result that consists of one text block."""
    content = cast("list[Any]", result.raw["content"])
    if len(content) != 1 or "structuredContent" in result.raw or not isinstance(content[0], dict):
        return None
    block = cast("dict[str, Json]", content[0])
    text = block.get("text")
    return text if block.get("type") == "text" and isinstance(text, str) else None


def _as_object(value: Json) -> dict[str, Json] | None:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else None


def _is_block(block: object) -> bool:
    return isinstance(block, dict) and isinstance(cast("dict[str, Json]", block).get("type"), str)


_NON_JSON_LETTERS = frozenset(string.ascii_letters) - frozenset("tfn")
"""Characters with which no JSON document begins, but most texts do."""


def _render_text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


def find_culprit(error: ServerError) -> Status:
    """Return the status that says who caused a call to fail."""
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
