"""Names of hosts and authorities (`host:port`), in the one form in which they are compared.

The form of a name is its A-labels (RFC 5890) in lower case without a trailing dot; of an address, the text of
`ipaddress`. Everything that libraries read as something else than it looks like is refused: addresses in octal,
hexadecimal or short notation, zone ids, user names, further colons.
"""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from paddock.model.addresses import MAX_PORT, Address, is_port
from paddock.model.printable import make_printable

MAX_HOST_CHARS = 253
"""Maximum length of a name, RFC 1035."""
_LABEL_PATTERN = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER_PATTERN = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label like this makes a name an IPv4 address (https://url.spec.whatwg.org/#ends-in-a-number-checker)."""
_PORT_PATTERN = re.compile(r"[0-9]{1,5}")
_MAX_QUOTED_CHARS = 100


class Authority(NamedTuple):
    """A host and a port that were read, so that equal ones are equal values."""

    host: str
    """A name, or an address without brackets."""
    port: int

    def __str__(self) -> str:
        return f"{quote_host(self.host)}:{self.port}"


def quote_host(host: str) -> str:
    """Return a host as authorities and URLs have it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def read_host(text: str) -> str:
    """Return the canonical form of a host. Raises ValueError, whose text is for people.

    The text is ASCII, as in protocols. An IPv6 address may be in brackets; one that contains an IPv4 address (RFC 4291,
    2.5.5.2) becomes that address.
    """
    if not text.isascii():
        raise ValueError(f"{_quote(text)} is not ASCII; write the name in A-labels (xn--...)")
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in bare:
        if "%" in bare:
            raise ValueError(f"{_quote(bare)} has a zone id, which only has a meaning on one machine")
        try:
            address = IPv6Address(bare)
        except ValueError:
            raise ValueError(f"{_quote(bare)} is not an IPv6 address") from None
        return str(address.ipv4_mapped or address)
    if bare is not text:
        raise ValueError(f"{_quote(text)} is not an IPv6 address")
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if _NUMBER_PATTERN.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            message = f"{_quote(text)} is not a host; write an IPv4 address as four decimal numbers"
            raise ValueError(message) from None
    if len(host) > MAX_HOST_CHARS or not all(map(_LABEL_PATTERN.fullmatch, labels)):
        raise ValueError(f"{_quote(text)} is not the name of a host")
    return host


def read_address(host: str) -> Address | None:
    """Return the address that a canonical host is; None for a name."""
    if ":" in host:
        return IPv6Address(host)
    return IPv4Address(host) if host.rpartition(".")[2].isdigit() else None


def read_authority(text: str, *, default_port: int | None = None) -> Authority:
    """Return the authority in a text such as `example.com:443`. Raises ValueError, whose text is for people.

    Without `default_port` the text must have a port.
    """
    if "@" in text:
        raise ValueError(f"{_quote(text.rpartition('@')[2])} has a user name; leave it out")
    host, separator, port = text, "", ""
    if not text.endswith("]"):
        host, separator, port = text.rpartition(":")
        if not separator:
            host = text
    if ":" in host and not host.startswith("["):
        raise ValueError(f"{_quote(text)} is not a host and a port")
    if not separator:
        if default_port is None:
            raise ValueError(f"{_quote(text)} has no port")
        return Authority(read_host(host), default_port)
    if not _PORT_PATTERN.fullmatch(port) or not is_port(int(port)):
        raise ValueError(f"{_quote(text)} has no port between 1 and {MAX_PORT}")
    return Authority(read_host(host), int(port))


def read_host_pattern(text: str) -> str:
    """Return the canonical form of a host in settings: a host, or `*.` and a name. Raises ValueError.

    Names in other alphabets become A-labels here, once (UTS 46).
    """
    host = text.removeprefix("*.")
    if "*" in host:
        raise ValueError(
            f'{_quote(text)} has a "*"; only the first label of a name may be one, as in "*.example.com"'
        )
    if any(character in host for character in "/@") or "://" in host:
        raise ValueError(f"{_quote(text)} is not a host; write it without scheme, user name and path")
    if host.count(":") == 1:
        raise ValueError(f"{_quote(text)} has a port; write it in `ports`")
    encoded = host
    if not host.isascii():
        import idna  # few settings need it

        try:
            encoded = idna.encode(host, uts46=True).decode("ascii")
        except idna.IDNAError:
            raise ValueError(f"{_quote(host)} is not the name of a host") from None
    found = read_host(encoded)
    if host is text:
        return found
    if read_address(found):
        raise ValueError(f'{_quote(text)} is an address; "*." is for names')
    return f"*.{found}"


def match_host(pattern: str, host: str) -> bool:
    """Return whether a canonical host is the pattern's, or for `*.` a name below it at any depth."""
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def find_common_pattern(left: str, right: str) -> str | None:
    """Return the pattern of the hosts that two patterns have in common, which is the narrower one; None without any."""
    if left == right or match_host(left, right.removeprefix("*")):
        return right
    return left if match_host(right, left.removeprefix("*")) else None


def _quote(text: str) -> str:
    return f'"{make_printable(text, _MAX_QUOTED_CHARS)}"'
