"""`oauth` of a server's entry: how Paddock identifies itself to the authorization server.

Without `oauth`, a person logs in and Paddock registers itself as a client. With it, the client is registered already,
or described by a document at a URL (client id metadata), or it is a machine that logs in by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

Fill = Callable[[str], str]
"""Replaces the variables in a string."""

PUBLIC_GRANT = "authorization_code"
MACHINE_GRANT = "client_credentials"


@dataclass(frozen=True, slots=True, repr=False)
class OAuth:
    """Paddock's identity at an authorization server. The server and its metadata decide about empty fields."""

    grant: Literal["authorization_code", "client_credentials"] = PUBLIC_GRANT
    client_id: str = ""
    client_secret: str = ""
    private_key: str = ""
    """PEM; signs the assertion that replaces a secret (RFC 7523)."""
    algorithm: str = "RS256"
    issuer: str = ""
    """The only accepted authorization server."""
    scope: str = ""
    """Further scopes to request, separated by spaces."""
    callback_port: int = 0
    """Port of the redirect address; 0 for any free port."""
    client_metadata_url: str = ""

    def __repr__(self) -> str:
        return f"OAuth({self.grant}, issuer={self.issuer!r})"


DEFAULT = OAuth()


class OAuthEntry(BaseModel):
    """`oauth` as written. Keys of other programs are ignored."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    grant: Literal["authorization_code", "client_credentials"] = PUBLIC_GRANT
    client_id: Annotated[str, Field(alias="clientId", max_length=2000)] = ""
    client_secret: Annotated[str, Field(alias="clientSecret", max_length=8000)] = ""
    private_key: Annotated[str, Field(alias="privateKey", max_length=16_000)] = ""
    algorithm: Literal["RS256", "PS256", "ES256", "EdDSA"] = "RS256"
    issuer: Annotated[str, Field(max_length=2000)] = ""
    scope: Annotated[str, Field(max_length=2000)] = ""
    callback_port: Annotated[int, Field(alias="callbackPort", ge=0, le=65_535)] = 0
    client_metadata_url: Annotated[str, Field(alias="clientMetadataUrl", max_length=2000)] = ""

    def make_oauth(self, fill: Fill) -> OAuth:
        """Return the settings of an entry. Raises ValueError with the missing part."""
        secret, key = fill(self.client_secret), fill(self.private_key)
        issuer, scope, document = fill(self.issuer), fill(self.scope), fill(self.client_metadata_url)
        if (secret or key or self.grant == MACHINE_GRANT) and not (self.client_id and issuer):
            raise ValueError(
                "a client with a secret needs `clientId` and `issuer`, the address of the authorization server "
                "that may receive the secret"
            )
        if issuer and urlsplit(issuer).scheme not in ("https", "http"):
            raise ValueError("`issuer` must be the https:// address of an authorization server")
        if document and (urlsplit(document).scheme != "https" or urlsplit(document).path in ("", "/")):
            raise ValueError("`clientMetadataUrl` must be an https:// address with a path")
        if scope and not is_scope(scope):
            raise ValueError("`scope` must be names separated by single spaces")
        return OAuth(
            grant=self.grant,
            client_id=fill(self.client_id),
            client_secret=secret,
            private_key=key,
            algorithm=self.algorithm,
            issuer=issuer,
            scope=scope,
            callback_port=self.callback_port,
            client_metadata_url=document,
        )


def is_scope(text: str) -> bool:
    """Return whether a string is a scope: printable names without quotes, separated by a space (RFC 6749, 3.3)."""
    return len(text) <= _MAX_SCOPE_CHARS and all(
        name and all("!" <= character <= "~" and character not in '"\\' for character in name)
        for name in text.split(" ")
    )


def merge_scopes(*scopes: str | None) -> str:
    """Return the distinct names of all scopes, in order."""
    return " ".join(dict.fromkeys(name for scope in scopes if scope for name in scope.split()))


_MAX_SCOPE_CHARS = 2000
