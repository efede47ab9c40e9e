"""What is kept of a login at an upstream server, and how the hub comes by it.

A login belongs to one entry of one servers file: its name and its address. Another file that names the same server does
not get it, nor does the entry once it names another address.
"""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from pydantic import Field, ValidationError

from paddock.hub.config import HttpServer
from paddock.model.base import Value
from paddock.model.errors import PaddockError


class LoginFailed(PaddockError):
    """A login did not come about; the text says why and holds no secret."""


class Login(Value):
    """A login: the client, the authorization server that it is for, and the tokens. All of it is secret."""

    server: str
    """Address of the server that the tokens are for."""
    client: dict[str, Any]
    """The client's registration (RFC 7591)."""
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What the authorization server said of itself at the login (RFC 8414); nothing else may be told a token."""
    resource: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What the server said of itself (RFC 9728); empty when it said nothing."""
    tokens: dict[str, Any] = Field(default_factory=dict[str, Any])
    expires_at: float | None = None
    """When the access token is to be renewed, in seconds since 1970; None when nobody said how long it lives."""

    @property
    def access_token(self) -> str:
        """The token that requests carry; empty when there is none."""
        return str(self.tokens.get("access_token") or "")

    @property
    def refresh_token(self) -> str:
        """The token that gets another; empty when there is none."""
        return str(self.tokens.get("refresh_token") or "")

    @property
    def scope(self) -> str:
        """What was granted."""
        return str(self.tokens.get("scope") or "")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that nobody may see."""
        values = (self.access_token, self.refresh_token, str(self.client.get("client_secret") or ""))
        return tuple(value for value in values if value)

    def has_ended(self, now: float) -> bool:
        """Return whether the access token is of no more use at `now`."""
        return not self.access_token or (self.expires_at is not None and self.expires_at <= now)


class LoginStore(Protocol):
    """Where the login at one server is kept. What cannot be read or written raises PaddockError."""

    def read_login(self) -> Login | None:
        """Return the login, None when there is none."""
        ...

    def write_login(self, login: Login) -> None:
        """Keep a login in the place of an older one."""
        ...

    def hold_lock(self) -> AbstractAsyncContextManager[None]:
        """Keep others, in this process and in others, from changing the login meanwhile."""
        ...


class Logins(Protocol):
    """Where logins are kept."""

    def find_keeper(self, server: HttpServer) -> LoginStore:
        """Return where the login at a server is kept."""
        ...


def parse_login(text: str) -> Login | None:
    """Return the login that a text is; None when it is none that this version wrote."""
    try:
        return Login.model_validate_json(text)
    except ValidationError:
        return None


def suggest_remedy(name: str, scope: str = "") -> str:
    """Return what a person can do about a server that wants a login, or more than the login grants."""
    if scope:
        return (
            f"wants more than its login grants; a person can grant it with "
            f"`paddock servers login {name} --scope {scope!r}`"
        )
    return f"needs a login; a person can log in with `paddock servers login {name}`"
