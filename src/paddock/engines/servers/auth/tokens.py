"""A stored login at an upstream server, and the interface by which the hub reads it.

A login belongs to one entry of one servers file: its name and its address. Another file that names the same server does
not get it. The entry itself loses it when its address changes.
"""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from pydantic import Field, ValidationError

from paddock.engines.servers.config import HttpServer
from paddock.model.base import Value
from paddock.model.errors import PaddockError


class LoginFailed(PaddockError):
    """A login failed; the text says why and contains no secret."""


class Login(Value):
    """A login: the client, its authorization server, and the tokens. All fields are secret."""

    server: str
    """Address of the server that accepts the tokens."""
    client: dict[str, Any]
    """The client's registration (RFC 7591)."""
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The authorization server's metadata at the login (RFC 8414). The tokens go to no other server."""
    resource: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The server's own metadata (RFC 9728); empty if it has none."""
    tokens: dict[str, Any] = Field(default_factory=dict[str, Any])
    expires_at: float | None = None
    """When to renew the access token, in seconds since 1970; None if its life is unknown."""

    @property
    def access_token(self) -> str:
        """The token for requests; empty if there is none."""
        return str(self.tokens.get("access_token") or "")

    @property
    def refresh_token(self) -> str:
        """The token that renews the access token; empty if there is none."""
        return str(self.tokens.get("refresh_token") or "")

    @property
    def scope(self) -> str:
        """The granted scope."""
        return str(self.tokens.get("scope") or "")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no text may contain."""
        values = (self.access_token, self.refresh_token, str(self.client.get("client_secret") or ""))
        return tuple(value for value in values if value)

    def has_ended(self, now: float) -> bool:
        """Return whether the access token has expired at `now`."""
        return not self.access_token or (self.expires_at is not None and self.expires_at <= now)


class LoginStore(Protocol):
    """Stores the login at one server. Raises PaddockError if it cannot be read or written."""

    def read_login(self) -> Login | None:
        """Return the login, or None."""
        ...

    def write_login(self, login: Login) -> None:
        """Store a login; it replaces an older one."""
        ...

    def hold_lock(self) -> AbstractAsyncContextManager[None]:
        """Keep other tasks and processes from changing the login during the context."""
        ...


class Logins(Protocol):
    """Finds where logins are stored."""

    def find_keeper(self, server: HttpServer) -> LoginStore:
        """Return the store for the login at a server."""
        ...


def parse_login(text: str) -> Login | None:
    """Return the login in a text; None if this version of Paddock did not write it."""
    try:
        return Login.model_validate_json(text)
    except ValidationError:
        return None


def suggest_remedy(name: str, scope: str = "") -> str:
    """Return what a person can do about a server that requires a login, or a larger scope."""
    if scope:
        return (
            f"wants more than its login grants; a person can grant it with "
            f"`paddock servers login {name} --scope {scope!r}`"
        )
    return f"needs a login; a person can log in with `paddock servers login {name}`"
