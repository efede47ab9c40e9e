"""Which addresses a stranger may lead to."""

from ipaddress import ip_address

import pytest

from paddock.model.addresses import is_public, really


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1"),
        *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
        *(
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
        ),
        *(
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "64:ff9b:1::7f00:1",
            "::7f00:1",
            "::169.254.169.254",
        ),
        *("168.63.129.16", "::ffff:168.63.129.16", "100.100.100.200", "192.0.0.192", "192.88.99.1"),
        *("fec0::1", "3fff::1", "5f00::1", "2002:a9fe:a9fe::1", "ff0e::1", "240.0.0.1"),
    ],
)
def test_addresses_within_are_not_public(text):
    assert not is_public(ip_address(text))


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_of_the_world_are_public(text):
    assert is_public(ip_address(text))


def test_an_address_of_ipv6_may_stand_for_one_of_ipv4():
    assert str(really(ip_address("64:ff9b::7f00:1"))) == "127.0.0.1"
    assert str(really(ip_address("2606:4700::1"))) == "2606:4700::1"
