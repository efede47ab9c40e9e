"""How far within an authorization server may be."""

from ipaddress import ip_address

import pytest

from paddock.hub.outside import _alike


@pytest.mark.parametrize(
    ("address", "own"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "127.0.0.1"), ("10.0.0.7", "10.0.0.6"), ("fd00::1", "192.168.1.1")],
)
def test_as_far_as_the_server_itself(address, own):
    assert _alike(ip_address(address), ip_address(own))


@pytest.mark.parametrize("own", ["127.0.0.1", "10.0.0.6", "1.1.1.1", "169.254.1.1", "::1"])
@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "255.255.255.255"),
        *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"),
    ],
)
def test_never_where_no_server_is(address, own):
    assert not _alike(ip_address(address), ip_address(own))


@pytest.mark.parametrize(
    ("address", "own"),
    [
        *(("127.0.0.1", "10.0.0.6"), ("10.0.0.6", "127.0.0.1"), ("127.0.0.1", "1.1.1.1")),
        *(("10.0.0.6", "1.1.1.1"), ("::ffff:127.0.0.1", "10.0.0.6"), ("fd00::1", "::1")),
    ],
)
def test_no_further_within_than_the_server(address, own):
    assert not _alike(ip_address(address), ip_address(own))
