"""A tunnel to a granted host: compares the server name of TLS, then copies bytes in both directions."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable

from paddock.confinement.network.client_hello import (
    ALERT_UNRECOGNIZED_NAME,
    HANDSHAKE_RECORD,
    BadHelloError,
    read_client_hello,
)
from paddock.confinement.network.connector import Connector, HostConnection
from paddock.confinement.network.streams import ByteStream, IdleTimer
from paddock.confinement.network.tls import TlsStream
from paddock.model.host_names import read_address
from paddock.model.network import HTTPS_PORT


class _RefusedTunnelError(Exception):
    """What the job sent first does not belong to the granted host."""


async def run_tunnel(client: ByteStream, host: HostConnection, timer: IdleTimer) -> None:
    """Copy bytes until both directions have ended, one has failed, or nothing passed for a while.

    A tunnel that begins with TLS must name the granted host; one to port 443 must begin with TLS. Raises OSError,
    BudgetSpentError, TimeoutError.
    """
    up = asyncio.create_task(_copy_up(client, host))
    down = asyncio.create_task(host.copy_to(client, splices=True))
    timer.restart()
    try:
        done, _ = await asyncio.wait((up, down), return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    except _RefusedTunnelError as problem:
        host.attempt.refusal = str(problem)
    finally:
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
    if host.attempt.refusal:
        await _send_alert(client, timer)


async def open_tls(
    client: ByteStream,
    host: HostConnection,
    connector: Connector,
    timer: IdleTimer,
    serve: Callable[[ByteStream, HostConnection, Connector, IdleTimer], Awaitable[None]],
) -> None:
    """Open the TLS of a tunnel on both sides, and let `serve` decide on each request in it.

    Raises OSError, EOFError, BudgetSpentError, TimeoutError.
    """
    authority = host.authority
    try:
        client.unread(await _read_hello(client, host))
    except _RefusedTunnelError as problem:
        host.attempt.refusal = str(problem)
        await _send_alert(client, timer)
        return
    assert connector.certificates is not None, "rules that look at requests come with a certificate authority"
    plain = TlsStream(client, connector.certificates.make_context(authority.host))
    try:
        await plain.shake_hands()
    except ssl.SSLError as problem:
        host.attempt.failure = f"{authority}: TLS with the program failed: {problem.reason}"
        return
    await serve(plain, host, connector, timer)


async def _send_alert(client: ByteStream, timer: IdleTimer) -> None:
    with contextlib.suppress(OSError):
        await client.write(ALERT_UNRECOGNIZED_NAME)
        await client.end_gracefully(timer.idle_s)


async def _read_hello(client: ByteStream, host: HostConnection) -> bytes:
    """Return the ClientHello of a tunnel, which names the granted host."""
    try:
        hello = await read_client_hello(client.read_exactly)
    except BadHelloError as problem:
        raise _RefusedTunnelError(f"{host.authority}: {problem}") from None
    except EOFError:
        raise _RefusedTunnelError(f"{host.authority}: the ClientHello is cut off") from None
    if hello.server_name is None:
        if not read_address(host.authority.host):  # clients send no address as a name (RFC 6066, 3)
            raise _RefusedTunnelError(f"{host.authority}: the ClientHello of TLS has no server name (SNI)")
    elif hello.server_name != host.authority.host:
        raise _RefusedTunnelError(f"{host.authority}: the ClientHello of TLS names another host (SNI)")
    return hello.raw


async def _copy_up(client: ByteStream, host: HostConnection) -> None:
    first = await client.read(1)
    client.unread(first)
    if first and first[0] == HANDSHAKE_RECORD:
        await host.write(await _read_hello(client, host))
    elif first and host.authority.port == HTTPS_PORT:
        message = (
            f"{host.authority} is granted for TLS only; name another port in the rule for another protocol"
        )
        raise _RefusedTunnelError(message)
    await client.copy_to(host)
