"""A real browser in front of a real page.

    browser    one for the tests of a module, in each worker
    web        a server of the page, with a home and a workspace of its own
    pages      opens pages of its owner: `pages.open("/runs", color_scheme="dark", java_script_enabled=False)`
    page       one such page, still empty: `page.goto("/runs")`

A test also fails if a page had an error in a script, violated its CSP, or asked another server for something.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.support.browser import BrowserPages, open_browser
from tests.support.web import WebPlace, WebServer


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    with WebPlace(tmp_path).serve_page() as server:
        yield server


@pytest.fixture
def pages(browser: Browser, web: WebServer) -> Iterator[BrowserPages]:
    with BrowserPages(browser, web) as pages:
        yield pages
        assert pages.complaints == []


@pytest.fixture
def page(pages: BrowserPages) -> Page:
    return pages.open()
