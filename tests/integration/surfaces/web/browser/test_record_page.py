"""`/record` and `/doctor` in a real browser: filters, progress, downloads and copy buttons."""

import json
import re

import pytest
from playwright.sync_api import expect
from tests.support.web import WebPlace

from paddock.model.ids import new_id
from paddock.record.ledger.writer import Ledger


@pytest.fixture
def web(tmp_path):
    """A server with 150 records."""
    place = WebPlace(tmp_path)
    with Ledger(place.home / ".local/state/paddock/audit") as ledger:
        for number in range(150):
            status = "failed" if number == 70 else "ok"
            facts = {"actor": "zora", "kind": "server", "name": f"git/tool-{number}", "status": status}
            ledger.append("finished", new_id(), facts)
    with place.serve_page() as server:
        yield server


def test_a_changed_filter_changes_the_table_and_the_address(page):
    page.goto("/record")
    table = page.get_by_role("region", name="Table of records")
    expect(table.locator("tbody tr")).to_have_count(100)
    page.get_by_label("Status").select_option("failed")
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(table).to_contain_text("git/tool-70")
    expect(page).to_have_url(re.compile("status=failed"))
    page.get_by_label("Tool", exact=True).fill("tool-71")
    page.get_by_label("Tool", exact=True).press("Enter")
    expect(page.locator("#records")).to_contain_text("No record matches.")
    page.go_back()
    expect(table).to_contain_text("git/tool-70")
    expect(page.get_by_label("Status")).to_have_value("failed")


def test_pages_and_filters_work_without_script(pages):
    page = pages.open("/record", java_script_enabled=False)
    page.get_by_role("link", name="Older").click()
    expect(page.locator("#records tbody tr")).to_have_count(50)
    page.get_by_label("Status").select_option("failed")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#records tbody tr")).to_have_count(1)
    page.locator("#records tbody a").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Record 71: finished")
    expect(page.get_by_role("main")).to_contain_text("Record 72 continues it.")


@pytest.mark.parametrize("script", [True, False])
def test_verify_now_shows_its_result_by_itself(pages, script):
    page = pages.open("/record", java_script_enabled=script)
    page.get_by_role("button", name="Verify now").click()
    expect(page.locator("#verification")).to_contain_text("Every record is intact")
    expect(page.locator("#verification")).to_contain_text("150 records")


def test_an_export_is_a_file_with_the_filtered_records(page):
    page.goto("/record?status=failed")
    with page.expect_download() as started:
        page.get_by_role("link", name="JSONL").click()
    [line] = started.value.path().read_text().splitlines()
    assert started.value.suggested_filename.endswith(".jsonl")
    assert json.loads(line)["fields"]["name"] == "git/tool-70"


def test_the_checks_load_by_themselves_and_remedies_are_copied(pages, web):
    page = pages.open("/doctor")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=web.url)
    expect(page.locator("#proof")).to_contain_text("Programs run in the tier")
    remedy = page.locator("#proof code[id]").first
    page.locator(f"[data-copy={remedy.get_attribute('id')}]").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == remedy.text_content()


def test_without_script_a_link_runs_the_checks(pages):
    page = pages.open("/doctor", java_script_enabled=False)
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
    page.get_by_role("link", name="Run the checks").click()
    expect(page.locator("#proof")).to_contain_text("Programs run in the tier")
