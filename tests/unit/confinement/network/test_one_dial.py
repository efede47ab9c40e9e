"""Programs, servers, webhooks and logins follow the same rules about proxies and addresses."""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address

import httpx2
import pytest
from tests.support.network import OK, Server, answering

from paddock.confinement.network import dial
from paddock.confinement.network.dial import DialRefusedError, check_addresses, find_refused
from paddock.confinement.network.http_transport import ProxyTransport, send_checked
from paddock.confinement.network.outer_proxy import find_proxy_variable, read_outer_proxy
from paddock.engines.sdk.post import NotSentError, check_url, send_post
from paddock.engines.servers.auth.guarded_http import AuthorizationHttp
from paddock.engines.servers.auth.tokens import LoginFailed
from paddock.model.addresses import Address
from paddock.model.errors import SdkError
from paddock.model.host_names import Authority, read_authority


@pytest.mark.parametrize(
    ("bypass", "host", "port", "direct"),
    [
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "11.1.2.3", 443, False),
        ("[::1]", "::1", 443, True),
        ("*.example.com", "a.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("example.com", "a.example.com", 443, True),
        ("example.com:8443", "example.com", 443, False),
        ("example.com:8443", "example.com", 8443, True),
        ("https://example.com", "example.com", 443, True),
        ("http://example.com", "example.com", 443, False),
        ("https://*.example.com", "a.example.com", 443, True),
        ("other, *", "example.com", 443, True),
    ],
)
def test_no_proxy_decides_the_same_for_servers_and_programs(
    bypass: str, host: str, port: int, *, direct: bool
) -> None:
    environment = {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": bypass}
    authority = Authority(host, port)
    outer = read_outer_proxy(environment)
    assert outer is not None
    assert (not outer.serves(authority), find_proxy_variable("https", authority, environment) is None) == (direct, direct)  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"ALL_PROXY": "http://a.example:1", "HTTPS_PROXY": "http://b.example:1"}, "HTTPS_PROXY"),
        ({"ALL_PROXY": "http://a.example:1", "HTTP_PROXY": "http://b.example:1"}, "ALL_PROXY"),
        ({"https_proxy": "http://a.example:1", "HTTPS_PROXY": "http://b.example:1"}, "https_proxy"),
    ],
)
def test_one_variable_names_the_proxy_of_servers_and_programs(environment: dict[str, str], name: str) -> None:
    outer, found = (
        read_outer_proxy(environment),
        find_proxy_variable("https", Authority("h", 443), environment),
    )
    assert (outer and outer.variable, found and found.name) == (name, name)


OWN = "9.9.9.9"
"""An address of this machine that is public."""
PRIVATE, THIS = "not a public address", "an address of this machine"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[Address]:
    """Let this machine have a public address. Return the addresses of every name, which a test may change."""
    found: list[Address] = []

    async def resolve(_host: str, _port: int) -> list[Address]:
        return found

    monkeypatch.setattr(dial, "is_own", lambda address: str(address) == OWN)
    monkeypatch.setattr(dial.find_addresses, "__defaults__", (resolve,))
    return found


def ask_program(networks: list[str]) -> str:
    """Return the text of a program's error for a host with the addresses of the machine fixture."""
    addresses = asyncio.run(dial.find_addresses(Authority("h.example", 443)))
    with pytest.raises(DialRefusedError) as caught:
        check_addresses(Authority("h.example", 443), addresses, [networks])
    return str(caught.value)


def ask_webhook(networks: list[str]) -> str:
    with pytest.raises(NotSentError) as caught:
        asyncio.run(send_post(check_url("https://h.example/x"), b"", {}, networks))
    assert not caught.value.retryable
    return str(caught.value)


def ask_login() -> str:
    request = httpx2.Request("GET", "https://h.example/x")
    with pytest.raises(LoginFailed) as caught:
        asyncio.run(AuthorizationHttp("https://8.8.8.8/").send_request(request))
    return str(caught.value)


