"""Any bytes are refused, or read as the ClientHello that they are."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from tests.support.network import make_hello

from paddock.confinement.network.client_hello import BadHelloError, ClientHello, read_client_hello

HELLO = make_hello("granted.example")


def read(data: bytes) -> ClientHello | None:
    left = bytearray(data)

    async def read_exactly(number: int) -> bytes:
        if number > len(left):
            raise EOFError
        taken = bytes(left[:number])
        del left[:number]
        return taken

    try:
        return asyncio.run(read_client_hello(read_exactly))
    except (BadHelloError, EOFError):
        return None


def test_the_server_name_of_openssl():
    assert read(HELLO + b"more") == ClientHello(HELLO, "granted.example")
    assert read(make_hello(None)).server_name is None


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(data):
    for text in (data, b"\x16\x03\x01" + len(data).to_bytes(2) + data):
        found = read(text)
        assert found is None or text.startswith(found.raw)


@given(st.integers(0, len(HELLO) - 1), st.integers(0, 255))
def test_a_changed_byte_never_makes_the_name_another_one_without_notice(position, value):
    """What is read as the name is in the bytes that are sent on."""
    changed = bytes([*HELLO[:position], value, *HELLO[position + 1 :]])
    found = read(changed)
    if found and found.server_name:
        assert found.server_name.encode() in changed.lower()
