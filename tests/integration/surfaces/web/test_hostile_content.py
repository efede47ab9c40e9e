"""What programs, servers and files say is text on every page: it adds no element, no attribute and no address.

Two places have the same runs, one with hostile strings and one with the same strings without their punctuation. Every
page of the first one has only elements, attributes and kinds of addresses that pages of the second one have.
"""

import csv
import io
import re
import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode, urljoin, urlsplit

import httpx2
import pytest
from tests.support.hostile_strings import BYTES, FILES, HOSTILE, SURROGATES, list_file_names
from tests.support.page_parts import Address, PageParts, find_hidden
from tests.support.web import PAGES, WebPlace
from tests.support.web_seeds import Seeds, seed

WORDS = [*HOSTILE.values(), *SURROGATES.values()]
MAX_PAGE_BYTES = 400_000
MAX_PAGES = 30
"""Maximum number of pages of one kind that a test visits."""
RASTER = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"}
INERT_TYPES = RASTER | {
    "application/octet-stream",
    "text/plain; charset=utf-8",
    "application/x-ndjson",
    "text/csv; charset=utf-8",
}


class Seeded(NamedTuple):
    """A place, and somebody who looks at its pages."""

    seeds: Seeds
    client: httpx2.Client

    def get(self, path: str) -> PageParts:
        return read_page(self.client.get(path))


def read_page(answer: httpx2.Response) -> PageParts:
    """Return the parts of a page, which must be harmless."""
    where = str(answer.request.url)[:300]
    assert answer.status_code < 500, (where, answer.text[:500])
    assert answer.headers["content-type"] == "text/html; charset=utf-8", where
    assert len(answer.content) <= MAX_PAGE_BYTES, (where, len(answer.content))
    parts = PageParts(answer.content.decode())
    assert list(parts.list_faults()) == [], where
    return parts