@pytest.mark.parametrize(
    ("addresses", "refused", "what"),
    [
        (["127.0.0.1"], "127.0.0.1", PRIVATE),
        (["10.1.2.3"], "10.1.2.3", PRIVATE),
        (["169.254.169.254"], "169.254.169.254", PRIVATE),
        (["168.63.129.16"], "168.63.129.16", PRIVATE),
        (["::1"], "::1", PRIVATE),
        (["fd00::1"], "fd00::1", PRIVATE),
        (["::ffff:10.1.2.3"], "::ffff:a01:203", PRIVATE),
        (["64:ff9b::a01:203"], "64:ff9b::a01:203", PRIVATE),
        ([OWN], OWN, THIS),
        (["::ffff:9.9.9.9"], "::ffff:909:909", THIS),
        (["1.1.1.1", "10.1.2.3"], "10.1.2.3", PRIVATE),
        (["1.1.1.1", OWN], OWN, THIS),
    ],
)
def test_programs_webhooks_and_logins_refuse_the_same_addresses(
    machine: list[Address], addresses: list[str], refused: str, what: str
) -> None:
    machine += map(ip_address, addresses)
    text = f"h.example leads to {refused}, which is {what}; "
    assert ask_program([]).startswith(text)
    assert ask_program(["192.168.0.0/16"]).startswith(text)
    webhook = f"{text}name its network in `webhook_networks` under [sdk] to allow it"
    assert ask_webhook([]) == ask_webhook(["192.168.0.0/16"]) == webhook
    login = f"h.example/x leads to {refused}, which is {what}; a server may not make Paddock connect to it"
    assert ask_login() == f"https://{login}"


@pytest.mark.parametrize(
    ("address", "networks"),
    [
        ("1.1.1.1", []),
        (OWN, ["9.9.9.0/24"]),
        ("10.1.2.3", ["10.0.0.0/8"]),
        ("::ffff:10.1.2.3", ["10.0.0.0/8"]),
    ],
)
@pytest.mark.usefixtures("machine")
def test_programs_and_webhooks_reach_the_same_granted_networks(address: str, networks: list[str]) -> None:
    check_addresses(Authority("h.example", 443), [ip_address(address)], [networks])
    assert find_refused([ip_address(address)], [networks]) is None


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("1.2", "write an IPv4 address as four decimal numbers"),
        ("0x7f.1", "write an IPv4 address as four decimal numbers"),
        ("2130706433", "write an IPv4 address as four decimal numbers"),
        ("0x7f000001", "write an IPv4 address as four decimal numbers"),
        ("[fe80::1%25eth0]", "has a zone id"),
        ("a..b", "is not the name of a host"),
    ],
)
def test_programs_servers_webhooks_and_logins_refuse_a_host_that_can_be_read_in_two_ways(
    host: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        read_authority(f"{host}:443")
    with pytest.raises(httpx2.InvalidURL, match=why):
        ProxyTransport(httpx2.URL(f"https://{host}/mcp"))
    with pytest.raises(SdkError, match=why):
        check_url(f"https://{host}/x")
    with pytest.raises(LoginFailed, match="is not one that Paddock may use"):
        AuthorizationHttp("https://mcp.example/").check_url(httpx2.URL(f"https://{host}/x"))
    with pytest.raises(LoginFailed, match="the `url` of the server is not a valid address"):
        AuthorizationHttp(f"https://{host}/mcp")


def test_a_request_goes_to_the_next_address_when_one_does_not_answer(machine: list[Address]) -> None:
    async def check(addresses: Sequence[Address]) -> None:
        assert addresses == machine

    with Server(answering(OK)) as server, socket.socket() as silent, socket.socket() as waiting:
        silent.bind(("127.0.0.2", server.port))
        silent.listen(0)
        waiting.connect(silent.getsockname())  # the only place in its queue
        machine += map(ip_address, ("127.0.0.3", "127.0.0.2", "127.0.0.1"))
        request = httpx2.Request("POST", f"http://h.example:{server.port}/x", content=b"body")
        answer = asyncio.run(send_checked(request, check, timeout_s=6, max_bytes=100))
    assert (answer.status_code, answer.content) == (200, b"ok")
    head = server.received[0]
    assert head.startswith(b"POST /x HTTP/1.1\r\n")
    assert f"\r\nhost: h.example:{server.port}\r\n".encode() in head
