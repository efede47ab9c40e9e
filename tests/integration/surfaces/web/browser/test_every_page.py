"""What holds for every page that links lead to, with a state as people have it: axe, without script, keyboard, phone."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Browser, Page
from tests.support.browser import NARROW, WIDE, BrowserPages
from tests.support.web import PAGES, WebPlace
from tests.support.web_scene import Scene, list_servers, open_scene

SHAPES = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "light-phone": {"color_scheme": "light", "viewport": NARROW},
    "dark-phone": {"color_scheme": "dark", "viewport": NARROW},
}
ID = re.compile(
    r"\b(01[0-9A-HJKMNP-TV-Z]{24}|[a-z]+[-_][0-9a-f]{12,}|[0-9a-f]{12,}|\w+-\d{13}-[0-9a-f]{16})\b"
)
"""Ids of runs, questions, change sets, sessions and artifacts."""
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
def paths(scene: Scene) -> list[str]:
    """The pages of the runs of the scene, and one of each kind that links lead to: two values of a filter are one kind."""
    first, *others = (f"/runs/{run}" for run in scene.runs.values())
    found: dict[object, str] = {find_kind(path): path for path in (*PAGES, first)} | dict(
        zip(others, others, strict=True)
    )
    with scene.server.client(scene.server.log_in()) as client:
        pending = list(found.values())
        for path in pending:
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            if not answer.headers["content-type"].startswith("text/html"):
                found = {kind: each for kind, each in found.items() if each != path}
                continue
            for target in Links(answer.text).found:
                if find_kind(target) not in found:
                    found[find_kind(target)] = target
                    pending.append(target)
    return list(found.values())


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


def show_violations(page: Page, source: str) -> list[str]:
    """Return what axe finds on a page."""
    page.evaluate(source)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        f"{each['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_axe_finds_no_violation(pages, paths, npm_modules, shape):
    source = (npm_modules("axe") / "axe-core/axe.min.js").read_text("utf-8")
    page, found = pages.open(**shape), {}
    for path in paths:
        page.goto(path)
        found[path] = show_violations(page, source)
    assert found == {path: [] for path in paths}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_axe_finds_no_violation_in_what_is_shown_before_the_login(pages, scene, npm_modules, shape):
    source = (npm_modules("axe") / "axe-core/axe.min.js").read_text("utf-8")
    page, found = pages.open_context(**shape).new_page(), {}
    paths = ("/login", "/login?code=used", "/static/missing")
    for path in paths:
        page.goto(path)
        found[path] = show_violations(page, source)
    assert found == {path: [] for path in paths}


@pytest.mark.parametrize("shape", [WIDE, NARROW], ids=["wide", "phone"])
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
