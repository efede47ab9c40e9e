"""Fill `{{script:id.field k='v'}}` in a template with the output of scripts."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from paddock.model.base import Json
from paddock.model.numbers import ExactFloat, dumps, loads_finite
from paddock.model.tool import ToolEnd

TIMEOUT_MS = 5_000
"""Maximum time of one script in a template, in milliseconds."""
MAX_SCRIPTS = 100

Run = Callable[[str, dict[str, Json]], Awaitable[ToolEnd | None]]
"""Runs a script by id with inputs; returns None if there is no such script."""

_REFERENCE_PATTERN = re.compile(r"\{\{\s*script:([^{}]{1,2000})\}\}")
"""Blanks are stripped afterwards: a pattern for them would try all ways to divide a row of blanks."""
_ID_PATTERN = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,99})(?:\.([A-Za-z0-9_-]{1,100}))?(?=\s|\Z)")
_ARGUMENT_PATTERN = re.compile(r"\s+([A-Za-z_][A-Za-z0-9_-]{0,99})=(?:'([^']*)'|\"([^\"]*)\"|(\S+))")


class TemplateError(ValueError):
    """A template refers to a missing script or field; the text is for its author."""


class TemplateNotFound(TemplateError):
    """No script has that id."""


class ScriptFailed(TemplateError):
    """The script failed."""


class FieldNotFound(TemplateError):
    """The script's output has no such field, or is not an object."""


async def fill(template: str, context: Mapping[str, Json], run: Run, *, searched: Sequence[str] = ()) -> str:
    """Return the template with every reference replaced. Raises TemplateError.

    References are resolved from the last to the first; the same script with the same inputs runs once. Inputs are the
    context, overridden by the arguments of the reference. The output of a script is not searched for references.
    """
    references = list(_REFERENCE_PATTERN.finditer(template))
    if len(references) > MAX_SCRIPTS:
        raise TemplateError(f"a template may refer to {MAX_SCRIPTS} scripts, not to {len(references)}")
    ends: dict[str, ToolEnd] = {}
    pieces: list[str] = []
    rest = len(template)
    for reference in reversed(references):
        tool, field, arguments = _parse_reference(reference[1].strip())
        inputs = {**context, **arguments}
        key = dumps([tool, inputs], sort_keys=True)
        if key not in ends:
            end = await run(tool, inputs)
            if end is None:
                raise TemplateNotFound(f'Script "{tool}" not found. Searched: {", ".join(searched)}')
            ends[key] = end
        pieces += [
            template[reference.end() : rest],
            _format_value(_evaluate_reference(tool, field, ends[key])),
        ]
        rest = reference.start()
    return template[:rest] + "".join(reversed(pieces))


def variables(ends: Mapping[str, ToolEnd]) -> dict[str, Json]:
    """Return the variables for a template from tools that ran before it: outputs of successful ones, and facts."""
    found: dict[str, Json] = {f"tool_{tool}": end.output for tool, end in ends.items() if end.success}
    for tool, end in ends.items():
        text = _format_value(end.output) if end.success else end.error or ""
        found[f"tool_{tool}_result"] = {"isError": not end.success, "text": text, "content": end.output}
    return found


def _parse_reference(reference: str) -> tuple[str, str | None, dict[str, Json]]:
    head = _ID_PATTERN.match(reference)
    if head is None:
        first = (*reference.split(maxsplit=1), "")[0]
        raise TemplateError(f'Invalid script id: "{first[:100]}"')
    arguments: dict[str, Json] = {}
    at = head.end()
    while found := _ARGUMENT_PATTERN.match(reference, at):
        single, double, bare = found[2], found[3], found[4]
        arguments[found[1]] = (
            _parse_bare(bare) if bare is not None else single if single is not None else double
        )
        at = found.end()
    if reference[at:].strip():
        raise TemplateError(f'Invalid arguments of script "{head[1]}": {reference[at:].strip()[:100]}')
    return head[1].lower(), head[2], arguments


def _parse_bare(text: str) -> Json:
    """Return the value of an argument without quotes: a number, true, false, null, or a string."""
    try:
        value = loads_finite(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int | float | None) else text


def _evaluate_reference(tool: str, field: str | None, end: ToolEnd) -> Json:
    if not end.success:
        why = end.stderr.strip() or end.error or ""
        raise ScriptFailed(f'Script "{tool}" failed (exit code {end.exit_code}): {why}')
    if field is None:
        return end.output
    if not isinstance(end.output, dict):
        reason = "Output must be a JSON object for field access"
        raise FieldNotFound(f'Script "{tool}" output is not valid JSON: {reason}')
    output = cast("dict[str, Any]", end.output)
    if field not in output:
        available = ", ".join(output)
        raise FieldNotFound(f'Field "{field}" not found in script "{tool}" output. Available: {available}')
    return output[field]


def _format_value(value: Json) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case float() if value.is_integer() and not isinstance(value, ExactFloat):
            return str(int(value))
        case _:
            return dumps(value, separators=(",", ":"), ensure_ascii=False)
