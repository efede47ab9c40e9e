"""The distribution's browser, and people in front of it who are logged in to the page.

    open_browser      the browser itself: half a second; keep it for a module of tests
    BrowserPages      contexts of it, each with a cookie of a login, and what went wrong in them

While a browser is open, Playwright's event loop runs in its thread, and `asyncio.run` fails there. Run such code in
another thread or process.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)
from tests.support.processes import PATIENCE_S
from tests.support.web import WebServer

CHROMIUM = Path("/usr/bin/chromium")
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
"""Sizes of a window and of a phone."""
_REFUSED = "Failed to load resource: the server responded with a status of"
"""What a browser says of a page that the server refuses: tests compare that page."""

expect.set_options(timeout=PATIENCE_S * 1000)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open the browser, without a window and with a home of its own.

    It runs as the user of the tests, who may be root, so that it has no sandbox. It loads only pages of tests.
    """
    assert CHROMIUM.exists(), f"{CHROMIUM} is missing: scripts/install_toolchains.py installs it as root"
    with TemporaryDirectory(prefix="paddock-tests-") as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, env={**os.environ, "HOME": home})
        try:
            yield browser
        finally:
            browser.close()


class BrowserPages:
    """Pages in one browser, for people who are logged in to one server."""

    def __init__(self, browser: Browser, server: WebServer) -> None:
        self.server = server
        self.complaints: list[str] = []
        """Errors of scripts, violations of the CSP, and requests to other servers, of all pages."""
        self._browser = browser
        self._contexts = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._contexts.close()

    def open(self, path: str | None = None, **options: Any) -> Page:
        """Return a page of the owner in a context of its own; options are those of `Browser.new_context`."""
        context = self.open_context(**options)
        cookie = self.server.log_in()
        context.add_cookies(
            [
                {
                    "name": cookie.name,
                    "value": cookie.value or "",
                    "url": self.server.url,
                    "httpOnly": True,
                    "sameSite": "Strict",
                }
            ]
        )
        page = context.new_page()
        if path is not None:
            page.goto(path)
        return page

    def open_context(self, **options: Any) -> BrowserContext:
        """Return a context of nobody: no cookie, nothing stored."""
        defaults = {"base_url": self.server.url, "viewport": WIDE, "locale": "en-US", "timezone_id": "UTC"}
        context = self._browser.new_context(**{**defaults, **options})
        self._contexts.callback(context.close)
        context.set_default_timeout(PATIENCE_S * 1000)
        context.on("console", self._hear)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("request", self._note_request)
        return context

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not message.text.startswith(_REFUSED):
            self.complaints.append(message.text)

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.server.url}/", "data:", "about:")):
            self.complaints.append(f"asked for {request.url}")
