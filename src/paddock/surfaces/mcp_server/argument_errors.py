"""Errors for arguments that the model rejects, with the caller's own names for them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paddock.model.fields import list_fields, to_camel_case
from paddock.model.outcome import Status
from paddock.model.texts import FAULT_TEXTS, list_faults
from paddock.surfaces.mcp_server.arguments import to_snake_case
from paddock.surfaces.mcp_server.toolbox import ToolAnswer, build_refusal

if TYPE_CHECKING:
    from pydantic import ValidationError

_MAX_PROBLEMS = 5
_NATIVE_NAMES = {"runtime": "language", **{field.path: name for name, field in list_fields("mcp").items()}}
"""Arguments of the native tools by their fields in the model."""
_COMPAT_NAMES = {field.path: to_camel_case(name) for name, field in list_fields("mcp").items()}
"""The same for the compat tools."""
_MESSAGES = {
    **FAULT_TEXTS,
    "greater_than": "must be above {gt}",
    "less_than": "must be below {lt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_long": "has {actual_length} entries; at most {max_length} are allowed",
    "string_too_long": "is longer than {max_length} characters",
    "bytes_too_long": "is longer than {max_length} bytes",
    "string_too_short": "is empty",
    "literal_error": "must be {expected}",
    "int_parsing_size": "is too large",
}
"""Error texts by pydantic's error type; other errors have their own text."""


def reject_arguments(tool: str, problem: "ValidationError") -> ToolAnswer:
    """Return the error for rejected arguments of a native tool, whose arguments are in snake case."""
    texts = [to_snake_case(text) for text in _describe_problems(problem, _NATIVE_NAMES)]
    return _build_rejection(tool, texts)


def reject_compat_arguments(tool: str, problem: "ValidationError") -> ToolAnswer:
    """Return the error for rejected arguments of a compat tool, whose arguments are in camel case."""
    return _build_rejection(tool, _describe_problems(problem, _COMPAT_NAMES))


def _build_rejection(tool: str, texts: list[str]) -> ToolAnswer:
    return build_refusal(Status.INVALID, "InvalidArguments", "\n".join(f"{tool}: {text}" for text in texts))


def _describe_problems(problem: "ValidationError", names: Mapping[str, str]) -> list[str]:
    texts: list[str] = []
    for fault in list_faults(problem, messages=_MESSAGES, limit=_MAX_PROBLEMS):
        place = ".".join(part for part in fault.path if isinstance(part, str))
        number = "".join(f"[{part}]" for part in fault.path if isinstance(part, int))
        name = f"`{names.get(place, place)}{number}`" if fault.path else ""
        texts.append(f"{name}{' ' if fault.kind in _MESSAGES else ': '}{fault.text}" if name else fault.text)
    return texts
