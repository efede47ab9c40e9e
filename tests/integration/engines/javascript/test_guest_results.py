"""Results over their limit: nothing stands in their place, and the whole is stored."""

import json
from pathlib import Path

import pytest
from tests.support.session import SessionRunner

from paddock.model.errors import UnknownArtifact
from paddock.model.limits import MIB, LimitOverrides
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.schema import ArtifactSettings, AuditSettings, LimitSettings, Settings
from paddock.record.ledger.read import read
from paddock.record.output.query import OpenArtifact, read_bytes

ROWS = "return Array.from({ length: 9 }, (_, id) => ({ id }))"


def stored(session, handle, stream="stdout"):
    """Return a stored stream as a text."""
    reading = OpenArtifact(session.output.artifacts(), handle, None)
    return read_bytes(reading, stream, 0, 1 << 30).decode()


@pytest.fixture
def large(guest):
    """Return the outcome of a program whose result is over its limit, and what is stored of it."""

    def run(source, **options):
        outcome = guest.run(source, **options)
        assert (outcome.status, outcome.has_value, outcome.value) == ("output_limit", False, None)
        return outcome, outcome.artifact and stored(guest.session, outcome.artifact)

    return run


def test_a_list_is_stored_in_lines_and_never_becomes_a_text(large):
    outcome, text = large(ROWS, result_bytes=40)
    assert outcome.error.message == (
        "The result has 82 characters as JSON, and limits.execute.result_bytes is 40"
    )
    assert outcome.error.hint == (
        f"Return less of it, or read it with: paddock output show {outcome.artifact}"
    )
    assert (outcome.error.name, outcome.error.phase, outcome.error.line) == ("OutputLimit", "run", None)
    assert text == json.dumps([{"id": number} for number in range(9)], indent=1)


def test_the_limit_itself_is_a_result(guest):
    assert guest.value("return 'x'.repeat(8)", result_bytes=10) == "x" * 8
    assert guest.run("return 'x'.repeat(9)", result_bytes=10).status == "output_limit"


def test_a_text_is_stored_as_it_is(large):
    assert large("return 'a\"\\n€\\u{1f600}\\ud800'.repeat(3)", result_bytes=5)[1] == 'a"\n€😀?' * 3


@pytest.mark.parametrize("unit", ["x", "€", "😀", "\\0", "a😀"])
def test_a_large_text_arrives_whole(large, unit):
    outcome, text = large(f"return '{unit}'.repeat(5_300_000)", result_bytes=1000)
    whole = unit.replace("\\0", "\0") * 5_300_000
    assert (outcome.artifact is None) is (len(whole.encode()) > 50 * MIB)
    assert (text or whole) == whole


def test_a_result_that_no_message_holds_names_that_bound(large):
    outcome, text = large("return '€'.repeat(7 * 1024 * 1024)")
    told = "The result has 7340034 characters as JSON, and limits.execute.frame_bytes, which holds for its UTF-8, is 16777216"
    assert (outcome.error.message, text) == (told, "€" * 7_340_032)


def test_numbers_by_the_million(large):
    assert json.loads(large("return Array.from({ length: 2e6 }, (_, i) => i)")[1]) == [*range(2_000_000)]


def test_the_console_is_stored_beside_it(guest):
    outcome = guest.run(f"console.log('a'); console.warn('b'); {ROWS}", result_bytes=40)
    assert stored(guest.session, outcome.artifact, "stderr") == "a\n[warn] b\n"
    assert [line.text for line in outcome.console] == ["a", "b"]


def test_secrets_are_not_stored(guest):
    key, token = "sk-" + "a" * 30, "ghp_" + "b" * 36
    source = f"console.log('{token}'); return [{{ key: '{key}', password: 'hunter2' }}, 'x'.repeat(99)]"
    outcome = guest.run(source, result_bytes=40)
    kept = stored(guest.session, outcome.artifact) + stored(guest.session, outcome.artifact, "stderr")
    assert [secret for secret in (key, token, "hunter2") if secret in kept] == []
    assert '"password": "[REDACTED:secret]"' in kept


def test_what_is_too_large_to_be_read_again_is_not_stored(large):
    outcome, text = large("return 'x'.repeat(55e6)")
    assert (outcome.artifact, text) == (None, None)
    assert outcome.error.hint == (
        "Return less of it: it is not stored, because it is larger than artifacts.max_read_bytes"
    )


def test_bytes_beyond_what_can_be_read_are_not_stored(large):
    outcome, _ = large("return '€'.repeat(20 * 1024 * 1024)")
    assert (outcome.artifact, outcome.error.hint) == (
        None,
        "Return less of it: output is not kept: it is larger than artifacts.max_read_bytes = 52428800",
    )


def test_a_gigabyte_ends_at_a_limit_and_costs_the_parent_nothing(guest):
    outcome = guest.run("const a = 'x'.repeat(1 << 28); return [a, a, a, a]")
    assert (outcome.status in {"memory_limit", "failed"}, outcome.has_value) == (True, False)
    assert outcome.artifact is None
    assert guest.value("return 1") == 1


