"""`/runs` and `/runs/ID` without a browser: what they show of real runs, to whom, and that nothing in them acts."""

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from tests.support.command import run_paddock
from tests.support.processes import PATIENCE_S
from tests.support.web import WebPlace, WebServer

from paddock.model.ids import mint_id
from paddock.record.ledger.writer import Ledger

PNG = "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
SCRIPT = """\
const heard = await servers.odd.echo({ text: "<i>hi</i>" });
console.log("heard", heard);
try { await servers.even.echo({ text: "x" }); } catch (error) { console.log(String(error)); }
const nothing: any = null;
console.log(nothing.member);
"""
PROGRAM = f"""\
import sys
open("plot.png", "wb").write(bytes.fromhex("{PNG}"))
open("shape.svg", "w").write("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
open("page.png", "w").write("<html><script>alert(1)</script></html>")
print("<b>out</b>")
print("err", file=sys.stderr)
"""
SETTINGS = """\
[record]
payloads = "kept"

[[policy.rule]]
effect = "deny"
tool = "even/*"
reason = "even is not for programs"
"""


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.text += " "

    def handle_data(self, data: str) -> None:
        self.text += data


def read(answer: httpx2.Response, status: int = 200) -> str:
    """Return the text of a page, with single spaces."""
    assert answer.status_code == status, answer.text
    return " ".join(Elements(answer.text).text.split())


def run(place: WebPlace, *command: str, status: int = 0) -> str:
    """Run a command and return the id of its run, the newest one."""
    done = run_paddock(place.workspace, *command, environment=place.environment)
    assert done.returncode == status, done.stderr
    newest = place.paddock("audit", "tail", "-n", "1", "--json")
    return newest[0]["request"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> WebPlace:
    place = WebPlace(tmp_path_factory.mktemp("runs"))
    place.settings(SETTINGS)
    return place


@pytest.fixture(scope="module")
def runs(place: WebPlace) -> dict[str, str]:
    """Run one program of each kind; return the ids of the runs by name."""
    (place.workspace / "audit.ts").write_text(SCRIPT)
    (place.workspace / "make.py").write_text(PROGRAM)
    return {
        "script": run(place, "run", "./audit.ts", status=1),
        "program": run(
            place, "exec", "python", "./make.py", "--output", "*", "--output-dir", str(place.home / "out")
        ),
        "refused": run(place, "servers", "call", "even", "echo", '{"text": "x"}', status=1),
        "changing": run(
            place, "exec", "python", "--access", "overlay", "-c", "open('n.txt', 'w').write('1')"
        ),
    }


@pytest.fixture(scope="module")
def web(place: WebPlace, runs: dict[str, str]) -> Iterator[WebServer]:
    with place.serve_page() as server:
        yield server


@pytest.fixture(scope="module")
def owner(web: WebServer) -> Iterator[httpx2.Client]:
    with web.client(web.log_in()) as client:
        yield client


def list_ids(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return re.findall(r'<td><a href="/runs/([0-9A-Z]{26})">', answer.text)


def test_runs_are_listed_newest_first_with_numbers_and_a_table(
    owner: httpx2.Client, runs: dict[str, str]
) -> None:
    answer = owner.get("/runs")
    assert list_ids(answer) == [runs[name] for name in ("changing", "refused", "program", "script")]
    text = read(answer)
    assert "4 runs" not in text
    assert re.search(r"runs 4 median wall time [\d.]+ m?s 95th percentile [\d.]+ m?s", text)
    [table] = re.findall(r'<table id="histogram-table">(.*?)</table>', answer.text, re.DOTALL)
    statuses = re.findall(r'data-status="(\w+)"', table)
    assert statuses == ["ok", "failed", "denied"]
    counts = [int(count) for count in re.findall(r'<td class="number">(\d+)</td>', table)]
    assert [sum(counts[at::3]) for at in range(3)] == [2, 1, 1]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("status=denied", ["refused"]),
        ("name=python", ["changing", "program"]),
        ("name=javascript", ["script"]),
        ("server=odd", ["script"]),
        ("tool=even/echo", ["refused", "script"]),
        ("text=AUDIT.TS", ["script"]),
        ("surface=http", []),
        ("until=1w", []),
        ("since=1h&status=failed", ["script"]),
        ("actor=nobody", []),
    ],
)
def test_a_filter_is_a_link(owner: httpx2.Client, runs: dict[str, str], query: str, names: list[str]) -> None:
    assert list_ids(owner.get(f"/runs?{query}")) == [runs[name] for name in names]


