"""The address of a server, and the token for it."""

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address

import httpx2

from paddock.confinement.network.http_transport import read_url_authority
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.loader import TOKEN_VARIABLE

_MAX_URL_CHARS = 2000
_TOKEN_PATTERN = re.compile(r"[!-~]{1,4096}", re.ASCII)


def read_address(url: str, *, unencrypted: bool) -> httpx2.URL:
    """Return the address of a server, without a slash at its end.

    Plain http is for servers on this machine; `unencrypted` allows it for others. Raises ConfigurationError, which does
    not repeat an address with a password.
    """
    try:
        address = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError, UnicodeError):
        raise ConfigurationError("this is not the address of a server; give http(s)://HOST:PORT") from None
    if address.userinfo:
        raise ConfigurationError(
            f"the address of the server has a user or a password; give the token in {TOKEN_VARIABLE} instead"
        )
    shown = url[:200]
    if address.scheme not in ("http", "https") or not address.host or len(url) > _MAX_URL_CHARS:
        raise ConfigurationError(f"{shown!r} is not the address of a server; give http(s)://HOST:PORT")
    try:
        read_url_authority(address)
    except httpx2.InvalidURL as error:
        raise ConfigurationError(f"{shown!r} is not the address of a server: {error}") from None
    if address.query or address.fragment:
        raise ConfigurationError(f"the address {shown!r} has a query or a fragment; leave it out")
    if address.scheme == "http" and not (unencrypted or _is_local(address.host)):
        raise ConfigurationError(
            f"the token would cross the network to {address.host} unencrypted; give an address with https. If the "
            "network is trusted, pass unencrypted=True (on the command line: --unencrypted)"
        )
    return address.copy_with(path=address.path.rstrip("/"))


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(token: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the token, by default that of PADDOCK_TOKEN. Raises ConfigurationError, which does not contain it."""
    given = token if token is not None else environment.get(TOKEN_VARIABLE, "")
    if not given:
        raise ConfigurationError(
            f"there is no token for the server; set {TOKEN_VARIABLE}, or pass `token`. "
            "`paddock serve token new NAME` makes one on the server"
        )
    if not isinstance(given, str) or not _TOKEN_PATTERN.fullmatch(given):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            "the token for the server is not valid: it has spaces, line ends or other characters than ASCII; "
            "copy it again"
        )
    return given
