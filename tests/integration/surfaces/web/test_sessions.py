"""The page of open sessions: their files, as text, table and image, and the button that closes one."""

import re
from base64 import b64decode
from contextlib import ExitStack

import pytest
from tests.support.http_api import TOKEN
from tests.support.web import WebPlace

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""
CODE = f"""
import base64
from pathlib import Path
Path("notes.txt").write_text("a <b>note</b>\\n\\x1b[31m\\u202e")
Path("table.csv").write_text('name,"a, b"\\n<i>x</i>,1\\n')
Path("pixel.png").write_bytes(base64.b64decode("{PIXEL}"))
Path("evil.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
Path("page.html").write_text("<script>alert(1)</script>")
Path("bytes.bin").write_bytes(bytes(range(256)))
Path("<img src=x onerror=alert(1)>.txt").write_text("name")
Path("big.txt").write_text("y" * 2_000_000)
Path("link").symlink_to("/etc/passwd")
"""


@pytest.fixture
def place(tmp_path):
    return WebPlace(tmp_path)


def open_session(client, code, token=TOKEN):
    """Run a program in a new session, and return its handle."""
    body = {"language": "python", "code": code, "session": "new"}
    answer = client.post("/v1/executions", json=body, headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["status"]) == (200, "ok"), answer.text
    return answer.json()["session"]["id"]


def find_token(page):
    return re.search(r'name="csrf" value="([^"]+)"', page)[1]


def test_a_session_is_shown_with_its_files_and_closed(place):
    with ExitStack() as stack:
        server = stack.enter_context(place.serve_api_with_page())
        api = stack.enter_context(server.client())
        client = stack.enter_context(server.client(server.log_in(server.link)))
        assert "No session is open." in client.get("/sessions").text
        handle = open_session(api, CODE)
        page = client.get("/sessions").text
        name = re.search(r'<a href="/sessions/(\w+)"><code>\1</code></a>', page)[1]
        assert handle not in page
        shown = client.get(f"/sessions/{name}").text
        files = re.findall(rf'href="/sessions/{name}/file\?path=([^"]+)"', shown)
        assert files == [
            *(
                "%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E.txt",
                "big.txt",
                "bytes.bin",
                "evil.svg",
                "notes.txt",
            ),
            *("page.html", "pixel.png", "table.csv"),
        ]

        def read(path):
            return client.get(f"/sessions/{name}/file", params={"path": path})

        assert "a &lt;b&gt;note&lt;/b&gt;\n\\x1b[31m\\u202e" in read("notes.txt").text
        assert '<th scope="col"><bdi>a, b</bdi></th>' in read("table.csv").text
        assert "<td><bdi>&lt;i&gt;x&lt;/i&gt;</bdi></td><td><bdi>1</bdi></td>" in read("table.csv").text
        assert f'<img class="shown" src="/sessions/{name}/content?path=pixel.png"' in read("pixel.png").text
        assert "no text and no image that can be shown" in read("bytes.bin").text
        for file in ("evil.svg", "page.html"):
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in read(file).text
            assert "<script>alert" not in read(file).text
        refused = {
            path: read(path) for path in ("big.txt", "link", "none", "../../etc/passwd", "/etc/passwd")
        }
        assert {path: answer.status_code for path, answer in refused.items()} == dict.fromkeys(refused, 404)
        assert "big.txt has 2000000 bytes, and 1048576 are allowed" in refused["big.txt"].text
        token = find_token(page)
        assert client.post("/sessions/close", data={"session": name}).status_code == 403
        answer = client.post("/sessions/close", data={"session": name, "csrf": token})
        assert (answer.status_code, answer.headers["location"]) == (303, "/sessions")
        assert "No session is open." in client.get("/sessions").text
        assert client.get(f"/sessions/{name}").status_code == 404


def test_what_a_browser_could_run_is_only_saved(place):
    with ExitStack() as stack:
        server = stack.enter_context(place.serve_api_with_page())
        api = stack.enter_context(server.client())
        client = stack.enter_context(server.client(server.log_in(server.link)))
        open_session(api, CODE)
        name = re.search(r'href="/sessions/(\w+)"', client.get("/sessions").text)[1]
        kinds = {}
        for path in ("pixel.png", "evil.svg", "page.html", "bytes.bin"):
            answer = client.get(f"/sessions/{name}/content", params={"path": path})
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
            kinds[path] = (
                answer.headers["content-type"],
                answer.headers["content-disposition"].partition(";")[0],
            )
        saved = "application/octet-stream", "attachment"
        assert kinds == {
            "pixel.png": ("image/png", "inline"),
            "evil.svg": saved,
            "page.html": saved,
            "bytes.bin": saved,
        }
        assert client.get(f"/sessions/{name}/content?path=pixel.png").content == b64decode(PIXEL)
        assert client.get(f"/sessions/{name}/content?path=bytes.bin").content == bytes(range(256))


def test_sessions_of_another_user_are_neither_shown_nor_closed(place):
    ada, bob = place.make_token("ada"), place.make_token("bob")
    with ExitStack() as stack:
        server = stack.enter_context(place.serve_api_with_page())
        api = stack.enter_context(server.client())
        open_session(api, "open('mine.txt', 'w').write('mine')", ada)
        adas, bobs = (stack.enter_context(server.client()) for _ in range(2))
        for client, token in ((adas, ada), (bobs, bob)):
            assert client.post("/login", data={"token": token}).status_code == 303
        name = re.search(r'href="/sessions/(\w+)"', adas.get("/sessions").text)[1]
        page = bobs.get("/sessions").text
        assert "No session is open." in page
        for path in (
            f"/sessions/{name}",
            f"/sessions/{name}/file?path=mine.txt",
            f"/sessions/{name}/content?path=mine.txt",
        ):
            assert adas.get(path).status_code == 200
            assert bobs.get(path).status_code == 404
        assert (
            bobs.post("/sessions/close", data={"session": name, "csrf": find_token(page)}).status_code == 303
        )
        assert name in adas.get("/sessions").text
        owner = stack.enter_context(server.client(server.log_in(server.link)))
        assert name in owner.get("/sessions").text
