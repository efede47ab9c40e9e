"""Hosts and authorities have one form, and everything that could be read in two ways is refused."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.host_names import (
    Authority,
    match_host,
    quote_host,
    read_address,
    read_authority,
    read_host,
    read_host_pattern,
)

LABEL = st.from_regex(r"[a-z][a-z0-9-]{0,20}[a-z0-9]", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=5).map(".".join)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("example.com.", "example.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_sip.example.com", "_sip.example.com"),
        ("localhost", "localhost"),
        ("1.1.1.1", "1.1.1.1"),
        ("1.1.1.1.", "1.1.1.1"),
        ("[::1]", "::1"),
        ("[2606:4700:0:0::1111]", "2606:4700::1111"),
        ("[::FFFF:127.0.0.1]", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
        ("1.2.3.example", "1.2.3.example"),
    ],
)
def test_a_host_has_one_form(text, host):
    assert read_host(text) == host


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *(
            (text, f'"{text}" is not a host; write an IPv4 address as four decimal numbers')
            for text in (
                *("127.1", "2130706433", "0x7f.0.0.1", "0x7f000001", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5"),
                *("127.0.0.0x1", "256.1.1.1", "example.com.1", "0x", "example.0xff", "0"),
            )
        ),
        ("[fe80::1%eth0]", '"fe80::1%eth0" has a zone id, which only has a meaning on one machine'),
        ("[::1%25lo]", '"::1%25lo" has a zone id, which only has a meaning on one machine'),
        ("[example.com]", '"[example.com]" is not an IPv6 address'),
        ("[1.1.1.1]", '"[1.1.1.1]" is not an IPv6 address'),
        ("[::1", '"[::1" is not an IPv6 address'),
        ("", '"" is not the name of a host'),
        (".", '"." is not the name of a host'),
        ("a..b", '"a..b" is not the name of a host'),
        ("example.com..", '"example.com.." is not the name of a host'),
        ("-a.example", '"-a.example" is not the name of a host'),
        ("a b.example", '"a b.example" is not the name of a host'),
        ("a\0.example", '"a\\u0000.example" is not the name of a host'),
        ("a\r\n.example", '"a\\u000d\\u000a.example" is not the name of a host'),
        ("%65xample.com", '"%65xample.com" is not the name of a host'),
        ("*.example.com", '"*.example.com" is not the name of a host'),
        ("example。com", '"example。com" is not ASCII; write the name in A-labels (xn--...)'),
        ("\u0435xample.com", '"\u0435xample.com" is not ASCII; write the name in A-labels (xn--...)'),
    ],
)
def test_other_spellings_are_refused(text, problem):
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        read_host(text)


@pytest.mark.parametrize("text", [f"{'a' * 64}.example", ".".join(["a" * 60] * 5)])
def test_long_names_are_refused(text):
    with pytest.raises(ValueError, match="is not the name of a host"):
        read_host(text)


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("example.com:443", Authority("example.com", 443)),
        ("Example.com.:0443", Authority("example.com", 443)),
        ("[::1]:80", Authority("::1", 80)),
        ("example.com", Authority("example.com", 80)),
        ("[::1]", Authority("::1", 80)),
    ],
)
def test_an_authority_has_one_form(text, authority):
    assert read_authority(text, default_port=80) == authority


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("example.com", '"example.com" has no port'),
        ("[::1]", '"[::1]" has no port'),
        *(
            (text, f'"{text}" has no port between 1 and 65535')
            for text in (
                *("example.com:", "example.com:0", "example.com:65536", "example.com:+80", "example.com:80 "),
                *("example.com:-1", "example.com:443443", "example.com:0x50"),
            )
        ),
        ("a:443:80", '"a:443:80" is not a host and a port'),
        ("::1", '"::1" is not a host and a port'),
        ("user:secret@example.com:443", '"example.com:443" has a user name; leave it out'),
        ("example.com@evil.example:443", '"evil.example:443" has a user name; leave it out'),
    ],
)
def test_other_authorities_are_refused(text, problem):
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        read_authority(text)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("*.Example.com", "*.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("*.bücher.example", "*.xn--bcher-kva.example"),
        ("BÜCHER。example", "xn--bcher-kva.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("::1", "::1"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_a_pattern_has_one_form(text, pattern):
    assert read_host_pattern(text) == pattern


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *(
            (text, f'"{text}" has a "*"; only the first label of a name may be one, as in "*.example.com"')
            for text in ("*", "a.*.example", "*.*.example", "*example.com", "api*.example.com")
        ),
        ("*.1.1.1.1", '"*.1.1.1.1" is an address; "*." is for names'),
        (
            "https://example.com",
            '"https://example.com" is not a host; write it without scheme, user name and path',
        ),
        ("user@example.com", '"user@example.com" is not a host; write it without scheme, user name and path'),
        ("example.com:443", '"example.com:443" is not an IPv6 address'),
        ("*.", '"" is not the name of a host'),
        ("\u200d.example", '"\\u200d.example" is not the name of a host'),
    ],
)
def test_other_patterns_are_refused(text, problem):
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        read_host_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("example.com", "example.com", True),
        ("example.com", "api.example.com", False),
        ("example.com", "notexample.com", False),
        ("*.example.com", "api.example.com", True),
        ("*.example.com", "v1.api.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "notexample.com", False),
        ("*.example.com", "api.example.com.evil.example", False),
    ],
)
def test_what_a_pattern_matches(pattern, host, matches):
    assert match_host(pattern, host) is matches


@given(st.text(max_size=300))
def test_any_text_is_refused_or_has_a_stable_form(text):
    problems = []
    try:
        host = read_host(text)
    except ValueError as problem:
        problems.append(str(problem))
        host = "refused"
    assert all(map(str.isprintable, problems))
    assert read_host(quote_host(host)) == host
    assert host.isascii()


@given(NAME, st.integers(1, 65_535))
def test_names_are_equal_in_any_case_and_with_a_dot(name, port):
    assert read_authority(f"{name.upper()}.:{port}") == Authority(name, port)
    assert read_address(name) is None


@given(st.ip_addresses())
def test_addresses_are_read_as_they_are_written(address: IPv4Address | IPv6Address):
    expected = getattr(address, "ipv4_mapped", None) or address
    assert ip_address(read_host(quote_host(str(address)))) == expected
    assert read_address(read_host(quote_host(str(address)))) == expected


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "0x{:x}", "0{:o}"]))
def test_numbers_are_no_hosts(number, notation):
    with pytest.raises(ValueError, match="is not"):
        read_host(notation.format(number))
