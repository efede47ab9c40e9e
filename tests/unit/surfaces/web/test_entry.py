"""What a request for a page passes before a page sees it: hosts, origins, sites, cookies, forms, and headers of answers."""

import asyncio
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.support.web_entry import COOKIE, HOST, OWN, Page

from paddock.model.errors import LedgerError
from paddock.surfaces.http_server.asgi import Receive, Scope, Send, send_text
from paddock.surfaces.tenants.errors import RateExceeded
from paddock.surfaces.web import entry as web_entry
from paddock.surfaces.web.app import build_pages
from paddock.surfaces.web.login import LOGIN_S, OWNER, Login
from paddock.surfaces.web.viewer import NoViewer


@pytest.fixture
def page(tmp_path):
    return Page(tmp_path)


def with_own(**changes: str | None) -> list[tuple[str, str]]:
    """Return the headers of the page's own requests, with other values; None leaves a header out."""
    headers = OWN | {name.replace("_", "-"): value for name, value in changes.items()}
    return [(name, value) for name, value in headers.items() if value is not None]


@pytest.mark.parametrize(
    "host",
    [
        "evil.test:8710",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:8711",
        "127.0.0.1.evil.test:8710",
        "",
        "[::1]:8710",
    ],
)
@pytest.mark.parametrize("path", ["/", "/login", "/static/page.css"])
def test_other_hosts_are_not_answered(page, host, path):
    login = page.log_in()
    answer = page.ask(path, login=login, headers=with_own(host=host))
    assert (answer.status, page.seen, answer.is_framed_safely()) == (421, [], True)


def test_requests_without_or_with_two_hosts_are_not_answered(page):
    assert page.ask(headers=with_own(host=None)).status == 421
    assert page.ask(headers=[*with_own(), ("host", HOST)]).status == 421


@pytest.mark.parametrize("host", [HOST, "localhost:8710", "LOCALHOST:8710", "localhost.:8710"])
def test_the_names_of_this_server_are_answered(page, host):
    assert page.ask("/login", headers=[("host", host)]).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.test",
        "http://127.0.0.1:8711",
        "https://127.0.0.1:8710",
        "http://127.0.0.1",
        "null",
        "",
        "http://127.0.0.1:8710.evil.test",
        "http://evil.test@127.0.0.1:8710",
        "file://",
        "chrome-extension://abcdefgh",
    ],
)
@pytest.mark.parametrize("path", ["/", "/logout", "/approvals"])
def test_forms_of_other_origins_are_refused(page, origin, path):
    login = page.log_in()
    body = urlencode({"csrf": login.csrf_token}).encode()
    answer = page.ask(path, "POST", login=login, headers=with_own(origin=origin), body=body)
    assert (answer.status, page.seen, page.logins.find(login.cookie)) == (403, [], login)


def test_a_form_without_an_origin_is_refused(page):
    login = page.log_in()
    body = urlencode({"csrf": login.csrf_token}).encode()
    for headers in (with_own(origin=None), with_own(origin=None, sec_fetch_site=None)):
        assert page.ask("/runs", "POST", login=login, headers=headers, body=body).status == 403
    assert page.seen == []


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "", "SAME-ORIGIN"])
def test_forms_that_another_site_or_port_sends_are_refused(page, site):
    login = page.log_in()
    body = urlencode({"csrf": login.csrf_token}).encode()
    answer = page.ask("/runs", "POST", login=login, headers=with_own(sec_fetch_site=site), body=body)
    assert (answer.status, page.seen) == (403, [])


@pytest.mark.parametrize("site", ["cross-site", "same-site", ""])
@pytest.mark.parametrize("path", ["/", "/runs", "/static/page.js"])
def test_pages_and_files_that_another_site_or_port_asks_for_are_refused(page, site, path):
    answer = page.ask(path, login=page.log_in(), headers=with_own(sec_fetch_site=site, origin=None))
    assert (answer.status, page.seen, answer.is_framed_safely()) == (403, [], True)


@pytest.mark.parametrize("token", [None, "", "0" * 64, "é", "x" * 10_000])
def test_a_form_without_the_token_of_this_login_is_refused(page, token):
    login = page.log_in()
    fields = {} if token is None else {"csrf": token}
    answer = page.ask("/runs", "POST", login=login, body=urlencode(fields).encode())
    assert (answer.status, page.seen) == (403, [])
    assert "The form is not one of this login. Load the page again." in answer.text


def test_the_token_of_another_login_is_refused(page):
    mine, other = page.log_in(), page.log_in("ann")
    body = urlencode({"csrf": other.csrf_token}).encode()
    assert page.ask("/runs", "POST", login=mine, body=body).status == 403
    assert page.seen == []


