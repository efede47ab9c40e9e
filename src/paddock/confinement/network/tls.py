"""TLS over a stream of bytes, in both roles: towards a program whose connection is opened, and towards its host."""

import contextlib
import ssl
from functools import cache

from paddock.confinement.network.connector import Attempt, HostConnection
from paddock.confinement.network.dial import DialRefusedError
from paddock.confinement.network.streams import ByteStream
from paddock.model.host_names import Authority
from paddock.model.network import HostDecision


class TlsStream(ByteStream):
    """The plain bytes of a TLS connection over another stream, which it owns."""

    def __init__(self, under: ByteStream, context: ssl.SSLContext, *, server_name: str | None = None) -> None:
        """Be the client of `server_name`, or the server without one."""
        self._under = under
        self._ahead = bytearray()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )

    async def shake_hands(self) -> None:
        """Do the handshake. Raises ssl.SSLError, OSError, EOFError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            else:
                await self._flush()
                return

    async def _feed(self) -> None:
        received = await self._under.read()
        if not received:
            raise EOFError
        self._incoming.write(received)

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await self._under.write(data)

    async def _receive(self, max_bytes: int) -> bytes:
        while True:
            try:
                return self._tls.read(max_bytes)
            except ssl.SSLWantReadError:
                await self._flush()
                try:
                    await self._feed()
                except EOFError:
                    # Many servers end without close_notify. Lengths in HTTP show what was cut off.
                    return b""
            except ssl.SSLZeroReturnError:
                return b""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        self._tls.write(data)
        await self._flush()

    async def end_gracefully(self, timeout_s: float) -> None:
        with contextlib.suppress(ssl.SSLError, OSError):
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.unwrap()
            await self._flush()
        await self._under.end_gracefully(timeout_s)

    def end_writing(self) -> None:
        """Do nothing: `end_gracefully` says farewell."""

    def is_quiet(self) -> bool:
        return not self._ahead and not self._tls.pending() and self._under.is_quiet()

    def close(self) -> None:
        self._under.close()


class TlsHost(TlsStream):
    """TLS towards a host, whose certificate is verified."""

    def __init__(self, under: HostConnection, context: ssl.SSLContext) -> None:
        super().__init__(under, context, server_name=under.authority.host)
        self._host = under

    @property
    def authority(self) -> Authority:
        """The host and port that were granted."""
        return self._host.authority

    @property
    def decision(self) -> HostDecision:
        """The decision for which it was connected."""
        return self._host.decision

    @property
    def attempt(self) -> Attempt:
        """What is reported of the connection."""
        return self._host.attempt


async def secure_host(host: HostConnection) -> TlsHost:
    """Return TLS over a connection to a host, whose certificate is verified. Raises DialRefusedError, OSError."""
    secured = TlsHost(host, _make_client_context())
    try:
        await secured.shake_hands()
    except (ssl.SSLError, EOFError) as problem:
        why = problem.reason if isinstance(problem, ssl.SSLError) else "the connection ended"
        if isinstance(problem, ssl.SSLCertVerificationError):
            why = problem.verify_message
        host.attempt.failure = f"{host.authority}: TLS with the host failed: {why}"
        raise DialRefusedError(host.attempt.failure, "unreachable") from None
    return secured


@cache
def _make_client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
