"""Phrases that every room writes the same way."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError

_NAME_CHARS = 200
"""How much of a name is compared: the time grows with its length, and it may come from anywhere."""
_UNCHANGED: Mapping[str, str] = {}


class Fault(NamedTuple):
    """What is wrong with one field of a value."""

    path: tuple[str | int, ...]
    kind: str
    """pydantic's kind of error, such as `missing`."""
    text: str


def list_faults(
    problem: "ValidationError", *, messages: Mapping[str, str] = _UNCHANGED, most: int | None = 1
) -> list[Fault]:
    """Return the first `most` faults of a value, or all; never the value itself, which may hold a secret.

    `messages` holds templates by kind of error, filled from pydantic's context; other kinds keep pydantic's message.
    """
    faults: list[Fault] = []
    for error in problem.errors(include_url=False, include_input=False)[:most]:
        template = messages.get(error["type"])
        text = error["msg"].removeprefix("Value error, ")
        if template is not None:
            text = template.format_map(error.get("ctx", {}))
        faults.append(Fault(error["loc"], error["type"], text))
    return faults


def explain(
    problem: "ValidationError",
    *,
    messages: Mapping[str, str] = _UNCHANGED,
    names: Mapping[str, str] = _UNCHANGED,
    most: int | None = 1,
) -> list[str]:
    """Return the faults that `list_faults` finds as lines: `path: what is wrong`, without a path for the whole value.

    `names` says how the reader spells a part of a path; a part whose spelling is empty is left out.
    """
    lines: list[str] = []
    for fault in list_faults(problem, messages=messages, most=most):
        path = ".".join(filter(None, (names.get(str(part), str(part)) for part in fault.path)))
        lines.append(f"{path}: {fault.text}" if path else fault.text)
    return lines


def find_nearest(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to `most` known names like `name`, the nearest first; `cutoff` is the least similarity, 0 to 1."""
    from difflib import get_close_matches  # only mistakes pay for it

    return get_close_matches(name[:_NAME_CHARS], list(known), n=most, cutoff=cutoff)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that names the known name most like a name, or "" where none is near."""
    nearest = find_nearest(name, known)
    return f"; did you mean `{nearest[0]}`?" if nearest else ""


def ellipsis(text: str, most: int) -> str:
    """Return a text of at most `most` characters; `...` stands for the end of a longer one."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
