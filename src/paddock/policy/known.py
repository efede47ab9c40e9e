"""Secrets that Paddock itself handed out: they are removed from everything that leaves, however they are spelled."""

from paddock.model.base import Json
from paddock.policy.redact import mapped

MARK = "[REDACTED:vault]"
_LEAST = 4
"""Characters of a value, or of a line of it, below which removing it would only garble texts."""


class KnownSecrets:
    """The values that are known to be secret. Learning is for ever; a session has one of these."""

    def __init__(self) -> None:
        self._values: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._values)

    def learn(self, value: str) -> None:
        """Take a value; of one with several lines each line counts, for output is read line by line."""
        from paddock.policy.spellings import spellings  # noqa: PLC0415 - only who has secrets pays for it

        # A file ends with a line end, which whoever uses what is in it takes off.
        values = {each for text in (value, value.replace("\r\n", "\n")) for each in (text, text.strip())}
        lines = [form for each in values for line in each.split("\n") for form in (line, line.strip())]
        others = [form for each in values if len(each) >= _LEAST for form in spellings(each)]
        forms = [form for form in (*lines, *others) if len(form) >= _LEAST]
        # The longest first: one value may be a part of another.
        self._values = tuple(sorted({*self._values, *forms}, key=lambda form: (-len(form), form)))

    def hide(self, text: str) -> str:
        """Return a text without them."""
        for value in self._values:
            if value in text:
                text = text.replace(value, MARK)
        return text

    def hide_json(self, value: Json) -> Json:
        """Return a JSON value without them, names of members included."""
        return mapped(value, lambda scalar: self.hide(scalar) if isinstance(scalar, str) else scalar)
