"""Sequences through the gate: every step is a request, and nothing runs that policy refuses."""

import json
from pathlib import Path

import pytest

from paddock.model.outcome import Status
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import LimitSettings, RuntimeSettings
from paddock.record.output.query import OpenArtifact, read_bytes

SECRET = "s3cr3t-v4lue"


def write(desk, name, text):
    folder = desk.workspace / ".paddock" / "sequences"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text)


def script(desk, name, text):
    folder = desk.workspace / ".paddock" / "scripts"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.js").write_text(text)


def execute(desk, name, **variables):
    work = SdkCall(method="sequence.run", arguments=(name, {"vars": variables}))
    request = ExecutionRequest(workspace=desk.workspace, work=work)
    return desk.execute(request)


def steps(answer):
    """Return name, status and value of each step."""
    return [(step["name"], step["status"], step.get("value")) for step in answer["steps"]]


def test_variables_and_results_flow_from_step_to_step(desk):
    desk.open()
    script(desk, "one", "return {ids: [input, paddock.vars.R], n: 2}")
    write(
        desk,
        "flow",
        """
        [vars]
        R = "eu"
        [[step]]
        name = "first"
        script = "one"
        vars = {R = "${R}"}
        input = "in ${R}"
        [[step]]
        name = "second"
        runtime = "python"
        code = "import sys; print(sys.argv[1:], input(), '${R}')"
        args = ["${steps.first.value.n}", "-", "${steps.first.value.ids.0}"]
        stdin = "${steps.first.value.ids}"
        [[step]]
        name = "third"
        script = "one"
        input = "${steps.first.value.ids}"
        """,
    )
    outcome = execute(desk, "flow", R="us")
    assert outcome.error is None
    assert (outcome.value["name"], outcome.value["ok"]) == ("flow", True)
    first, second, third = outcome.value["steps"]
    assert first["value"] == {"ids": ["in us", "us"], "n": 2}
    assert second["value"]["stdout"] == "['2', '-', 'in us'] [\"in us\", \"us\"] ${R}\n"
    assert third["value"] == {"ids": [["in us", "us"], None], "n": 2}
    records = [record for record in desk.records() if record.event == "started"]
    assert [record.fields["kind"] for record in records] == ["sdk", "guest", "runtime", "guest"]
    assert {record.parent for record in records[1:]} == {outcome.id}
    assert [record.request for record in records[1:]] == [step["request"] for step in outcome.value["steps"]]


def test_files_and_variables_flow_from_step_to_step(desk):
    desk.open(runtimes=RuntimeSettings(environment=("WORDS",)))
    write(
        desk,
        "flow",
        """
        required = ["TEXT"]
        [[step]]
        name = "count"
        runtime = "python"
        code = "import os; open('n.csv', 'w').write(str(len(open('a b').read()) + int(os.environ['WORDS'])))"
        files = {"a b" = "<${TEXT}>"}
        env = {WORDS = "${TEXT}"}
        outputs = ["*.csv"]
        [[step]]
        name = "read"
        runtime = "python"
        code = "import sys; print(open('n').read()); print('w', file=sys.stderr, flush=True)"
        files = [{path = "n", artifact = "${steps.count.value.files.0.handle}"}]
        combined = true
        keep = false
        memory_bytes = 400_000_000
        """,
    )
    answer = execute(desk, "flow", TEXT="12").value
    count, read = answer["steps"]
    assert [file["path"] for file in count["value"]["files"]] == ["n.csv"]
    assert (read["value"]["stdout"], read["value"]["artifact"]) == ("16\nw\n", None)
    refused = execute(desk, "flow", TEXT="x")
    assert refused.value["steps"][0]["status"] == "failed"


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ("env = {OTHER = '1'}", ("denied", "OTHER")),
        ("packages = ['${TEXT}']", ("invalid", "'${TEXT}' is not a requirement")),
        ("files = {'../x' = '1'}", ("invalid", "'../x' leads out of the working directory")),
        ("outputs = ['']", ("invalid", "outputs.0: ")),
    ],
)
def test_what_a_step_may_not_have(desk, field, error):
    desk.open()
    write(
        desk,
        "flow",
        f"vars = {{TEXT = '1'}}\n[[step]]\nname = 'a'\nruntime = 'python'\ncode = '1'\n{field}\n",
    )
    [step] = execute(desk, "flow").value["steps"]
    assert step["status"] == error[0]
    assert error[1] in step["error"]["message"]


