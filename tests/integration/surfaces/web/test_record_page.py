"""`/record`: records of a real ledger by filter and page, one in the chain, exports, and verifications."""

import csv
import io
import json
import re
import time
from html import unescape

import pytest
from tests.support.http_api import POLL_S
from tests.support.processes import PATIENCE_S
from tests.support.web import log_in_with_token

from paddock.model.ids import new_id
from paddock.record.ledger.writer import Ledger

HOSTILE = '=cmd|"/c calc"!A1<script>alert(1)</script>\u202e\x1b[31m'
DAY_1, DAY_2 = 1_772_366_400.0, 1_772_452_800.0
"""2026-03-01 and 2026-03-02, 12:00 UTC."""


def find_ledger(place):
    return place.home / ".local/state/paddock/audit"


@pytest.fixture
def ledger(place):
    """Make a ledger of two days: 150 calls of `zora` on the first, three requests of `token:bob` on the second."""
    now = [DAY_1]
    with Ledger(find_ledger(place), clock=lambda: now[0]) as ledger:
        for number in range(150):
            facts = {"actor": "zora", "kind": "server", "name": f"git/tool-{number}", "status": "ok"}
            ledger.append("finished", new_id(now[0]), facts)
        now[0] = DAY_2
        for status, name in (("ok", "python"), ("failed", HOSTILE), ("denied", "rust")):
            facts = {"actor": "token:bob", "kind": "runtime", "name": name, "status": status}
            ledger.append("finished", new_id(now[0]), facts)
    return find_ledger(place)


@pytest.fixture
def owner(place, ledger):
    with place.serve_page() as server, server.client(server.log_in()) as client:
        yield client


def get(client, path, status=200):
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


def list_rows(page):
    """Return the cells of the table of records."""
    [table] = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL) or [""]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [
        [unescape(re.sub(r"<.*?>", "", cell)) for cell in re.findall(r"<td>(.*?)</td>", row, re.DOTALL)]
        for row in rows
    ]


def list_abouts(page):
    return [row[4] for row in list_rows(page)]


def list_ids(page):
    return re.findall(r'href="/record/(\w{26})"', page)


def find_link(page, label):
    """Return the address of a link."""
    found = re.search(rf'href="([^"]*)"[^>]*>{label}</a>', page)
    return None if found is None else unescape(found[1])


def find_csrf(page):
    return re.search(r'name="csrf" value="(\w+)"', page)[1]


def read_exported(client, query):
    answer = client.get(f"/record/export?format=jsonl&{query}")
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_the_newest_records_come_first_and_pages_lead_to_the_oldest(owner):
    first = get(owner, "/record")
    assert [row[:4] for row in list_rows(first)[:4]] == [
        ["2026-03-02 12:00:00", "finished", "denied", "token:bob"],
        ["2026-03-02 12:00:00", "finished", "failed", "token:bob"],
        ["2026-03-02 12:00:00", "finished", "ok", "token:bob"],
        ["2026-03-01 12:00:00", "finished", "ok", "zora"],
    ]
    second = get(owner, find_link(first, "Older"))
    assert len(list_rows(first)) == 100
    assert list_abouts(first)[3:] + list_abouts(second) == [
        f"server git/tool-{n}" for n in reversed(range(150))
    ]
    assert find_link(second, "Older") is None
    assert get(owner, find_link(second, "Newest")) == first


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status=failed", 1),
        ("actor=token:bob", 3),
        ("actor=nobody", 0),
        ("event=started", 0),
        ("tool=tool-7", 1),
        ("tool=git/tool-7&server=git", 1),
        ("since=2026-03-02", 3),
        ("since=2026-03-01&until=2026-03-02", 100),
        ("since=2026-03-02&until=2026-03-02", 3),
        ("until=2026-03-02T00:00", 100),
        ("until=2026-02-28", 0),
        ("until=9999-12-31&since=0001-01-01&status=failed", 1),
    ],
)
def test_filters_are_those_of_audit_tail(owner, query, found):
    assert len(list_rows(get(owner, f"/record?{query}"))) == found


