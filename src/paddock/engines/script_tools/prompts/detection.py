"""Find the tools for a call of a prompt: by name, by its arguments, or always.

Pure functions from arguments and tools to matches. Other code decides whether a match runs.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from paddock.engines.script_tools.inputs import Inputs, list_required, properties_of
from paddock.engines.script_tools.manifest import ToolManifest
from paddock.model.base import Json

Reason = Literal["name_match", "schema_match", "always_match"]

ALL_MATCHED, SOME_MATCHED, NAMED = 0.9, 0.8, 1.0
_REQUEST_KEYS = ("tool", "tool_id", "toolId")
_SHORT_FORMS = {
    "file": ("file_path", "filePath", "path", "filepath"),
    "output": ("output_path", "outputPath", "output_file", "outputFile", "out"),
    "input": ("input_path", "inputPath", "input_file", "inputFile", "in"),
    "content": ("data", "text", "body"),
}
"""Spellings that people use interchangeably."""
_ALIASES_PATTERN = re.compile(r"\balias(?:es)?:\s*([\w, -]{1,200})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PromptMatch:
    """A tool that a call refers to."""

    tool: str
    priority: float
    reason: Reason
    explicit: bool
    matched: tuple[str, ...]
    """Parameters of the schema that are among the arguments."""
    inputs: Inputs
    needs_confirmation: bool


def detect(
    arguments: Mapping[str, Json], tools: Iterable[tuple[ToolManifest, Mapping[str, Json]]]
) -> list[PromptMatch]:
    """Return the matching tools, most certain first; tools come with their input schemas."""
    # The ids that the call names: keys `tool:<id>`, or lists in `tool`, `tool_id`, `toolId`.
    named = {key.partition(":")[2].strip().lower() for key in arguments if key.lower().startswith("tool:")}
    for key in _REQUEST_KEYS:
        if isinstance(value := arguments.get(key), str):
            named |= {part.strip().lower() for part in value.split(",")}
    named -= {""}
    found = [
        match for manifest, schema in tools if (match := _match_tool(arguments, manifest, schema, named))
    ]
    return sorted(found, key=lambda match: -match.priority)


def _match_tool(
    arguments: Mapping[str, Json], manifest: ToolManifest, schema: Mapping[str, Json], named: set[str]
) -> PromptMatch | None:
    rule = manifest.execution
    if not manifest.enabled or rule.trigger == "never":
        return None
    tool = manifest.id.lower()
    properties = properties_of(schema)
    values = {
        name: value
        for name in properties
        if (value := _find_value(arguments, name, properties[name])) is not None
    }
    explicit = tool in named

    def match(priority: float, reason: Reason) -> PromptMatch:
        inputs = values
        if not properties:
            inputs = {
                name: value
                for name, value in arguments.items()
                if name not in _REQUEST_KEYS and not name.lower().startswith("tool:")
            }
        confirm = rule.confirm and not explicit
        return PromptMatch(tool, priority, reason, explicit, tuple(values), inputs, confirm)

    if explicit:
        return match(NAMED, "name_match")
    if rule.trigger == "always":
        return match(NAMED, "always_match")
    if rule.trigger == "explicit":
        return None
    required = list_required(schema)
    present = [name for name in required if name in values]
    if not properties or not present or (rule.strict and len(present) < len(required)):
        return None
    return match(ALL_MATCHED if len(present) == len(required) else SOME_MATCHED, "schema_match")


def _find_value(arguments: Mapping[str, Json], name: str, schema: Json) -> Json:
    """Return the argument for a parameter, under any of its names; None if there is none."""
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    first, *rest = snake.split("_")
    names = [name, snake, first + "".join(part.capitalize() for part in rest)]
    for short, forms in _SHORT_FORMS.items():
        if name == short or name in forms:
            names += [short, *forms]
    description = cast("dict[str, Json]", schema).get("description") if isinstance(schema, dict) else None
    if isinstance(description, str) and (aliases := _ALIASES_PATTERN.search(description)):
        names += [alias.strip() for alias in aliases[1].split(",")]
    for spelled in filter(None, dict.fromkeys(names)):
        value = arguments.get(spelled)
        if value is not None and value not in ("", []):
            return value
    return None