@contextmanager
def open_seeded(root: Path, *seeded: object) -> Iterator[Seeded]:
    with seed(WebPlace(root), *seeded) as seeds, seeds.server.client(seeds.server.log_in()) as client:
        [csrf] = set(re.findall(r'name="csrf" value="(\w+)"', client.get("/").text))
        client.post("/servers/broken", data={"csrf": csrf, "action": "connect"})
        yield Seeded(seeds, client)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    with open_seeded(root, WORDS, [*list_file_names()], [*BYTES.values()], FILES) as seeded:
        yield seeded


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The same without what has a meaning in HTML, JSON, addresses or shells."""
    words = [make_plain(word) for number, word in enumerate(WORDS) if number % 3 == 0 or len(word) > 1000]
    names = [
        f"{number}{make_plain(name)}" for number, name in enumerate(list_file_names()) if number % 2 == 0
    ]
    data = [each.translate(PLAIN_BYTES) for each in BYTES.values()]
    files = {name: each.translate(PLAIN_BYTES) for name, each in FILES.items()}
    with open_seeded(tmp_path_factory.mktemp("plain"), words, names, data, files) as seeded:
        yield seeded


PLAIN_BYTES = bytes.maketrans(string.punctuation.encode(), b"x" * len(string.punctuation))


def make_plain(text: str) -> str:
    """Return a text of the same length, with letters in place of punctuation."""
    return text.translate(dict.fromkeys(map(ord, string.punctuation), "x"))


def list_paths(seeded: Seeded, root: str) -> list[str]:
    """Return a page and what it leads to, as far as it belongs to the page."""
    waiting, seen, counts = [root], {root}, dict[Address, int]()
    while waiting:
        path = waiting.pop(0)
        yield path
        answer = seeded.client.get(path)
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        parts = PageParts(answer.text)
        for link in sorted(parts.links):
            target = urljoin(path, link).partition("#")[0]
            kind = Address("", re.sub(r"[0-9A-Za-z%_.~-]{16,}", "*", urlsplit(target).path), 0, ())
            same = urlsplit(target).path.split("/")[1] == root.split("/")[1]
            ends = not target.endswith("/events")  # `read_event` reads those
            if (
                same
                and ends
                and target not in seen
                and counts.get(kind, 0) < MAX_PAGES
                and "verify" not in target
            ):
                counts[kind] = counts.get(kind, 0) + 1
                seen.add(target)
                waiting.append(target)


def read_event(client: httpx2.Client, path: str) -> PageParts:
    """Return the parts of the first event of a live page, which must be one event."""
    lines: list[str] = []
    with client.stream("GET", path) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        read = iter(re.split(r"\r\n|\r|\n", read_first_event(answer)))
        fields = [line.partition(": ") for line in read if line]
    assert [name for name, _, _ in fields[:2]] == ["retry", "event"]
    assert {name for name, _, _ in fields[2:]} <= {"data"}
    lines = [value for _, _, value in fields[2:]]
    parts = PageParts("\n".join(lines))
    assert list(parts.list_faults()) == []
    return parts


def read_first_event(answer: httpx2.Response) -> str:
    """Return the beginning of a stream until the end of its first event, which a parser of events would find."""
    text = ""
    for piece in answer.iter_text():
        text += piece
        if len(re.findall(r"(?:\r\n|\r|\n){2}", text)) >= 2:
            break
    return text


class Collected(NamedTuple):
    """What the pages below one page have."""

    elements: set[tuple[str, tuple[str, ...]]]
    addresses: set[Address]
    pages: int


def collect(seeded: Seeded, root: str) -> Collected:
    elements: set[tuple[str, tuple[str, ...]]] = set()
    addresses: set[Address] = set()
    count = 0
    for path in list_paths(seeded, root):
        answer = seeded.client.get(path)
        if answer.status_code in {204, 303}:
            continue
        count += 1
        if answer.headers["content-type"].startswith("text/html"):
            parts = read_page(answer)
            elements |= parts.elements
            addresses |= parts.addresses
        else:
            check_inert(answer)
    return Collected(elements, addresses, count)


def check_inert(answer: httpx2.Response) -> None:
    """Check that a browser only saves an answer, or shows it as a picture."""
    kind, headers = answer.headers["content-type"], answer.headers
    assert kind in INERT_TYPES, answer.request.url
    assert headers["x-content-type-options"] == "nosniff"
    assert kind in RASTER or headers["content-disposition"].startswith("attachment;")
    assert headers["content-disposition"].isascii()
    if "/files/" in answer.request.url.path or "/output/" in answer.request.url.path:
        assert headers["content-security-policy"] == "default-src 'none'; sandbox"


@pytest.mark.parametrize("root", [*PAGES, "/now"])
def test_no_page_has_more_than_the_same_page_with_plain_words(hostile, plain, root):
    first = f"/now/{hostile.seeds.runs['live']}" if root == "/now" else root
    second = f"/now/{plain.seeds.runs['live']}" if root == "/now" else root
    found, expected = collect(hostile, first), collect(plain, second)
    assert found.elements - expected.elements == set()
    assert found.addresses - expected.addresses == set()
    assert found.pages >= 1


def test_the_pages_of_all_runs_are_harmless(hostile, plain):
    expected = set[tuple[str, tuple[str, ...]]]()
    for id_ in plain.seeds.runs.values():
        expected |= plain.get(f"/runs/{id_}?all=1").elements
    for name, id_ in hostile.seeds.runs.items():
        assert hostile.get(f"/runs/{id_}?all=1").elements - expected == set(), name


def find_run(seeded: Seeded, name: str) -> str:
    return f"/runs/{seeded.seeds.runs[name]}"


SCRIPT = HOSTILE["script"]
SHOWN = {
    "the source of a program": (lambda seeded: find_run(seeded, "program0"), f'const word = "{SCRIPT}";'),
    "the message of an error": (lambda seeded: find_run(seeded, "program0"), f"{SCRIPT}: {SCRIPT}"),
    "the arguments of a call": (lambda seeded: find_run(seeded, "program0"), f'"{SCRIPT}": [\n'),
    "a result": (lambda seeded: find_run(seeded, "result"), f'    "{SCRIPT}",\n'),
    "printed text": (lambda seeded: find_run(seeded, "printed"), f"\n{HOSTILE['script-source']}\n"),
    "a long line": (lambda seeded: find_run(seeded, "long"), SCRIPT * 10),
    "the name of a tool that does not exist": (lambda _: f"/runs?tool={quote(SCRIPT)}", f"words/{SCRIPT}"),
    "the description of a tool": (lambda _: "/servers/words", f"/** {SCRIPT} */"),
    "the name of a tool": (lambda _: "/servers/words?from=200", HOSTILE["svg-load"]),
    "the error of a server": (lambda _: "/servers/broken", HOSTILE["script"]),
}
"""Where a string must be readable: a page that leaves it out would show nothing hostile."""


@pytest.mark.parametrize("what", [*SHOWN])
def test_strings_are_shown_as_they_are(hostile, what):
    path, text = SHOWN[what]
    assert text in hostile.get(path(hostile)).text


def test_control_characters_are_spelled(hostile):
    names = [*HOSTILE]
    pages = (
        hostile.get(find_run(hostile, f"program{names.index(name)}")).text
        for name in ("terminal-colour", "bidi-override")
    )
    text = "".join(pages)
    assert "\\x1b[31mred\\x1b[0m" in text
    assert "invoice\\u202efdp.exe" in text


def test_events_of_live_pages_have_only_the_elements_of_their_page(hostile):
    for page, events in (("/", "/now/events"), (f"/now/{hostile.seeds.runs['live']}", "/events")):
        path = events if page == "/" else page + events
        shown, event = hostile.get(page), read_event(hostile.client, path)
        assert event.elements - shown.elements == set()
        assert SCRIPT in event.text


@pytest.mark.parametrize("page", PAGES)
def test_filters_and_forms_show_what_was_typed_as_text(hostile, plain, page):
    forms = [
        (form.get("action") or page, names)
        for form, names in hostile.get(page).forms
        if form.get("method") != "post"
    ]
    for action, names in forms:
        expected = set[tuple[str, tuple[str, ...]]]()
        for word in ("", "plain", "ok", "2026-01-01"):
            expected |= plain.get(f"{action}?{urlencode(dict.fromkeys(names, word))}").elements
            for name in names:
                expected |= plain.get(f"{action}?{urlencode({name: word})}").elements
        for number, word in enumerate(HOSTILE.values()):
            chosen = names if number % 20 == 0 else [names[number % len(names)]]
            query = urlencode(dict.fromkeys(chosen, word[:2000]), errors="replace")
            assert hostile.get(f"{action}?{query}").elements - expected == set(), (action, chosen, word)


@pytest.mark.parametrize("page", [*PAGES, "/login"])
def test_parameters_that_a_page_does_not_know_are_ignored(hostile, page):
    for name in ("code", "cursor", "beyond", "from", "all", "tool", "id", "done", "path", "format", "page"):
        for word in (SCRIPT, HOSTILE["quote-double-end"], "-1", "9" * 30, "\0", "\u0661"):
            read_page(hostile.client.get(page, params={name: word}))


@pytest.mark.parametrize("page", [each for each in PAGES if each != "/"])
def test_paths_that_do_not_exist_are_shown_as_text(hostile, page):
    for word in HOSTILE.values():
        if word and word not in {".", ".."}:
            answer = hostile.client.get(f"{page}/{quote(word[:1000], safe='')}", follow_redirects=True)
            parts = read_page(answer)
            assert answer.status_code in {200, 404, 405}, word
            assert {tag for tag, _ in parts.elements} & {"svg", "iframe", "object", "embed", "base"} <= {
                "svg"
            }


def test_an_exported_record_is_no_formula(hostile):
    answer = hostile.client.get("/record/export?format=csv")
    check_inert(answer)
    cells = {cell for row in csv.reader(io.StringIO(answer.text)) for cell in row}
    assert [
        cell for cell in cells if re.match(r"[=+\-@\t\r\uff1d]", cell) and not cell.lstrip("-").isdecimal()
    ] == []
    assert [cell for cell in cells if find_hidden(cell)] == []


@pytest.mark.parametrize("name", [*FILES])
def test_stored_files_are_saved_and_never_carried_out(hostile, name):
    parts = hostile.get(find_run(hostile, "files"))
    links = [link for link in parts.links if "/files/" in link]
    assert len(links) == len(FILES)
    for link in links:
        check_inert(hostile.client.get(link))
    assert name in parts.text
