"""The file of the tokens that `paddock serve token new` made: names, hashes and limits, never a token.

One JSON object, `{"tokens": [...]}`, in the directory `serve.directory`, with mode 0600. It is replaced atomically,
under a lock. Without the file it has no tokens. With a damaged file no token is accepted, not even one of the settings:
what is missing from it may be a limit.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import AwareDatetime, Field, ValidationError

from paddock.foundation.files import JsonFile
from paddock.model.base import Value
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.serve import MAX_TOKENS, ServeToken

if TYPE_CHECKING:
    from paddock.policy.settings.schema import Settings

FILE_NAME = "tokens.json"
_REMEDY = (
    "no token is accepted until it is repaired: restore it from a backup, or remove it and make new tokens with "
    "`paddock serve token new`"
)


def list_known_tokens(settings: "Settings") -> tuple[ServeToken, ...]:
    """Return the tokens of the settings and of the file. Those of a cluster are in its database, and not among them.

    Raises ConfigurationError.
    """
    stored = TokenFile(settings.serve.directory).read() if settings.cluster.url is None else ()
    return (*settings.serve.token, *stored)


class StoredToken(ServeToken):
    """A token in the file."""

    created: AwareDatetime
    """Time at which it was made."""


class _Content(Value):
    tokens: tuple[StoredToken, ...] = Field(default=(), max_length=MAX_TOKENS)


class TokenFile:
    """The file in one directory. Several processes may use it at the same time."""

    def __init__(self, directory: Path) -> None:
        """Use a directory. It is created when the first token is added."""
        self.path = directory / FILE_NAME
        self._file = JsonFile(self.path, remedy=_REMEDY)
        self._seen: dict[str, Any] | None = None
        self._tokens: tuple[StoredToken, ...] = ()

    def read(self) -> tuple[StoredToken, ...]:
        """Return the tokens, oldest first. Parses the file only if it changed. Raises ConfigurationError."""
        held = self._file.look()
        if held is not self._seen:
            self._tokens = self._parse(held)
            self._seen = held
        return self._tokens

    def add(self, token: StoredToken) -> None:
        """Add a token. Raises ConfigurationError, also if its name is taken."""

        def change(held: dict[str, Any]) -> None:
            tokens = self._parse(held)
            if any(each.name == token.name for each in tokens):
                raise ConfigurationError(
                    f"there is a token {token.name} already; choose another name, or run: "
                    f"paddock serve token revoke {token.name}"
                )
            if len(tokens) >= MAX_TOKENS:
                raise ConfigurationError(f"there are {MAX_TOKENS} tokens already; revoke some of them")
            held["tokens"] = [_dump(each) for each in (*tokens, token)]

        self._file.update(change)

    def remove(self, name: str) -> bool:
        """Remove a token; return whether there was one. Raises ConfigurationError."""

        def change(held: dict[str, Any]) -> bool:
            tokens = self._parse(held)
            rest = [each for each in tokens if each.name != name]
            held["tokens"] = [_dump(each) for each in rest]
            return len(rest) < len(tokens)

        return any(each.name == name for each in self.read()) and self._file.update(change)

    def _parse(self, held: dict[str, Any]) -> tuple[StoredToken, ...]:
        try:
            tokens = _Content.model_validate(held).tokens
        except ValidationError as problem:
            where = ".".join(map(str, problem.errors(include_url=False)[0]["loc"]))
            raise ConfigurationError(f"{self.path}: was damaged or changed at {where}; {_REMEDY}") from None
        for key in ("name", "sha256"):
            if len({getattr(each, key) for each in tokens}) < len(tokens):
                raise ConfigurationError(f"{self.path}: has two tokens with one {key}; {_REMEDY}")
        return tokens


def _dump(token: StoredToken) -> dict[str, Any]:
    return token.model_dump(mode="json", exclude_defaults=True)
