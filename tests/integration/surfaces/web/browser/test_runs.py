"""The runs in a browser: filtered and paged in place, drawn, and usable without script, on a phone and by keyboard."""

import importlib
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.support.browser import NARROW, BrowserPages
from tests.support.web import WebPlace

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))
write_runs = importlib.import_module("benchmarks.run_records").write_runs
RUNS = 200


@pytest.fixture
def web(tmp_path: Path):
    place = WebPlace(tmp_path)
    shown = place.paddock("config", "show", "audit.directory", "--json")
    directory = Path(shown["audit.directory"]["value"])
    directory.parent.mkdir(parents=True, exist_ok=True)
    write_runs(directory, RUNS)
    with place.serve_page() as server:
        yield server


def expect_rows(page: Page, count: int) -> None:
    expect(page.locator("#rows > tr:not(.more)")).to_have_count(count)


def test_runs_are_filtered_and_paged_in_place(page: Page) -> None:
    page.goto("/runs")
    expect(page.locator(".numbers dd").first).to_have_text("200")
    expect(page.locator("#histogram canvas")).to_be_visible()
    page.get_by_text("Show older runs").press("Enter")
    expect_rows(page, 60)
    page.locator("select[name=status]").select_option("denied")
    expect(page.locator(".numbers dd").first).to_have_text("10")
    expect(page.locator("#rows > tr")).to_have_count(10)
    page.wait_for_url("**status=denied*")
    expect(page.locator("#histogram canvas")).to_have_count(1)
    page.locator("input[name=tool]").fill("git/read")
    page.locator("input[name=tool]").press("Enter")
    expect(page.get_by_text("No runs match.")).to_be_visible()
    expect(page.locator("#histogram canvas")).to_have_count(0)
    page.go_back()
    expect(page.locator("#rows > tr")).to_have_count(10)


def test_without_script_the_same_is_there_as_links_a_form_and_a_table(pages: BrowserPages) -> None:
    page = pages.open("/runs", java_script_enabled=False)
    expect_rows(page, 30)
    page.get_by_text("Show older runs").click()
    expect(page.get_by_text("Back to the newest runs")).to_be_visible()
    expect_rows(page, 30)
    page.get_by_text("Back to the newest runs").click()
    page.locator("select[name=status]").select_option("denied")
    page.get_by_role("button", name="Filter").click()
    expect_rows(page, 10)
    page.locator("summary").click()
    cells = page.locator("#histogram-table td").all_inner_texts()
    assert sum(map(int, cells)) == 10


def test_every_page_of_the_runs_is_reached(pages: BrowserPages) -> None:
    page = pages.open("/runs", java_script_enabled=False)
    seen: list[str] = []
    while True:
        seen += [str(link.get_attribute("href")) for link in page.locator("#rows td:nth-child(2) a").all()]
        more = page.get_by_text("Show older runs")
        if not more.count():
            break
        page.goto(str(more.get_attribute("href")))  # a click does not wait until the next page is there
    assert len(seen) == len(set(seen)) == RUNS


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_a_page_without_scrolling_it_sideways(pages: BrowserPages, scheme: str) -> None:
    page = pages.open("/runs", viewport=NARROW, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    expect(page.locator("#histogram canvas")).to_be_visible()
    assert page.evaluate(
        "document.getElementById('histogram').scrollWidth <= document.getElementById('histogram').clientWidth"
    )
    page.locator("#rows td:nth-child(2) a").first.click()
    page.wait_for_url("**/runs/0*")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_the_id_and_the_command_of_a_run_are_copied(pages: BrowserPages) -> None:
    page = pages.open("/runs?name=rust", permissions=["clipboard-read", "clipboard-write"])
    page.locator("#rows td:nth-child(2) a").first.click()
    shown = page.locator("#run-id").inner_text()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == shown
    page.get_by_role("button", name="Copy", exact=True).last.click()
    page.wait_for_function(
        "() => navigator.clipboard.readText().then((text) => text.startsWith('paddock exec rust'))"
    )
