"""Recordings that were changed or exchanged, that are another's, that are too large, or that hold secrets."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.recordings import RecordingRunner, make_settings
from tests.support.servers import make_entry, write_servers

from paddock.engines.javascript.frames import ServerCallFrame
from paddock.gate.replay.replies import RunReplies
from paddock.model.errors import RecordingError
from paddock.record.payloads.recorded_run import (
    RecordedCall,
    RecordedProgram,
    RecordedRun,
    RecordedStart,
    read_run,
    write_run,
)

CHANGED = "the recording of {} is not the one that the ledger names: its file was changed or exchanged"
FAR_FUTURE = "7" + "Z" * 25
"""An id that was made after the last year that Python knows."""
SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingRunner]:
    """A session with the server `odd`, which keeps recordings of at most 4 MiB."""
    workspace = tmp_path_factory.mktemp("workspace")
    write_servers(workspace, {"odd": make_entry("odd")})
    with RecordingRunner(workspace) as made:
        made.start(make_settings(tmp_path_factory.mktemp("own"), payload_bytes=4 * 1024 * 1024))
        yield made


def find_message(runner: RecordingRunner, run: str, **fields: object) -> str:
    """Return why a run cannot be repeated."""
    outcome = runner.replay(run, **fields)
    assert (outcome.status, outcome.error.name) == ("invalid", "RecordingError")
    return outcome.error.message


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data[:-1],
        lambda data: data[:20],
        lambda data: data + b"x",
        lambda data: data[:0],
    ],
    ids=["changed", "cut", "cut to its head", "longer", "empty"],
)
def test_a_file_that_was_changed_is_refused(runner, change):
    run = runner.record("return 1").id
    file = runner.find_file(run)
    file.write_bytes(change(file.read_bytes()))
    assert find_message(runner, run) == CHANGED.format(run)


def test_recordings_that_were_exchanged_are_refused(runner):
    one, other = runner.record("return 1").id, runner.record("return 2").id
    files = runner.find_file(one), runner.find_file(other)
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, reversed(contents), strict=True):
        file.write_bytes(content)
    assert [find_message(runner, run) for run in (one, other)] == [CHANGED.format(one), CHANGED.format(other)]


def test_a_recording_cannot_be_decrypted_as_that_of_another_run(runner):
    """Whoever could also write the ledger's record would still need the key."""
    store = runner.session.gate.recordings._store
    one, other = runner.record("return 1"), runner.record("return 2").id
    store._locate(other).write_bytes(store._locate(one.id).read_bytes())
    with pytest.raises(RecordingError) as caught:
        store.read(other, one.recording)
    assert str(caught.value) == (
        f"the recording of {other} cannot be decrypted: the vault has another key than when it was made"
    )


def test_a_link_in_place_of_a_recording_is_refused(runner, tmp_path):
    run = runner.record("return 1").id
    file = runner.find_file(run)
    moved = file.rename(tmp_path / "moved")
    file.symlink_to(moved)
    assert find_message(runner, run).startswith("the recording cannot be read: ")


def test_a_deleted_recording_says_so(runner):
    run = runner.record("return 1").id
    runner.find_file(run).unlink()
    expected = f"the recording of {run} is gone: it was deleted, or is older than record.payload_days"
    assert find_message(runner, run) == expected


@pytest.mark.parametrize("surface", ["mcp", "http", "library"])
def test_the_run_of_another_actor_is_refused(runner, surface):
    run = runner.record("return 1", actor="mallory").id
    expected = f"the run {run} is of another actor; at the command line, name it: --actor NAME"
    assert find_message(runner, run, surface=surface) == expected
    told = "the run is of another actor; only a person at the command line may repeat it"
    assert find_message(runner, run, surface=surface, owner="mallory") == told


def test_a_person_at_the_command_line_may_name_another_actor(runner):
    run = runner.record("return 1", actor="claude").id
    assert runner.compare(run, surface="cli", owner="claude")["same"]
    expected = f"the run {run} is of another actor; at the command line, name it: --actor NAME"
    assert find_message(runner, run, surface="cli", owner="codex") == expected


def test_the_run_of_another_workspace_is_refused(runner, tmp_path):
    run = runner.record("return 1").id
    expected = f"the run {run} is of another workspace; repeat it with --workspace {runner.workspace}"
    assert find_message(runner, run, workspace=tmp_path) == expected


@pytest.mark.parametrize("run", ["x", "../../etc/passwd", "01M8NR47Y9DT8NR7SEZ43N3DK", "\N{SNOWMAN}"])
def test_a_name_that_is_no_id_is_refused(runner, run):
    expected = f"{run!r} is not the id of a run; `paddock record list` lists the recorded runs"
    assert find_message(runner, run) == expected


@pytest.mark.parametrize("run", ["01JD3W0ZV6N4YQ1R2X5T7B8C9D", FAR_FUTURE, "0" * 26])
def test_a_run_that_the_ledger_does_not_know_is_refused(runner, run):
    assert find_message(runner, run) == f"the ledger has no intact record of the end of {run}"


