"""Approvals in a real browser: a real agent waits, a person sees it and answers, and the program continues."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect
from tests.integration.surfaces.mcp_server import npm
from tests.support.command import PADDOCK
from tests.support.processes import PATIENCE_S
from tests.support.questions import asking, make_question
from tests.support.web import WebPlace

RULES = '[[policy.rule]]\neffect = "ask"\ntool = "odd/echo"\nreason = "echoes carry far"\n'
CODE = "return [await servers.odd.echo({text: 'hi'}), await servers.odd.echo({text: 'there'})]"


@contextmanager
def waiting_agent(place: WebPlace, modules: npm.Modules) -> Iterator["subprocess.Popen[str]"]:
    """Start an agent whose program asks; yield it once it waits."""
    scripts = place.home / "agent"
    scripts.mkdir()
    shutil.copy(Path(__file__).with_name("waiting_client.mjs"), scripts)
    (scripts / "node_modules").symlink_to(modules("client_libraries"))
    process = subprocess.Popen(
        [npm.node(modules("clients")), str(scripts / "waiting_client.mjs"), PADDOCK, CODE],
        cwd=place.workspace,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["status"] == "waiting"
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.stdout.close()
        process.wait()


def read_end(process: "subprocess.Popen[str]") -> object:
    """Return what the agent's program returned."""
    assert process.stdout is not None
    last = json.loads(process.stdout.readline())
    assert process.wait(PATIENCE_S) == 0
    return last["result"]


def test_an_agent_of_the_typescript_library_waits_until_a_person_allows_it(page, web, npm_modules):
    web.place.settings(RULES)
    page.goto("/approvals")
    badge = page.locator("#waiting")
    expect(badge).to_be_hidden()
    expect(page.get_by_text("No request waits for a person.")).to_be_visible()
    with waiting_agent(web.place, npm_modules) as agent:
        card = page.get_by_role("article", name="call odd/echo")
        expect(card).to_contain_text("typescript-agent")
        expect(card).to_contain_text("echoes carry far")
        expect(card.get_by_role("row", name="text hi")).to_be_visible()
        expect(badge).to_have_text("1 waiting")
        card.get_by_role("button", name="Allow once").click()
        expect(page.get_by_role("status")).to_have_text("You allowed this call, once.")
        expect(page.get_by_role("article").get_by_role("row", name="text there")).to_be_visible()
        page.get_by_role("article").get_by_role("button", name="Deny").click()
        expect(page.get_by_role("status")).to_have_text("You denied this call.")
        result = read_end(agent)
    assert result["status"] == "failed"
    assert "echoes carry far: denied by" in result["error"]["message"]
    page.goto("/approvals")
    answers = page.get_by_role("table").get_by_role("row").filter(has_text="odd/echo")
    expect(answers).to_have_count(2)
    expect(answers.nth(0)).to_contain_text(re.compile(r"denied\s*\w+ \(page\)"))
    expect(answers.nth(1)).to_contain_text(re.compile(r"allowed once\s*\w+ \(page\)"))


def test_a_yes_for_the_run_is_the_only_one_that_is_needed(page, web, npm_modules):
    web.place.settings(RULES)
    with waiting_agent(web.place, npm_modules) as agent:
        page.goto("/approvals")
        page.get_by_role("button", name="Allow for this run").click()
        expect(page.get_by_role("status")).to_have_text(
            "You allowed this call, and all such calls of its run."
        )
        result = read_end(agent)
    assert (result["status"], result["value"]) == ("ok", ["hi", "there"])


def test_all_works_without_script_and_by_keyboard(pages, web):
    page = pages.open(java_script_enabled=False)
    with asking(web.place.home, make_question()) as answer:
        page.goto("/approvals")
        expect(page.locator("#waiting")).to_have_text("1 waiting")
        page.get_by_role("button", name="Allow once").focus()
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Allow for this run")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text(
            "You allowed this call, and all such calls of its run."
        )
        assert answer.result(PATIENCE_S).verdict == "run"


def test_the_list_changes_below_the_focus_and_counts_down(page, web):
    with asking(web.place.home, make_question(what="call odd/first", wait_ms=600_000)):
        page.goto("/approvals")
        button = page.get_by_role("button", name="Deny")
        button.focus()
        left = page.get_by_role("article").locator("time")
        expect(left).to_have_text(re.compile(r"^9 min \d+ s$"))
        before = left.text_content() or ""
        expect(left).not_to_have_text(before)
        with asking(web.place.home, make_question(what="call odd/second")):
            expect(page.get_by_role("article")).to_have_count(2)
            expect(page.get_by_role("button", name="Deny").first).to_be_focused()
        expect(page.get_by_role("article")).to_have_count(1)
        expect(page.get_by_role("button", name="Deny")).to_be_focused()
    expect(page.get_by_text("No request waits for a person.")).to_be_visible()


NOTIFICATIONS = """
window.shown = [];
window.Notification = class extends EventTarget {
  static permission = "default";
  static async requestPermission() { return (Notification.permission = "granted"); }
  constructor(title, options) { super(); window.shown.push([title, options.tag]); }
};
"""


def test_the_browser_notifies_when_a_question_begins_to_wait(page, web):
    page.add_init_script(NOTIFICATIONS)
    page.goto("/approvals")
    button = page.get_by_role("button", name="Notify me in this browser")
    with asking(web.place.home, make_question()):
        expect(page.locator("#waiting")).to_have_text("1 waiting")
        assert page.evaluate("shown") == []
    expect(page.locator("#waiting")).to_be_hidden()
    button.click()
    expect(button).to_be_hidden()
    with asking(web.place.home, make_question()):
        expect(page.locator("#waiting")).to_have_text("1 waiting")
        page.wait_for_function("() => shown.length > 0")  # the page notifies after it has drawn the number
        assert page.evaluate("shown") == [["A request waits for your approval", "paddock-approvals"]]


def test_changes_are_accepted_by_path_in_the_browser(page, web):
    place = web.place
    program = "import os; os.mkdir('sub'); [open(f'sub/{n}', 'w').write(n) for n in 'ab']"
    done = place.paddock("exec", "--access", "overlay", "--json", "python", "-c", program)
    page.goto("/changes")
    page.get_by_role("link", name=done["changes"]["id"]).click()
    page.get_by_role("checkbox", name="added sub/b").check()
    page.get_by_role("button", name="Accept ticked").click()
    expect(page.get_by_role("status")).to_have_text("2 paths were accepted.")
    assert [each.name for each in (place.workspace / "sub").iterdir()] == ["b"]
    page.get_by_role("button", name="Undo all accepted").click()
    expect(page.get_by_role("status")).to_have_text("2 paths were undone.")
    assert not (place.workspace / "sub").exists()
    page.get_by_text("Discard these changes").click()
    page.get_by_role("button", name="Discard", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("The contents of the changes were discarded.")
