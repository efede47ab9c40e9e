"""Connect to a host: resolve its name once, check every address, and connect to a checked one."""

import asyncio
import errno
import os
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Literal

from paddock.confinement.network.outer_proxy import OuterProxy
from paddock.model.addresses import Address, is_public, really
from paddock.model.host_names import Authority, read_address
from paddock.model.network import HTTPS_PORT

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Returns the addresses of a name; the port is that of the connection. Raises OSError."""
_RESOLVER_THREADS = 8
MAX_ADDRESSES = 8
"""Maximum number of addresses of one name that are tried."""
_STATUS_LINE_PATTERN = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r]")
_MAX_ANSWER_BYTES = 16 * 1024

Failure = Literal["policy", "invalid", "unresolved", "unreachable", "timeout"]


class DialRefusedError(Exception):
    """A connection was not made. The text says why and what to do; it is for the program and for the record."""

    def __init__(self, reason: str, failure: Failure, *, rule: str = "") -> None:
        super().__init__(reason)
        self.failure: Failure = failure
        self.rule = rule


@cache
def _resolver_threads() -> ThreadPoolExecutor:
    """Return the threads of the resolver: names that are answered slowly must not take those of other work."""
    return ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="paddock-resolver")


async def resolve_name(host: str, port: int) -> list[Address]:
    """Return the addresses of a name, in the order of the system. Raises OSError."""

    def look_up() -> list[Address]:
        # As bytes, because `str` would be encoded by IDNA 2003; the name is in A-labels already.
        found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
        return [ip_address(str(place[0]).partition("%")[0]) for *_, place in found]

    return await asyncio.get_running_loop().run_in_executor(_resolver_threads(), look_up)


async def find_addresses(authority: Authority, resolve: Resolve = resolve_name) -> Sequence[Address]:
    """Return the addresses of a host. Raises DialRefusedError if it has none."""
    if literal := read_address(authority.host):
        return [literal]
    try:
        addresses = await resolve(*authority)
    except OSError as error:
        raise DialRefusedError(f"{authority.host}: {error.strerror}", "unresolved") from None
    if not addresses:
        raise DialRefusedError(f"{authority.host} has no address", "unresolved")
    return addresses


def explain_address(address: Address) -> str:
    """Return why an address is not reached without a grant; empty if it is public and not this machine's."""
    if not is_public(address):
        return "not a public address"
    return "an address of this machine" if any(map(is_own, {address, really(address)})) else ""


def find_refused(
    addresses: Sequence[Address], networks: Sequence[Sequence[str]]
) -> tuple[Address, str] | None:
    """Return the first address that is neither open nor in one of the networks of each file, and what is wrong."""
    for address in addresses:
        real, what = really(address), explain_address(address)
        if what and not (
            networks and all(any(real in ip_network(each) for each in file) for file in networks)
        ):
            return address, what
    return None


def check_addresses(
    authority: Authority, addresses: Sequence[Address], networks: Sequence[Sequence[str]]
) -> None:
    """Refuse a host unless each of its addresses is public, or in one of the networks of each file.

    An address of this machine is never public. Raises DialRefusedError.
    """
    refused = find_refused(addresses, networks)
    if refused is None:
        return
    address, what = refused
    host, port = authority
    ports = "" if port == HTTPS_PORT else f"ports = [{port}], "
    rule = f'host = "{host}", {ports}effect = "allow" and addresses = ["{really(address)}"]'
    remedy = f"if that is intended, add a [[network.rule]] with {rule} to the user's paddock.toml"
    raise DialRefusedError(f"{host} leads to {address}, which is {what}; {remedy}", "policy")


def is_own(address: Address) -> bool:
    """Return whether an address belongs to this machine: only then a socket can have it (bind(2)).

    An address that cannot be tried, because no descriptor is left, counts as the machine's own.
    """
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as error:
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True


class Dialler:
    """Makes connections to hosts that were granted."""

    def __init__(self, resolve: Resolve, outer: OuterProxy | None, timeout_s: float) -> None:
        self._resolve = resolve
        self._outer = outer
        self._timeout_s = timeout_s

    async def connect(
        self, authority: Authority, networks: Sequence[Sequence[str]]
    ) -> tuple[socket.socket, Address | None]:
        """Return a connected socket, and its checked address or None if another proxy resolved it.

        Raises DialRefusedError.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._outer and self._outer.serves(authority):
                    return await self._connect_through(self._outer, authority, networks), None
                addresses = await find_addresses(authority, self._resolve)
                check_addresses(authority, addresses, networks)
                return await _connect_to_any(authority, addresses[:MAX_ADDRESSES], self._timeout_s)
        except TimeoutError:
            seconds = f"{self._timeout_s:g} s"
            raise DialRefusedError(f"{authority} did not answer within {seconds}", "timeout") from None

    async def _connect_through(
        self, outer: OuterProxy, authority: Authority, networks: Sequence[Sequence[str]]
    ) -> socket.socket:
        """Connect through another proxy, which resolves the name. What this machine can resolve is checked here."""
        try:
            check_addresses(authority, await find_addresses(authority, self._resolve), networks)
        except DialRefusedError as problem:
            if problem.failure != "unresolved":
                raise
        addresses = await find_addresses(outer.authority, self._resolve)
        connected, _ = await _connect_to_any(outer.authority, addresses, self._timeout_s)
        try:
            await _open_tunnel(connected, outer, authority)
        except BaseException:
            connected.close()
            raise
        return connected


async def _connect_to_any(
    authority: Authority, addresses: Sequence[Address], timeout_s: float
) -> tuple[socket.socket, Address]:
    """Connect to the first address that answers. Each has an equal part of the time."""
    last: OSError | None = None
    for address in addresses:
        try:
            async with asyncio.timeout(timeout_s / len(addresses)):
                return await _connect_to(address, authority.port), address
        except OSError as error:  # also the timeout
            last = error
    if isinstance(last, TimeoutError):
        raise last
    why = os.strerror(last.errno) if last and last.errno else "it has no address"
    raise DialRefusedError(f"cannot connect to {authority}: {why}", "unreachable")


async def _connect_to(address: Address, port: int) -> socket.socket:
    connected = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, (str(address), port))
    except BaseException:
        connected.close()
        raise
    return connected


async def _open_tunnel(connected: socket.socket, outer: OuterProxy, authority: Authority) -> None:
    """Send CONNECT to another proxy and read its answer, byte by byte: what follows belongs to the host."""
    loop = asyncio.get_running_loop()
    authorization = f"Proxy-Authorization: {outer.authorization}\r\n" if outer.authorization else ""
    head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{authorization}\r\n"
    await loop.sock_sendall(connected, head.encode("ascii"))
    answer = bytearray()
    while not answer.endswith(b"\r\n\r\n"):
        received = await loop.sock_recv(connected, 1) if len(answer) < _MAX_ANSWER_BYTES else b""
        if not received:
            break
        answer += received
    status = _STATUS_LINE_PATTERN.match(answer)
    if status is None or not answer.endswith(b"\r\n\r\n"):
        raise DialRefusedError(f"the proxy of {outer.variable} did not answer in HTTP", "unreachable")
    if not status[1].startswith(b"2"):
        raise DialRefusedError(
            f"the proxy of {outer.variable} answered {status[1].decode()} for {authority}", "unreachable"
        )
