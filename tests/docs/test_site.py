"""The site can be built, read without a network, and found one's way about in."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, built as `make docs` builds them but in another place."""
    place = tmp_path_factory.mktemp("docs")
    shutil.copytree(DOCS, place / "docs")
    for name in ("zensical.toml", "SECURITY.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, place)
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=place,
        env={"PATH": os.environ["PATH"], "HOME": str(place), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "build" / "site"


class Page(HTMLParser):
    """What a page loads, where it links to, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id"))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(given["href"])
        elif tag in ("script", "img", "iframe") and given.get("src"):
            self.loads.append(given["src"])


def test_pages_load_nothing_from_elsewhere_and_their_links_resolve(site):
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    assert len(pages) > 30
    broken, foreign = [], []
    for path, page in pages.items():
        foreign += [f"{path.name}: {url}" for url in page.loads if urlsplit(url).netloc]
        for url in (*page.links, *page.loads):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            lost = not target.exists() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids
            )
            if lost:
                broken.append(f"{path.name}: {url}")
    assert (broken, foreign) == ([], [])


def test_what_language_models_are_told_of_is_there(site):
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\): .+", (site / "llms.txt").read_text(), re.MULTILINE)
    assert len(links) > 20
    assert [link for link in links if not (site / link).is_file()] == []


def navigated(entries):
    for entry in entries:
        for below in entry.values():
            yield from [below] if isinstance(below, str) else navigated(below)


def test_every_page_is_in_the_navigation():
    listed = set(navigated(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    pages = {path.name for path in DOCS.glob("*.md")} | {"adr/README.md", "spec/cases.md"}
    assert pages - listed == set(), (
        "add the page to `nav` of zensical.toml, then run `python scripts/reference.py`"
    )
    assert listed - pages == set()


def test_every_decision_is_in_the_list():
    records = {path.name for path in (DOCS / "adr").glob("[0-9]*.md")}
    listed = re.findall(r"\]\((\d{4}-[^)]+\.md)\)", (DOCS / "adr" / "README.md").read_text())
    assert set(listed) == records, "add the record to docs/adr/README.md"
    assert listed == sorted(listed)


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_a_page_begins_with_its_title(path):
    text = re.sub(r"\A<!--.*?-->\n", "", path.read_text(), flags=re.DOTALL)
    if included := re.match(r'--8<-- "(.+)"', text):
        text = (ROOT / included[1]).read_text()
    assert re.match(r"# \S", text)
    assert len(re.findall(r"^# ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)) == 1