def test_a_token_in_the_address_does_not_count(page):
    login = page.log_in()
    answer = page.ask(f"/runs?csrf={login.csrf_token}", "POST", login=login, body=b"")
    assert (answer.status, page.seen) == (403, [])


def test_the_last_of_two_tokens_counts(page):
    login = page.log_in()
    right, wrong = f"csrf={login.csrf_token}", "csrf=x"
    assert page.ask("/runs", "POST", login=login, body=f"{right}&{wrong}".encode()).status == 403
    assert page.ask("/runs", "POST", login=login, body=f"{wrong}&{right}".encode()).status == 200


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/json",
        "",
        "application/x-www-form-urlencodedx",
    ],
)
def test_forms_of_another_type_are_refused(page, kind):
    login = page.log_in()
    body = urlencode({"csrf": login.csrf_token}).encode()
    answer = page.ask("/runs", "POST", login=login, headers=[*OWN.items(), ("content-type", kind)], body=body)
    assert (answer.status, page.seen) == (415, [])


@pytest.mark.parametrize(
    "method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "post", "PROPFIND"]
)
def test_other_methods_are_refused(page, method):
    answer = page.ask("/runs", method, login=page.log_in())
    assert (answer.status, answer.headers["allow"], page.seen) == (405, "GET, HEAD, POST", [])
    assert answer.is_framed_safely()


def test_a_method_cannot_be_overridden(page):
    login = page.log_in()
    extra = [("x-http-method-override", "POST"), ("x-http-method", "POST"), ("x-method-override", "POST")]
    page.ask("/logout", login=login, extra=extra)
    assert page.logins.find(login.cookie) == login
    page.ask("/logout", "HEAD", login=login)
    assert page.logins.find(login.cookie) == login
    page.post("/runs", login, _method="DELETE")
    assert [(method, path) for method, path, _ in page.seen] == [
        ("GET", "/logout"),
        ("HEAD", "/logout"),
        ("POST", "/runs"),
    ]


def test_a_get_of_the_login_with_a_code_uses_nothing(page):
    code = page.logins.make_code()
    answer = page.ask("/login", headers=with_own(sec_fetch_site="cross-site", origin=None))
    assert (answer.status, page.seen) == (200, [("GET", "/login", {})])
    assert page.logins.use_code(code) is not None


def test_another_site_cannot_log_a_person_in(page):
    code = page.logins.make_code()
    for headers in (
        with_own(origin="http://evil.test", sec_fetch_site="cross-site"),
        with_own(origin="null", sec_fetch_site="cross-site"),
        with_own(origin="null", sec_fetch_site="same-site"),
        with_own(origin="null", sec_fetch_site=None),
        with_own(origin="http://127.0.0.1:9999", sec_fetch_site="same-site"),
    ):
        answer = page.ask("/login", "POST", headers=headers, body=urlencode({"code": code}).encode())
        assert (answer.status, "set-cookie" in answer.headers) == (403, False)
    assert page.logins.use_code(code) is not None


def test_the_form_of_a_printed_link_may_have_no_origin(page):
    code = page.logins.make_code()
    answer = page.ask(
        "/login", "POST", headers=with_own(origin="null"), body=urlencode({"code": code}).encode()
    )
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_the_origin_of_other_forms_may_not_be_missing(page):
    login = page.log_in()
    body = urlencode({"csrf": login.csrf_token}).encode()
    assert page.ask("/logout", "POST", login=login, headers=with_own(origin="null"), body=body).status == 403


def test_a_login_gets_a_new_cookie_and_ends_the_one_before(page):
    before = page.log_in()
    answer = page.post("/login", before, code=page.logins.make_code())
    name, _, rest = answer.headers["set-cookie"].partition("=")
    value, _, attributes = rest.partition("; ")
    assert (answer.status, name, attributes) == (
        303,
        COOKIE,
        f"HttpOnly; Max-Age={LOGIN_S}; Path=/; SameSite=strict",
    )
    assert value != before.cookie
    assert page.logins.find(value) == Login(OWNER, value)
    assert page.logins.find(before.cookie) is None


def test_a_cookie_that_somebody_made_up_does_not_become_a_login(page):
    chosen = Login(OWNER, "chosen-by-the-attacker-0123456789012345678")
    answer = page.ask(
        "/login", "POST", login=chosen, body=urlencode({"code": page.logins.make_code()}).encode()
    )
    assert answer.status == 303
    assert chosen.cookie not in answer.headers["set-cookie"]
    assert page.logins.find(chosen.cookie) is None


@pytest.mark.parametrize("name", ["paddock_8711", "Paddock_8710", "paddock", "__Host-paddock_8710"])
def test_cookies_of_servers_at_other_ports_do_not_count(page, name):
    login = page.log_in()
    answer = page.ask("/", extra=[("cookie", f"{name}={login.cookie}")])
    assert (answer.status, answer.headers["location"], page.seen) == (303, "/login", [])


