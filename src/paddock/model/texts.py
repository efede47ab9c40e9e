"""Phrases of messages, worded the same way throughout."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

MAX_LISTED_FAULTS = 1000
"""Maximum number of faults that are listed at all. pydantic makes all of them at once, which takes 10 microseconds and
half a kilobyte each."""
_DISTRIBUTION = "paddock-sandbox"
_NAME_CHARS = 200
"""Characters of a name that are compared: the time grows with the length, which an attacker may choose."""
ESCAPED_LINE_ENDS = (
    "the program is one line with the two characters \\n between its statements; send line ends themselves, which JSON "
    "writes as \\n, and a shell as $'...\\n...'"
)
FENCED = "send the program alone, without the fence around it"
_MAX_ESCAPED_CHARS = 4000
"""Maximum length of a line that is searched for strings, because the search takes quadratic time."""
_STRING_PATTERN = re.compile(r"""\"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`""")
_UNCHANGED: Mapping[str, str] = {}
FAULT_TEXTS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "must be an object"),
}
"""What is wrong with a value, by pydantic's kind of error. Some surfaces replace a few of them."""


class FieldFault(NamedTuple):
    """What is wrong with one field of a value."""

    path: tuple[str | int, ...]
    kind: str
    """pydantic's kind of error, such as `missing`."""
    text: str


def list_faults(
    problem: "ValidationError",
    *,
    messages: Mapping[str, str] = _UNCHANGED,
    limit: int | None = 1,
    model: "type[BaseModel] | None" = None,
) -> list[FieldFault]:
    """Return the first `limit` faults of a value, or all. They never contain the value, which may be a secret.

    Of a value with more than `MAX_LISTED_FAULTS` it returns a single fault, which says how many there are.
    `messages` has a template for some kinds of error, filled from pydantic's context. Others keep pydantic's message.
    With the `model` of the value, an unknown field gets the name of the nearest one.
    """
    if (number := problem.error_count()) > MAX_LISTED_FAULTS:
        return [
            FieldFault((), "too_many_faults", f"{number} values are not valid, which are too many to list")
        ]
    faults: list[FieldFault] = []
    for error in problem.errors(include_url=False, include_input=False)[:limit]:
        template = messages.get(error["type"])
        text = error["msg"].removeprefix("Value error, ")
        if template is not None:
            text = template.format_map(error.get("ctx", {}))
        if model is not None and error["type"] == "extra_forbidden":
            text += suggest(str(error["loc"][-1]), _list_fields(model, error["loc"][:-1]))
        faults.append(FieldFault(error["loc"], error["type"], text))
    return faults


def _list_fields(model: "type[BaseModel]", path: tuple[str | int, ...]) -> list[str]:
    """Return the names of the fields that the value at a path of a model may have."""
    models = [model]
    for name in path:
        fields = {field.alias or key: field for each in models for key, field in each.model_fields.items()}
        if name in fields:  # others are positions, keys and alternatives
            models = [*_list_models(fields[str(name)].annotation)]
    return [field.alias or key for each in models for key, field in each.model_fields.items()]


def _list_models(annotation: object) -> "Iterator[type[BaseModel]]":
    """Yield the models in an annotation, such as `list[Model] | None`."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _list_models(each)


def explain(
    problem: "ValidationError",
    *,
    messages: Mapping[str, str] = _UNCHANGED,
    names: Mapping[str, str] = _UNCHANGED,
    limit: int | None = 1,
    model: "type[BaseModel] | None" = None,
) -> list[str]:
    """Return the faults that `list_faults` finds as lines: `path: what is wrong`, or no path for the whole value.

    `names` maps parts of a path to the reader's spelling; a part with an empty spelling is left out.
    """
    lines: list[str] = []
    for fault in list_faults(problem, messages=messages, limit=limit, model=model):
        path = ".".join(filter(None, (names.get(str(part), str(part)) for part in fault.path)))
        lines.append(f"{path}: {fault.text}" if path else fault.text)
    return lines


def find_nearest(name: str, known: Iterable[str], *, limit: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to `limit` known names like `name`, nearest first; `cutoff` is the minimum similarity, 0 to 1."""
    from difflib import get_close_matches  # imported only after a mistake

    return get_close_matches(name[:_NAME_CHARS], list(known), n=limit, cutoff=cutoff)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the known name nearest to a name, or "" if none is near."""
    nearest = find_nearest(name, known)
    return f"; did you mean `{nearest[0]}`?" if nearest else ""


def install_command(extra: str, *, again: bool = False) -> str:
    """Return the command that installs an extra of Paddock; `again` replaces what is installed.

    If Paddock came from a checkout or a file (PEP 610), the command names that, without its folder: agents read it.
    """
    import json  # imported only after a mistake, as the others
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote

    source, where, tool, anew = _DISTRIBUTION, "", "pip", "--force-reinstall"
    with suppress(PackageNotFoundError, ValueError):
        installed = distribution(_DISTRIBUTION)
        if (installed.read_text("INSTALLER") or "").strip() == "uv":
            tool, anew = "uv pip", "--reinstall"
        origin = json.loads(installed.read_text("direct_url.json") or "{}")
        if "dir_info" in origin:
            source, where = ".", " in the checkout of Paddock"
        elif str(origin.get("url", "")).startswith("file:"):
            source, where = f"./{unquote(origin['url'].rpartition('/')[2])}", " in the folder of this file"
    return f"{tool} install{f' {anew}' if again else ''} '{source}[{extra}]'{where}"


def ellipsis(text: str, max_chars: int) -> str:
    """Return a text cut to `max_chars` characters; a cut text ends with `...`."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 3]}..."


def cut_text(text: str, max_chars: int) -> str:
    """Return a text, or its beginning and its full length."""
    if len(text) <= max_chars:
        return text
    return f"{text[: max(max_chars, 0)]}... [truncated: {len(text)} characters in all]"


def cut_middle(text: str, max_chars: int, mark: str = " [... {} not shown ...] ") -> str:
    """Return a text, or its head and tail, with a mark between them that says how much is missing."""
    if len(text) <= max_chars:
        return text
    from paddock.model.base import count  # not needed to report an error

    half = max_chars // 2
    left_out = count(len(text) - 2 * half, "character")
    return f"{text[:half]}{mark.format(left_out)}{text[len(text) - half :]}"


def has_escaped_line_ends(code: str) -> bool:
    """Return whether a program is one line with a backslash and an `n` outside of strings, in place of line ends."""
    line = code.strip()
    if "\\n" not in line or "\n" in line:
        return False
    return "\\n" in _STRING_PATTERN.sub("", line[:_MAX_ESCAPED_CHARS])
