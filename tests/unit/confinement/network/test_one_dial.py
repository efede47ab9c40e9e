"""Programs, servers, webhooks and logins follow the same rules about proxies and addresses."""

import asyncio
from ipaddress import ip_address

import httpx2
import pytest

from paddock.confinement.network import dial
from paddock.confinement.network.dial import DialRefusedError, check_addresses
from paddock.confinement.network.outer_proxy import find_proxy_variable, read_outer_proxy
from paddock.engines.sdk.post import NotSentError, check_url, send_post
from paddock.engines.servers.auth.guarded_http import AuthorizationHttp
from paddock.engines.servers.auth.tokens import LoginFailed
from paddock.model.addresses import Address
from paddock.model.host_names import Authority


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
TEXT = f"h.example leads to {OWN}, which is an address of this machine; "


@pytest.fixture
def own_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have a public address, to which the name `h.example` leads."""

    async def resolve(_host: str, _port: int) -> list[Address]:
        return [ip_address(OWN)]

    monkeypatch.setattr(dial, "is_own", lambda address: str(address) == OWN)
    monkeypatch.setattr(dial.find_addresses, "__defaults__", (resolve,))


@pytest.mark.usefixtures("own_public_address")
def test_a_public_address_of_this_machine_is_refused_by_all() -> None:
    with pytest.raises(DialRefusedError) as program:
        check_addresses(Authority("h.example", 443), [ip_address(OWN)], [])
    with pytest.raises(NotSentError) as webhook:
        asyncio.run(send_post(check_url("https://h.example/x"), b"", {}, []))
    request = httpx2.Request("GET", "https://h.example/x")
    with pytest.raises(LoginFailed) as login:
        asyncio.run(AuthorizationHttp("https://mcp.example/").send_request(request))
    assert str(program.value).startswith(TEXT)
    assert str(webhook.value) == f"{TEXT}name its network in `webhook_networks` under [sdk] to allow it"
    assert (
        str(login.value)
        == f"https://h.example/x leads to {OWN}, which is an address of this machine; a server may not make Paddock connect to it"
    )


@pytest.mark.usefixtures("own_public_address")
def test_a_granted_network_may_have_an_address_of_this_machine() -> None:
    check_addresses(Authority("h.example", 443), [ip_address(OWN)], [["9.9.9.0/24"]])
