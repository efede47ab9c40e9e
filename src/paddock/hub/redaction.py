"""The secret values that a server's configuration holds, and how they are kept out of every text."""

from collections.abc import Iterable
from typing import Self

MARK = "[REDACTED]"
_SHORTEST = 4


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
