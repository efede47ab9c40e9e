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
_NO_AUTHENTICATION, _NO_METHOD = 0, 0xFF
_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_SUCCEEDED, _COMMAND_NOT_SUPPORTED, _ADDRESS_NOT_SUPPORTED = 0, 7, 8
_REPLIES: "Mapping[Failure, int]" = {
    "policy": 2,
    "invalid": 1,
    "unresolved": 4,
    "unreachable": 5,
    "timeout": 4,
}


async def open_socks_tunnel(
    client: ByteStream, connector: Connector, timer: IdleTimer
) -> HostConnection | None:
    """Answer a SOCKS5 client; return the connection to its host, or None if it was refused.

    Raises EOFError, OSError.
    """
    _, number = await client.read_exactly(2)
    if _NO_AUTHENTICATION not in await client.read_exactly(number):
        await client.write(bytes([VERSION, _NO_METHOD]))
        return None
    await client.write(bytes([VERSION, _NO_AUTHENTICATION]))
    version, command, _, kind = await client.read_exactly(4)
    if version != VERSION or command != _CONNECT:
        await _reply(client, _COMMAND_NOT_SUPPORTED)
        return None
    host = await _read_host(client, kind)
    if host is None:
        await _reply(client, _ADDRESS_NOT_SUPPORTED)
        return None
    port = int.from_bytes(await client.read_exactly(2))
    timer.pause()
    try:
        connection = await connector.connect(await _check_authority(connector, host, port))
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


async def _read_host(client: ByteStream, kind: int) -> str | None:
    match kind:
        case 1:
            return str(ip_address(await client.read_exactly(4)))
        case 4:
            return quote_host(str(ip_address(await client.read_exactly(16))))
        case 3:
            (size,) = await client.read_exactly(1)
            return (await client.read_exactly(size)).decode("latin-1")
        case _:
            return None


async def _check_authority(connector: Connector, host: str, port: int) -> Authority:
    try:
        return read_authority(f"{host}:{port}")
    except ValueError as problem:
        raise await connector.refuse(Authority(make_printable(host), port), str(problem)) from None


async def _reply(client: ByteStream, code: int) -> None:
    """Send a reply. Its address is always 0.0.0.0:0: the job need not know that of the machine."""
    with contextlib.suppress(OSError):
        await client.write(bytes([VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0]))
