"""`paddock tool`, as people and programs use it."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.command import PADDOCK
from tests.support.terminal import at_terminal

from paddock.engines.script_tools.authoring import OWN_TOOLS, create
from paddock.engines.script_tools.engine import ToolEngine
from paddock.surfaces.cli.root import command


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, folder in (("HOME", "home"), ("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    workspace = tmp_path / "ws"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    return workspace


def paddock(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(command, ["tool", *args], prog_name="paddock", input=stdin)


@pytest.mark.parametrize("runtime", ["python", "node", "shell"])
def test_a_new_tool_works(ws: Path, runtime: str):
    made = paddock("new", "count", "--runtime", runtime)
    assert (made.exit_code, made.stdout) == (0, f"{ws}/.paddock/tools/count\n")
    assert paddock("validate").stdout == "count\tok\t\n"
    done = paddock("run", "count", "--input", '{"text": "a b"}')
    assert (done.exit_code, json.loads(done.stdout), done.stderr) == (0, {"words": 2}, "")


def test_the_result_for_programs_has_the_changes_of_an_overlay(ws: Path):
    paddock("new", "makes", "--runtime", "shell")
    folder = ws / ".paddock/tools/makes"
    (folder / "tool.yaml").write_text("id: makes\nname: makes\nscript: script.sh\nworkspace: overlay\n")
    (folder / "script.sh").write_text('echo new > "$PADDOCK_WORKSPACE/made"\n')
    done = paddock("run", "makes", "--input", '{"text": ""}', "--set", "tools.access=overlay", "--json")
    changes = json.loads(done.stdout)["changes"]
    assert (changes["added"], changes["id"][:8]) == (1, "changes-")
    assert not (ws / "made").exists()


def test_the_result_for_programs_has_the_names_of_the_original(ws: Path):
    paddock("new", "count")
    (ws / "inputs.json").write_text('{"text": "a b"}')
    for given, stdin in (('{"text": "a b"}', ""), ("@inputs.json", ""), ("-", '{"text": "a b"}')):
        done = paddock("run", "COUNT", "--input", given, "--json", stdin=stdin)
        result = json.loads(done.stdout)
        assert result.pop("durationMs") > 0
        assert (done.exit_code, result) == (
            0,
            {
                "success": True,
                "output": {"words": 2},
                "stdout": '{"words": 2}\n',
                "stderr": "",
                "exitCode": 0,
                "error": None,
            },
        )


def test_what_went_wrong_is_said_once(ws: Path):
    paddock("new", "count")
    done = paddock("run", "count")
    assert (done.exit_code, done.stdout, done.stderr) == (
        1,
        "",
        "Input validation failed: Missing required field: text\n",
    )
    script = ws / ".paddock/tools/count/script.py"
    script.write_text("import sys; print('out'); sys.exit('bad')")
    done = paddock("run", "count", "--input", '{"text": ""}')
    assert (done.exit_code, done.stdout, done.stderr) == (1, "out\n", "bad\n")
    denied = paddock("run", "count", "--json", "--set", "tools.enabled=false")
    assert (denied.exit_code, json.loads(denied.stdout)["error"]) == (
        1,
        "Script tools are disabled in configuration (tools.enabled = false)",
    )
    wrong = paddock("run", "count", "--input", "[]")
    assert (wrong.exit_code, wrong.stderr.splitlines()[-1]) == (
        2,
        "Error: Invalid value for --input: must be a JSON object",
    )


def test_what_is_put_back_after_a_script_is_told(ws: Path):
    paddock("new", "plants", "--runtime", "shell")
    folder = ws / ".paddock/tools/plants"
    (folder / "script.sh").write_text("mkdir $PADDOCK_WORKSPACE/.vscode; printf 1; printf no >&2; exit $1")
    with (folder / "tool.yaml").open("a") as manifest:
        manifest.write("workspace: workspace-write\n")
    granted = ("run", "plants", "--set", "tools.access=workspace-write", "--input", '{"text": ""}')
    done = paddock(*granted)
    told = "restored, because your own tools run or trust it: .vscode\n"
    assert (done.exit_code, done.stdout, done.stderr) == (0, "1", f"no\n{told}")
    assert json.loads(paddock(*granted, "--json").stdout)["violations"] == [".vscode"]
    assert not (ws / ".vscode").exists()


def test_an_unknown_tool_says_where_was_looked(ws: Path):
    done = paddock("run", "nope", "--set", "tools.folders=more")
    places = (".paddock/tools", "", "prompts", "resources/prompts", "resources/scripts", "more")
    looked = "".join(f"    {ws / place}\n" for place in places)
    assert (done.exit_code, done.stderr) == (1, f"Tool not found: nope\n  searched:\n{looked}")


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        (
            "~nobody-of-that-name/x",
            "tools.folders: ~nobody-of-that-name is not the home of a user on this machine; name another folder\n",
        ),
        ("a\\u0000b", "tools.folders: a path contains a NUL character; remove it\n"),
    ],
)
def test_a_folder_that_is_no_path_is_told(ws: Path, folder: str, why: str):
    settings = ws.parent / "config/paddock/paddock.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[tools]\nfolders = ["{folder}"]\n')
    done = paddock("list")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", why)


def test_timeout_and_variables_of_a_run(ws: Path):
    paddock("new", "count")
    (ws / ".paddock/tools/count/script.py").write_text(
        "import os, time; print(os.environ['A'], flush=True); time.sleep(60)"
    )
    done = paddock("run", "count", "--input", '{"text": ""}', "--env", "A=1", "--timeout", "3", "--json")
    result = json.loads(done.stdout)
    assert (result["stdout"], result["error"]) == ("1\n", "Script timed out after 3000ms")


def test_tools_are_listed_with_what_is_wrong(ws: Path):
    paddock("new", "good")
    paddock("new", "off")
    paddock("new", "bad")
    tools = ws / ".paddock/tools"
    text = (tools / "off/tool.yaml").read_text()
    (tools / "off/tool.yaml").write_text(text + "enabled: false\n")
    (tools / "bad/schema.json").write_text("{")
    (ws / "prompts/ask/tools").mkdir(parents=True)
    (ws / "prompts/ask/prompt.yaml").touch()
    (tools / "good").rename(ws / "prompts/ask/tools/good")
    paddock("new", "good")
    assert paddock("list").stdout.splitlines() == [
        f"bad\tbroken\tschema.json: this is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\t{tools}/bad",
        f"good\t\tCounts the words of a text.\t{tools}/good",
        f"off\tdisabled\tCounts the words of a text.\t{tools}/off",
        f"good\thidden\tCounts the words of a text.\t{ws}/prompts/ask/tools/good",
    ]
    listed = json.loads(paddock("list", "--json").stdout)
    assert [(each["id"], each["state"]) for each in listed] == [
        ("bad", "broken"), ("good", ""), ("off", "disabled"), ("good", "hidden"),
    ]  # fmt: skip
    assert listed[3]["prompt"] == "ask"


def test_validate_finds_what_is_wrong_and_what_is_odd(ws: Path):
    paddock("new", "count")
    tool = ws / ".paddock/tools/count"
    manifest = (tool / "tool.yaml").read_text()
    (tool / "tool.yaml").write_text(
        manifest.replace("id: count", "id: other") + "timeOut: 5\nworkingDir: sub\n"
    )
    (tool / "script.py").unlink()
    checked = paddock("validate", "./.paddock/tools/count")
    assert (checked.exit_code, checked.stdout.splitlines()) == (
        1,
        [
            "count\terror\tScript not found: script.py",
            "count\terror\tWorking directory not found: sub",
            "count\twarning\ttool.yaml: unknown field `timeOut`",
            "count\twarning\ttool.yaml: id other is not the name of the directory",
        ],
    )
    (tool / "tool.yaml").write_text(manifest + "env: {A: 1}\n")
    wrong = {"severity": "error", "text": "tool.yaml: env.A: must be a text; put it in quotes"}
    checked = paddock("validate", "count", "--json")
    assert checked.exit_code == 1
    assert json.loads(checked.stdout)[0]["problems"] == [wrong]


def test_validate_knows_runtimes_and_the_tools_of_paddock_itself(ws: Path):
    paddock("new", "compute")
    manifest = ws / ".paddock/tools/compute/tool.yaml"
    manifest.write_text(manifest.read_text().replace("runtime: python", "runtime: lua"))
    lines = paddock("validate", "compute").stdout.splitlines()
    assert lines[0].startswith("compute\terror\ttool.yaml: there is no runtime lua; there are auto, node, ")
    assert lines[1] == (
        "compute\twarning\ttool.yaml: compute is a tool of Paddock itself, so `paddock serve mcp` does not offer this one"
    )
    documented = (Path(__file__).parents[4] / "docs/mcp-tools.md").read_text()
    assert frozenset(re.findall(r"^## `(\w+)`", documented, re.MULTILINE)) == OWN_TOOLS


def test_a_tool_is_known_by_the_name_of_its_directory_where_no_tool_has_that_id(ws: Path):
    paddock("new", "count")
    manifest = ws / ".paddock/tools/count/tool.yaml"
    manifest.write_text(manifest.read_text().replace("id: count", "id: other"))
    assert "id\tother\n" in paddock("show", "count").stdout
    assert paddock("show", "nowhere").exit_code == 1


def test_inputs_that_cannot_be_read_are_told(ws: Path):
    paddock("new", "count")
    run = paddock("run", "count", "--input", "@nowhere.json")
    assert (run.exit_code, run.stderr) == (1, "nowhere.json: cannot be read: No such file or directory\n")
    assert paddock("run", "count", "--input", "{").stderr.startswith("--input: this is not a JSON value: ")


def test_show_tells_what_a_tool_says_of_itself(ws: Path):
    paddock("new", "count")
    shown = paddock("show", "count").stdout
    assert "script\tscript.py\nruntime\tpython\nenabled\ttrue\n" in shown
    facts = json.loads(paddock("show", "count", "--json").stdout)
    assert (facts["id"], facts["manifest"]["timeout"], facts["manifest"]["schemaFile"]) == (
        "count",
        10000,
        "schema.json",
    )
    assert facts["inputSchema"]["required"] == ["text"]


@pytest.mark.parametrize("name", ["../x", "a b", "", "-x", "x" * 101, "a # b", '"a"', "!!str a", "a\n"])
def test_an_id_is_a_plain_word(ws: Path, name: str):
    made = paddock("new", "--", name)
    assert made.exit_code == 2
    assert "is not the id of a tool" in made.stderr
    assert list(ws.iterdir()) == []


@pytest.mark.parametrize("access", ["none", "read-only"])
def test_a_tool_may_be_kept_beside_the_settings(ws: Path, access: str):
    settings = ws.parent / "config/paddock/paddock.toml"
    create(settings.parent / "tools", "count", "shell")
    settings.write_text(f'[tools]\nfolders = ["{settings.parent}/tools"]\naccess = "{access}"\n')
    (settings.parent / "tools/count/script.sh").write_text('cat ../../paddock.toml; echo "[]"')
    done = paddock("run", "count", "--input", '{"text": "a b"}')
    assert (done.exit_code, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("name", ["count", "Count"])
def test_a_tool_that_is_there_is_neither_overwritten_nor_hidden(ws: Path, name: str):
    paddock("new", "count")
    again = paddock("new", name)
    assert (again.exit_code, again.stderr) == (
        1,
        f"{ws}/.paddock/tools/count exists already; choose another id or remove it\n",
    )
    assert [path.name for path in (ws / ".paddock/tools").iterdir()] == ["count"]


def test_match_shows_what_a_call_would_use(ws: Path):
    paddock("new", "count")
    assert paddock("match", "--input", '{"text": "x"}').stdout == "count\t0.9\tschema_match\t\n"
    [match] = json.loads(paddock("match", "--input", '{"tool": "count"}', "--json").stdout)
    assert (match["reason"], match["explicit"], match["inputs"]) == ("name_match", True, {})


def test_p42_p43_templates_are_filled_by_runs(ws: Path):
    paddock("new", "a")
    script = 'import json, pathlib; print(json.dumps({"count": 42}))'
    (ws / ".paddock/tools/a/script.py").write_text(script)
    (ws / "t.md").write_text("{{script:a.count}} + {{script:a.count text='x'}}")
    filled = paddock("fill", "t.md", "--input", '{"text": "x"}')
    assert (filled.exit_code, filled.stdout) == (0, "42 + 42\n")
    records = [
        json.loads(line)
        for path in (ws.parent / "state").rglob("*.ndjson")
        for line in path.read_text().splitlines()
    ]
    assert [each["event"] for each in records if each.get("kind") == "tool"] == ["started", "finished"]
    missing = paddock("fill", "-", "--json", "--input", '{"text": ""}', stdin="{{script:a.missing}}")
    assert (missing.exit_code, missing.stderr) == (
        1,
        'Field "missing" not found in script "a" output. Available: count\n',
    )
    assert paddock("fill", "-", stdin="{{script:b}}").stderr.startswith('Script "b" not found. Searched: ')
    failing = paddock("fill", "-", stdin="{{script:a}}")
    assert failing.stderr == (
        'Script "a" failed (exit code -1): Input validation failed: Missing required field: text\n'
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_a_template_in_order(
    ws: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
):
    paddock("new", "a")

    async def interrupted(*_: object) -> None:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    def unheeded(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(ToolEngine, "run", interrupted)
    before = signal.signal(number, unheeded)
    try:
        done = paddock("fill", "-", stdin="{{script:a}}")
    finally:
        signal.signal(number, before)
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", "Cancelled\n")
    [ledger] = (ws.parent / "state").rglob("*.ndjson")
    ends = [(each["event"], each.get("status")) for each in map(json.loads, ledger.read_text().splitlines())]
    assert ends == [("started", None), ("finished", "cancelled")]


def test_what_a_script_says_does_not_steer_the_terminal(ws: Path):
    paddock("new", "a")
    script = ws / ".paddock/tools/a/script.py"
    script.write_text(
        r"import sys; print('\x1b]0;t\x07out'); sys.exit('\x1b[2Jerr' if 'bad' in input() else 0)"
    )
    (ws / "t.md").write_text("{{script:a}}")

    def shown(*command: str) -> tuple[str, int]:
        return at_terminal([PADDOCK, "tool", *command], ws, os.environ)

    assert shown("run", "a", "--input", '{"text": "bad"}') == ("\\x1b]0;t\\x07out\r\n\\x1b[2Jerr\r\n", 1)
    assert shown("fill", "t.md", "--input", '{"text": ""}')[1] == 0
    assert shown("fill", "t.md", "--input", '{"text": "bad"}') == (
        'Script "a" failed (exit code 1): \\x1b[2Jerr\r\n',
        1,
    )
    piped = paddock("run", "a", "--input", '{"text": "bad"}')
    assert (piped.stdout, piped.stderr) == ("\x1b]0;t\x07out\n", "\x1b[2Jerr\n")
