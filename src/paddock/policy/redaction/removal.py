"""Remove secrets from whole texts and JSON values, and count the removals."""

from paddock.model.base import Json
from paddock.model.numbers import dumps
from paddock.policy.redaction.colours import ESCAPE, ESCAPED_SLASH
from paddock.policy.redaction.private_keys import KEY_SIGN
from paddock.policy.redaction.rules import may_match
from paddock.policy.redaction.scanner import Scanner, Slices, finish
from paddock.policy.redaction.stream import StreamRedactor
from paddock.policy.redaction.structured import walk_members

_ESCAPE, _ESCAPED_SLASH = ESCAPE.decode(), ESCAPED_SLASH.decode()
_MAX_NAME_BYTES = 256
"""Maximum length of a member's name by which its value is judged."""


class Removal:
    """One pass over the texts of one answer. `count` is the number of secrets removed so far."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._keywords: tuple[str, ...] | None = None
        """Keywords that a string of the current value may contain; None if it may contain any."""
        self._sees_numbers = False
        self._beginnings: dict[str, bytes] = {}
        self.count = 0

    def text(self, text: str) -> str:
        """Return a text without its secrets."""
        return finish(self.text_in_slices(text))

    def json(self, value: Json, *, numbers: bool = True, written: bytes | None = None) -> Json:
        """Return a copy of a JSON value without its secrets, also in names of members.

        Patterns of the settings also see `numbers`. `written` is the value as JSON, which makes this faster.
        """
        return finish(self.json_in_slices(value, numbers=numbers, written=written))

    def text_in_slices(self, text: str) -> Slices[str]:
        """Return a text without its secrets."""
        if self._keywords is not None and _ESCAPE not in text and _ESCAPED_SLASH not in text:
            lowered = text.lower()
            if not any(word in lowered for word in self._keywords):
                return text
        data = text.encode("utf-8", "surrogatepass")
        if self._scanner.leaves_alone(data):
            return text
        if KEY_SIGN in data:
            stream = StreamRedactor(self._scanner)
            redacted = (yield from stream.feed_in_slices(data)) + (yield from stream.end_in_slices())
            count = stream.count
        else:
            redacted, count = yield from self._scanner.redact_in_slices(data)
        self.count += count
        return redacted.decode("utf-8", "surrogatepass") if count else text

    def json_in_slices(
        self, value: Json, *, numbers: bool = True, written: bytes | None = None
    ) -> Slices[Json]:
        """Return a JSON value without its secrets: see `json`."""
        self._sees_numbers = numbers and self._scanner.has_patterns
        self._keywords = None if written is None else self._scanner.find_keywords(written)
        members = walk_members(value)
        try:
            name, scalar = next(members)
            while True:
                left = (
                    yield from self._redact_scalar(scalar)
                    if name is None
                    else self._redact_member(name, scalar)
                )
                yield
                name, scalar = members.send(left)
        except StopIteration as end:
            return end.value
        finally:
            self._keywords = None

    def _redact_scalar(self, scalar: Json) -> Slices[Json]:
        if isinstance(scalar, str):
            return (yield from self.text_in_slices(scalar))
        if scalar is None or isinstance(scalar, bool) or not self._sees_numbers:
            return scalar
        written = dumps(scalar)
        left = yield from self.text_in_slices(written)
        return scalar if left == written else left

    def _redact_member(self, name: str, scalar: Json) -> Slices[Json]:
        """Return the scalar of a member without secrets. Its first line is judged as it would be after `"name": "`."""
        if not isinstance(scalar, str):
            return (yield from self._redact_scalar(scalar))
        alone = yield from self.text_in_slices(scalar)
        beginning = self._member_prefix(name)
        if not beginning:
            return alone
        end = min((at for at in map(alone.find, "\n\r") if at >= 0), default=len(alone))
        line = alone[:end].encode("utf-8", "surrogatepass")
        redacted, count = yield from self._scanner.redact_tail(beginning, line)
        self.count += count
        return redacted.decode("utf-8", "surrogatepass") + alone[end:] if count else alone

    def _member_prefix(self, name: str) -> bytes:
        """Return the text before a member's value; b"" if no rule judges a value by this name."""
        found = self._beginnings.get(name)
        if found is None:
            found = f'"{name}": "'.encode("utf-8", "surrogatepass")
            decides = self._scanner.has_rules and len(found) <= _MAX_NAME_BYTES and b"\n" not in found
            found = self._beginnings[name] = found if decides and may_match(found) else b""
        return found
