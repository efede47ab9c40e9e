"""The proxy that Paddock itself must use, and which hosts go through it."""

import asyncio
import socket
from ipaddress import ip_address

import pytest
from tests.support.network import Server, receive_head

from paddock.confinement.network.dial import Dialler, DialRefusedError, check_addresses
from paddock.confinement.network.outer_proxy import OuterProxy, read_outer_proxy
from paddock.model.errors import ConfigurationError
from paddock.model.host_names import Authority


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": ""}, None),
        ({"HTTPS_PROXY": "http://proxy.example:3128"}, OuterProxy(Authority("proxy.example", 3128))),
        ({"https_proxy": "proxy.example:3128"}, OuterProxy(Authority("proxy.example", 3128))),
        ({"HTTPS_PROXY": "http://proxy.example/"}, OuterProxy(Authority("proxy.example", 80))),
        (
            {"HTTPS_PROXY": "http://user:p%40ss@10.0.0.1:8080", "NO_PROXY": "a.example"},
            OuterProxy(Authority("10.0.0.1", 8080), "Basic dXNlcjpwQHNz", "a.example"),
        ),
    ],
)
def test_the_outer_proxy_is_read_from_the_environment(environment, proxy):
    assert read_outer_proxy(environment) == proxy


@pytest.mark.parametrize("scheme", ["https", "socks5", "socks5h"])
def test_an_outer_proxy_has_the_scheme_http(scheme):
    with pytest.raises(
        ConfigurationError,
        match=f"^HTTPS_PROXY names a proxy with the scheme {scheme}; programs reach hosts only through a proxy with the scheme http$",
    ):
        read_outer_proxy({"HTTPS_PROXY": f"{scheme}://user:secret@proxy.example:1080"})


@pytest.mark.parametrize("text", ["http://user:secret@a b", "http://[secret", "http://user:secret@0x7f.1:80"])
def test_the_error_of_an_outer_proxy_has_no_password(text):
    with pytest.raises(ConfigurationError) as raised:
        read_outer_proxy({"HTTPS_PROXY": text})
    assert str(raised.value) == "HTTPS_PROXY is not an address such as http://proxy.example:3128"


def test_the_error_of_an_outer_proxy_names_the_variable_that_is_used():
    environment = {"https_proxy": "http://proxy.example:99999", "HTTPS_PROXY": "http://proxy.example:80"}
    with pytest.raises(ConfigurationError) as raised:
        read_outer_proxy(environment)
    assert str(raised.value) == "https_proxy is not an address such as http://proxy.example:3128"


@pytest.mark.parametrize(
    ("bypass", "host", "served"),
    [
        ("", "api.example", True),
        ("*", "api.example", False),
        ("example", "api.example", False),
        (".example, other", "api.example", False),
        ("ample", "api.example", True),
        ("API.example", "api.example", False),
        ("10.0.0.1", "10.0.0.1", False),
    ],
)
def test_hosts_of_no_proxy_are_reached_without_it(bypass, host, served):
    assert OuterProxy(Authority("proxy.example", 80), bypass=bypass).serves(Authority(host, 443)) is served


async def resolve_nothing(host, port):
    if host == "proxy.example":
        return [ip_address("127.0.0.1")]
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def dial(proxy: OuterProxy | None, authority: Authority) -> bytes:
    async def connect() -> bytes:
        connected, address = await Dialler(resolve_nothing, proxy, 10).connect(authority, [])
        with connected:
            assert address is None
            return await asyncio.get_running_loop().sock_recv(connected, 100)

    return asyncio.run(connect())


def test_a_name_that_this_machine_cannot_resolve_goes_to_the_outer_proxy():
    def handle(server, client):
        server.received.append(receive_head(client))
        client.sendall(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nfirst bytes of the host")

    with Server(handle) as server:
        proxy = OuterProxy(Authority("proxy.example", server.port), "Basic c2VjcmV0")
        assert dial(proxy, Authority("api.example", 443)) == b"first bytes of the host"
        head = "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n"
        assert server.received == [head.encode()]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 407 No\r\n\r\n", "the proxy of HTTPS_PROXY answered 407 for api.example:443"),
        (b"nonsense\r\n\r\n", "the proxy of HTTPS_PROXY did not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n", "the proxy of HTTPS_PROXY did not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X" * 20_000, "the proxy of HTTPS_PROXY did not answer in HTTP"),
    ],
)
def test_an_outer_proxy_that_refuses(answer, reason):
    def handle(server, client):
        receive_head(client)
        client.sendall(answer)

    with Server(handle) as server, pytest.raises(DialRefusedError, match=f"^{reason}$"):
        dial(OuterProxy(Authority("proxy.example", server.port)), Authority("api.example", 443))


def test_a_private_address_does_not_go_to_the_outer_proxy():
    proxy = OuterProxy(Authority("proxy.example", 9))
    with pytest.raises(
        DialRefusedError,
        match=r"^169\.254\.169\.254 leads to 169\.254\.169\.254, which is not a public address;",
    ):
        dial(proxy, Authority("169.254.169.254", 80))


def test_a_name_that_nothing_resolves():
    with pytest.raises(DialRefusedError, match=r"^api\.example: Name or service not known$"):
        dial(None, Authority("api.example", 443))


def test_an_address_must_be_in_a_network_of_each_file():
    address = [ip_address("10.1.2.3")]
    check_addresses(Authority("h", 443), address, [["10.0.0.0/8"], ["192.168.0.0/16", "10.1.0.0/16"]])
    for networks in ([], [["10.0.0.0/8"], []], [["10.0.0.0/8"], ["10.2.0.0/16"]]):
        with pytest.raises(DialRefusedError):
            check_addresses(Authority("h", 443), address, networks)