def test_filters_stay_on_the_next_page_and_in_the_form(owner):
    first = get(owner, "/record?actor=zora&since=2026-01-01")
    assert 'name="actor" value="zora"' in first
    older = find_link(first, "Older")
    assert older.startswith("/record?actor=zora&since=2026-01-01&beyond=")
    assert list_abouts(get(owner, older))[-1] == "server git/tool-0"
    assert find_link(first, "CSV") == "/record/export?actor=zora&since=2026-01-01&format=csv"


@pytest.mark.parametrize(
    "query",
    [
        "since=0001-01-01T00:00%2B14:00",
        "until=9999-12-31T23:59-14:00",
        "since=2026-02-30",
    ],
)
def test_a_time_that_cannot_be_is_explained(owner, query):
    assert '<p class="note bad" role="alert">' in get(owner, f"/record?{query}")


def test_a_wrong_time_is_explained(owner):
    text = "since: &#39;&lt;b&gt;&#39; is neither an age like `24h` or `7d` nor a date in ISO 8601."
    assert text in get(owner, "/record?since=%3Cb%3E")
    assert text in get(owner, "/record/export?format=csv&since=%3Cb%3E", 422)
    assert "exported as jsonl or csv, not as &#39;xml&#39;" in get(owner, "/record/export?format=xml", 422)


def test_one_record_shows_its_place_in_the_chain(owner):
    ids = list_ids(get(owner, "/record"))
    newest, second, third = get(owner, f"/record/{ids[0]}"), get(owner, f"/record/{ids[1]}"), ids[2]
    records = read_exported(owner, "")
    assert "It is the last record so far." in newest
    for record in records[-3:]:
        assert record["hash"] in second
    assert "It continues record 151." in second
    assert "Record 153 continues it." in second
    assert f'href="/record/{third}">151</a>' in second
    last = get(owner, f"/record/{records[0]['id']}")
    assert "It is the first record of the chain." in last


def test_the_id_of_a_request_leads_to_its_records(owner):
    record = read_exported(owner, "status=failed")[0]
    answer = owner.get(f"/record/{record['request']}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/record?name={record['request']}")
    assert list_ids(get(owner, answer.headers["location"])) == [record["id"]]
    assert "There is no record of" in get(owner, f"/record/{new_id()}", 404)
    assert "There is no record of" in get(owner, "/record/%22%3E%3Cscript%3E", 404)


