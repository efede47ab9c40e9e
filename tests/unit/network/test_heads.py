"""Any bytes are refused, or are one request with one host and one length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.host_names import Authority
from paddock.network.heads import find_authority, format_authority, read_request_head
from paddock.network.streams import BadHeadError

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


def test_the_host_field_leaves_the_default_port_out():
    assert format_authority(Authority("a.example", 80), 80) == "a.example"
    assert format_authority(Authority("::1", 8080), 80) == "[::1]:8080"
    assert format_authority(Authority("::1", 80), 80) == "[::1]"