def test_a_last_day_belongs_to_the_period_as_a_whole(owner: httpx2.Client, runs: dict[str, str]) -> None:
    [day, *_] = re.findall(r'<time datetime="([\d-]+)T', owner.get("/runs").text)
    assert list_ids(owner.get(f"/runs?until={day}")) == list_ids(owner.get("/runs"))


def test_a_time_that_cannot_be_read_is_reported_and_matches_nothing(
    owner: httpx2.Client, runs: dict[str, str]
) -> None:
    assert runs
    answer = owner.get("/runs?since=<b>yesterday")
    assert list_ids(answer) == []
    text = read(answer)
    assert "No runs match." in text
    assert "'<b>yesterday' is neither an age like `24h` or `7d` nor a date in ISO 8601." in text


def test_a_failed_script_shows_its_line_console_calls_and_the_rule_that_refused_one(
    owner: httpx2.Client, runs: dict[str, str]
) -> None:
    answer = owner.get(f"/runs/{runs['script']}")
    text = read(answer)
    assert "TypeError: Cannot read properties of null (reading 'member') Line 5" in text
    [mark] = re.findall(r'<mark id="failed">(.*?)</mark>', answer.text, re.DOTALL)
    assert Elements(mark).text.split() == ["5", "console.log(nothing.member);"]
    assert "Console heard <i>hi</i> ToolError: even is not for programs" in text
    [bar] = re.findall(r'<rect class="bad" x="[\d.]+" width="6.0" height="10"/>', answer.text)
    assert bar
    assert "even/echo" in text
    assert "user rule 1 What would allow it The policy in force refuses it by user rule 1" in text
    assert '[[policy.rule]] effect = "deny" tool = "even/*" reason = "even is not for programs"' in text
    assert f"paddock replay {runs['script']}" in text
    assert "Tier landlock" in text
    assert re.search(r"calls 2 1,000", text)


def test_a_program_shows_its_output_and_files_and_sends_them_as_what_they_are(
    owner: httpx2.Client, runs: dict[str, str]
) -> None:
    answer = owner.get(f"/runs/{runs['program']}")
    text = read(answer)
    assert "Standard output 11 B <b>out</b>" in text
    assert "Standard error 4 B err" in text
    assert "paddock exec python FILE --access read-only" in text
    links = re.findall(r'<a href="([^"]+)" download><bdi>([^<]+)</bdi>', answer.text)
    files = {unescape(name): target for target, name in links}
    assert sorted(files) == ["page.png", "plot.png", "shape.svg"]
    images = {attributes["src"] for tag, attributes in Elements(answer.text).found if tag == "img"}
    assert images == {"/static/icon.svg", files["plot.png"]}
    sent = {name: owner.get(target) for name, target in files.items()}
    shown = ("content-type", "content-disposition", "content-security-policy", "x-content-type-options")
    safe = ("default-src 'none'; sandbox", "nosniff")
    assert {name: tuple(each.headers[header] for header in shown) for name, each in sent.items()} == {
        "plot.png": ("image/png", "inline; filename=\"plot.png\"; filename*=UTF-8''plot.png", *safe),
        "page.png": (
            "application/octet-stream",
            "attachment; filename=\"page.png\"; filename*=UTF-8''page.png",
            *safe,
        ),
        "shape.svg": (
            "application/octet-stream",
            "attachment; filename=\"shape.svg\"; filename*=UTF-8''shape.svg",
            *safe,
        ),
    }
    assert sent["plot.png"].content.hex() == PNG
    [saved] = re.findall(r'href="(/runs/[^"]+/stdout)"', answer.text)
    out = owner.get(saved)
    assert (out.text, out.headers["content-type"]) == ("<b>out</b>\n", "text/plain; charset=utf-8")
    assert out.headers["content-disposition"].startswith("attachment; filename=")


def test_a_refused_call_shows_what_would_allow_it_and_used_no_limits(
    owner: httpx2.Client, runs: dict[str, str]
) -> None:
    text = read(owner.get(f"/runs/{runs['refused']}"))
    assert "Decided by user rule 1 What would allow it" in text
    assert "Limits" not in text
    assert "paddock servers call even echo --args @arguments.json" in text


