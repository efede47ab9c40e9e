"""A browser that is logged in to the page visits a hostile site: at another port of the same host, and at another host.

Servers at other ports get the cookies of a host (RFC 6265, 8.5), but their pages are of another origin.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, Request
from tests.support.browser import BrowserPages
from tests.support.scripted_server import Request as Received
from tests.support.scripted_server import answer_plain, serve_script
from tests.support.web import WebPlace, WebServer


class Site(NamedTuple):
    """A hostile site, and what it was sent."""

    url: str
    requests: list[Received]


@contextmanager
def open_site(html: str, host: str) -> Iterator[Site]:
    with serve_script(lambda _: answer_plain(200, html.encode(), media_type="text/html")) as server:
        yield Site(server.url.replace("127.0.0.1", host), server.requests)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with WebPlace(tmp_path_factory.mktemp("web")).serve_page() as server:
        yield server


@pytest.fixture(params=["127.0.0.1", "localhost"], ids=["another port", "another host"])
def host(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def victim(browser: Browser, web: WebServer) -> Iterator[Page]:
    """A page of somebody who is logged in."""
    with BrowserPages(browser, web) as pages:
        yield pages.open("/")


def is_logged_in(page: Page) -> bool:
    page.goto("/")
    return page.get_by_role("button", name="Log out").count() == 1


def test_a_form_of_a_hostile_site_does_nothing(victim: Page, web: WebServer, host: str) -> None:
    csrf = victim.locator("input[name=csrf]").first.get_attribute("value")
    html = f"""<form method=post action="{web.url}/logout"><input name=csrf value={csrf}><button>x</button></form>"""
    with open_site(html, host) as site:
        victim.goto(site.url)
        with victim.expect_navigation() as navigation:
            victim.get_by_role("button").click()
        assert navigation.value.status == 403
    assert is_logged_in(victim)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_request_of_a_hostile_script_does_nothing(
    victim: Page, web: WebServer, host: str, kind: str
) -> None:
    csrf = victim.locator("input[name=csrf]").first.get_attribute("value")
    with open_site("<title>x</title>", host) as site:
        victim.goto(site.url)
        said = victim.evaluate(
            """([url, kind, body]) => fetch(url, {
                method: "POST", mode: "no-cors", credentials: "include", headers: {"Content-Type": kind}, body
            }).then(() => "answered", () => "refused")""",
            [f"{web.url}/logout", kind, f"csrf={csrf}"],
        )
        assert said == "refused"
    assert is_logged_in(victim)


def test_a_hostile_site_reads_no_page(victim: Page, web: WebServer, host: str) -> None:
    with open_site("<title>x</title>", host) as site:
        victim.goto(site.url)
        read = victim.evaluate(
            """async (url) => {
                const ask = (options) => fetch(url, options).then((answer) => answer.text(), () => "refused");
                return [await ask({credentials: "include"}), await ask({mode: "no-cors", credentials: "include"})];
            }""",
            f"{web.url}/runs",
        )
    assert read == ["refused", "refused"]


def test_a_hostile_site_cannot_frame_a_page(victim: Page, web: WebServer, host: str) -> None:
    paths = ("/", "/login", "/approvals", "/static/icon.svg", "/static/page.css")
    html = "".join(f'<iframe src="{web.url}{path}"></iframe>' for path in paths)
    with open_site(html, host) as site:
        victim.goto(site.url)
        victim.wait_for_load_state("networkidle")
        for frame in victim.frames[1:]:
            assert frame.url == "chrome-error://chromewebdata/"


def test_a_hostile_site_cannot_open_a_page_and_keep_it(victim: Page, web: WebServer, host: str) -> None:
    with open_site("<button>x</button>", host) as site:
        victim.goto(site.url)
        victim.evaluate(
            "(url) => document.querySelector('button').addEventListener('click', () => { window.other = open(url); })",
            f"{web.url}/runs",
        )
        with victim.context.expect_page() as opened:
            victim.get_by_role("button").click()
        opened.value.wait_for_load_state()
        assert opened.value.evaluate("window.opener") is None
        assert (
            "Another site or another port opened this page." in opened.value.get_by_role("main").inner_text()
        )


def test_scripts_of_the_page_are_not_for_other_sites(victim: Page, web: WebServer, host: str) -> None:
    with open_site("<title>x</title>", host) as site:
        victim.goto(site.url)
        said = victim.evaluate(
            """(url) => new Promise((resolve) => {
                const script = document.createElement("script");
                script.src = url;
                script.onload = () => resolve("loaded");
                script.onerror = () => resolve("refused");
                document.head.append(script);
            })""",
            f"{web.url}/static/page.js",
        )
    assert said == "refused"


def test_a_link_of_another_site_leads_to_the_login_and_the_code_goes_nowhere_else(
    browser: Browser, web: WebServer, host: str
) -> None:
    link = web.make_link()
    with BrowserPages(browser, web) as pages, open_site(f'<a href="{link}">x</a>', host) as site:
        page = pages.open_context().new_page()
        sent: list[Request] = []
        page.on("request", lambda request: sent.append(request))  # noqa: PLW0108 - Playwright takes no built-in
        page.goto(site.url)
        page.get_by_role("link").click()
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{web.url}/")
        page.get_by_role("link", name="Runs").click()
        page.wait_for_url(f"{web.url}/runs")
        code = link.partition("code=")[2]
        referers = {
            request.all_headers().get("referer", "") for request in sent if request.url.startswith(web.url)
        }
    assert {each for each in referers if code in each} == set()
    assert [each for each in site.requests if code in each.line or code in str(each.headers)] == []
