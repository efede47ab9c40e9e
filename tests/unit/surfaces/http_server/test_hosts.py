"""Which `Host` and `Origin` name a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.errors import ConfigurationError
from paddock.surfaces.http_server.hosts import HostNames

NAMES = HostNames.of(
    ("127.0.0.1", "localhost"),
    8700,
    ("paddock.example.com", "Other.Example.:8443", "2001:db8::1", "[2001:DB8:0::2]:9000", "pädd.example"),
)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8700",
        "localhost:8700",
        "LOCALHOST.:8700",
        "paddock.example.com",
        "paddock.example.com:8700",
        "paddock.example.com:443",
        "paddock.example.com:80",
        "Paddock.Example.COM",
        "paddock.example.com.",
        "paddock.example.com.:8700",
        "other.example:8443",
        "[2001:db8::1]",
        "[2001:DB8:0:0::1]:8700",
        "[2001:db8::2]:9000",
        "xn--pdd-qla.example",
    ],
)
def test_hosts_that_name_the_server(host: str) -> None:
    assert NAMES.allows_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        ":8700",
        "evil.test",
        "evil.test:8700",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.1:8700",
        "localhost:443",
        "[::1]:8700",
        "paddock.example.com:1",
        "paddock.example.com:",
        "paddock.example.com:08700000",
        "paddock.example.com..",
        ".paddock.example.com",
        "evil.paddock.example.com",
        "paddock.example.com.evil.test",
        "paddock.example.com@evil.test",
        "user@paddock.example.com",
        "paddock.example.com/",
        "paddock.example.com, evil.test",
        "paddock.example.com evil.test",
        "http://paddock.example.com",
        "other.example",
        "other.example:8700",
        "2001:db8::1",
        "[2001:db8::1",
        "[2001:db8::1]evil",
        "[2001:db8::2]",
        "[zz::1]",
        "pädd.example",
        "p\u0430ddock.example.com",
        "paddock.example.com\n",
        "*",
        "a" * 1000,
    ],
)
def test_hosts_that_do_not(host: str) -> None:
    assert not NAMES.allows_host(host)


@pytest.mark.parametrize(
    "origin",
    [
        "http://127.0.0.1:8700",
        "http://localhost:8700",
        "https://paddock.example.com",
        "https://paddock.example.com:443",
        "https://paddock.example.com:8700",
        "http://paddock.example.com:8700",
        "http://paddock.example.com",
        "https://PADDOCK.example.com.",
        "https://other.example:8443",
        "https://[2001:db8::1]",
    ],
)
def test_origins_of_the_server(origin: str) -> None:
    assert NAMES.allows_origin(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "https://evil.test",
        "http://evil.test:8700",
        "https://127.0.0.1:8700",
        "http://localhost:3000",
        "http://localhost",
        "https://localhost",
        "https://paddock.example.com:3000",
        "https://other.example",
        "http://[::1]:8700",
        "ftp://paddock.example.com:8700",
        "paddock.example.com",
        "https://paddock.example.com/",
        "https://paddock.example.com https://evil.test",
        "https://evil.test://paddock.example.com",
        "https://user:8700@paddock.example.com",
        "HTTPS://evil.test",
    ],
)
def test_origins_of_others(origin: str) -> None:
    assert not NAMES.allows_origin(origin)


@given(st.text() | st.from_regex(r"[a-z.]{0,9}(paddock\.example\.com)?[a-z.:0-9@/]{0,9}", fullmatch=True))
def test_nothing_but_the_names_is_allowed(header: str) -> None:
    name = header.lower().rpartition(":")[0] or header.lower()
    known = {"paddock.example.com", "other.example", "localhost", "127.0.0.1"}
    if name.removesuffix(".") not in known and header.lower().removesuffix(".") not in known:
        assert not NAMES.allows_host(header)
        assert not NAMES.allows_origin(f"https://{header}")


def test_on_the_port_of_http_the_name_alone_is_enough() -> None:
    names = HostNames.of(("127.0.0.1",), 80)
    assert names.allows_host("127.0.0.1")
    assert names.allows_origin("http://127.0.0.1")
    assert not names.allows_origin("https://127.0.0.1")


@pytest.mark.parametrize(
    "text",
    ["", "*", "*.example.com", "https://a.test", "a.test/x", "a.test:", "a.test:0", "a.test:70000", "a b"],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        HostNames.of((), 8700, (text,))
    assert str(refused.value) == (
        f"--allowed-host {text}: this is not NAME or NAME:PORT. "
        "Give the name that clients use, without a scheme or a path; for example paddock.example.com"
    )
