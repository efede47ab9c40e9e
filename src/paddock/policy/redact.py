"""Remove secrets from what leaves Paddock. Every pattern takes linear time on any text, hostile too.

What counts as a secret is the list of spec 2.1 (X36) and its obvious relatives: JSON Web Tokens, well-known
keys, and the values of JSON members whose names say that they are secret.
"""

import re
from collections.abc import Callable
from typing import Any

from paddock.model.base import Json

JWT = "[REDACTED:JWT]"
KEY = "[REDACTED:KEY]"
VALUE = "[REDACTED:VALUE]"

_IN_LOWER_CASE = (
    r"password|secret|token|api[_-]?key|access[_-]?token|refresh[_-]?token|authorization|private[_-]?key|"
    r"client[_-]?secret|credential"
)
_NAMES = f"(?i:{_IN_LOWER_CASE})"

_PART = r"[A-Za-z0-9_-]++"
# The look-ahead makes sure, once for each run of word characters, that two more parts follow; only then is
# the beginning `eyJ` looked for. Without it, `eyJeyJeyJ...` would be read once more for every `eyJ` in it.
_JWT = re.compile(
    rf"(?<![A-Za-z0-9_-])(?={_PART}\.{_PART}\.{_PART})([A-Za-z0-9_-]*?)eyJ{_PART}\.{_PART}\.{_PART}"
)

_KEY = re.compile(
    r"sk-[A-Za-z0-9_-]{20,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|xox[abeprs]-[A-Za-z0-9-]{8,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16,32}"
)

# A value that is cut off in the middle reaches to the end of the text.
_MEMBER = re.compile(rf'("{_NAMES}"\s*+:\s*+)(?:"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|-?[0-9][0-9.eE+-]*+)', re.DOTALL)
# JSON inside a JSON text: every quote stands behind the same number of backslashes.
_ESCAPED_MEMBER = re.compile(
    rf'((?<!\\)(\\{{1,7}})"{_NAMES}\2"\s*+:\s*+)(?:\2".*?(?:(?<!\\)\2"|\Z)|-?[0-9][0-9.eE+-]*+)', re.DOTALL
)

# What both begin with; looking for it without regard to case takes ten times as long.
_QUOTED, _QUOTED_IN_LOWER_CASE = (
    re.compile(rf'"(?:{names})\\{{0,7}}"') for names in (_NAMES, _IN_LOWER_CASE)
)

_SECRET_NAME = re.compile(_NAMES)

_SIGNS_OF_NAMES = (
    *(
        "password",
        "secret",
        "token",
        "authorization",
        "private",
        "credential",
        "apikey",
        "api_key",
        "api-key",
    ),
    # What also matches an i or s when case is ignored (the capital dotted i is two characters in lower case), ...
    *("\u0307", "\u0131", "\u017f"),
    # ... and those as JSON within JSON may spell them, with the sign for kelvin.
    *(r"\u0130", r"\u0131", r"\u017f", r"\u212a"),
)
"""Every name of `_NAMES`, in lower case, holds one of these."""


def redact_text(text: str) -> str:
    """Return a text without its secrets (X36). Redacting twice changes nothing more."""
    # Looking for a literal is some thirty times as fast as looking for a pattern, and most texts hold none.
    if '"' in text:
        text = _MEMBER.sub(rf'\1"{VALUE}"', text)
        text = _ESCAPED_MEMBER.sub(rf'\1\2"{VALUE}\2"', text)
    if "eyJ" in text:
        text = _JWT.sub(rf"\1{JWT}", text)
    return _KEY.sub(KEY, text) if _may_hold_key(text) else text


def redact_lines(text: str) -> str:
    """Return some lines as `redact_text` would, one by one: what is between quotes may reach over line ends."""
    if '"' not in text:
        return redact_text(text)
    names = _QUOTED_IN_LOWER_CASE.finditer(text.lower()) if text.isascii() else _QUOTED.finditer(text)
    done: list[str] = []
    position = 0
    for name in names:
        if name.start() < position:
            continue
        start = max(position, text.rfind("\n", position, name.start()) + 1)
        end = text.find("\n", name.end())
        end = len(text) if end < 0 else end
        done += (redact_text(text[position:start]), redact_text(text[start:end]))
        position = end
    return "".join((*done, redact_text(text[position:])))


def may_hold_secrets(text: str) -> bool:
    """Tell whether `redact_json` may change a value, from it as JSON: much quicker than walking a large one.

    False is sure. True is likely enough, but may be about a text that only looks like the name of a secret.
    """
    lower = text.lower()
    return (
        any(map(lower.__contains__, _SIGNS_OF_NAMES))
        or "eyJ" in text
        or (_may_hold_key(text) and _KEY.search(text) is not None)
    )


def redact_json(value: Json) -> Json:
    """Return a JSON value without its secrets, at any depth; the value given stays as it is.

    A member with a secret name loses its text or number, or those of its list. An object below such a name is
    read like any other: in a JSON Schema `password` is followed by a description, not by a password.
    """
    root: list[Any] = [value]
    todo: list[tuple[dict[str, Any] | list[Any], bool]] = [(root, False)]
    while todo:
        container, secret = todo.pop()
        if isinstance(container, dict):
            members = list(container.items())
            container.clear()
            for name, child in members:
                hide = _SECRET_NAME.fullmatch(name) is not None
                container[redact_text(name)] = _without_secrets(child, todo, hide=hide)
        else:
            container[:] = [_without_secrets(child, todo, hide=secret) for child in container]
    return root[0]


def mapped(value: Json, change: Callable[[Any], Any]) -> Json:
    """Return a copy of a JSON value with every scalar and every name of a member changed, at any depth."""
    root: list[Any] = [value]
    todo: list[dict[str, Any] | list[Any]] = [root]

    def taken(child: Json) -> Json:
        if not isinstance(child, dict | list | tuple):
            return change(child)
        copy: dict[str, Any] | list[Any] = dict(child) if isinstance(child, dict) else list(child)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        todo.append(copy)
        return copy

    while todo:
        container = todo.pop()
        if isinstance(container, dict):
            members = list(container.items())
            container.clear()
            for name, child in members:
                container[change(name)] = taken(child)
        else:
            container[:] = [taken(child) for child in container]
    return root[0]


def _may_hold_key(text: str) -> bool:
    # Written out: a loop over the beginnings takes three times as long, for every text of a large value.
    return (
        "sk-" in text
        or "ghp_" in text
        or "gho_" in text
        or "ghs_" in text
        or "ghu_" in text
        or "ghr_" in text
        or "github_pat_" in text
        or "xox" in text
        or "AKIA" in text
        or "ASIA" in text
    )


def _without_secrets(value: Json, todo: list[tuple[dict[str, Any] | list[Any], bool]], *, hide: bool) -> Json:
    """Return a scalar redacted, or a copy of a container that is noted in `todo`."""
    match value:
        case dict():
            copy: dict[str, Any] = dict(value)  # pyright: ignore[reportUnknownArgumentType]
            todo.append((copy, False))
            return copy
        case list() | tuple():
            items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
            todo.append((items, hide))
            return items
        case bool() | None:
            return value
        case str() | int() | float() if hide:
            return VALUE
        case str():
            return redact_text(value)
        case _:
            return value