FAILING = """
[[step]]
name = "bad"
script = "bad"
on_failure = {rule}
[[step]]
name = "after"
script = "good"
when = "{when}"
[[step]]
name = "tidy"
script = "good"
input = "${{steps.bad.error.message}}"
"""


@pytest.mark.parametrize(
    ("rule", "when", "ok", "told"),
    [
        ('"stop"', "steps.bad.ok", False, [("bad", "failed", None)]),
        ('{run = "tidy"}', "steps.bad.ok", False, [("bad", "failed", None), ("tidy", "ok", ["no"])]),
        ('"continue"', "steps.bad.ok", True, [("bad", "failed", None), ("after", "skipped", None), ("tidy", "ok", ["no"])]),
        ('"continue"', "steps.bad.status == 'failed'", True, [("bad", "failed", None), ("after", "ok", [None]), ("tidy", "ok", ["no"])]),
    ],
)  # fmt: skip
def test_what_follows_a_failing_step(desk, rule, when, ok, told):
    desk.open()
    script(desk, "bad", "throw new Error('no')")
    script(desk, "good", "return [input]")
    write(desk, "flow", FAILING.format(rule=rule, when=when))
    answer = execute(desk, "flow").value
    assert (answer["ok"], steps(answer)) == (ok, told)


def test_policy_speaks_of_every_step(desk):
    desk.open(rules=[Rule(effect="deny", runtime="python", reason="no python here")])
    write(desk, "flow", "[[step]]\nname = 'a'\nruntime = 'python'\ncode = '1'\n")
    answer = execute(desk, "flow").value
    assert answer["ok"] is False
    assert answer["steps"][0]["error"] == {"name": "PolicyError", "message": "no python here"}
    assert answer["steps"][0]["status"] == "denied"


def test_what_an_agent_sends_runs_no_sequence_unless_told(desk):
    desk.open()
    outcome = desk.run("paddock.sequence.run('flow')", profile="execute")
    assert outcome.error.message.startswith("paddock.sequence.run is not granted to programs of the profile")


def test_a_program_runs_and_lists_sequences(desk):
    desk.open()
    script(desk, "one", "return paddock.vars.A")
    write(desk, "flow", "required = ['A']\n[[step]]\nname = 'a'\nscript = 'one'\nvars = {A = '${A}'}\n")
    write(desk, "odd", "step = 1")
    outcome = desk.run(
        """
        const {steps} = mentu.sequence.run("flow", {vars: {A: "x"}});
        return [steps[0].value, paddock.sequence.list().map(({problem, ...rest}) => ({...rest, odd: Boolean(problem)}))];
        """
    )
    listed = [
        {"name": "flow", "description": "", "vars": {}, "required": ["A"], "steps": 1, "odd": False},
        {"name": "odd", "odd": True},
    ]
    assert outcome.error is None
    assert outcome.value == ["x", listed]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("run('nowhere')", "there is no sequence called nowhere"),
        (
            "run('flow')",
            "sequence flow needs the variable A, which was not given; give it with --var A=VALUE, or in `vars` of",
        ),
        (
            "run('flow', {vars: {A: '', B: ''}})",
            "sequence flow has no variable B (it has A); name it in `required`, or under [vars] with a default",
        ),
        ("run('flow', {vars: {A: 1}})", "sequence flow: A must be a string, not a number"),
        ("run('flow', {A: '1'})", "paddock.sequence.run: unknown option 'A'; there is `vars`"),
        ("run('../flow')", "there is no sequence called ../flow"),
    ],
)
def test_misuse_is_told_to_the_program(desk, call, message):
    desk.open()
    write(desk, "flow", "required = ['A']\n[[step]]\nname = 'a'\nscript = 'one'\n")
    outcome = desk.run(f"paddock.sequence.{call}")
    assert outcome.status is Status.FAILED
    assert outcome.error.message.startswith(message)


