"""How far within an authorization server may be."""

from ipaddress import ip_address

import httpx2
import pytest

from paddock.engines.servers.auth.guarded_http import AuthorizationHttp, _is_as_local
from paddock.engines.servers.auth.tokens import LoginFailed


@pytest.mark.parametrize(
    ("address", "own"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "127.0.0.1"), ("10.0.0.7", "10.0.0.6"), ("fd00::1", "192.168.1.1")],
)
def test_as_far_as_the_server_itself(address, own):
    assert _is_as_local(ip_address(address), ip_address(own))


@pytest.mark.parametrize("own", ["127.0.0.1", "10.0.0.6", "1.1.1.1", "169.254.1.1", "::1"])
@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "255.255.255.255"),
        *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"),
    ],
)
def test_never_where_no_server_is(address, own):
    assert not _is_as_local(ip_address(address), ip_address(own))


@pytest.mark.parametrize(
    ("address", "own"),
    [
        *(("127.0.0.1", "10.0.0.6"), ("10.0.0.6", "127.0.0.1"), ("127.0.0.1", "1.1.1.1")),
        *(("10.0.0.6", "1.1.1.1"), ("::ffff:127.0.0.1", "10.0.0.6"), ("fd00::1", "::1")),
    ],
)
def test_no_further_within_than_the_server(address, own):
    assert not _is_as_local(ip_address(address), ip_address(own))


@pytest.mark.parametrize(
    "url",
    ["https://a.example:99999/token", "https://a.example:0/token", "https:///token", "https://u@a.example/t"],
)
def test_an_address_that_is_none_is_not_asked(url):
    shown = url.replace("u@", "")
    with pytest.raises(LoginFailed) as refused:
        AuthorizationHttp("https://b.example/mcp").check_url(httpx2.URL(url))
    assert str(refused.value) == f"the address {shown} for the login is not one that Paddock may use"


def test_an_address_of_a_server_that_is_none_gets_no_login():
    with pytest.raises(LoginFailed) as refused:
        AuthorizationHttp("https://\u2764\U0001f600/mcp")
    assert str(refused.value) == "the `url` of the server is not a valid address; correct it"
