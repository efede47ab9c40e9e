"""The proxies that Paddock itself must use: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` of its environment.

Connections of programs, of servers over HTTP and of the registry follow these rules. Webhooks and logins use no proxy,
because it would resolve a name whose addresses were not checked.
"""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from paddock.model.errors import ConfigurationError
from paddock.model.host_names import Authority, read_authority
from paddock.model.network import HTTP_PORT, HTTPS_PORT


class ProxyVariable(NamedTuple):
    """An environment variable that names a proxy."""

    name: str
    value: str
    """May contain a password."""

    @property
    def address(self) -> str:
        """The value, with the scheme that it may lack."""
        return self.value if "://" in self.value else f"http://{self.value}"


def find_proxy_variable(
    scheme: str, authority: Authority, environ: Mapping[str, str] | None = None
) -> ProxyVariable | None:
    """Return the variable with the proxy for connections to a host; None if they go without a proxy."""
    found = os.environ if environ is None else environ
    if _is_exempt(scheme, authority, _read(found, "no_proxy").value):
        return None
    return _find_for_scheme(scheme, found)


def _find_for_scheme(scheme: str, environ: Mapping[str, str]) -> ProxyVariable | None:
    variables = (_read(environ, name) for name in (f"{scheme}_proxy", "all_proxy"))
    return next((each for each in variables if each.value), None)


def _read(environ: Mapping[str, str], name: str) -> ProxyVariable:
    """Return a variable; the spelling in lower case takes precedence, even if it is empty."""
    upper = name.upper()
    if name in environ or (
        name == "http_proxy" and "REQUEST_METHOD" in environ
    ):  # a header of CGI, not a setting
        upper = name
    return ProxyVariable(upper, environ.get(upper, ""))


def _is_exempt(scheme: str, authority: Authority, bypass: str) -> bool:
    """Return whether NO_PROXY matches a host."""
    return any(_matches_entry(scheme, authority, entry.strip()) for entry in bypass.split(","))


def _matches_entry(scheme: str, authority: Authority, entry: str) -> bool:
    """Return whether an entry matches: `*`, a domain, an address or a network, as in curl, or a URL."""
    if not entry or entry == "*":
        return bool(entry)
    try:
        return ip_address(authority.host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:  # one of them is a host name
        pass
    only, _, place = entry.rpartition("://")
    try:
        parts = urlsplit(f"//{place}")
        named, port = parts.hostname or "", parts.port
        named = named if named.isascii() else named.encode("idna").decode()
    except (ValueError, UnicodeError):
        return False
    if only not in ("", "all", scheme) or port not in (None, authority.port):
        return False
    domain = named.removeprefix("*")
    if not domain:
        return named == "*"
    covers_subdomains = not only or domain != named
    host = authority.host
    return host == domain or (covers_subdomains and host.endswith(f".{domain.removeprefix('.')}"))


@dataclass(frozen=True)
class OuterProxy:
    """The proxy through which programs reach hosts."""

    authority: Authority
    authorization: str = field(default="", repr=False)
    """Value of the header Proxy-Authorization, a secret; empty for none."""
    bypass: str = ""
    """The value of `NO_PROXY`."""
    variable: str = field(default="HTTPS_PROXY", compare=False)

    def serves(self, authority: Authority) -> bool:
        """Return whether connections to a host go through this proxy."""
        scheme = "http" if authority.port == HTTP_PORT else "https"
        return not _is_exempt(scheme, authority, self.bypass)


def read_outer_proxy(environ: Mapping[str, str]) -> OuterProxy | None:
    """Return the proxy of an environment. Raises ConfigurationError if it does not speak plain HTTP."""
    found = _find_for_scheme("https", environ)
    if found is None:
        return None
    try:
        parts = urlsplit(found.address)
        credentials, _, location = parts.netloc.rpartition("@")
        authority = read_authority(location, default_port=HTTP_PORT)
    except ValueError:
        raise ConfigurationError(
            f"{found.name} is not an address such as http://proxy.example:3128"
        ) from None
    if parts.scheme != "http":
        told = f"{found.name} names a proxy with the scheme {parts.scheme}"
        raise ConfigurationError(f"{told}; programs reach hosts only through a proxy with the scheme http")
    basic = base64.b64encode(unquote(credentials).encode()).decode()
    authorization = f"Basic {basic}" if credentials else ""
    return OuterProxy(authority, authorization, _read(environ, "no_proxy").value, found.name)


def default_port(scheme: str) -> int:
    """Return the port of a scheme, `http` or `https`."""
    return HTTP_PORT if scheme == "http" else HTTPS_PORT