def test_of_two_cookies_of_one_name_that_of_the_shorter_path_counts(page):
    """Browsers send it last (RFC 6265, 5.4). A server at another port can set one for a longer path."""
    mine, tossed = page.log_in(), page.log_in("mallory")
    body = urlencode({"csrf": mine.csrf_token}).encode()
    cookies = [("cookie", f"{COOKIE}={tossed.cookie}; {COOKIE}={mine.cookie}")]
    assert page.ask("/runs", "POST", extra=cookies, body=body).status == 200


@pytest.mark.parametrize(
    "cookie", ["", ";;;=;", "=" * 5000, f"{COOKIE}=", f"{COOKIE}=\xff", f'{COOKIE}="\\303\\251"']
)
def test_damaged_cookies_are_no_login(page, cookie):
    assert page.ask("/runs", extra=[("cookie", cookie)]).headers["location"] == "/login"


def test_a_login_over_tls_has_a_secure_cookie(tmp_path):
    page = Page(tmp_path, is_secure=True)
    answer = page.ask("/login", "POST", body=urlencode({"code": page.logins.make_code()}).encode())
    assert answer.headers["set-cookie"].endswith("; HttpOnly; Max-Age=43200; Path=/; SameSite=strict; Secure")


def test_logout_ends_the_login_and_removes_the_cookie(page):
    login = page.log_in()
    answer = page.post("/logout", login)
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert answer.headers["set-cookie"].startswith(f'{COOKIE}=""; expires=')
    assert page.logins.find(login.cookie) is None
    assert page.ask("/", login=login).headers["location"] == "/login"


def test_a_part_of_a_page_after_the_login_has_ended_loads_the_login(page):
    answer = page.ask("/runs", extra=[("hx-request", "true")])
    assert (answer.status, answer.headers["hx-redirect"], answer.text) == (200, "/login", "")


def test_who_is_not_logged_in_gets_no_page_and_sends_no_form(page):
    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("the body of somebody without a login is not read")

    for method in ("GET", "HEAD", "POST"):
        answer = page.ask("/runs", method, receive=receive, extra=[("content-length", "1000000")])
        assert (answer.status, answer.headers["location"], answer.headers["connection"]) == (
            303,
            "/login",
            "close",
        )
    assert page.seen == []


@pytest.mark.parametrize(("path", "limit"), [("/login", 4096), ("/runs", 256 * 1024)])
def test_large_forms_are_refused(page, path, limit):
    login = page.log_in()
    answer = page.ask(path, "POST", login=login, body=b"a=" + b"b" * limit)
    assert (answer.status, answer.headers["connection"], page.seen) == (413, "close", [])
    assert f"This form has at most {limit} bytes." in answer.text


@pytest.mark.parametrize(
    "body", [b"a=%ff", b"a=%ED%A0%80", b"\xff", "é=1".encode(), b"&".join([b"a=1"] * 10_001)]
)
def test_forms_that_cannot_be_read_are_refused(page, body):
    answer = page.ask("/runs", "POST", login=page.log_in(), body=body)
    assert (answer.status, page.seen) == (422, [])


def test_a_slow_form_is_given_up(page, monkeypatch):
    monkeypatch.setattr(web_entry, "FORM_S", 0.01)

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": b"a", "more_body": True}

    answer = page.ask("/login", "POST", receive=receive, body=b"")
    assert (answer.status, page.seen, answer.is_framed_safely()) == (400, [], True)


def test_the_code_of_a_link_works_once(page):
    code = page.logins.make_code()
    assert page.post("/login", code=code).status == 303
    answer = page.post("/login", code=code)
    assert (answer.status, "set-cookie" in answer.headers) == (403, False)
    assert "<h1>This request was not accepted</h1>" in answer.text
    assert "The link was used already, or is older than a minute." in answer.text
    assert [each.fields["reason"] for each in page.audit.query(event="refused")] == ["unauthorized"]


def test_a_token_logs_its_user_in(page):
    answer = page.post("/login", token=" good\n")
    value = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
    assert page.logins.find(value) == Login("ann", value)


def test_other_tokens_do_not(page):
    wrong = page.post("/login", token="wrong")
    assert (wrong.status, "set-cookie" in wrong.headers) == (403, False)
    quick = page.post("/login", token="quick")
    assert (quick.status, quick.headers["retry-after"], "set-cookie" in quick.headers) == (429, "13", False)
    assert page.post("/login").status == 403


def test_each_page_counts_as_a_request_of_the_token(page):
    page.people.problem = RateExceeded(5, 12.3)
    answer = page.ask("/runs", login=page.log_in("ann"))
    assert (answer.status, answer.headers["retry-after"], page.seen) == (429, "13", [])