def test_hostile_names_are_inert(owner):
    record = read_exported(owner, "status=failed")[0]
    for path in ("/record", f"/record/{record['id']}"):
        page = get(owner, path)
        assert "<script>alert" not in page
        assert not {"\u202e", "\x1b"} & set(page)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e\\x1b[31m" in page


def test_json_lines_are_what_audit_tail_prints(place, owner):
    answer = owner.get("/record/export?format=jsonl")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert re.fullmatch(
        r'attachment; filename="paddock-record-[\dT-]+Z\.jsonl"', answer.headers["content-disposition"]
    )
    printed = place.paddock("audit", "tail", "-n", "1000", "--json")
    assert len(printed) == 153
    assert [json.loads(line) for line in answer.text.splitlines()] == printed
    assert [record["seq"] for record in read_exported(owner, "actor=token:bob")] == [151, 152, 153]


def test_csv_has_no_cell_that_a_spreadsheet_executes(owner):
    answer = owner.get("/record/export?format=csv&status=failed")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    [row] = csv.DictReader(io.StringIO(answer.text))
    [record] = read_exported(owner, "status=failed")
    shown = "'" + HOSTILE.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    assert row == {
        "seq": "152",
        "time": "2026-03-02T12:00:00.000Z",
        "event": "finished",
        "id": record["id"],
        "request": record["request"],
        "parent": "",
        "actor": "token:bob",
        "surface": "",
        "kind": "runtime",
        "name": shown,
        "status": "failed",
        "rule": "",
        "ms": "",
        "facts": json.dumps(record["fields"]),
        "prev": record["prev"],
        "hash": record["hash"],
    }


def wait_for_verdict(client):
    """Return the part of the page with the result of a verification."""
    deadline = time.monotonic() + PATIENCE_S
    while "<dt>Verified at</dt>" not in (part := get(client, "/record/verification")):
        assert time.monotonic() < deadline, part
        time.sleep(POLL_S)
    return part


def test_verify_now_reports_the_end_of_the_chain(place, owner):
    page = get(owner, "/record")
    assert "This server has not verified the ledger yet." in page
    answer = owner.post("/record/verify", data={"csrf": find_csrf(page)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/record")
    part = wait_for_verdict(owner)
    verified = place.paddock("audit", "verify", "--json")
    assert f"record 153, <code>{verified['last_hash']}</code>" in part
    assert f"153 records in {verified['files']} files" in part
    assert "Every record is intact and continues the one before it, without gaps." in part
    assert part.strip() in get(owner, "/record")


def test_a_verification_shows_gaps_and_what_was_written_since(place, owner, ledger):
    file = ledger / "2026-03-01.ndjson"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:9] + lines[10:]))
    owner.post("/record/verify", data={"csrf": find_csrf(get(owner, "/record"))})
    part = wait_for_verdict(owner)
    assert "The ledger was changed, or its disk lost records: 1 problem." in part
    assert "<dt>Read until</dt>" in part
    assert "Verified until" not in part
    assert "<code>2026-03-01.ndjson</code>, line 10, record 10: lacks record 10 before this one" in part
    with Ledger(ledger, clock=lambda: DAY_2) as written:
        written.append("decided", new_id(), {"actor": "zora"})
    assert "record 153," in get(owner, "/record/verification")
    assert "1 written since" in get(owner, "/record/verification")


def test_a_verification_needs_the_token_of_the_form(owner):
    assert owner.post("/record/verify", data={"csrf": "0" * 64}).status_code == 403
    assert owner.get("/record/verify").status_code == 404
    assert "has not verified the ledger yet" in get(owner, "/record")


def test_without_a_ledger_the_page_says_so(place):
    with place.serve_page() as server, server.client(server.log_in()) as client:
        page = get(client, "/record")
        assert "Nothing is recorded yet." in page
        assert read_exported(client, "") == []


def test_another_actor_sees_and_exports_only_its_own_records(place, ledger):
    token = place.make_token("bob")
    with place.serve_api_with_page() as server, server.client(log_in_with_token(server, token)) as bob:
        for query in ("", "?actor=zora", "?status=ok", "?since=2026-01-01"):
            page = get(bob, f"/record{query}")
            assert {row[3] for row in list_rows(page)} == {"token:bob"}
            assert "zora" not in page
            assert "Hash chain" not in page
        assert [each["seq"] for each in read_exported(bob, "actor=zora")] == [151, 152, 153]
        own = read_exported(bob, "")
        table = bob.get("/record/export?format=csv&actor=zora").text
        assert [row["actor"] for row in csv.DictReader(io.StringIO(table))] == ["token:bob"] * 3
        page = get(bob, f"/record/{own[0]['id']}")
        assert "of another actor" in page
        assert "zora" not in page
        assert own[0]["prev"] in page
        with server.client(server.log_in()) as client:
            csrf = find_csrf(get(bob, "/record"))
            [other] = read_exported(client, "tool=tool-149")
        assert "There is no record of" in get(bob, f"/record/{other['id']}", 404)
        assert "There is no record of" in get(bob, f"/record/{other['request']}", 404)
        assert list_rows(get(bob, f"/record?name={other['id']}")) == []
        assert bob.post("/record/verify", data={"csrf": csrf}).status_code == 403
        assert bob.get("/record/verification").status_code == 403
        assert bob.get("/doctor").status_code == 403
        assert bob.get("/doctor/proof").status_code == 403