@pytest.mark.parametrize(
    ("source", "given"),
    [
        ("return (await servers.odd.echo({ text: 'y'.repeat(5e6) })).length", None),
        (
            "for (let n = 0; n < 9; n++) await servers.odd.echo({ text: `${n}`.repeat(5e5) }); return true",
            None,
        ),
        ("return input.length", "z" * 5_000_000),
    ],
    ids=["arguments", "all calls together", "input"],
)
def test_a_run_that_is_too_large_is_not_recorded_and_says_so(runner, source, given):
    outcome = runner.record(source, given)
    assert (outcome.status, outcome.error, outcome.recording) == ("ok", None, None)
    assert [line.text for line in outcome.console] == [
        "this run was not recorded: its recording would have more than record.payload_bytes = 4194304 bytes"
    ]
    assert not runner.find_file(outcome.id).exists()


def test_a_recording_that_unpacks_to_more_than_its_limit_is_refused(runner):
    store = runner.session.gate.recordings._store
    run = runner.record("return 1").id
    sha256 = store.write(run, " " * 100_000)
    assert store.read(run, sha256) == " " * 100_000
    small = type(store)(store._settings.model_copy(update={"payload_bytes": 1024}), store._find_key)
    with pytest.raises(RecordingError) as caught:
        small.read(run, sha256)
    assert str(caught.value) == f"the recording of {run} is larger than record.payload_bytes = 1024"


def test_no_secret_is_in_a_recording(runner):
    source = f"""
    const token = "{SECRET}";
    console.log("with", token);
    const said = await servers.odd.echo({{ text: `token ${{input.token}}` }});
    for (const called of [servers.odd[input.token], servers[input.token].echo]) await called({{}}).catch(() => 0);
    return {{ said, same: said.includes(token), list: [input.token] }};
    """
    outcome = runner.record(source, {"token": SECRET})
    store = runner.session.gate.recordings._store
    text = store.read(outcome.id, outcome.recording)
    recorded = read_run(text)
    assert SECRET not in text
    assert SECRET.encode() not in runner.find_file(outcome.id).read_bytes()
    of_calls = ["1: arguments", "1: result", "2: name", "2: result", "3: name", "3: result"]
    parts = ["source", "input", "console", "value"]
    assert recorded.hidden == [*parts, *(f"call {each}" for each in of_calls)]
    report = runner.compare(outcome.id)
    assert (report["same"], report["redacted"]) == (True, recorded.hidden)


def test_a_recording_is_the_same_after_it_was_written_and_read(runner):
    outcome = runner.record("console.log(1n); return [input, await servers.odd.echo({ text: 'a' })]", 2**70)
    text = runner.session.gate.recordings._store.read(outcome.id, outcome.recording)
    assert write_run(read_run(text)) == text
    assert json.loads(text)["value"] == [2**70, "a"]


def test_a_test_that_anybody_wrote_calls_nothing(runner):
    recorded = {
        "format": 1,
        "run": "none",
        "workspace": "/",
        "recorded": "",
        "program": {"source": "return await servers.odd.pid({})"},
        "start": {"instant": 0, "seed": [1, 2, 3, 4], "entropy": "0" * 64},
        "status": "ok",
        "actions": [{"call": 1}],
        "calls": [{"number": 1, "server": "odd", "tool": "pid", "arguments": {}, "status": "ok", "value": "forged"}],
        "events": [{"call": 1, "at": 1.0}],
        "value": "forged",
        "has_value": True,
    }  # fmt: skip
    outcome = runner.replay("", recording=json.dumps(recorded))
    assert outcome.value["same"]
    for wrong in (
        {"start": {"instant": -1}},
        {"events": [{"call": -1, "at": 0}]},
        {"x": 1},
        {"status": "fine"},
        {"program": {"source": "1", "profile": "compute"}},
    ):
        outcome = runner.replay("", recording=json.dumps(recorded | wrong))
        assert (outcome.status, outcome.error.name) == ("invalid", "RecordingError")
    assert find_message(runner, "", recording="[" * 2000) == "the recording is not valid: it is not JSON"
    dangling = recorded | {"actions": [{"call": 7}]}
    assert find_message(runner, "", recording=json.dumps(dangling)).startswith("the recording is not valid")


def test_the_nearest_call_is_named_for_the_first_calls_only():
    run = RecordedRun(
        run="none",
        workspace="/",
        recorded="",
        program=RecordedProgram(),
        start=RecordedStart(instant=0, seed=(1, 2, 3, 4), entropy="0" * 64),
        calls=(RecordedCall(number=1, server="odd", tool="echo", arguments={"text": "a"}),),
        status="ok",
    )
    replies = RunReplies(run, lambda value: value)
    found = [
        replies.find(ServerCallFrame(number, "odd", "echo", {"text": number}, raw=False, size=0)).reply.error[
            "message"
        ]
        for number in range(1, 19)
    ]
    lack = "The recording has no call of servers.odd.echo like this one."
    named = f"{lack} The nearest one is call 1, of servers.odd.echo, which differs at arguments.text."
    assert found == [named] * 16 + [lack] * 2


def test_expired_recordings_are_deleted(tmp_path: Path):
    with RecordingRunner(tmp_path) as runner:
        runner.start(make_settings(tmp_path / "own"))
        run = runner.record("return 1").id
        store = runner.session.gate.recordings._store
        old = store._locate("00JD3W0ZV6N4YQ1R2X5T7B8C9D")
        old.write_bytes(zlib.compress(b""))
        (tmp_path / "own" / "recordings" / "notes.txt").write_text("not ours")
        store._locate(FAR_FUTURE).touch()
        assert [each.run for each in store.purge(dry_run=True)] == [old.stem]
        assert old.exists()
        assert [each.run for each in store.purge()] == [old.stem]
        assert [each.run for each in store.list_runs()] == [run, FAR_FUTURE]