def test_a_sequence_that_runs_itself_is_stopped(desk):
    desk.open()
    script(desk, "again", "return paddock.sequence.run('flow').steps[0]")
    write(desk, "flow", "[[step]]\nname = 'a'\nscript = 'again'\n")
    text = json.dumps(execute(desk, "flow").value)
    assert "paddock.sequence.run is nested more than 7 deep" in text


def test_a_secret_of_a_step_reaches_later_steps_and_nobody_else(desk):
    desk.open().vault.set("global", "api", SECRET)
    told = []
    desk.session.flowing.flows.on_step = told.append
    script(desk, "read", "return paddock.vault.get('api')")
    script(desk, "use", "throw new Error(`${input.length} ${input}`)")
    write(
        desk,
        "flow",
        "[[step]]\nname = 'a'\nscript = 'read'\n[[step]]\nname = 'b'\nscript = 'use'\ninput = '${steps.a.value}'\n",
    )
    outcome = execute(desk, "flow")
    assert outcome.value["steps"][1]["error"]["message"] == "12 [REDACTED:vault]"
    assert SECRET not in outcome.model_dump_json()
    assert [step["name"] for step in told] == ["a", "b"]
    assert SECRET not in json.dumps(told)


def test_the_time_of_a_sequence_ends_its_step(desk):
    desk.open(sdk={"long_call_timeout_ms": 1500})
    write(desk, "flow", "[[step]]\nname = 'a'\nruntime = 'shell'\ncode = 'while :; do :; done'\n")
    outcome = execute(desk, "flow")
    assert (outcome.status, outcome.error.message) == (
        Status.TIMEOUT,
        "paddock.sequence.run did not end within 1500 ms",
    )
    ended = [(record.fields["kind"], record.fields["status"]) for record in desk.records()[2:]]
    assert ended == [("runtime", "cancelled"), ("sdk", "timeout")]


def test_a_program_fires_a_schedule_whose_sequence_is_a_request_of_its_own(desk):
    desk.open()
    script(desk, "one", "return paddock.vars.A")
    write(desk, "flow", "vars = {A = ''}\n[[step]]\nname = 'a'\nscript = 'one'\nvars = {A = '${A}'}\n")
    folder = desk.workspace / ".paddock" / "temporals"
    folder.mkdir()
    (folder / "daily.toml").write_text("sequence = 'flow'\ncron = '0 3 * * *'\nvars = {A = 'x'}\n")
    (folder / "odd.toml").write_text("sequence = 'nowhere'\nevery = '1d'\n")
    outcome = desk.run(
        """
        const {name, ok, sequence} = paddock.temporal.fire("daily");
        const odd = paddock.temporal.fire("odd");
        const [daily] = paddock.temporal.list();
        return [name, ok, sequence.steps[0].value, odd.ok, odd.error.message.split("\\n")[0], typeof daily.last];
        """
    )
    assert outcome.error is None
    assert outcome.value == ["daily", True, "x", False, "there is no sequence called nowhere", "string"]
    started = [record.fields["name"] for record in desk.records() if record.event == "started"]
    assert started[:4] == ["program", "temporal.fire", "sequence.run", "one.js"]


POWERS = """
[[step]]
name = "secret"
script = "leak"
on_failure = "continue"
[[step]]
name = "program"
runtime = "python"
code = "print(1)"
"""


def test_what_a_program_runs_as_a_sequence_has_no_more_powers_than_the_program(desk):
    desk.open(sdk={"execute": ("sequence.run", "script.run")}).vault.set("global", "api", SECRET)
    script(desk, "leak", "return paddock.vault.get('api')")
    write(desk, "powers", POWERS)
    source = "return paddock.sequence.run('powers').steps.map((step) => [step.status, step.error?.message])"
    where = "name it in `execute` under [sdk] in paddock.toml"
    refused = "{} is not granted to programs of the profile execute; " + where
    assert desk.run(source, profile="execute").value == [
        ["failed", refused.format("paddock.vault.get")],
        ["denied", refused.format("paddock.exec")],
    ]
    assert desk.run(source).value == [["ok", None], ["ok", None]]


