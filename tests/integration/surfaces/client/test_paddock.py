"""The library does what the command line does, with values: `Paddock` on a loop, `BlockingPaddock` without one."""

import asyncio
import json

import pytest
from tests.support.session import find_session

import paddock
from paddock import BlockingPaddock, CallRecord, ConsoleLine, Outcome, OutputQuery, Paddock, Settings, Status
from paddock.model.errors import ConfigurationError, ScriptNotFound, ToolNotFound
from paddock.policy.settings.profiles import ComputeLimits, LimitSettings
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import AuditSettings


@pytest.fixture
def opened(tmp_path, settings):
    limits = LimitSettings(compute=ComputeLimits(timeout_ms=60_000))
    patient = settings.model_copy(update={"limits": limits})
    with BlockingPaddock(tmp_path, settings=patient, actor="ada") as one:
        yield one


def test_a_program_gets_its_input_and_gives_a_value(opened):
    outcome = opened.execute("console.warn('seen'); return input.n * 2", input={"n": 21})
    assert (outcome.status, outcome.value) == (Status.OK, 42)
    assert outcome.console == (ConsoleLine(level="warn", text="seen"),)


def test_a_rule_about_a_workspace_holds_for_a_link_to_it(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    rule = Rule(effect="deny", workspace=str(tmp_path / "kept"), reason="not in there")
    settings = Settings(
        audit=AuditSettings(directory=tmp_path / "audit"), policy=PolicySettings(rule=(rule,))
    )
    for way in ("kept", "link", "kept/../link/."):
        with BlockingPaddock(tmp_path / way, settings=settings) as one:
            outcome = one.execute("return 1")
        assert (outcome.status, outcome.error.message) == (Status.DENIED, "not in there")


def test_a_workspace_that_is_a_link_to_itself_is_told(tmp_path, settings):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(ConfigurationError, match="link is not a directory that can be read"):
        BlockingPaddock(tmp_path / "link", settings=settings)


def test_a_program_that_fails_or_takes_too_long_is_an_outcome(opened):
    failed = opened.execute("throw new TypeError('no')")
    late = opened.execute("for (;;) {}", timeout_ms=50)
    assert (failed.status, failed.error.message) == (Status.FAILED, "no")
    assert (late.status, late.error.message) == (Status.TIMEOUT, "Script execution timed out after 50ms")


def test_the_console_is_heard_as_it_comes(opened):
    heard = []
    opened.execute("console.log(1); console.log(2)", on_console=heard.append)
    assert [line.text for line in heard] == ["1", "2"]


def test_a_secret_is_neither_heard_nor_on_the_record_of_who_looks(opened, tmp_path):
    opened.execute("1")
    find_session(opened).outgoing.known_secrets.learn("hunter2hunter2")
    heard = []
    source = "console.log('is hunter2hunter2'); try { Object.keys(servers.hunter2hunter2) } catch {}"
    outcome = opened.execute(source, on_console=heard.append)
    assert [line.text for line in heard] == ["is [REDACTED:vault]"] == [line.text for line in outcome.console]
    written = "".join(path.read_text() for path in (tmp_path / "audit").glob("*.ndjson"))
    assert ('"event":"looked"' in written, "hunter2" in written) == (True, False)


def test_events_end_with_the_outcome(opened):
    *lines, last = opened.events("console.log('a'); await sleep(1); console.log('b'); return 'done'")
    assert lines == [ConsoleLine(level="log", text="a"), ConsoleLine(level="log", text="b")]
    assert (type(last), last.value) == (Outcome, "done")


def test_calls_are_events_too(opened):
    *calls, last = opened.events(
        "await servers.nowhere.call('find', {}).catch(() => 0); return paddock.compute(\"emit('x')\")"
    )
    assert [(call.server, call.tool, call.status) for call in calls] == [
        ("nowhere", "find", Status.INVALID),
        ("paddock", "compute", Status.OK),
    ]
    assert all(type(call) is CallRecord and call.ms > 0 for call in calls)
    assert [(call.server, call.tool, call.status) for call in last.calls] == [
        (call.server, call.tool, call.status) for call in calls
    ]


def test_a_secret_in_the_name_of_a_call_leaves_nowhere(opened, tmp_path):
    find_session(opened).outgoing.known_secrets.learn("hunter2hunter2")
    *calls, last = opened.events("await servers.nowhere.call('hunter2hunter2', {}).catch(() => 0)")
    assert [call.tool for call in calls] == ["[REDACTED:vault]"]
    assert [call.tool for call in last.calls] == ["[REDACTED:vault]"]
    assert "hunter2" not in "".join(path.read_text() for path in (tmp_path / "audit").glob("*.ndjson"))


def test_who_stops_listening_ends_the_program(opened, tmp_path):
    events = opened.events("console.log('a'); await sleep(30_000)")
    assert next(events) == ConsoleLine(level="log", text="a")
    events.close()
    records = [
        json.loads(line)
        for path in (tmp_path / "audit").glob("*.ndjson")
        for line in path.read_text().splitlines()
    ]
    assert [record["status"] for record in records if record["event"] == "finished"] == ["cancelled"]
    assert {record["actor"] for record in records if "actor" in record} == {"ada"}


def test_a_script_runs_by_name(opened, tmp_path):
    (tmp_path / ".paddock" / "scripts").mkdir(parents=True)
    (tmp_path / ".paddock" / "scripts" / "hello.ts").write_text(
        "return `Hello, ${paddock.vars.NAME as string}`"
    )
    assert opened.run("hello", vars={"NAME": "world"}).value == "Hello, world"
    with pytest.raises(ScriptNotFound, match="did you mean: hello"):
        opened.run("helo")


def test_a_program_of_a_language_gives_its_exit_code_and_output_which_can_be_searched(opened):
    outcome = opened.exec("shell", "cat; echo bad >&2; exit 3", stdin="one\ntwo\n")
    assert (outcome.status, outcome.program.exit_code) == (Status.FAILED, 3)
    assert (outcome.program.stdout.head, outcome.program.stderr.head) == ("one\ntwo\n", "bad\n")
    found = opened.query(OutputQuery(artifact_handle=outcome.program.artifact, query_terms=("TWO",)))
    assert (found.match_count, found.match_status) == (1, "matched")


def test_both_streams_of_a_program_can_be_one_in_the_order_of_writing(opened):
    code = "for n in 1 2; do echo out $n; echo err $n >&2; done"
    heard: list[tuple[str, bytes]] = []
    both = opened.exec("shell", code, combined=True, on_output=lambda *each: heard.append(each))
    assert (both.ok, both.program.combined, both.program.stderr.head) == (True, True, "")
    assert both.program.stdout.head == "out 1\nerr 1\nout 2\nerr 2\n"
    assert {stream for stream, _ in heard} == {"stdout"}
    assert b"".join(data for _, data in heard) == b"out 1\nerr 1\nout 2\nerr 2\n"
    apart = opened.exec("shell", code)
    assert (apart.program.combined, apart.program.stdout.head) == (False, "out 1\nout 2\n")
    assert apart.program.stderr.head == "err 1\nerr 2\n"


def test_a_program_in_a_file_runs_where_it_stands(opened, tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "words.sh").write_text("WORD=pear\n")
    (tmp_path / "jobs" / "main.sh").write_text('. "$(dirname "$0")/words.sh"; echo "$WORD $1"\n')
    outcome = opened.exec("shell", file="jobs/main.sh", args=["tart"], executable="sh")
    assert (outcome.status, outcome.program.stdout.head) == (Status.OK, "pear tart\n")
    outcome = opened.exec("shell", file=tmp_path / "jobs" / "main.sh", executable="python3")
    assert (outcome.status, outcome.error.message) == (
        Status.DENIED,
        'Executable "python3" is not compatible with runtime "shell"',
    )
    with pytest.raises(
        ScriptNotFound, match=r"^jobs/absent\.sh: cannot read this script: No such file or directory$"
    ):
        opened.exec("shell", file="jobs/absent.sh")
    with pytest.raises(ValueError, match=r"^give either `code` or `file`$"):
        opened.exec("shell", "echo", file="jobs/main.sh")


def test_what_is_beyond_a_bound_is_a_value_error(opened):
    with pytest.raises(ValueError, match="give `code`, or `args`"):
        opened.exec("python")
    with pytest.raises(ValueError, match="`timeout_ms` must be at least 1, not -1"):
        opened.execute("return 1", timeout_ms=-1)
    for value in (float("nan"), [1e999], {"a": object()}):
        with pytest.raises(
            ValueError,
            match=r"\Ainput(\[0\]|\.a)? is (nan|inf|an object)\b.*; give None, booleans, finite numbers, ",
        ):
            opened.execute("return input", input=value)


def test_a_script_tool_runs(opened, tmp_path):
    folder = tmp_path / ".paddock" / "tools" / "greet"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text("id: greet\nname: Greet\nscript: run.sh\n")
    (folder / "schema.json").write_text(
        '{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}'
    )
    (folder / "description.md").write_text("Greets.\n")
    (folder / "run.sh").write_text("cat\n")
    outcome = opened.tool("greet", {"name": "ada"})
    assert (outcome.status, outcome.tool.output) == (Status.OK, {"name": "ada"})
    with pytest.raises(ToolNotFound):
        opened.tool("grete")


def test_a_computation_emits(opened):
    assert opened.compute("emit(read_input().length + '')", "four").value == "4"
    failed = opened.compute("emit('a'); throw 1", partial=True)
    assert (failed.status, failed.value) == (Status.FAILED, "a")


def test_a_call_of_a_server_that_is_not_there_is_an_outcome(opened):
    outcome = opened.call("nowhere", "tool", {"a": 1})
    assert (outcome.status, outcome.error.message) == (Status.INVALID, "Unknown server: nowhere")


def test_the_record_is_searched_by_what_it_says(opened):
    outcomes = [opened.execute("return 1"), opened.execute("throw new Error('no')")]
    computed = opened.compute("emit('x')")
    assert [(found.event, found.request) for found in opened.find_records(outcomes[1].id)] == [
        ("finished", outcomes[1].id),
        ("started", outcomes[1].id),
    ]
    assert [found.request for found in opened.find_records(status="failed")] == [outcomes[1].id]
    assert [found.request for found in opened.find_records(actor="ada", event="finished", limit=2)] == [
        computed.id,
        outcomes[1].id,
    ]
    assert opened.find_records(actor="bob") == []
    for wrong, known in (
        ({"status": "nonsense"}, "ok, failed, "),
        ({"event": "nonsense"}, "refused, asked, answered, "),
    ):
        with pytest.raises(ValueError, match=rf"no record has the \w+ 'nonsense'; there are {known}"):
            opened.find_records(**wrong)
    assert len(opened.find_records()) == 6


def test_what_is_not_open_says_so(tmp_path, settings):
    closed = Paddock(tmp_path, settings=settings)
    with pytest.raises(RuntimeError, match=r"use it as `async with Paddock\(\) as p:`"):
        asyncio.run(closed.execute("return 1"))
    with pytest.raises(RuntimeError, match=r"use it as `with BlockingPaddock\(\) as p:`"):
        BlockingPaddock(tmp_path, settings=settings).execute("return 1")


def test_a_loop_runs_programs_side_by_side(tmp_path, settings):
    async def both():
        async with Paddock(tmp_path, settings=settings) as one:
            outcomes = await asyncio.gather(*(one.execute(f"return {n}") for n in range(4)))
            return [outcome.value for outcome in outcomes]

    assert asyncio.run(both()) == [0, 1, 2, 3]


def test_overrides_are_settings_of_the_command_line(tmp_path):
    overrides = {"limits.execute.code_bytes": "10", "audit.directory": str(tmp_path / "audit")}
    with BlockingPaddock(tmp_path, overrides=overrides) as one:
        assert one.settings.limits.execute.code_bytes == 10
        assert one.execute("return 'longer than that'").status is Status.DENIED


def test_overrides_may_be_nested_and_typed(tmp_path):
    overrides = {
        "limits": {"execute": {"code_bytes": 10, "timeout_ms": "0.5s"}},
        "audit.directory": tmp_path / "audit",
        "grants": {"servers": []},
    }
    with BlockingPaddock(tmp_path, overrides=overrides) as one:
        limits = one.settings.limits.execute
        assert (limits.code_bytes, limits.timeout_ms, one.settings.grants.servers) == (10, 500, ())
    for wrong, told in (
        (
            {"limits": {"execute": {"code_byte": 1}}},
            "--set limits.execute.code_byte: unknown key; did you mean `limits.execute.code_bytes`?",
        ),
        (
            {"limits": {"execute": {"code_bytes": "x"}}},
            '--set limits.execute.code_bytes: limits.execute.code_bytes must be a whole number of bytes, or a text such as 500kB, 64MiB or 2GiB, not the text "x"',
        ),
    ):
        with pytest.raises(ConfigurationError) as caught:
            BlockingPaddock(tmp_path, overrides=wrong)
        assert str(caught.value) == told


def test_a_language_may_be_given_by_either_name(opened):
    for given in ({"language": "shell"}, {"runtime": "shell"}):
        outcome = opened.exec(code="echo $0 >&2; echo out", **given).check()
        assert (outcome.program.stdout.text, outcome.program.exit_code) == ("out\n", 0)
    for given in ({}, {"language": "shell", "runtime": "shell"}):
        with pytest.raises(
            ValueError, match=r'^give `language`, for example "python"; `runtime` is an alias of it$'
        ):
            opened.exec(code="echo", **given)


def test_what_makes_no_sense_is_told_without_what_was_given(opened, tmp_path):
    (tmp_path / "x.js").write_text("1")
    mistakes = (
        lambda: opened.run(str(tmp_path / "x.js"), vars={"TOKEN": ["hunter2hunter2"]}),
        lambda: opened.execute("1", input={"token": "hunter2hunter2", "day": set()}),
        lambda: opened.exec("python", "1", args=[b"hunter2hunter2\xff"]),
        lambda: Settings(vault={"backend": "hunter2hunter2"}),
    )
    for mistake in mistakes:
        with pytest.raises(ValueError, match=r"Input should be|which JSON does not support") as caught:
            mistake()
        assert "hunter2" not in str(caught.value)


def test_a_workspace_that_is_not_there_is_refused(tmp_path, settings):
    (tmp_path / "file").touch()
    for place in (tmp_path / "nowhere", tmp_path / "file", tmp_path / "file" / "x"):
        for form in (Paddock, BlockingPaddock):
            with pytest.raises(ConfigurationError) as caught:
                form(place, settings=settings)
            assert str(caught.value) == f"the workspace {place} is not a directory that can be read"


def test_both_forms_have_the_same_methods():
    names, others = (
        {name for name in vars(form) if not name.startswith("_")} for form in (Paddock, BlockingPaddock)
    )
    # Other threads, and the cells of a notebook, need these.
    assert others == names | {"submit", "open", "close"}


def test_every_public_name_is_there():
    assert [name for name in paddock.__all__ if not hasattr(paddock, name)] == []
    with pytest.raises(AttributeError, match="module 'paddock' has no attribute 'nothing'"):
        _ = paddock.nothing


def test_a_notebook_shows_an_outcome_without_trusting_it(opened):
    outcome = opened.execute("console.log('<b>'); return {a: '<script>'}")
    shown = outcome._repr_html_()
    assert shown == (
        f"<div><strong>ok</strong> · {outcome.usage.wall_ms:.1f} ms · record {outcome.audit}</div>"
        "<pre>{\n  &quot;a&quot;: &quot;&lt;script&gt;&quot;\n}</pre>"
        "<details><summary>console</summary><pre>[log] &lt;b&gt;</pre></details>"
    )


def test_a_call_of_a_prompt_asks_runs_once_and_tells_what_policy_refused(tmp_path, opened):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for name, script, more in (
        ("double", "import json, sys; print(json.load(sys.stdin)['n'] * 2)", ""),
        ("online", "print(1)", "network: full\nexecution: {confirm: false}\n"),
    ):
        directory = tmp_path / ".paddock" / "tools" / name
        directory.mkdir(parents=True)
        (directory / "tool.yaml").write_text(f"id: {name}\nname: {name}\nscript: script.py\n{more}")
        (directory / "description.md").write_text(name)
        (directory / "schema.json").write_text(json.dumps(schema))
        (directory / "script.py").write_text(script)
    asked, ran = (opened.prompt("count", {"n": 4}) for _ in range(2))
    assert [question.tool_id for question in asked.questions] == ["double"]
    assert asked.confirmation == {
        "type": "confirmation_required",
        "tools": [
            {
                "toolId": "double",
                "toolName": "double",
                "message": "Execute double?",
                "resumeCommand": ">>count",
                "matchedParams": ["n"],
                "extractedInputs": {"n": 4},
            }
        ],
        "resumeCommand": ">>count",
        "message": "The following tools require confirmation before execution:\n"
        "- double: Execute double?\nTo proceed, re-run the same command: >>count",
    }
    assert (asked.ends["online"].success, asked.ends["online"].error) == (
        False,
        "tool online declares network: full, but loopback is allowed; set `network` under [tools] in the paddock.toml of the "
        "user or the system",
    )
    assert (ran.confirmation, ran.ends["double"].output, ran.variables["tool_double"]) == (None, 8, 8)
    assert opened.prompt("count", {"n": 4}).confirmation == asked.confirmation
    assert opened.prompt("count").ends == {}
