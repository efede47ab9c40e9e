"""Secrets that Paddock knows by value: those that programs got from the vault, and those of server entries."""

import re
from collections.abc import Iterable, Iterator

from paddock.model.base import Json
from paddock.model.late_pattern import compile_late
from paddock.model.numbers import dumps
from paddock.policy.redaction.structured import map_scalars

VAULT_MARK = "[REDACTED:vault]"
SERVER_MARK = "[REDACTED:server]"
MIN_CHARS = 4
"""Minimum length of a value, or of a line of it; removing shorter ones would garble texts."""
MIN_CREDENTIAL_CHARS = 8

_LINE_ENDS = compile_late("[\n\r]")
_NAME_PATTERN = compile_late(
    r"(?:^|[_.-])(?:token|secret|passphrase|credentials?|authorization|cookie|jwt|pat"
    r"|(?:api|private|access|secret|auth|signing|encryption|service|account|license)[_-]?key)(?:$|[_.-])"
    r"|passw(?:or)?d$",
    re.IGNORECASE,
)
_WORD_SEAM_PATTERN = compile_late(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_CREDENTIAL = compile_late(r"[~./]|[0-9]+$|[a-z]+://[^@]*$", re.IGNORECASE)
"""Paths, numbers and addresses without a password."""


class KnownSecrets:
    """The values that an opened Paddock passed on, in every documented spelling. A value is never forgotten."""

    def __init__(self) -> None:
        self._forms: tuple[bytes, ...] = ()
        self._mark = VAULT_MARK.encode()

    def __bool__(self) -> bool:
        return bool(self._forms)

    def learn(self, value: str) -> None:
        """Add a value. Of a value with several lines each line counts, because output is redacted line by line."""
        from paddock.policy.redaction.spellings import spellings

        # Programs strip the line end at the end of a file.
        values = {form for text in (value, value.replace("\r\n", "\n")) for form in (text, text.strip())}
        lines = [form for text in values for line in _LINE_ENDS.split(text) for form in (line, line.strip())]
        others = [form for text in values if len(text) >= MIN_CHARS for form in spellings(text)]
        forms = {form for form in (*lines, *others) if len(form) >= MIN_CHARS and not _LINE_ENDS.search(form)}
        encoded = {*self._forms, *(form.encode("utf-8", "surrogatepass") for form in forms)}
        # The longest first, because one value may be part of another.
        self._forms = tuple(sorted(encoded, key=lambda form: (-len(form), form)))

    def remove(self, data: bytes) -> tuple[bytes, int]:
        """Return a text without the secrets, and their number."""
        count = 0
        for form in self._forms:
            if form in data:
                count += data.count(form)
                data = data.replace(form, self._mark)
        return data, count

    def find(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the spans of the secrets in a text."""
        for form in self._forms:
            at = data.find(form)
            while at >= 0:
                yield at, at + len(form)
                at = data.find(form, at + 1)

    def occur_in(self, text: str) -> bool:
        """Return whether a secret is in a text."""
        data = text.encode("utf-8", "surrogatepass")
        return any(data.find(form) >= 0 for form in self._forms)

    def hide(self, text: str) -> str:
        """Return a text without the secrets."""
        if not self._forms:
            return text
        data, count = self.remove(text.encode("utf-8", "surrogatepass"))
        return data.decode("utf-8", "surrogatepass") if count else text

    def hide_json(self, value: Json) -> Json:
        """Return a JSON value without the secrets, also in names of members."""
        return map_scalars(value, lambda scalar: self.hide(scalar) if isinstance(scalar, str) else scalar)


class ServerSecrets:
    """The secret values of a server's entry and login. Its repr does not show them.

    Values under four characters are not removed: hiding every `1` would destroy the text and hide nothing.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = tuple(sorted({v for v in values if len(v) >= MIN_CHARS}, key=len, reverse=True))

    def hide(self, text: str) -> str:
        """Return a text with every value replaced by the mark, the longest first."""
        for value in self._values:
            text = text.replace(value, SERVER_MARK)
        return text

    def __bool__(self) -> bool:
        return bool(self._values)

    def hide_in(self, value: Json) -> Json:
        """Return a JSON value with every secret in its strings, names and numbers replaced."""
        if not self._values:
            return value
        text = dumps(value, ensure_ascii=False)
        spelled = (dumps(secret, ensure_ascii=False)[1:-1] for secret in self._values)
        return map_scalars(value, self._hide_scalar) if any(form in text for form in spelled) else value

    def _hide_scalar(self, scalar: Json) -> Json:
        if isinstance(scalar, str):
            return self.hide(scalar)
        if scalar is None or isinstance(scalar, bool):
            return scalar
        written = dumps(scalar)
        return scalar if (hidden := self.hide(written)) == written else hidden

    def __or__(self, other: "ServerSecrets") -> "ServerSecrets":
        if not other._values:  # the common case: a server without a login
            return self
        return ServerSecrets(self._values + other._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServerSecrets) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return f"<{len(self._values)} secrets>"


NO_SECRETS = ServerSecrets()
"""No secrets."""


def is_credential(name: str, value: str) -> bool:
    """Return whether the value of a variable or header is a credential, by its name."""
    named = _NAME_PATTERN.search(_WORD_SEAM_PATTERN.sub("_", name)) is not None
    return named and len(value) >= MIN_CREDENTIAL_CHARS and _NO_CREDENTIAL.match(value) is None
