"""Hostile strings in a real browser: no script of theirs runs, no dialog opens, and nothing is asked of another server.

The fixture `pages` also fails a test for errors of scripts, violations of the CSP and requests to other servers.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from tests.support.browser import BrowserPages
from tests.support.hostile_strings import BYTES, FILES, HOSTILE, list_file_names
from tests.support.web import PAGES, WebPlace
from tests.support.web_seeds import Seeds, seed

pytestmark = pytest.mark.slow
WORDS = [word for name, word in HOSTILE.items() if len(word) < 3000]
SHOWN_RUNS = ("result", "printed", "long", "files", "changes", "links", "arguments", "denied")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeds]:
    place = WebPlace(tmp_path_factory.mktemp("hostile"))
    with seed(place, WORDS, [*list_file_names()], [*BYTES.values()], FILES) as seeds:
        yield seeds


@pytest.fixture
def pages(browser: Browser, seeds: Seeds) -> Iterator[BrowserPages]:
    with BrowserPages(browser, seeds.server) as pages:
        yield pages
        assert pages.complaints == []


@pytest.fixture
def page(pages: BrowserPages) -> Iterator[Page]:
    dialogs: list[str] = []
    opened: list[str] = []
    page = pages.open()
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.context.on("page", lambda other: opened.append(other.url))
    yield page
    assert dialogs == []
    assert opened == []


def look(page: Page, path: str) -> None:
    """Load a page, open everything on it, and point at everything."""
    page.goto(path)
    origin = page.evaluate("location.origin")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.evaluate(
        """for (const each of document.querySelectorAll('main *')) {
            for (const kind of ['mouseover', 'mouseenter', 'focus', 'toggle', 'load', 'error', 'animationstart'])
                each.dispatchEvent(new Event(kind, { bubbles: true }));
        }"""
    )
    assert page.evaluate("location.origin") == origin
    found = page.evaluate(
        """() => {
            const faults = [];
            for (const each of document.querySelectorAll('*')) {
                for (const { name, value } of each.attributes) {
                    if (name.startsWith('on') || ['style', 'srcdoc'].includes(name) && each.closest('.chart') === null)
                        faults.push(`${each.localName} ${name}=${value}`);
                    if (['href', 'src', 'action', 'formaction'].includes(name)
                        && new URL(value, document.baseURI).origin !== location.origin)
                        faults.push(`${each.localName} ${name}=${value}`);
                }
            }
            for (const each of document.querySelectorAll('iframe, object, embed, base, style:not(head style)'))
                faults.push(each.localName);
            for (const each of document.scripts)
                if (!each.src.startsWith(`${location.origin}/static/`)) faults.push(`script ${each.src}`);
            return faults;
        }"""
    )
    assert found == []
    assert page.evaluate("document.baseURI").startswith(origin)


@pytest.mark.parametrize("path", PAGES)
def test_pages_run_nothing_of_what_they_show(page, path):
    look(page, path)


def test_runs_run_nothing_of_what_they_show(page, seeds):
    for name in SHOWN_RUNS:
        look(page, f"/runs/{seeds.runs[name]}?all=1")
    for number in range(0, len(WORDS), 12):
        look(page, f"/runs/{seeds.runs[f'program{number}']}")


def test_live_pages_run_nothing_that_arrives_later(page, seeds):
    for path in ("/", f"/now/{seeds.runs['live']}"):
        with page.expect_response("**/events"):
            page.goto(path)
        page.wait_for_function(
            "() => document.querySelector('.htmx-swapping, .htmx-settling, .tail') !== null"
        )
        assert page.evaluate("document.querySelectorAll('main script, main style, main iframe').length") == 0
        look(page, path)


def test_what_pages_lead_to_runs_nothing(page, seeds):
    for root in ("/changes", "/sessions", "/servers", "/record"):
        page.goto(root)
        links = page.eval_on_selector_all(
            "main a[href]", "(all) => all.map((each) => each.getAttribute('href'))"
        )
        for link in [each for each in links if each.startswith(f"{root}/") and "/export" not in each][:3]:
            look(page, link)
            below = page.eval_on_selector_all(
                "main a[href*='file?']", "(all) => all.map((each) => each.getAttribute('href'))"
            )
            for file in below[:40:4]:
                look(page, file)


@pytest.mark.parametrize(
    "name", ["picture.svg", "page.html", "page.xhtml", "polyglot.gif", "polyglot.pdf", "code.js", "page"]
)
def test_files_are_not_opened_as_pages(page, pages, seeds, name):
    page.goto(f"/runs/{seeds.runs['files']}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
    link = row.get_by_role("link").first.get_attribute("href")
    assert link is not None
    fetched = page.evaluate(
        """async (link) => {
            const answer = await fetch(link);
            const headers = ['content-type', 'content-security-policy', 'content-disposition', 'x-content-type-options'];
            return headers.map((name) => answer.headers.get(name));
        }""",
        link,
    )
    kind, policy, disposition, sniffing = fetched
    assert (policy, sniffing) == ("default-src 'none'; sandbox", "nosniff")
    assert kind == ("image/gif" if name == "polyglot.gif" else "application/octet-stream")
    assert disposition.startswith("inline;" if name == "polyglot.gif" else "attachment;")
    if name != "polyglot.gif":
        with page.expect_download():
            page.evaluate("(link) => { location.href = link; }", link)
    # As a script, an image or a style of the page itself, it does nothing either.
    refused = page.evaluate(
        """(link) => new Promise((resolve) => {
            const script = document.createElement('script');
            script.src = link;
            script.onload = () => resolve('loaded');
            script.onerror = () => resolve('refused');
            document.head.append(script);
        })""",
        link,
    )
    assert refused == "refused"
    [complaint] = pages.complaints
    assert complaint.startswith("Refused to execute script from ")
    pages.complaints.clear()