def test_a_schedule_that_a_program_fires_has_no_more_powers_than_the_program(desk):
    desk.open(sdk={"execute": ("temporal.fire", "script.run")}).vault.set("global", "api", SECRET)
    script(desk, "leak", "return paddock.vault.get('api')")
    write(desk, "powers", POWERS)
    folder = desk.workspace / ".paddock" / "temporals"
    folder.mkdir()
    (folder / "t.toml").write_text('sequence = "powers"\nevery = "1h"\n')
    source = "return paddock.temporal.fire('t').sequence.steps.map((step) => step.status)"
    assert desk.run(source, profile="execute").value == ["failed", "denied"]
    assert desk.run(source).value == ["ok", "ok"]


def test_steps_of_a_program_may_only_do_what_its_profile_names(desk):
    desk.open(sdk={"script": ("sequence.run",)})
    script(desk, "one", "return 1")
    write(desk, "flow", '[[step]]\nname = "one"\nscript = "one"\n')
    outcome = desk.run("return paddock.sequence.run('flow').steps[0].status")
    assert outcome.value == "denied"
    assert execute(desk, "flow").value["steps"][0]["status"] == "ok"


def test_a_step_that_names_nothing_tells_a_program_no_directory_of_the_machine(desk):
    desk.open()
    write(
        desk,
        "flow",
        "[[step]]\nname = 'a'\nscript = 'nowhere'\non_failure = 'continue'\n[[step]]\nname = 'b'\ntool = 'no'\n",
    )
    outcome = desk.run("return paddock.sequence.run('flow').steps.map((step) => step.error.message)")
    script_told, tool_told = outcome.value
    assert script_told.startswith("Script not found: nowhere")
    assert tool_told.startswith("Tool not found: no")
    assert str(desk.place) not in script_told + tool_told
    assert str(Path.home()) not in script_told + tool_told


def stored(desk, handle):
    reading = OpenArtifact(desk.session.output.artifacts(), handle, desk.workspace)
    return read_bytes(reading, "stdout", 0, 1 << 30).decode()


ROWS = "return Array.from({length: 120_000}, (_, id) => ({id}))"
TWO_STEPS = """
[[step]]
name = "rows"
script = "rows"
[[step]]
name = "next"
script = "echo"
"""


def test_a_value_that_is_too_large_for_a_record_is_stored(desk):
    desk.open()
    script(desk, "rows", ROWS)
    script(desk, "echo", "return input ?? null")
    write(desk, "flow", TWO_STEPS)
    answer = execute(desk, "flow").value
    first = answer["steps"][0]
    assert (answer["ok"], first["status"], "value" in first) == (True, "ok", False)
    assert first["omitted_bytes"] == len(json.dumps([{"id": number} for number in range(120_000)]))
    assert [each["id"] for each in json.loads(stored(desk, first["artifact"]))] == [*range(120_000)]


@pytest.mark.parametrize("use", ['input = "${steps.rows.value.0}"', 'when = "steps.rows.value"'])
def test_a_step_that_refers_to_a_value_that_was_too_large_is_invalid(desk, use):
    desk.open()
    script(desk, "rows", ROWS)
    script(desk, "echo", "return input ?? null")
    write(desk, "flow", f"{TWO_STEPS}{use}\n")
    answer = execute(desk, "flow").value
    first, second = answer["steps"]
    path = "steps.rows.value.0" if "input" in use else "steps.rows.value"
    assert (answer["ok"], second["status"], second["error"]["message"]) == (
        False,
        "invalid",
        f"${{{path}}}: the value of the step has {first['omitted_bytes']} bytes, but a step may refer to at most "
        f"1048576; return less of it there, or read it with: paddock output show {first['artifact']}",
    )


def test_a_result_over_its_limit_fails_its_step_and_is_stored(desk):
    desk.open(limits=LimitSettings.model_validate({"script": {"result_bytes": 40}}))
    script(desk, "rows", "return Array.from({length: 9}, (_, id) => ({id}))")
    write(desk, "flow", '[[step]]\nname = "rows"\nscript = "rows"\n')
    answer = execute(desk, "flow").value
    (step,) = answer["steps"]
    message = "The result has 82 characters as JSON, and limits.script.result_bytes is 40"
    assert (answer["ok"], step["status"], step["error"]["message"], "value" in step) == (
        False,
        "output_limit",
        message,
        False,
    )
    assert [each["id"] for each in json.loads(stored(desk, step["artifact"]))] == [*range(9)]
