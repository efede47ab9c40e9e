"""Public network addresses, because an address from outside may point into the local network; and valid ports."""

from ipaddress import IPv4Address, IPv6Address, ip_network

Address = IPv4Address | IPv6Address

MAX_PORT = 65_535
"""Maximum TCP port. The kernel truncates larger ones to 16 bits."""

_NAT64 = ip_network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Return whether an address is in the public network."""
    real = really(address)
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