HOSTILE = {
    "a toJSON that changes its mind": "let n = 0; return { toJSON: () => n++ ? 'short' : 'x'.repeat(99) }",
    "a toJSON that throws the second time": "let n = 0; return { toJSON() { if (n++) throw 1; return 'x'.repeat(99) } }",
    "a toJSON that gives nothing the second time": "let n = 0; return { toJSON: () => n++ ? undefined : 'x'.repeat(99) }",
    "a larger text the second time": "let n = 0; return { toJSON: () => 'x'.repeat(n++ ? 60e6 : 99) }",
    "slice replaced": "String.prototype.slice = () => { throw 1 }; return 'x'.repeat(99)",
    "stringify replaced": "JSON.stringify = () => 'y'; return 'x'.repeat(99)",
    "an error in a timer": "setTimeout(() => { throw new Error('late') }, 0); return 'x'.repeat(99)",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_result_fools_its_author_alone(large, guest, source):
    outcome, text = large(source, result_bytes=40)
    assert text in {"x" * 99, '"' + "x" * 99 + '"', '"short"'}
    assert outcome.error.name == "OutputLimit"
    assert guest.value("return 1") == 1


def test_a_second_writing_that_never_ends_ends_at_the_wall_limit(guest):
    source = "let n = 0; return { toJSON() { if (n++) for (;;); return 'x'.repeat(99) } }"
    outcome = guest.run(source, result_bytes=40, timeout_ms=500)
    assert (outcome.status, outcome.artifact) == ("timeout", None)


def test_a_call_that_was_not_awaited_is_told_first(guest):
    outcome = guest.run("servers.odd.call('hang'); return 'x'.repeat(99)", result_bytes=40)
    assert (outcome.error.name, outcome.artifact) == ("UnawaitedCall", None)


def test_a_program_learns_the_handle_of_what_its_script_returned(guest):
    scripts = guest.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    (scripts / "oversized.js").write_text("return Array.from({ length: 1100000 }, (_, i) => i + 1e6)")
    source = (
        "try { await paddock.script.run('oversized') } catch (e) {"
        " const found = await paddock.output.query(e.artifact, { lines:"
        " [2, 3] });"
        " return [e.status, e.message, found.excerpts[0].content] }"
    )
    told = "The result has 8800001 characters as JSON, and limits.execute.result_bytes is 8000000"
    settings = Settings(
        limits=LimitSettings.model_validate({"execute": {"result_bytes": 8_000_000}}),
        audit=AuditSettings(directory=guest.workspace / "audit"),
        artifacts=ArtifactSettings(directory=guest.workspace / "artifacts"),
    )
    outcome = run(settings, guest.workspace, GuestRun(source=source))[0]
    assert (outcome.error, outcome.value) == (None, ["output_limit", told, " 1000000,\n 1000001,"])


def run(settings: Settings, workspace: Path, work: GuestRun, **limits: int):
    """Return the outcome of a program in a session of its own, and the handles that are stored then."""

    with SessionRunner(workspace) as opened:
        session = opened.start(settings)
        request = ExecutionRequest(workspace=workspace, work=work, limits=LimitOverrides(**limits))
        outcome = opened.execute(request)
        return outcome, [str(handle) for handle in session.output.artifacts().list()]


@pytest.fixture
def own(tmp_path):
    return Settings(
        audit=AuditSettings(directory=tmp_path / "audit"),
        artifacts=ArtifactSettings(directory=tmp_path / "artifacts"),
    )


def test_where_nothing_is_kept_nothing_is_stored(own, tmp_path):
    settings = own.replace(artifacts=own.artifacts.replace(enabled=False))
    outcome, handles = run(settings, tmp_path, GuestRun(source=ROWS), result_bytes=40)
    assert (outcome.status, outcome.artifact, handles) == ("output_limit", None, [])
    assert outcome.error.hint == "Return less of it: it is not stored, because artifacts.enabled is false"


def test_the_record_names_what_is_stored(own, tmp_path):
    outcome, handles = run(own, tmp_path, GuestRun(source=ROWS), result_bytes=40)
    assert handles == [outcome.artifact]
    records = [*read(tmp_path / "audit", newest_first=False)]
    assert [(record.event, record.fields.get("artifact")) for record in records] == [
        ("started", None),
        ("finished", outcome.artifact),
    ]


def test_it_belongs_to_its_workspace(guest, tmp_path):
    outcome = guest.run(ROWS, result_bytes=40)
    artifacts = guest.session.output.artifacts()
    with pytest.raises(UnknownArtifact):
        artifacts.find(outcome.artifact, tmp_path)
    manifest = artifacts.find(outcome.artifact, guest.workspace).manifest
    assert (manifest.runtime, manifest.status, manifest.request) == ("javascript", "output_limit", outcome.id)
