"""The server name of a TLS ClientHello (RFC 8446, 4.1.2, and RFC 6066, 3), read whole before a byte of it goes on."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

HANDSHAKE_RECORD = 0x16
"""First byte of a TLS connection."""
ALERT_UNRECOGNIZED_NAME = bytes([0x15, 3, 1, 0, 2, 2, 112])
"""The fatal alert for a client whose server name is refused (RFC 6066, 3)."""
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_HOST_NAME = 0
_MAX_RECORD_BYTES = 16 * 1024
_MAX_HELLO_BYTES = 64 * 1024

ReadExactly = Callable[[int], Awaitable[bytes]]


class BadHelloError(Exception):
    """The bytes are not a ClientHello, or a strange one; the text says why."""


class ClientHello(NamedTuple):
    """The first message of a TLS client."""

    raw: bytes
    """Its bytes, with the record headers."""
    server_name: str | None
    """The server name in lower case, without a trailing dot; None if there is none."""


async def read_client_hello(read_exactly: ReadExactly) -> ClientHello:
    """Return the ClientHello at the beginning of a stream, from any number of records.

    Raises BadHelloError, EOFError.
    """
    raw, message = bytearray(), bytearray()
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4]):
        header = await read_exactly(5)
        size = int.from_bytes(header[3:5])
        if header[0] != HANDSHAKE_RECORD or header[1] != 3 or not 0 < size <= _MAX_RECORD_BYTES:
            raise BadHelloError("this is not TLS")
        body = await read_exactly(size)
        raw += header + body
        message += body
        if message[0] != _CLIENT_HELLO:
            raise BadHelloError("the first message of TLS is not a ClientHello")
        if len(message) > _MAX_HELLO_BYTES:
            raise BadHelloError(f"the ClientHello has more than {_MAX_HELLO_BYTES} bytes")
    if len(message) != 4 + int.from_bytes(message[1:4]):
        raise BadHelloError("something follows the ClientHello")
    return ClientHello(bytes(raw), _find_server_name(bytes(message[4:])))


class _HelloReader:
    """Reads fields of fixed and variable length; every length is checked."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def take(self, number: int) -> bytes:
        if number > len(self._rest):
            raise BadHelloError("the ClientHello is cut off")
        taken, self._rest = self._rest[:number], self._rest[number:]
        return taken

    def take_number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def take_vector(self, length_size: int) -> "_HelloReader":
        return _HelloReader(self.take(self.take_number(length_size)))

    def __bool__(self) -> bool:
        return bool(self._rest)

    @property
    def rest(self) -> bytes:
        return self._rest


def _find_server_name(message: bytes) -> str | None:
    fields = _HelloReader(message)
    fields.take(2 + 32)  # version and random
    fields.take_vector(1)  # session id
    fields.take_vector(2)  # cipher suites
    fields.take_vector(1)  # compression methods
    if not fields:
        return None
    extensions = fields.take_vector(2)
    if fields:
        raise BadHelloError("something follows the extensions of the ClientHello")
    names: list[bytes] = []
    seen: set[int] = set()
    while extensions:
        kind = extensions.take_number(2)
        content = extensions.take_vector(2)
        if kind in seen:
            raise BadHelloError("the ClientHello repeats an extension")
        seen.add(kind)
        if kind != _SERVER_NAME:
            continue
        entries = content.take_vector(2)
        while entries:
            if entries.take_number(1) != _HOST_NAME:
                raise BadHelloError("the ClientHello has a server name of an unknown kind")
            names.append(entries.take_vector(2).rest)
        if content or not names or not all(names):
            raise BadHelloError("the ClientHello has an invalid list of server names")
    if not names:
        return None
    if len(names) != 1 or not names[0].isascii() or b"\0" in names[0]:
        raise BadHelloError("the ClientHello does not have exactly one server name")
    return names[0].decode("ascii").lower().removesuffix(".")
