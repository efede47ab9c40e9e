"""A person sees in a real browser what runs in another process, live, and ends it."""

import subprocess

import pytest
from playwright.sync_api import expect
from tests.support.browser import NARROW
from tests.support.command import PADDOCK
from tests.support.processes import PATIENCE_S

PROGRAM = """
import time
print("<img src=x onerror=alert(1)>", flush=True)
print("line " * 500, flush=True)
print("the last line", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def program(web):
    """A program of the owner in another process."""
    words = ("exec", "python", "--set", "runtimes.timeout_ms=600000", "-c", PROGRAM)
    process = subprocess.Popen(
        [PADDOCK, *words],
        cwd=web.place.workspace,
        env=web.place.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_a_run_that_is_stopped_from_the_page_is_gone(page, program):
    page.goto("/")
    button = page.get_by_role("button", name="End it")
    expect(button).to_be_visible()  # it appears by itself
    card = page.get_by_role("list", name="Runs").get_by_role("listitem")
    expect(card).to_contain_text("python program")
    expect(card).to_contain_text("the last line")
    assert page.get_by_role("img", name="x").count() == 0
    button.focus()
    since = card.get_by_role("definition").nth(1)
    before = since.text_content() or ""
    expect(since).not_to_have_text(before)
    expect(button).to_be_focused()  # also after the part was replaced
    button.press("Enter")
    _, errors = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, errors) == (137, "The program was cancelled\n")
    expect(page.get_by_text("Nothing runs now.")).to_be_visible()


def test_the_output_of_a_run_is_followed_to_its_end(page, program):
    page.goto("/")
    page.get_by_role("link", name="python program").click()
    output = page.get_by_role("region", name="Output")
    expect(output).to_contain_text("<img src=x onerror=alert(1)>")
    page.get_by_role("button", name="End it").click()
    page.wait_for_url("**/")
    expect(page.get_by_text("Nothing runs now.")).to_be_visible()


def test_an_end_elsewhere_is_shown_on_the_page_of_the_output(page, program):
    page.goto("/")
    page.get_by_role("link", name="python program").click()
    expect(page.get_by_role("region", name="Output")).to_contain_text("the last line")
    program.terminate()
    expect(page.get_by_text("The run has ended.")).to_be_visible()


KEEP_SOURCES = """
window.sources = [];
window.EventSource = class extends EventSource { constructor(...given) { super(...given); window.sources.push(this); } };
"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_tab_gives_back_its_connection(page, request):
    page.add_init_script(KEEP_SOURCES)
    page.goto("/")
    page.wait_for_function("() => sources.length === 1 && sources[0].readyState === EventSource.OPEN")
    page.evaluate(HIDE, True)
    page.wait_for_function("() => sources[0].readyState === EventSource.CLOSED")
    request.getfixturevalue("program")
    page.evaluate(HIDE, False)
    expect(page.get_by_role("list", name="Runs").get_by_role("listitem")).to_contain_text("the last line")
    assert page.evaluate("sources.map((source) => source.readyState)") == [2, 1]


def test_without_script_a_run_is_ended_on_a_phone(pages, program):
    page = pages.open(java_script_enabled=False, viewport=NARROW)
    page.goto("/")
    button = page.get_by_role("button", name="End it")
    while not button.count():
        page.reload()
    box = button.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= NARROW["width"]
    button.click()
    program.wait(PATIENCE_S)
    while button.count():
        page.reload()
    expect(page.get_by_text("Nothing runs now.")).to_be_visible()
