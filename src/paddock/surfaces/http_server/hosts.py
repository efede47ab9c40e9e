"""The host names that HTTP requests may use, against DNS rebinding.

A web page of `evil.test` that resolves to loopback sends `Host: evil.test`, and its own name in `Origin`. Therefore
both headers must name this server:

    its own address       with its own port, over its own scheme
    a further NAME        with its own port, or with that of http or https: a proxy in front of it may use those
    a further NAME:PORT   only with that port
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from paddock.model.addresses import is_port
from paddock.model.errors import ConfigurationError

_DEFAULT_PORTS = {"http": 80, "https": 443}
_AUTHORITY_PATTERN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::([0-9]{1,5}))?", re.ASCII)
_MAX_CHARS = 300
"""Maximum length of one header, in characters; a host name has at most 253."""

_Address = tuple[str, int]
"""A normalized host name and a port."""


@dataclass(frozen=True)
class HostNames:
    """The names and ports of one server. Case, a final dot and the notation of IPv6 addresses do not matter."""

    own: frozenset[_Address]
    further: frozenset[_Address]
    scheme: str = "http"
    """The scheme of its own address."""

    @classmethod
    def of(
        cls, own: Iterable[str], port: int, further: Iterable[str] = (), *, scheme: str = "http"
    ) -> "HostNames":
        """Return the names of a server that listens on `port`. Raises ConfigurationError for an invalid name."""
        usual = (port, *_DEFAULT_PORTS.values())
        named = [_read_allowed_host(text) for text in further]
        return cls(
            frozenset((_normalize_name(name), port) for name in own),
            frozenset(
                (name, each) for name, own_port in named for each in ((own_port,) if own_port else usual)
            ),
            scheme,
        )

    def allows_host(self, header: str) -> bool:
        """Return whether the header `Host` names this server."""
        parsed = _parse_authority(header)
        if parsed is None:
            return False
        name, port = parsed
        ports = _DEFAULT_PORTS.values() if port is None else (port,)
        return any((name, each) in self.own | self.further for each in ports)

    def allows_origin(self, header: str) -> bool:
        """Return whether the header `Origin` names this server."""
        scheme, _, authority = header.partition("://")
        parsed = _parse_authority(authority)
        if parsed is None or scheme not in _DEFAULT_PORTS:
            return False
        name, port = parsed
        at = (name, _DEFAULT_PORTS[scheme] if port is None else port)
        return at in self.further or (scheme == self.scheme and at in self.own)


def _read_allowed_host(text: str) -> tuple[str, int | None]:
    """Return the name and the port of `--allowed-host`. Raises ConfigurationError."""
    try:
        plain = f"[{ipaddress.IPv6Address(text)}]"
    except ValueError:
        plain = text
    try:
        spelled = plain if plain.isascii() else plain.encode("idna").decode()
    except UnicodeError:
        spelled = ""
    if (parsed := _parse_authority(spelled)) is None:
        raise ConfigurationError(
            f"--allowed-host {text}: this is not NAME or NAME:PORT. "
            "Give the name that clients use, without a scheme or a path; for example paddock.example.com"
        )
    return parsed


def _parse_authority(authority: str) -> tuple[str, int | None] | None:
    """Return name and port of `NAME` or `NAME:PORT`; None for anything else."""
    found = _AUTHORITY_PATTERN.fullmatch(authority) if len(authority) <= _MAX_CHARS else None
    if found is None:
        return None
    port = None if found[2] is None else int(found[2])
    if not is_port(port):
        return None
    name = _normalize_name(found[1])
    return (name, port) if name else None


def _normalize_name(name: str) -> str:
    """Return a normalized host name; empty if the text is not one."""
    if name.startswith("["):
        try:
            return f"[{ipaddress.IPv6Address(name[1:-1])}]"
        except ValueError:
            return ""
    return name.lower().removesuffix(".")
