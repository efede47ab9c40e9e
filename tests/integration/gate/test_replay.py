"""Recorded programs that run again without their servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.recordings import RecordingRunner, make_settings
from tests.support.servers import make_entry, write_servers

from paddock.gate.replay.replies import RunReplies
from paddock.model.limits import LimitOverrides

SAME = {"same": True, "difference": None, "redacted": []}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingRunner]:
    """A session with the server `odd`, which records programs that ask for it."""
    workspace = tmp_path_factory.mktemp("workspace")
    write_servers(workspace, {"odd": make_entry("odd")})
    with RecordingRunner(workspace) as made:
        made.start(make_settings(tmp_path_factory.mktemp("own")))
        yield made


def is_same(runner: RecordingRunner, source: str, given: object = None) -> dict:
    """Record a program, repeat it, and return the report without the id of the run."""
    recorded = runner.record(source, given)
    assert recorded.recording is not None, recorded
    report = runner.compare(recorded.id)
    assert report.pop("run") == recorded.id
    return report


def test_clock_and_random_numbers_are_those_of_the_recording(runner):
    source = """
    const parts = new Intl.DateTimeFormat("en", { timeStyle: "full", timeZone: "UTC" });
    console.log(Math.random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(40))]);
    console.log(Date.now(), new Date().toISOString(), Date(), performance.now(), new Date(5).getTime());
    console.log(parts.format(), parts.formatToParts().length, parts.format(new Date(0)), new Event("x").timeStamp);
    console.log(String(Temporal.Now.instant()), String(Temporal.Now.plainDateISO("UTC")));
    class Late extends Date {}
    return [Number(new Late()), new Late() instanceof Date, Date.name, Date.length, new Date().constructor === Date];
    """
    assert is_same(runner, source) == {**SAME, "calls": 0, "lines": 4}


def test_time_passes_while_a_recorded_program_waits_or_looks_at_it(runner):
    source = """
    const began = Date.now();
    await sleep(30);
    const slept = Date.now() - began;
    while (Date.now() < began + 200);
    return [slept >= 29, performance.now() >= 200];
    """
    recorded = runner.record(source)
    assert recorded.value == [True, True]
    assert runner.compare(recorded.id)["same"]


def test_timers_and_replies_come_in_their_recorded_order(runner):
    source = """
    const order = [];
    const note = (what) => () => order.push(what);
    const calls = [1, 2, 3].map((n) => servers.odd.echo({ text: `${n}` }).then(note(n)));
    for (const ms of [0, 1, 3, 10]) setTimeout(note(`${ms} ms`), ms);
    let ticks = 0;
    await new Promise((end) => { const timer = setInterval(() => { if (++ticks === 4) { clearInterval(timer); end(); } }, 2); });
    await Promise.all(calls);
    await sleep(20);
    console.log(order.join());
    return order.length;
    """
    for _ in range(3):
        assert is_same(runner, source) == {**SAME, "calls": 3, "lines": 1}


def test_equal_calls_get_their_results_in_order(runner):
    source = """
    const pids = await Promise.all([1, 2, 3].map(() => servers.odd.pid({})));
    const listed = Object.keys(servers.odd).length;
    return [pids, listed, await servers.odd.pid({}), Object.keys(servers)];
    """
    assert is_same(runner, source) == {**SAME, "calls": 6, "lines": 0}


def test_failed_calls_fail_again(runner):
    source = """
    const failures = [];
    for (const tool of ["fail", "is_error", "nothing"]) {
      try { await servers.odd[tool]({}); } catch (error) { failures.push([error.name, error.message, error.code ?? null]); }
    }
    console.error(failures);
    await servers.odd.fail({});
    """
    assert is_same(runner, source) == {**SAME, "status": "failed", "calls": 4, "lines": 1}


def test_methods_of_the_sdk_are_repeated(runner):
    source = """
    const one = await paddock.compute("emit(read_input().length)", "four");
    return [one, paddock.health.check().status, paddock.vars, paddock.workspace.path, input];
    """
    assert is_same(runner, source, {"big": 2**60 + 1}) == {**SAME, "calls": 2, "lines": 0}


def test_numbers_keep_their_digits(runner):
    recorded = runner.record("return [input.big, input.small, 0.1]", {"big": 2**63 + 1, "small": 1e-7})
    assert recorded.value == [2**63 + 1, 1e-7, 0.1]
    assert runner.compare(recorded.id)["same"]


def test_a_run_that_was_interrupted_is_repeated_up_to_its_end(runner):
    source = "console.log('before'); await servers.odd.echo({ text: 'x' }); await servers.odd.hang({});"
    recorded = runner.record(source, limits=LimitOverrides(timeout_ms=2000))
    assert recorded.status == "timeout"
    assert runner.compare(recorded.id)["same"]


def test_a_program_that_never_started_has_no_recording(runner):
    recorded = runner.record("return (")
    assert (recorded.status, recorded.recording) == ("failed", None)


CHANGED = [
    ("return a + b", "return a + b + 1", ("value", None, "value", 3, 4)),
    ("text: `${a}`", "text: `${b}`", ("call", 1, "servers.odd.echo: arguments.text", "1", "2")),
    ("odd.echo", "odd.pid", ("call", 1, "", "servers.odd.echo", "servers.odd.pid")),
    ("sum of", "sum  of", ("console", 1, "", "the sum of 1", "the sum  of 1")),
    ('console.warn("end")', "[].map(console.warn)", ("console", 2, "", "[warn] end", None)),
    ("return a", "if (a) throw new Error('no'); return a", ("status", None, "", "ok", "failed: Error: no")),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), CHANGED)
def test_a_changed_program_differs_where_it_was_changed(runner, old, new, expected):
    source = """
    const [a, b] = [1, 2];
    const said = await servers.odd.echo({ text: `${a}` });
    console.log("the sum of", said);
    console.warn("end");
    return a + b
    """
    recorded = runner.record(source)
    report = runner.compare(recorded.id, source=source.replace(old, new))
    difference = report["difference"]
    assert not report["same"]
    assert tuple(difference[name] for name in ("kind", "number", "at", "recorded", "replayed")) == expected


def test_a_call_that_was_not_recorded_names_the_nearest_one(runner):
    recorded = runner.record("await servers.odd.echo({ text: 'one' }); await servers.odd.pid({}); return 1")
    told = "try { await servers.odd.echo({ text: 'two' }) } catch (error) { return error.message }"
    report = runner.compare(recorded.id, source=told)
    assert report["difference"] == {
        "kind": "call",
        "number": 1,
        "at": "servers.odd.echo: arguments.text",
        "recorded": "one",
        "replayed": "two",
        "nearest": 1,
    }


def test_more_timers_than_recorded_go_on(runner):
    recorded = runner.record("await sleep(1); return 1")
    source = "const began = Date.now(); for (let n = 0; n < 5; n++) await sleep(1000); return Date.now() - began > 4900"
    report = runner.compare(recorded.id, source=source)
    assert (report["difference"]["recorded"], report["difference"]["replayed"]) == (1, True)


def test_a_live_replay_makes_the_calls_and_compares_their_results(runner):
    source = "return [await servers.odd.echo({ text: 'a' }), Math.random(), Date.now() > 0]"
    recorded = runner.record(source)
    assert runner.compare(recorded.id, against="live")["same"]
    records = list(runner.session.gate.audit.query(event="started", limit=2))
    assert [record.fields["kind"] for record in records] == ["server", "replay"]


def test_a_live_replay_finds_a_result_that_differs(runner):
    recorded = runner.record("const pid = await servers.odd.pid({}); return 1")
    assert runner.record(
        "await servers.odd.crash({}).catch(() => {}); return 1"
    ).ok  # another process serves from now on
    difference = runner.compare(recorded.id, against="live")["difference"]
    assert (difference["kind"], difference["number"], difference["at"]) == (
        "result",
        1,
        "servers.odd.pid: result",
    )


def test_a_replay_is_recorded_and_calls_nothing(runner):
    recorded = runner.record("return await servers.odd.echo({ text: 'a' })")
    replayed = runner.replay(recorded.id)
    [end] = runner.session.gate.audit.query(event="finished", request=replayed.id)
    calls = [record for record in runner.session.gate.audit.query() if record.parent == replayed.id]
    facts = {name: end.fields[name] for name in ("kind", "profile", "against", "repeats", "same", "status")}
    assert calls == []
    assert facts == {
        "kind": "replay",
        "profile": "execute",
        "against": "recorded",
        "repeats": recorded.id,
        "same": True,
        "status": "ok",
    }


def test_a_run_without_a_recording_cannot_be_repeated(runner):
    from paddock.model.request import ExecutionRequest, GuestRun

    plain = runner.execute(ExecutionRequest(workspace=runner.workspace, work=GuestRun(source="return 1")))
    assert plain.recording is None
    error = runner.replay(plain.id).error
    assert error.message == (
        f"the run {plain.id} was not recorded; run the program with --record, or set record.payloads"
    )


def test_all_programs_are_recorded_where_the_owner_wants_that(tmp_path: Path):
    from paddock.model.request import ExecutionRequest, GuestRun

    with RecordingRunner(tmp_path) as runner:
        runner.start(make_settings(tmp_path / "own", payloads="kept"))
        request = ExecutionRequest(workspace=tmp_path, work=GuestRun(source="return Math.random()"))
        outcome = runner.execute(request)
        assert runner.compare(outcome.id)["same"]
        computation = GuestRun(source="emit(1)", profile="compute")
        assert runner.execute(ExecutionRequest(workspace=tmp_path, work=computation)).recording is None


def test_a_request_cannot_record_itself_where_recordings_are_off(tmp_path: Path):
    with RecordingRunner(tmp_path) as runner:
        runner.start(make_settings(tmp_path / "own", payloads="off"))
        outcome = runner.record("return 1")
    assert (outcome.status, outcome.error.message) == (
        "denied",
        'programs are not recorded; leave out `record`, or set `payloads = "asked"` under [record] in the paddock.toml '
        "of the user or the system",
    )


def test_each_recorded_event_is_looked_at_once(runner, monkeypatch):
    """A changed program leaves out the first calls: no wait looks at their events again."""
    looked: list[int] = []

    class Events(list):
        def __getitem__(self, place):
            looked.append(place)
            return super().__getitem__(place)

    def count(self, recorded, hide):
        begin(self, recorded, hide)
        self.events = Events(self.events)

    begin = RunReplies.__init__
    source = "for (let i = %d; i < 60; i++) await servers.odd.echo({text: String(i)}); return 1"
    run = runner.record(source % 0).id
    monkeypatch.setattr(RunReplies, "__init__", count)
    assert runner.compare(run, source=source % 30)["difference"]["kind"] == "call"
    assert len(looked) == len(set(looked)) == 30


def test_resources_and_prompts_are_read_from_the_recording(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    write_servers(workspace, {"lib": make_entry("library")})
    source = """
    const [{ uri }] = await servers.lib.resources.list();
    const [{ text }] = await servers.lib.resources.read("file:///notes.md");
    const gone = await servers.lib.resources.read("x:gone").catch((error) => error.message);
    return [uri, text, gone, await servers.lib.resources({})];
    """
    with RecordingRunner(workspace) as runner:
        runner.start(make_settings(tmp_path / "own"))
        recorded = runner.record(source)
        assert recorded.value[:2] == ["file:///notes.md", "# Notes"]
        write_servers(workspace, {"lib": {"command": "/does/not/exist"}})
        assert runner.compare(recorded.id) == {**SAME, "run": recorded.id, "calls": 4, "lines": 0}
        tool = source.replace('resources.read("file:///notes.md")', 'resources({ uri: "file:///notes.md" })')
        assert runner.compare(recorded.id, source=tool)["difference"] == {
            "kind": "call",
            "number": 2,
            "at": "",
            "recorded": "servers.lib.resources.read",
            "replayed": "servers.lib.resources",
            "nearest": 4,
        }


def test_a_recording_of_ten_megabytes_repeats(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    write_servers(workspace, {"odd": make_entry("odd")})
    source = """
    let size = 0;
    for (let n = 0; n < input; n++) size += (await servers.odd.echo({ text: `${n}`.repeat(5_000_000) })).length;
    return size;
    """
    with RecordingRunner(workspace) as runner:
        runner.start(make_settings(tmp_path / "own", payload_bytes=12_000_000))
        recorded, larger = runner.record(source, 1), runner.record(source, 2)
        report = runner.compare(recorded.id)
        changed = runner.compare(recorded.id, source=source.replace(".length;", ".length - 1;"))
    assert (recorded.value, report["same"], report["calls"]) == (5_000_000, True, 1)
    assert changed["difference"] == {
        "kind": "value",
        "number": None,
        "at": "value",
        "recorded": 5_000_000,
        "replayed": 4_999_999,
    }
    assert (larger.value, larger.recording, [line.text for line in larger.console]) == (
        10_000_000,
        None,
        [
            "this run was not recorded: its recording would have more than record.payload_bytes = 12000000 bytes"
        ],
    )


def test_the_report_says_how_a_program_failed(runner):
    source = "const found = { a: 'x' }; console.log(found.a.length); return 1"
    run = runner.record(source).id
    report = runner.compare(run, source=source.replace("found.a", "found.b"))
    assert report["difference"] == {
        "kind": "console",
        "number": 1,
        "at": "",
        "recorded": "1",
        "replayed": None,
        "error": "TypeError: Cannot read properties of undefined (reading 'length')",
    }
    failed = runner.record("throw new Error('no')").id
    assert runner.compare(failed) == {**SAME, "run": failed, "status": "failed", "calls": 0, "lines": 0}