def test_a_login_whose_token_was_revoked_ends(page):
    page.people.problem = NoViewer("gone")
    login = page.log_in("ann")
    answer = page.ask("/runs", login=login)
    assert (answer.status, page.seen, page.logins.find(login.cookie)) == (403, [], None)


def test_an_error_of_the_server_is_not_shown_to_users(page, caplog):
    page.people.problem = LedgerError("/home/olga/audit: cannot be opened")
    answer = page.ask("/runs", login=page.log_in("ann"))
    assert (answer.status, "olga" in answer.text, answer.is_framed_safely()) == (503, False, True)
    assert caplog.messages == ["a page cannot be served: /home/olga/audit: cannot be opened"]


def test_a_fault_before_a_page_has_headers_and_shows_no_text(page):
    page.people.problem = RuntimeError("a secret")
    answer = page.ask("/runs", login=page.log_in("ann"))
    assert (answer.status, "secret" in answer.text, answer.is_framed_safely()) == (500, False, True)
    assert answer.error is page.people.problem


@pytest.mark.parametrize("how", ["logout", "revoke", "token"])
def test_a_live_page_ends_with_its_login(tmp_path, monkeypatch, how):
    monkeypatch.setattr(web_entry, "WATCH_S", 0.01)
    ended: list[str] = []

    async def stream(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("the stream")

    page = Page(tmp_path, stream)
    login = page.log_in("ann")

    def end(message: MutableMapping[str, Any]) -> None:
        if message.get("body"):
            {
                "logout": lambda: page.logins.log_out(login.cookie),
                "revoke": page.logins.revoke_all,
                "token": page.people.revoked.set,
            }[how]()

    answer = page.ask("/runs/live", login=login, on_message=end)
    assert ended == ["the stream"]
    assert type(answer.error).__name__ == "ClientDisconnect"
    assert [each["type"] for each in answer.messages] == ["http.response.start", "http.response.body"]


def test_one_person_has_a_limited_number_of_requests_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(web_entry, "MAX_REQUESTS", 2)

    async def check() -> list[int]:
        waits, begun = asyncio.Event(), asyncio.Semaphore(0)

        async def show(_scope: Scope, _receive: Receive, send: Send) -> None:
            begun.release()
            await waits.wait()
            await send_text(send, 200, b"page")

        page = Page(tmp_path, show)
        ann, bob = page.log_in("ann"), page.log_in("bob")
        asked = [asyncio.create_task(page.exchange("/", "GET", login=who)) for who in (ann, ann, bob)]
        for _ in asked:
            await begun.acquire()
        refused = await page.exchange("/", "GET", login=ann)
        waits.set()
        answers = [*(await asyncio.gather(*asked)), refused, await page.exchange("/", "GET", login=ann)]
        return [each.status for each in answers]

    assert asyncio.run(check()) == [200, 200, 200, 503, 200]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/../../../../../../../../etc/passwd",
        "/static//etc/passwd",
        "/static/..\\app.py",
        "/static/vendor/../../app.py",
        "/static/",
        "/static/vendor",
        "/static/\x00",
        "/static/page.css\x00.html",
        "/static/" + "a" * 5000,
        "/static/" + "a/" * 3000,
        "/static/../runs",
        "/static/../",
        "/static/\ud800",
    ],
)
def test_static_files_are_only_those_of_the_page(tmp_path, path):
    page = Page(tmp_path, build_pages("paddock ui --link", takes_tokens=True))
    answer = page.ask(path)
    assert (answer.status, answer.is_framed_safely(), answer.error) == (404, True, None)


@pytest.mark.parametrize(
    "path",
    [
        "*",
        "http://evil.test/",
        "http://[evil",
        "[",
        "evil.test:80",
        "//evil.test/",
        "/\\evil.test",
        "/\x00",
        "/\r\nX: y",
        "/%0d",
    ],
)
def test_odd_targets_are_not_found(tmp_path, path):
    page = Page(tmp_path, build_pages("paddock ui --link", takes_tokens=True))
    for login in (None, page.log_in()):
        answer = page.ask(path, login=login)
        assert answer.status == (303 if login is None else 404)
        assert (answer.is_framed_safely(), answer.error) == (True, None)
        assert {value for name, value in answer.header_pairs if name == "location"} <= {"/login"}


def test_the_login_does_not_tell_others_its_address(tmp_path):
    page = Page(tmp_path, build_pages("paddock ui --link", takes_tokens=True))
    answer = page.ask("/login")
    assert (answer.status, answer.headers["referrer-policy"], answer.is_framed_safely()) == (
        200,
        "no-referrer",
        True,
    )
    other = page.ask("/", login=page.log_in())
    assert (other.status, other.headers["referrer-policy"]) == (200, "same-origin")