def test_a_run_that_changed_something_links_its_change_set(
    owner: httpx2.Client, runs: dict[str, str]
) -> None:
    answer = owner.get(f"/runs/{runs['changing']}")
    assert re.search(
        r'<a href="/changes/changes-[0-9a-f]{32}">1 added, 0 modified, 0 deleted</a>', answer.text
    )


def test_a_call_and_a_record_lead_to_their_run(
    place: WebPlace, owner: httpx2.Client, runs: dict[str, str]
) -> None:
    records = place.paddock("audit", "show", runs["script"], "--all", "--json")
    ids = {id_ for record in records for id_ in (record["id"], record["request"])}
    assert len(ids) > 4
    for id_ in ids:
        answer = owner.get(f"/runs/{id_}")
        assert f'<code id="run-id">{runs["script"]}</code>' in answer.text
    chain = [(record["seq"], record["hash"], record["prev"]) for record in records]
    text = answer.text
    for seq, hash_, prev in chain:
        assert f'<td class="number">{seq}</td>' in text
        assert f"<code>{hash_}</code>" in text
        assert f'<code class="dim">{prev}</code>' in text


@pytest.mark.parametrize("id_", ["01KJMMA3F8SVA65PS7CYB6X8C2", "x", "%00", "..%2f..", "a" * 5000, "%ff"])
def test_an_unknown_run_is_a_page_that_says_so(owner: httpx2.Client, id_: str) -> None:
    answer = owner.get(f"/runs/{id_}")
    assert answer.status_code == 404
    assert "text/html" in answer.headers["content-type"]


def test_a_file_of_another_run_is_not_sent(owner: httpx2.Client, runs: dict[str, str]) -> None:
    answer = owner.get(f"/runs/{runs['program']}")
    [target] = re.findall(r'<a href="([^"]+)" download><bdi>plot.png', answer.text)
    other = target.replace(runs["program"], runs["script"])
    assert read(owner.get(other), 404).endswith(
        "The run has no such file, or it has expired. Go to the first page Paddock 0.1.0 · you see the runs of all actors"
    )


def test_a_script_without_a_recording_says_how_to_keep_one(tmp_path: Path) -> None:
    place = WebPlace(tmp_path)
    (place.workspace / "one.js").write_text("return 1;")
    id_ = run(place, "run", "./one.js")
    with place.serve_page() as server, server.client(server.log_in()) as client:
        text = read(client.get(f"/runs/{id_}"))
    assert 'paddock.toml of the user or the system: [record] payloads = "kept"' in text
    assert "paddock run one.js" in text


