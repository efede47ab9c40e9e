"""Public network addresses, because an address from outside may point into the local network; and valid ports."""

from ipaddress import IPv4Address, IPv6Address, ip_network

Address = IPv4Address | IPv6Address

MAX_PORT = 65_535
"""Maximum TCP port. The kernel truncates larger ones to 16 bits."""

_NAT64 = ip_network("64:ff9b::/96")
_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "64:ff9b:1::/48",  # NAT64 of one network, RFC 8215: an IPv4 address at a place that only that network knows
        "2001::/23",  # Teredo and other protocol assignments
        "3fff::/20",  # documentation, RFC 9637
        "5f00::/16",  # segment routing, RFC 9602
        "fec0::/10",  # site local, RFC 3879
        "192.0.0.0/24",  # protocol assignments, one of them the metadata service of Oracle
        "168.63.129.16/32",  # the metadata service of Azure
        "192.88.99.0/24",  # relays of 6to4, RFC 7526
    )
)
"""Networks of IANA's registries of special addresses that `ipaddress` of older Pythons takes for public."""


def is_public(address: Address) -> bool:
    """Return whether an address is in the public network."""
    real = really(address)
    if any(real in network for network in _NOT_PUBLIC):
        return False
    return real.is_global and not (real.is_multicast or real.is_reserved)


def is_port(number: int | None) -> bool:
    """Return whether a port is valid; None stands for the default port of a scheme."""
    return number is None or 0 < number <= MAX_PORT


def really(address: Address) -> Address:
    """Return the address that packets reach: an IPv6 address may contain an IPv4 one (RFC 4291, 3056, 6052)."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
