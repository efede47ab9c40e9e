"""Runs of the ledger: listed, filtered and counted as reading everything would."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.model.errors import LedgerError
from paddock.model.ids import new_id
from paddock.record.ledger import index as ledger_index
from paddock.record.ledger.index import INDEX_FILE_NAME
from paddock.record.ledger.runs import (
    MAX_SLOTS,
    Run,
    RunFilter,
    RunSlot,
    find_run_records,
    list_run_values,
    list_runs,
    summarize_runs,
)
from paddock.record.ledger.writer import Ledger

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Writer:
    """Writes runs a second apart, and knows their ids."""

    def __init__(self, ledger: Ledger, now: list[float]) -> None:
        self.ledger = ledger
        self.now = now

    def start(self, parent: str | None = None, **facts: Any) -> str:
        self.now[0] += 1
        request = new_id(self.now[0])
        known = {"actor": "ada", "surface": "cli" if parent is None else "guest", "rule": "default"}
        self.ledger.claim(request, {**known, **facts}, parent=parent)
        return request

    def end(self, request: str, parent: str | None = None, **facts: Any) -> None:
        self.ledger.append("finished", request, {"status": "ok", "ms": 1000.0, **facts}, parent=parent)

    def refuse(self, parent: str | None = None, **facts: Any) -> str:
        self.now[0] += 1
        request = new_id(self.now[0])
        surface = "cli" if parent is None else "guest"
        known = {"actor": "ada", "surface": surface, "status": "denied", "rule": "user rule 1"}
        self.ledger.append("decided", request, {**known, **facts}, parent=parent)
        return request


@pytest.fixture
def writer(directory: Path) -> Iterator[Writer]:
    now = [NOON.timestamp()]
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        yield Writer(ledger, now)


def ids(directory: Path, **wanted: Any) -> list[str]:
    """Return the ids of the runs that match, newest first, from pages of two."""
    cursor, found = "", list[str]()
    while True:
        page = list_runs(directory, RunFilter(**wanted), count=2, cursor=cursor)
        found += [run.id for run in page.runs]
        if not (cursor := page.next):
            assert summarize_runs(directory, RunFilter(**wanted)).total == len(found)
            return found


def test_a_run_is_a_request_without_a_parent_with_the_facts_of_its_records(
    directory: Path, writer: Writer
) -> None:
    run = writer.start(kind="guest", name="program")
    call = writer.start(run, kind="server", name="git/log")
    writer.end(call, run)
    writer.refuse(run, kind="server", name="git/push")
    usage = {"cpu_ms": 7.5, "peak_bytes": 4096, "calls": 2, "session": "5e5510", "recording_sha256": "a" * 64}
    writer.end(run, actor="ada", **usage)
    assert list_runs(directory, RunFilter(), count=5) == (
        (
            Run(
                id=run,
                started="2026-03-01T12:00:01.000Z",
                ended="2026-03-01T12:00:03.000Z",
                actor="ada",
                surface="cli",
                kind="guest",
                name="program",
                status="ok",
                rule="default",
                ms=1000.0,
                cpu_ms=7.5,
                peak_bytes=4096,
                calls=2,
                denied=1,
                session="5e5510",
                changes="",
                is_recorded=True,
                title="program",
            ),
        ),
        "",
    )


def test_a_refused_run_has_ended_and_one_without_an_end_has_not(directory: Path, writer: Writer) -> None:
    refused = writer.refuse(kind="runtime", name="python")
    lost = writer.start(kind="runtime", name="python")
    runs = list_runs(directory, RunFilter(), count=5).runs
    assert [(run.id, run.status, run.ended, run.ms) for run in runs] == [
        (lost, "unfinished", None, None),
        (refused, "denied", "2026-03-01T12:00:01.000Z", None),
    ]


def test_a_run_that_was_indexed_while_it_ran_gets_its_calls_and_its_end(
    directory: Path, writer: Writer
) -> None:
    run = writer.start(kind="guest", name="program")
    assert ids(directory, status="unfinished") == [run]
    inner = writer.start(run, kind="sdk", name="exec")
    assert ids(directory, tool="git/log") == []
    deep = writer.start(inner, kind="runtime", name="python")
    assert ids(directory) == [run]
    call = writer.start(deep, kind="server", name="git/log")
    assert ids(directory, tool="git/log") == [run]
    writer.refuse(deep, kind="server", name="git/push")
    assert list_runs(directory, RunFilter(), count=1).runs[0].denied == 1
    for request, parent in ((call, deep), (deep, inner), (inner, run)):
        writer.end(request, parent)
    assert ids(directory, status="ok") == []
    writer.end(run)
    assert ids(directory, status="ok") == [run]


@pytest.fixture
def several(writer: Writer) -> dict[str, str]:
    """Write runs of each kind, and return their ids by name, oldest first."""
    found: dict[str, str] = {}
    found["script"] = script = writer.start(kind="guest", name="audit.ts", surface="cli")
    call = writer.start(script, kind="server", name="git/log")
    writer.end(call, script, name="git/log")
    writer.refuse(script, kind="server", name="mail/send")
    writer.end(script, status="failed", session="5e5510", changes="changes-" + "a" * 32)
    found["tool"] = tool = writer.start(kind="tool", name="word_count", surface="mcp", actor="bob")
    writer.end(tool, ms=3000.0)
    found["python"] = python = writer.start(kind="runtime", name="python", surface="http", actor="bob")
    writer.end(python, status="timeout", ms=9000.0)
    found["call"] = call = writer.start(kind="server", name="git/log")
    writer.end(call)
    found["refused"] = writer.refuse(kind="runtime", name="python", actor="bob")
    return found


WANTED: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["refused", "call", "python", "tool", "script"]),
    ({"actor": "bob"}, ["refused", "python", "tool"]),
    ({"actor": "nobody"}, []),
    ({"surface": "http"}, ["python"]),
    ({"name": "python"}, ["refused", "python"]),
    ({"name": "javascript"}, ["script"]),
    ({"name": "audit.ts"}, ["script"]),
    ({"server": "git"}, ["call", "script"]),
    ({"server": "mail"}, ["script"]),
    ({"tool": "log"}, ["call", "script"]),
    ({"tool": "git/log"}, ["call", "script"]),
    ({"tool": "git.log", "status": "failed"}, ["script"]),
    ({"tool": "send", "server": "git"}, []),
    ({"tool": "word_count"}, ["tool"]),
    ({"status": "denied"}, ["refused"]),
    ({"status": "timeout", "actor": "ada"}, []),
    ({"text": "PYTHON"}, ["refused", "python"]),
    ({"text": "send"}, ["script"]),
    ({"text": "5e5510"}, ["script"]),
    ({"text": "changes-" + "a" * 32}, ["script"]),
    ({"text": "%"}, []),
    ({"text": "\ud800"}, []),
    ({"since": NOON + timedelta(seconds=5)}, ["refused", "call", "python"]),
    ({"until": NOON + timedelta(seconds=5)}, ["tool", "script"]),
    ({"since": NOON + timedelta(seconds=4), "until": NOON + timedelta(seconds=6)}, ["python", "tool"]),
]


@pytest.mark.parametrize(("wanted", "names"), WANTED)
def test_runs_are_found_by_what_they_and_their_calls_are(
    directory: Path, several: dict[str, str], wanted: dict[str, Any], names: list[str]
) -> None:
    assert ids(directory, **wanted) == [several[name] for name in names]


def test_a_run_is_found_by_each_id_of_its_records(directory: Path, several: dict[str, str]) -> None:
    script = several["script"]
    records = find_run_records(directory, script, limit=100).records
    assert len(records) == 5
    for id_ in {id_ for record in records for id_ in (record.id, record.request)}:
        assert ids(directory, text=id_) == [script]
        assert find_run_records(directory, id_, limit=100) == (script, records, False)


def test_all_records_of_a_run_are_found_at_any_depth(directory: Path, writer: Writer) -> None:
    run = writer.start(kind="guest", name="program")
    other = writer.start(kind="guest", name="program")
    inner = writer.start(run, kind="sdk", name="exec")
    deep = writer.start(inner, kind="runtime", name="python")
    writer.ledger.append("connected", new_id(), {"host": "example.org"}, parent=deep)
    for request, parent in ((deep, inner), (inner, run), (run, None), (other, None)):
        writer.end(request, parent)
    found = find_run_records(directory, deep, limit=100)
    assert [(record.seq, record.event) for record in found.records] == [
        (1, "started"),
        (3, "started"),
        (4, "started"),
        (5, "connected"),
        (6, "finished"),
        (7, "finished"),
        (8, "finished"),
    ]
    cut = find_run_records(directory, run, limit=3)
    assert (cut.is_cut, len(cut.records)) == (True, 3)
    assert find_run_records(directory, new_id(), limit=100) == ("", (), False)
    assert find_run_records(directory, "", limit=100) == ("", (), False)


def test_the_summary_counts_by_status_over_time(directory: Path, several: dict[str, str]) -> None:
    summary = summarize_runs(directory, RunFilter())
    assert summary._replace(slots=()) == (5, 1000.0, 3000.0, 1000, ())
    assert summary.slots == (
        RunSlot(NOON + timedelta(seconds=1), {"failed": 1}),
        RunSlot(NOON + timedelta(seconds=2), {}),
        RunSlot(NOON + timedelta(seconds=3), {}),
        RunSlot(NOON + timedelta(seconds=4), {"ok": 1}),
        RunSlot(NOON + timedelta(seconds=5), {"timeout": 1}),
        RunSlot(NOON + timedelta(seconds=6), {"ok": 1}),
        RunSlot(NOON + timedelta(seconds=7), {"denied": 1}),
    )
    assert summarize_runs(directory, RunFilter(actor="nobody")) == (0, None, None, 1000, ())


def test_a_filter_offers_the_values_that_occur(directory: Path, several: dict[str, str]) -> None:
    assert list_run_values(directory) == {
        "actor": ["ada", "bob"],
        "surface": ["cli", "http", "mcp"],
        "name": ["audit.ts", "git/log", "python", "word_count"],
        "server": ["git", "mail"],
    }
    assert list_run_values(directory, "bob") == {
        "actor": ["bob"],
        "surface": ["cli", "http", "mcp"],
        "name": ["python", "word_count"],
        "server": [],
    }


def test_without_a_ledger_there_are_no_runs_and_nothing_is_made(directory: Path) -> None:
    assert list_runs(directory, RunFilter(), count=5) == ((), "")
    assert summarize_runs(directory, RunFilter()).total == 0
    assert list_run_values(directory) == {}
    assert find_run_records(directory, new_id(), limit=5) == ("", (), False)
    assert not directory.exists()


def test_a_directory_that_can_have_no_index_is_searched_too(directory: Path, several: dict[str, str]) -> None:
    directory.chmod(0o777)
    assert ids(directory, server="git") == [several["call"], several["script"]]
    assert not (directory / INDEX_FILE_NAME).exists()


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 30, "²", " 1"])
def test_an_unknown_cursor_starts_at_the_newest_run(
    directory: Path, several: dict[str, str], cursor: str
) -> None:
    assert [run.id for run in list_runs(directory, RunFilter(), count=1, cursor=cursor).runs] == [
        several["refused"]
    ]


def test_a_time_without_a_zone_is_refused(directory: Path, several: dict[str, str]) -> None:
    wanted = RunFilter(until=datetime(2026, 3, 2))  # noqa: DTZ001
    with pytest.raises(LedgerError) as caught:
        list_runs(directory, wanted, count=5)
    assert str(caught.value) == (
        "`since` has no time zone, so that its time is not known. Pass an aware datetime."
    )


def test_what_was_changed_in_the_ledger_is_not_shown_as_a_run_of_an_actor(
    directory: Path, several: dict[str, str]
) -> None:
    assert ids(directory, actor="bob") == [several[name] for name in ("refused", "python", "tool")]
    [file] = directory.glob("*.ndjson")
    text = file.read_text()
    facts = file.stat()
    file.write_text(text.replace('"actor":"bob"', '"actor":"eve"'))
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert list_runs(directory, RunFilter(actor="bob"), count=5).runs == ()


def test_a_time_that_cannot_be_read_makes_no_run(
    directory: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.refuse(kind="runtime", name="python")
    monkeypatch.setattr(ledger_index, "_parse_milliseconds", lambda _: 2**53)
    assert summarize_runs(directory, RunFilter()).total == 0


@settings(max_examples=40, deadline=None)
@given(
    runs=st.lists(
        st.tuples(
            st.sampled_from(["ok", "failed", "denied", ""]),
            st.sampled_from(["ada", "bob"]),
            st.lists(st.sampled_from(["git/log", "mail/send", "denied"]), max_size=3),
        ),
        max_size=12,
    ),
    batch=st.integers(200, 2000),
    count=st.integers(1, 5),
    pause_s=st.integers(0, 3_000_000),
)
def test_pages_and_counts_agree_with_what_was_written(
    runs: list[tuple[str, str, list[str]]], batch: int, count: int, pause_s: int
) -> None:
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        directory, now = Path(place) / "ledger", [NOON.timestamp()]
        patch.setattr(ledger_index, "_BATCH_BYTES", batch)
        written: list[tuple[str, str, str, int]] = []
        with Ledger(directory, clock=lambda: now[0]) as ledger:
            writer = Writer(ledger, now)
            for status, actor, calls in runs:
                now[0] += pause_s
                if status == "denied":
                    written.append((writer.refuse(actor=actor), status, actor, 0))
                    continue
                run = writer.start(actor=actor, kind="guest", name="program")
                for call in calls:
                    if call == "denied":
                        writer.refuse(run, kind="server", name="git/push")
                    else:
                        writer.end(writer.start(run, kind="server", name=call), run)
                if status:
                    writer.end(run, actor=actor, status=status)
                written.append((run, status or "unfinished", actor, calls.count("denied")))
        cursor, found = "", list[Run]()
        while True:
            page = list_runs(directory, RunFilter(), count=count, cursor=cursor)
            found += page.runs
            assert len(page.runs) == count or not page.next
            if not (cursor := page.next):
                break
        assert [(run.id, run.status, run.actor, run.denied) for run in found] == written[::-1]
        for actor in ("ada", "bob"):
            own = [run for run in written if run[2] == actor]
            assert summarize_runs(directory, RunFilter(actor=actor)).total == len(own)
        slots = summarize_runs(directory, RunFilter()).slots
        assert len(slots) <= MAX_SLOTS
        counted = [status for slot in slots for status, number in slot.counts.items() for _ in range(number)]
        assert sorted(counted) == sorted(status for _, status, _, _ in written)
