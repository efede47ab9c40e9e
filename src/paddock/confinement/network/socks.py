"""SOCKS5 for the job (RFC 1928): CONNECT without authentication, to names and addresses."""

import contextlib
from ipaddress import ip_address
from typing import TYPE_CHECKING

from paddock.confinement.network.connector import Connector, HostConnection
from paddock.confinement.network.dial import DialRefusedError, Failure
from paddock.confinement.network.streams import ByteStream, IdleTimer
from paddock.model.host_names import Authority, quote_host, read_authority
from paddock.model.printable import make_printable

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 5
"""First byte of a SOCKS5 connection."""
_NO_AUTHENTICATION_REQUIRED, _NO_ACCEPTABLE_METHODS = 0x00, 0xFF
"""METHOD (RFC 1928, 3)."""
_CONNECT = 0x01
"""CMD (RFC 1928, 4)."""
_IPV4, _DOMAINNAME, _IPV6 = 0x01, 0x03, 0x04
"""ATYP (RFC 1928, 5). A domain name begins with its own length."""
_IPV4_BYTES, _IPV6_BYTES, _PORT_BYTES = 4, 16, 2
_SUCCEEDED, _GENERAL_FAILURE, _NOT_ALLOWED_BY_RULESET = 0x00, 0x01, 0x02
_HOST_UNREACHABLE, _CONNECTION_REFUSED = 0x04, 0x05
_COMMAND_NOT_SUPPORTED, _ADDRESS_TYPE_NOT_SUPPORTED = 0x07, 0x08
"""REP (RFC 1928, 6)."""
_RESERVED = 0x00
_REPLIES: "Mapping[Failure, int]" = {
    "policy": _NOT_ALLOWED_BY_RULESET,
    "invalid": _GENERAL_FAILURE,
    "unresolved": _HOST_UNREACHABLE,
    "unreachable": _CONNECTION_REFUSED,
    "timeout": _HOST_UNREACHABLE,
}


async def open_socks_tunnel(
    client: ByteStream, connector: Connector, timer: IdleTimer
) -> HostConnection | None:
    """Answer a SOCKS5 client; return the connection to its host, or None if it was refused.

    Raises EOFError, OSError.
    """
    _, method_count = await client.read_exactly(2)
    if _NO_AUTHENTICATION_REQUIRED not in await client.read_exactly(method_count):
        await client.write(bytes([VERSION, _NO_ACCEPTABLE_METHODS]))
        return None
    await client.write(bytes([VERSION, _NO_AUTHENTICATION_REQUIRED]))
    version, command, _, address_type = await client.read_exactly(4)
    if version != VERSION or command != _CONNECT:
        await _reply(client, _COMMAND_NOT_SUPPORTED)
        return None
    if address_type == _IPV4:
        host = str(ip_address(await client.read_exactly(_IPV4_BYTES)))
    elif address_type == _IPV6:
        host = quote_host(str(ip_address(await client.read_exactly(_IPV6_BYTES))))
    elif address_type == _DOMAINNAME:
        (size,) = await client.read_exactly(1)
        host = (await client.read_exactly(size)).decode("latin-1")
    else:
        await _reply(client, _ADDRESS_TYPE_NOT_SUPPORTED)
        return None
    port = int.from_bytes(await client.read_exactly(_PORT_BYTES))
    timer.pause()
    try:
        try:
            authority = read_authority(f"{host}:{port}")
        except ValueError as problem:
            raise await connector.refuse(Authority(make_printable(host), port), str(problem)) from None
        connection = await connector.connect(authority)
    except DialRefusedError as problem:
        timer.restart()
        await _reply(client, _REPLIES[problem.failure])
        return None
    timer.restart()
    try:
        await _reply(client, _SUCCEEDED)
    except BaseException:
        connection.close()
        raise
    return connection


async def _reply(client: ByteStream, code: int) -> None:
    """Send a reply. Its address is always 0.0.0.0:0: the job need not know that of the machine."""
    with contextlib.suppress(OSError):
        await client.write(bytes([VERSION, code, _RESERVED, _IPV4]) + bytes(_IPV4_BYTES + _PORT_BYTES))
