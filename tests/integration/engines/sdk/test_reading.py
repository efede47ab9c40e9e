"""What programs read of the session: stored output, health; and computations and script tools that they run."""

import json

import pytest

from paddock.model.outcome import Status
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.rules import Rule


def test_stored_output_is_read_again_by_terms_by_lines_and_from_a_cursor(desk):
    desk.open()
    outcome = desk.run(
        """
        const {artifact} = await paddock.exec("python", "for n in range(1, 41): print('line', n)");
        const read = async (options) => {
          const {artifactHandle, totalBytes, ...rest} = await paddock.output.query(artifact, options);
          return rest;
        };
        return [
          await read({terms: ["LINE 7"], context: 1}),
          await read({lines: [39, 40]}),
          await read({cursor: {stream: "stdout", afterLine: 38}, max: 1}),
        ];
        """
    )
    assert outcome.error is None
    whole = {"totalLines": 40, "searchedStreams": ["stdout"]}
    by_number = {**whole, "matchStatus": "lineRange", "matchCount": 0}

    def lines(first, last):
        text = "\n".join(f"line {number}" for number in range(first, last + 1))
        return {"lineStart": first, "lineEnd": last, "content": text, "source": "stdout"}

    assert outcome.value == [
        {**whole, "matchStatus": "matched", "matchCount": 1, "excerpts": [lines(6, 8)]},
        {**by_number, "excerpts": [lines(39, 40)]},
        {**by_number, "excerpts": [lines(39, 39)], "nextCursor": {"stream": "stdout", "afterLine": 39}},
    ]


def test_output_of_another_workspace_is_not_there(desk, tmp_path):
    desk.open()
    handle = desk.run("return (await paddock.exec('python', 'print(1)')).artifact").value
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    work = GuestRun(source=f"await paddock.output.query({handle!r}, {{terms: ['1']}})", profile="script")
    request = ExecutionRequest(workspace=elsewhere, work=work)
    outcome = desk.execute(request)
    assert (outcome.status, outcome.error.name) == (Status.FAILED, "UnknownArtifact")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("output.query('x')", "`terms` are required unless cursor or `lines` is provided"),
        ("output.query('x', {lines: [1]})", "lines must be [first, last], for example [10, 20]"),
        ("output.query('x', {lines: [3, 1]})", "lines: the last line is before the first"),
        (
            "output.query('x', {colour: 1})",
            "unknown option 'colour'; there are `cursor`, `stream`, `terms`, `lines`, `context` and `max`",
        ),
        ("output.query('x', {term: 1})", "unknown option 'term'; did you mean `terms`?"),
        ("output.query('x', {terms: ['a'], max: 0})", "max: Input should be greater than or equal to 1"),
        ("output.query('../x', {terms: ['a']})", "Invalid artifact handle: path traversal detected"),
        ("output.query()", "paddock.output.query(handle, options?): wrong number of arguments (0)"),
        ("health.check(1)", "wrong number of arguments (1)"),
        ("compute()", 'paddock.compute(source, input, options), for example paddock.compute("emit('),
        (
            "compute('1', 7)",
            "paddock.compute: input must be a string, not a number; write it with JSON.stringify",
        ),
        (
            "compute('1', '', {colour: 1})",
            "unknown option 'colour'; there are `timeoutMs`, `outputBytes`, `deterministic` and",
        ),
        ("compute('1', '', {timeout_ms: 5})", "unknown option 'timeout_ms'; did you mean `timeoutMs`?"),
        (
            "script.run('x', {partial: true})",
            "unknown option 'partial'; there are `vars`, `input` and `timeoutMs`",
        ),
        ("compute('1', '', {timeoutMs: 'x'})", "paddock.compute: timeoutMs: Input should be a valid integer"),
        ("compute('throw new Error(\"no\")')", "no"),
        ("compute('emit(typeof paddock.exec())')", "paddock"),
        ("tool(1)", 'paddock.tool(id, inputs, options), for example paddock.tool("word_count", '),
        ("tool('nowhere')", "Tool not found: nowhere"),
        ("tool('nowhere', {}, {colour: 1})", "unknown option 'colour'; there is `timeoutMs`"),
        ("tool('nowhere', [])", "the options must be one object, not an array"),
    ],
)
def test_misuse_is_told_to_the_program(desk, call, message):
    desk.open()
    outcome = desk.run(f"await paddock.{call}")
    assert outcome.status is Status.FAILED
    assert message in outcome.error.message


