"""`Paddock.connect`: its address and token, and the interface that it shares with `Paddock`."""

import inspect

import pytest

from paddock import BlockingPaddock, ConfigurationError, Paddock
from paddock.surfaces.client.remote.paddock import RemotePaddock, read_address, read_token


def public_members(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_")]


@pytest.mark.parametrize("name", [name for name in public_members(Paddock) if name != "connect"])
def test_a_connected_paddock_has_the_same_methods(name: str) -> None:
    here, there = (inspect.getattr_static(kind, name) for kind in (Paddock, RemotePaddock))
    assert type(there) is type(here)
    if callable(here):
        assert inspect.signature(there) == inspect.signature(here)


def test_a_connected_paddock_has_no_further_methods() -> None:
    assert set(public_members(RemotePaddock)) <= set(public_members(Paddock))


@pytest.mark.parametrize("name", public_members(Paddock))
def test_the_blocking_twin_has_the_same_methods(name: str) -> None:
    here, there = inspect.getattr_static(Paddock, name), inspect.getattr_static(BlockingPaddock, name)
    if name == "session":  # its twin takes the same arguments as keywords
        return
    if isinstance(here, staticmethod):
        assert [*inspect.signature(here.__func__).parameters] == [
            *inspect.signature(there.__func__).parameters
        ][1:]
    elif callable(here):
        assert [*inspect.signature(there).parameters] == [*inspect.signature(here).parameters]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8700", "http://127.0.0.1:8700"),
        ("http://127.0.0.1:8700/", "http://127.0.0.1:8700"),
        ("http://[::1]:8700", "http://[::1]:8700"),
        ("http://localhost:1/", "http://localhost:1"),
        ("https://paddock.example.com/api/", "https://paddock.example.com/api"),
    ],
)
def test_an_address_ends_without_a_slash(url: str, address: str) -> None:
    assert str(read_address(url, unencrypted=False)).rstrip("/") == address


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("localhost:8700", "'localhost:8700' is not the address of a server; give http(s)://HOST:PORT"),
        ("ftp://x", "'ftp://x' is not the address of a server; give http(s)://HOST:PORT"),
        ("http://", "'http://' is not the address of a server; give http(s)://HOST:PORT"),
        ("http://[::1", "this is not the address of a server; give http(s)://HOST:PORT"),
        (
            "https://127.1:8700",
            "'https://127.1:8700' is not the address of a server: \"127.1\" is not a host; write an IPv4 address as four "
            "decimal numbers",
        ),
        (
            "https://user:hunter2@x",
            "the address of the server has a user or a password; give the token in PADDOCK_TOKEN instead",
        ),
        ("https://x/?a=b", "the address 'https://x/?a=b' has a query or a fragment; leave it out"),
        (
            "http://10.0.0.1:8700",
            "the token would cross the network to 10.0.0.1 unencrypted; give an address with https. If the "
            "network is trusted, pass unencrypted=True (on the command line: --unencrypted)",
        ),
        (
            "http://127.0.0.1.example.com",
            "the token would cross the network to 127.0.0.1.example.com unencrypted; give an address with https. If "
            "the network is trusted, pass unencrypted=True (on the command line: --unencrypted)",
        ),
    ],
)
def test_an_address_that_cannot_be_used_is_an_error(url: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_address(url, unencrypted=False)
    assert str(raised.value) == text


def test_plain_http_to_another_machine_can_be_allowed() -> None:
    assert read_address("http://10.0.0.1:8700", unencrypted=True).host == "10.0.0.1"


def test_the_token_is_that_of_the_variable_unless_one_is_given() -> None:
    variables = {"PADDOCK_TOKEN": "from-variable"}
    assert (read_token(None, variables), read_token("given", variables)) == ("from-variable", "given")


@pytest.mark.parametrize("token", ["", None])
def test_a_connection_needs_a_token(token: str | None) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_token(token, {})
    assert str(raised.value) == (
        "there is no token for the server; set PADDOCK_TOKEN, or pass `token`. "
        "`paddock serve token new NAME` makes one on the server"
    )


@pytest.mark.parametrize("token", ["two words", "line\nend", "é", "x" * 4097])
def test_a_token_that_no_header_can_carry_is_an_error_without_it(token: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_token(token, {})
    assert token not in str(raised.value)
