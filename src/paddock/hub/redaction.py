"""The secret values that a server's configuration holds, and how they are kept out of every text and every result."""

import re
from collections.abc import Iterable
from typing import Self

from paddock.model.numbers import dumps, loads

MARK = "[REDACTED]"
_SHORTEST = 4
_CREDENTIAL = 8
_NAME = re.compile(
    r"(?:^|[_.-])(?:token|secret|passphrase|credentials?|authorization|cookie|jwt|pat"
    r"|(?:api|private|access|secret|auth|signing|encryption|service|account|license)[_-]?key)(?:$|[_.-])"
    r"|passw(?:or)?d$",
    re.IGNORECASE,
)
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_CREDENTIAL = re.compile(r"[~./]|[0-9]+$|[a-z]+://[^@]*$", re.IGNORECASE)
"""Places of files, numbers and addresses that need no password."""


def is_credential(name: str, value: str) -> bool:
    """Tell whether a variable or header of that name lets whoever has its value in."""
    named = _NAME.search(_WORDS.sub("_", name)) is not None
    return named and len(value) >= _CREDENTIAL and _NO_CREDENTIAL.match(value) is None


class Secrets:
    """Replace known secret values in texts. Never prints them itself.

    Values under four characters are left alone: hiding every `1` would destroy the text and hide nothing.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = tuple(sorted({v for v in values if len(v) >= _SHORTEST}, key=len, reverse=True))

    def hide(self, text: str) -> str:
        """Return `text` with every secret value replaced by `[REDACTED]`, longest value first."""
        for value in self._values:
            text = text.replace(value, MARK)
        return text

    def __bool__(self) -> bool:
        return bool(self._values)

    def hide_in(self, value: object) -> object:
        """Return a JSON value with every secret value in its texts and names replaced."""
        if not self._values:
            return value
        text = dumps(value, ensure_ascii=False)
        spelled = [dumps(secret, ensure_ascii=False)[1:-1] for secret in self._values]
        return loads(Secrets(spelled).hide(text)) if any(form in text for form in spelled) else value

    def __or__(self, other: Self) -> "Secrets":
        return Secrets(self._values + other._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secrets) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return f"<{len(self._values)} secrets>"


NONE = Secrets()
"""Nothing to hide."""
