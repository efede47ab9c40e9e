"""What holds for every page that links lead to, with a state as people have it: axe, without script, keyboard, phone."""

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Browser, Page
from tests.support.browser import NARROW, WIDE, BrowserPages
from tests.support.web import PAGES, WebPlace
from tests.support.web_scene import Scene, list_servers, open_scene

SHAPES = pytest.mark.parametrize("shape", [WIDE, NARROW], ids=["wide", "phone"])
ID = re.compile(
    r"\b(01[0-9A-HJKMNP-TV-Z]{24}|[a-z]+[-_][0-9a-f]{12,}|[0-9a-f]{12,}|\w+-\d{13}-[0-9a-f]{16})\b"
)
"""Ids of runs, questions, change sets, sessions and artifacts."""
STILL = {"reduced_motion": "reduce"}
"""Colours change at once."""
PAGE = 200, "text/html"
"""Status and media type of a page."""
FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"


class Links(HTMLParser):
    """The links of a page to other pages."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        target = given.get("href") or ""
        if tag == "a" and target.startswith("/") and "download" not in given:
            self.found.append(target)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, real_servers: Any) -> Iterator[Scene]:
    place = WebPlace(tmp_path_factory.mktemp("scene"))
    with open_scene(place, list_servers(place, real_servers), languages={}) as scene:
        yield scene


@pytest.fixture(scope="module")
def answers(scene: Scene) -> dict[str, tuple[int, str]]:
    """Status and media type of the pages of the runs of the scene, and of one of each kind that links lead to.

    Two values of a filter are one kind, and so are two runs.
    """
    first, *others = (f"/runs/{run}" for run in scene.runs.values())
    pending = [*PAGES, first, *others]
    known = {find_kind(path) for path in pending}
    found = {}
    with scene.server.client(scene.server.log_in()) as client:
        for path in pending:
            answer = client.get(path)
            found[path] = answer.status_code, answer.headers["content-type"].partition(";")[0]
            for target in Links(answer.text).found if found[path] == PAGE else ():
                if find_kind(target) not in known:
                    known.add(find_kind(target))
                    pending.append(target)
    return found


@pytest.fixture(scope="module")
def paths(answers: dict[str, tuple[int, str]]) -> list[str]:
    return [path for path, answer in answers.items() if answer == PAGE]


@pytest.fixture(scope="session")
def axe(npm_modules: Callable[[str], Path]) -> Path:
    return npm_modules("axe") / "axe-core/axe.min.js"


@pytest.fixture
def pages(browser: Browser, scene: Scene) -> Iterator[BrowserPages]:
    with BrowserPages(browser, scene.server) as pages:
        yield pages
        assert pages.complaints == []


def find_kind(target: str) -> object:
    """Return what two links have in common that lead to pages of one kind."""
    parts = urlsplit(target)
    return ID.sub("ID", parts.path), frozenset(
        name for name, _ in parse_qsl(parts.query, keep_blank_values=True)
    )


def find_violations(page: Page, paths: list[str], axe: Path) -> dict[str, list[str]]:
    """Return what axe finds on each page: with every rule in light, and what it says of the colours in dark."""
    source, found = axe.read_text("utf-8"), {}
    for path in paths:
        page.emulate_media(color_scheme="light")
        page.goto(path)
        page.evaluate(source)
        results = [page.evaluate("axe.run({resultTypes: ['violations']})")]
        page.emulate_media(color_scheme="dark")
        results.append(page.evaluate("axe.run({resultTypes: ['violations'], runOnly: ['color-contrast']})"))
        found[path] = [
            f"{each['id']}: {node['html'][:200]}: {node['failureSummary']}"
            for result in results
            for each in result["violations"]
            for node in each["nodes"]
        ]
    return found


def test_each_link_leads_somewhere(answers):
    assert {path: status for path, (status, _) in answers.items() if status != 200} == {}


@SHAPES
def test_axe_finds_no_violation(pages, paths, axe, shape):
    assert find_violations(pages.open(viewport=shape, **STILL), paths, axe) == {path: [] for path in paths}


@SHAPES
def test_axe_finds_no_violation_in_what_is_shown_before_the_login(pages, axe, shape):
    page = pages.open_context(viewport=shape, **STILL).new_page()
    paths = ["/login", "/login?code=used", "/static/missing"]
    assert find_violations(page, paths, axe) == {path: [] for path in paths}


@SHAPES
def test_no_page_is_wider_than_its_window(pages, paths, shape):
    page, found = pages.open(viewport=shape), {}
    for path in paths:
        page.goto(path)
        found[path] = page.evaluate("document.documentElement.scrollWidth")
    assert {path: width for path, width in found.items() if width > shape["width"]} == {}


def test_each_page_says_the_same_without_scripts(pages, paths):
    """Numbers that change from one second to the next are left out, and buttons that only a script can carry out."""
    with_script, without = pages.open(), pages.open(java_script_enabled=False)
    for path in paths:
        texts = []
        for page in (with_script, without):
            page.goto(path)
            texts.append(page.get_by_role("main").get_by_role("heading").all_inner_texts())
        assert texts[0] == texts[1] != [], path


def test_what_a_script_sends_a_form_or_a_link_sends_too(pages, paths):
    """Elements with `hx-post` are forms or their buttons; those with `hx-get` are forms, links, or load what follows."""
    page, found = pages.open(), {}
    for path in paths:
        page.goto(path)
        found[path] = page.evaluate(
            """[...document.querySelectorAll("[hx-post], [hx-put], [hx-patch], [hx-delete], [hx-get]")].filter(
              (each) => !(each.matches("form[action], a[href], form[action] *") || each.closest("[sse-connect]")
                || (each.hasAttribute("hx-get") && each.matches("[hx-trigger]")))
            ).map((each) => each.outerHTML.slice(0, 200))"""
        )
    assert found == {path: [] for path in paths}


def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(pages, paths):
    page = pages.open(java_script_enabled=False)
    for path in paths:
        page.goto(path)
        expected = page.evaluate(
            """(selector) => {
              window.controls = [...document.querySelectorAll(selector)].filter(
                (each) => !each.disabled && each.tabIndex >= 0 && each.checkVisibility({ visibilityProperty: true })
                  && !(each.type === "radio" && !each.checked && document.querySelector(`[name="${each.name}"]:checked`)));
              return window.controls.map((each, number) => `${number} ${each.outerHTML.slice(0, 120)}`);
            }""",
            FOCUSABLE,
        )
        reached, unseen = [], []
        for _ in expected:
            page.keyboard.press("Tab")
            text, is_seen = page.evaluate(
                """() => {
                  const each = document.activeElement, style = getComputedStyle(each), box = each.getBoundingClientRect();
                  const shown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
                  const inside = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0;
                  return [`${window.controls.indexOf(each)} ${each.outerHTML.slice(0, 120)}`, shown && inside];
                }"""
            )
            reached.append(text)
            if not is_seen:
                unseen.append(text)
        assert reached == expected, path
        assert unseen == [], path
