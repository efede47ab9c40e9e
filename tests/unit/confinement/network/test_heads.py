"""Any bytes are refused, or are one request with one host and one length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.confinement.network.heads import (
    find_authority,
    format_authority,
    name_target,
    read_connect_target,
    read_request_head,
)
from paddock.confinement.network.streams import BadHeadError
from paddock.model.host_names import Authority

PIECES = st.sampled_from(
    [
        *(
            b"GET ",
            b"http://a.example/",
            b" HTTP/1.1",
            b"\r\n",
            b"Host: a.example",
            b"Host: b.example",
            b"\n",
            b"\r",
        ),
        *(
            b"Content-Length: 3",
            b"Transfer-Encoding: chunked",
            b" ",
            b"\t",
            b"\0",
            b":",
            b"X: y",
            b"/",
            b"@",
            b"\xff",
        ),
    ]
)


@given(st.lists(PIECES, max_size=20).map(b"".join))
def test_a_request_that_is_read_has_one_host_and_one_length(data):
    try:
        head = read_request_head(data + b"\r\n\r\n")
        authority, path = find_authority(head, None)
    except (BadHeadError, ValueError):
        return
    names = [name for name, _ in head.fields]
    assert names.count(b"host") == 1
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    assert head.find(b"host") == authority.host.encode()
    assert path.startswith("/")
    assert not set(b"\r\n\0") & set(b"".join(name + value for name, value in head.fields))


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("http://a.example", "/"),
        ("http://a.example/", "/"),
        ("http://a.example?x=/", "/?x=/"),
        ("HTTP://A.example/%2e%2e/?a#"[:-1], "/%2e%2e/?a"),
        ("http://a.example//b.example/", "//b.example/"),
    ],
)
def test_the_path_of_an_address(target, path):
    head = read_request_head(f"GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode())
    assert find_authority(head, None) == (Authority("a.example", 80), path)


@pytest.mark.parametrize(
    "line",
    [
        "GET http://a.example/secret#f",
        "GET /secret#f",
        "GET /?x#f",
        "GET http://a.example#",
        "CONNECT a.example:443#f",
    ],
)
def test_a_target_with_a_fragment_is_refused(line):
    with pytest.raises(BadHeadError, match=r'^the target has a fragment \("#"\); leave it out$'):
        read_request_head(f"{line} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode())


@pytest.mark.parametrize(
    ("target", "authority"),
    [
        ("http://granted.example/v1/x?sig=s3cr3t", ("granted.example", 80)),
        ("http://granted.example:8080?sig=s3cr3t", ("granted.example", 8080)),
        ("HTTP://me:s3cr3t@granted.example/x", ("granted.example", 80)),
        ("http://granted.example\\s3cr3t", ("granted.example", 80)),
        ("http:///s3cr3t", ("", 0)),
        ("/s3cr3t?sig", ("", 0)),
        ("?s3cr3t", ("", 0)),
        ("granted.example:443", ("granted.example", 443)),
        ("granted.example:443/s3cr3t", ("granted.example", 443)),
        ("127.1:443", ("127.1:443", 0)),
        ("granted.example", ("granted.example", 0)),
    ],
)
def test_a_refused_target_is_recorded_without_path_and_query(target, authority):
    assert name_target(target) == Authority(*authority)


@pytest.mark.parametrize(
    "target", ["granted.example/s3cr3t", "granted.example?s3cr3t", "http://granted.example:443"]
)
def test_a_refusal_of_connect_does_not_quote_a_path(target):
    head = read_request_head(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    with pytest.raises(ValueError, match=r"^the target of CONNECT is not a host and a port$"):
        read_connect_target(head)


def test_the_host_field_leaves_the_default_port_out():
    assert format_authority(Authority("a.example", 80), 80) == "a.example"
    assert format_authority(Authority("::1", 8080), 80) == "[::1]:8080"
    assert format_authority(Authority("::1", 80), 80) == "[::1]"
