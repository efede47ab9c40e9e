"""Where an answer to a form sends the browser: to a page of this server."""

import pytest
from starlette.requests import Request

from paddock.surfaces.web.request import go_to


def request(*headers: tuple[bytes, bytes]) -> Request:
    return Request({"type": "http", "headers": [*headers]})


@pytest.mark.parametrize(
    "path",
    [
        "//evil.test",
        "/\\evil.test",
        "///evil.test",
        "http://evil.test",
        "evil",
        "",
        "javascript:alert(1)",
        "\t//x",
    ],
)
def test_no_other_server(path):
    for asked in (request(), request((b"hx-request", b"true"))):
        with pytest.raises(ValueError, match="is not a path of this server"):
            go_to(asked, path)


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/runs/01ABC?page=2#records", "/runs/01ABC?page=2#records"),
        ("/runs/a\r\nSet-Cookie: x=1", "/runs/a%0D%0ASet-Cookie:%20x=1"),
        ("/\t/evil.test", "/%09/evil.test"),
        ("/\n/evil.test", "/%0A/evil.test"),
        ("/servers/ö\u202e%2F", "/servers/%C3%B6%E2%80%AE%2F"),
        ('/changes/"><script>', "/changes/%22%3E%3Cscript%3E"),
        ("/runs/\x00", "/runs/%00"),
    ],
)
def test_a_path_has_no_character_that_ends_a_header(path, sent):
    assert go_to(request(), path).headers["location"] == sent
    assert go_to(request((b"hx-request", b"true")), path).headers["hx-redirect"] == sent