def test_health_tells_what_is_wrong_and_starts_no_server(desk):
    servers = {"time": {"command": "/nowhere/time"}, "git": {"command": "/nowhere/git"}}
    (desk.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    desk.open()
    value = desk.run("return paddock.health.check()").value
    ledger = value.pop("ledger")
    assert value.pop("tier") in ("landlock", "namespaces", "microvm")
    assert value == {"ok": True, "problems": [], "servers": ["git", "time"]}
    assert (ledger["ok"], ledger["records"]) == (True, 2)


def test_a_servers_file_that_is_none_is_a_problem_and_no_error(desk):
    (desk.workspace / ".mcp.json").write_text("{")
    desk.open()
    value = desk.run("return paddock.health.check()").value
    assert (value["ok"], value["servers"], len(value["problems"])) == (False, [], 1)
    assert value["problems"][0].startswith("servers: ")


TOOL = {"id": "count", "name": "count", "runtime": "python", "script": "script.py"}


def make_tool(desk, script, **manifest):
    folder = desk.workspace / ".paddock" / "tools" / "count"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text(json.dumps({**TOOL, **manifest}))
    (folder / "schema.json").write_text(json.dumps({"type": "object", "required": ["text"]}))
    (folder / "description.md").write_text("Counts words.")
    (folder / "script.py").write_text(script)


COUNT = """
import json, sys
given = json.load(sys.stdin)
print(json.dumps({"words": len(given["text"].split())}))
"""


def test_a_program_runs_a_script_tool(desk):
    make_tool(desk, COUNT)
    desk.open()
    outcome = desk.run("return await paddock.tool('count', {text: 'two words'})")
    assert outcome.error is None
    outcome.value.pop("durationMs")
    assert outcome.value == {
        "ok": True,
        "status": "ok",
        "output": {"words": 2},
        "stdout": '{"words": 2}\n',
        "stderr": "",
        "exitCode": 0,
        "error": None,
    }
    assert [record.fields["kind"] for record in desk.records()] == ["guest", "tool", "tool", "guest"]


def test_a_tool_that_fails_is_a_value(desk):
    make_tool(desk, "import sys; sys.exit(3)")
    desk.open()
    outcome = desk.run("return await paddock.tool('count', {text: ''})")
    assert (outcome.value["ok"], outcome.value["exitCode"]) == (False, 3)


def test_programs_of_agents_run_tools_only_as_the_settings_say(desk):
    make_tool(desk, COUNT)
    desk.open(sdk={"execute": ("exec",)})
    outcome = desk.run("await paddock.tool('count', {text: ''})", profile="execute")
    assert outcome.error.message == (
        "paddock.tool is not granted to programs of the profile execute; "
        "name it in `execute` under [sdk] in paddock.toml"
    )


def test_a_run_that_may_only_read_runs_no_tool_that_writes(desk):
    make_tool(desk, COUNT, workspace="workspace-write")
    desk.open(tools={"access": "workspace-write"})
    source = "await paddock.tool('count', {text: ''})"
    request = ExecutionRequest(
        workspace=desk.workspace, work=GuestRun(source=source, profile="script"), calls="read_only"
    )
    outcome = desk.execute(request)
    assert (outcome.error.name, outcome.error.message) == (
        "PolicyError",
        "this run may only read (read_only); ask for read-only access and no network",
    )


def test_a_script_that_runs_itself_is_stopped_before_it_takes_every_worker(desk):
    desk.open()
    folder = desk.workspace / ".paddock" / "scripts"
    folder.mkdir(parents=True)
    (folder / "again.js").write_text("return await paddock.script.run('again')")
    outcome = desk.run("return await paddock.script.run('again')")
    assert outcome.error.message == (
        "running a program is nested more than 7 deep; a script or a sequence that runs itself never ends"
    )


def test_a_rule_about_script_tools_holds_for_programs_too(desk):
    make_tool(desk, COUNT)
    desk.open(rules=[Rule(effect="deny", script="count", reason="not here")])
    outcome = desk.run("await paddock.tool('count', {text: ''})")
    assert (outcome.error.name, outcome.error.message) == ("PolicyError", "not here")


def test_a_rule_about_a_script_tool_is_spelled_in_any_case(desk):
    make_tool(desk, COUNT)
    desk.open(rules=[Rule(effect="deny", script="Count", reason="not here")])
    outcome = desk.run("await paddock.tool('count', {text: ''})")
    assert (outcome.error.name, outcome.error.message) == ("PolicyError", "not here")


def test_a_computation_gives_what_it_emits_within_its_limits(desk):
    desk.open()
    outcome = desk.run(
        """
        const caught = await paddock.compute("emit('x'.repeat(100))", "", {outputBytes: 10}).catch((e) => e.status);
        return [await paddock.compute("emit(read_input().length)", "four"), await paddock.compute(";"), caught];
        """,
        profile="execute",
    )
    assert outcome.value == ["4", "", "output_limit"]
    assert [record.fields.get("profile") for record in desk.records()].count("compute") == 6


def test_what_a_computation_emitted_is_there_beside_its_error(desk):
    desk.open()
    outcome = desk.run(
        """
        const told = ({name, message, status, partial}) => [name, message, status, partial];
        return Promise.all([
            paddock.compute("emit('\u00e9'.repeat(5))", "", {outputBytes: 3}),
            paddock.compute("emit(1); for (;;);", "", {timeoutMs: 2_000, partial: true}),
            paddock.compute("emit(1); throw new RangeError('no')", "", {partial: true}),
            paddock.compute("emit(1); throw new RangeError('no')"),
        ].map((call) => call.catch(told)));
        """
    )
    assert outcome.value == [
        ["OutputLimit", "output exceeded 3 bytes", "output_limit", "\u00e9"],
        ["Timeout", "execution exceeded 2000 ms", "timeout", "1"],
        ["RangeError", "no", "failed", "1"],
        ["RangeError", "no", "failed", None],
    ]