def test_long_lines_and_many_calls_are_cut(tmp_path: Path) -> None:
    place = WebPlace(tmp_path)
    place.settings('[record]\npayloads = "kept"\n')
    (place.workspace / "long.js").write_text(
        "for (let n = 0; n < 150; n++) await servers.odd.echo({ text: String(n) });\n"
        + "// line\n" * 400
        + "console.log('x'.repeat(5e6));\nthrow new Error('at the end');"
    )
    script = run(place, "run", "./long.js", status=1)
    program = run(place, "exec", "python", "-c", "print('y' * 5_000_000)")
    with place.serve_page() as server, server.client(server.log_in()) as client:
        answer = client.get(f"/runs/{script}")
        text = read(answer)
        assert len(answer.content) < 150_000
        assert "Error: at the end Line 403" in text
        assert "300 of 403 lines are shown." in text
        assert "20 of 150 calls are shown." in text
        assert "100 of 150 rows are shown." in text
        assert "x [... 4999700 characters not shown ...] x" in text
        everything = client.get(f"/runs/{script}?all=1")
        assert "are shown." not in read(everything)
        answer = client.get(f"/runs/{program}")
        assert len(answer.content) < 40_000
        [saved] = re.findall(r'href="(/runs/[^"]+/stdout)"', answer.text)
        assert client.get(saved).text == "y" * 5_000_000 + "\n"


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</pre></script><svg/onload=alert(1)>",
    "\u202egnp.exe",
    "\u2066\u2067\u2069\u200b\ufeff",
    "\x1b[31mred\x1b]0;title\x07",
    "&lt;b&gt;&amp;",
    "<!--",
    "]]><x:script/>",
    "\x00\x08\r\n\t",
    "a" * 190,
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx2.Client, list[str]]]:
    """Serve a ledger whose every text is hostile; yield a client and the ids of its runs."""
    place = WebPlace(tmp_path_factory.mktemp("hostile"))
    directory = Path(place.paddock("config", "show", "audit.directory", "--json")["audit.directory"]["value"])
    ids: list[str] = []
    with Ledger(directory) as ledger:
        for text in HOSTILE:
            short = text[:120]
            identity = {"actor": text, "surface": short, "rule": text, "audit_hash": text}
            for kind in ("guest", "runtime", "server", "tool", "sdk", "replay", text):
                run_ = mint_id()
                ids.append(run_)
                facts: dict[str, Any] = {**identity, "kind": kind, "name": text, "profile": text, "cwd": text}
                facts |= {
                    "executable": text,
                    "file": text,
                    "access": text,
                    "network": text,
                    "variables": text,
                }
                facts |= {"hosts": [short], "requirements": [short], "directories": [short], "method": ""}
                facts |= {"source_sha256": text, "against": text, "repeats": text, "action": text}
                ledger.claim(run_, facts)
                call = mint_id()
                called = {**identity, "kind": "server", "name": text, "status": "denied", "flow": short}
                called |= {
                    "reads": [short],
                    "flow_rule": text,
                    "flow_sources": [short],
                    "flow_evidence": [short],
                }
                ledger.append("decided", call, called, parent=run_)
                ledger.append(
                    "looked", mint_id(), {**identity, "kind": "server", "status": text}, parent=run_
                )
                question = {"question": "q", "name": text, **identity}
                ledger.append("asked", mint_id(), question, parent=run_)
                answer = {"question": "q", "answer": text, "answered_by": text, "ms": 1.5}
                ledger.append("answered", mint_id(), answer, parent=run_)
                host = {
                    "host": text,
                    "port": 443,
                    "address": text,
                    "verdict": text,
                    "rule": text,
                    "reason": text,
                }
                ledger.append("connected", mint_id(), {**identity, **host, "sent_bytes": 1}, parent=run_)
                end = {"status": text, "ms": 1.5, "session": text, "changes": text, "changed": [short]}
                end |= {
                    "tier": text,
                    "layers": [short],
                    "labels": [short],
                    "violations": [short],
                    "limit": text,
                }
                end |= {"artifact": text, "recording_sha256": text, "session_state": text, "phase": text}
                ledger.append("finished", run_, {**facts, **end})
    with place.serve_page() as server, server.client(server.log_in()) as client:
        yield client, ids


HIDDEN = {each for text in HOSTILE for each in text if ord(each) < 32 or ord(each) >= 0x200B} - {"\n", "\t"}
"""Characters that must be spelled out."""
ALLOWED_TAGS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "link",
        "body",
        "a",
        "header",
        "img",
        "nav",
        "form",
        "input",
        "span",
        "button",
        "main",
        "footer",
        "script",
        "h1",
        "h2",
        "h3",
        "p",
        "section",
        "dl",
        "dt",
        "dd",
        "code",
        "time",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "svg",
        "rect",
        "details",
        "summary",
        "bdi",
        "pre",
        "ul",
        "li",
        "div",
        "label",
        "select",
        "option",
        "datalist",
        "meter",
        "strong",
        "br",
        "mark",
    ]
)


def check_inert(answer: httpx2.Response) -> None:
    """Fail unless a page has only elements of its templates, without inline script or style."""
    assert answer.status_code == 200, answer.text
    for tag, attributes in Elements(answer.text).found:
        assert tag in ALLOWED_TAGS, (tag, attributes)
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, attributes)
            assert name != "style", (tag, attributes)
            if name in {"href", "src", "action"}:
                assert value is not None
                assert value.startswith(("/", "#", "?")), (tag, attributes)
                assert not value.startswith("//"), (tag, attributes)
        if tag == "script":
            assert str(attributes.get("src", "")).startswith("/static/"), attributes
    shown = Elements(answer.text)
    names = ("title", "alt", "aria-label", "placeholder")
    texts = [shown.text, *(str(attributes.get(name)) for _, attributes in shown.found for name in names)]
    assert HIDDEN & set("".join(texts)) == set()


def test_hostile_texts_are_inert_in_every_field_of_both_pages(
    hostile: tuple[httpx2.Client, list[str]],
) -> None:
    client, ids = hostile
    check_inert(client.get("/runs"))
    for id_ in ids:
        check_inert(client.get(f"/runs/{id_}"))


def test_hostile_texts_are_inert_in_a_filter(hostile: tuple[httpx2.Client, list[str]]) -> None:
    client, _ = hostile
    for text in HOSTILE:
        for name in ("text", "actor", "surface", "name", "server", "tool", "status", "since", "cursor"):
            check_inert(client.get(f"/runs?{name}={quote(text)}"))


def test_a_user_of_a_server_sees_own_runs_and_the_owner_sees_all(tmp_path: Path) -> None:
    place = WebPlace(tmp_path)
    place.settings('[record]\npayloads = "kept"\n')
    tokens = {name: place.make_token(name) for name in ("ada", "bob")}
    with place.serve_api_with_page() as server:
        ids: dict[str, str] = {}
        files: dict[str, str] = {}
        for name, token in tokens.items():
            headers = {"Authorization": f"Bearer {token}"}
            with httpx2.Client(base_url=server.url, headers=headers, timeout=PATIENCE_S) as api:
                body = {
                    "language": "python",
                    "code": f"open('{name}.png', 'wb').write(bytes.fromhex('{PNG}')); print('{name}')",
                }
                outcome = api.post("/v1/executions", json={**body, "outputs": ["*"]}).json()
                ids[name] = outcome["id"]
                files[name] = outcome["program"]["files"][0]["handle"]
                code = {"language": "javascript", "code": f"console.log('secret of {name}')"}
                ids[f"{name}-script"] = api.post("/v1/executions", json=code).json()["id"]
        with server.client() as bob:
            assert bob.post("/login", data={"token": tokens["bob"]}).status_code == 303
            assert set(list_ids(bob.get("/runs"))) == {ids["bob"], ids["bob-script"]}
            assert set(list_ids(bob.get("/runs?actor=token:ada"))) == {ids["bob"], ids["bob-script"]}
            assert list_ids(bob.get(f"/runs?text={ids['ada']}")) == []
            assert "ada" not in read(bob.get("/runs"))
            assert "Standard output 4 B bob" in read(bob.get(f"/runs/{ids['bob']}"))
            assert "secret of bob" in read(bob.get(f"/runs/{ids['bob-script']}"))
            assert bob.get(f"/runs/{ids['bob']}/files/{files['bob']}").content.hex() == PNG
            unknown = bob.get(f"/runs/{mint_id()}")
            for path in (
                ids["ada"],
                ids["ada-script"],
                f"{ids['ada']}/files/{files['ada']}",
                f"{ids['ada']}/output/{files['ada']}/stdout",
            ):
                answer = bob.get(f"/runs/{path}")
                assert answer.status_code == unknown.status_code == 404
                assert "The record has no run" in answer.text
            assert bob.get(f"/runs/{ids['bob']}/files/{files['ada']}").status_code == 404
        with server.client(server.log_in(server.link)) as owner:
            assert set(list_ids(owner.get("/runs"))) == set(ids.values())
            assert list_ids(owner.get("/runs?actor=token:ada")) == [ids["ada-script"], ids["ada"]]
            assert "Standard output 4 B ada" in read(owner.get(f"/runs/{ids['ada']}"))
            assert "secret of ada" in read(owner.get(f"/runs/{ids['ada-script']}"))
            assert owner.get(f"/runs/{ids['ada']}/files/{files['ada']}").content.hex() == PNG


def test_only_the_owner_gets_links_to_change_sets_of_further_directories(tmp_path: Path) -> None:
    place = WebPlace(tmp_path)
    token, run_, changes = place.make_token("bob"), mint_id(), f"changes-{'0' * 32}"
    directory = Path(place.paddock("config", "show", "audit.directory", "--json")["audit.directory"]["value"])
    facts = {"actor": "token:bob", "surface": "http", "kind": "runtime", "name": "python"}
    with Ledger(directory) as ledger:
        ledger.claim(run_, facts)
        ledger.append("finished", run_, {**facts, "status": "ok", "directory_changes": [changes]})
    with place.serve_api_with_page() as server:
        with server.client() as bob:
            assert bob.post("/login", data={"token": token}).status_code == 303
            page = bob.get(f"/runs/{run_}")
            assert f"{changes} of a further directory" in read(page)
            assert f"/changes/{changes}" not in page.text  # it would lead nowhere
        with server.client(server.log_in(server.link)) as owner:
            assert f'href="/changes/{changes}"' in owner.get(f"/runs/{run_}").text
