"""Script tools run: what goes in, what comes out, in the words of the original (spec 4.2)."""

import errno
import functools
import http.server
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from paddock.engines.script_tools.authoring import findings
from paddock.gate.script_tool_service import make_tool_run
from paddock.model.limits import SCRIPT_BYTES
from paddock.model.network import NetworkRule
from paddock.model.outcome import Status
from paddock.model.tool import ToolEnd
from paddock.policy.settings.schema import AuditSettings, NetworkSettings, Settings, ToolSettings

ECHO = "import sys; print(sys.stdin.read())"


def facts(end: ToolEnd) -> tuple[bool, Any, int, str | None]:
    return end.success, end.output, end.exit_code, end.error


def test_p16_a_disabled_tool(workshop: Any):
    end = workshop.run(workshop.make(ECHO, enabled=False))
    assert facts(end) == (False, None, -1, "Tool is disabled")
    assert (end.stdout, end.stderr) == ("", "")
    assert end.duration_ms >= 0


def test_p17_a_missing_script_is_told_before_wrong_inputs(workshop: Any):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    tool = workshop.make(ECHO, schema=schema)
    assert workshop.run(tool).error == "Input validation failed: Missing required field: a"
    (workshop.directory(tool) / "script.py").unlink()
    assert workshop.run(tool).error == f"Script not found: {workshop.directory(tool)}/script.py"


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ({"script": "a" * 300}, f"Script not found: {{}}/{'a' * 300}"),
        ({"script": "a\0b"}, "Script not allowed: 'a\\x00b' is not a path"),
        ({"workingDir": "a" * 300}, f"Working directory not found: {'a' * 300}"),
    ],
)
def test_a_name_that_no_file_can_have(workshop: Any, manifest: dict[str, str], why: str):
    tool = workshop.make(ECHO)
    directory = workshop.directory(tool)
    (directory / "tool.yaml").write_text(
        json.dumps({"id": tool, "name": tool, "script": "script.py"} | manifest)
    )
    outcome = workshop.outcome(tool)
    assert (outcome.status, outcome.error.message) == (Status.INVALID, why.format(directory))
    assert [each.severity for each in findings(directory, ["python"])] == ["error"]


def test_a_script_that_cannot_be_read(workshop: Any, monkeypatch: pytest.MonkeyPatch):
    tool = workshop.make(ECHO)

    def refused(path: Path, _most: int, **_: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("paddock.gate.script_tool_service.read_bounded", refused)
    outcome = workshop.outcome(tool)
    why = f"Script cannot be read: Permission denied: {workshop.directory(tool)}/script.py"
    assert (outcome.status, outcome.error.message) == (Status.INVALID, why)


def test_a_script_that_would_fill_memory(workshop: Any):
    tool = workshop.make(ECHO)
    os.truncate(workshop.directory(tool) / "script.py", SCRIPT_BYTES + 1)
    said = f"Script larger than {SCRIPT_BYTES} bytes: {workshop.directory(tool)}/script.py"
    assert workshop.run(tool).error == said


def test_p18_an_unknown_runtime(workshop: Any):
    outcome = workshop.outcome(workshop.make("print(1)", name="x.lua", runtime="lua"))
    assert outcome.status is Status.INVALID
    assert facts(outcome.tool) == (False, None, -1, "No interpreter found for runtime 'lua'")
    assert outcome.error.hint.startswith("the runtimes are auto and node, typescript, python, shell, ")


def test_p19_json_comes_back_as_what_it_is(workshop: Any):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    script = """
        import json, sys
        inputs = json.load(sys.stdin)
        print(json.dumps({"words": len(inputs["text"].split())}))
    """
    outcome = workshop.outcome(workshop.make(script, schema=schema), text="two words")
    assert (outcome.status, outcome.value) == (Status.OK, {"words": 2})
    assert facts(outcome.tool) == (True, {"words": 2}, 0, None)
    assert outcome.tool.stdout == '{"words": 2}\n'


@pytest.mark.parametrize(
    ("printed", "output"),
    [
        ("hello", {"output": "hello"}),
        (" \n hello\nyou \n", {"output": "hello\nyou"}),
        ("", None),
        (" \n", None),
        ("42", 42),
        ('"s"', "s"),
        ("[1]", [1]),
        ("null", None),
        ("NaN", {"output": "NaN"}),
        ("1e999", {"output": "1e999"}),
        ("[" * 50_000, {"output": "[" * 50_000}),
    ],
    ids=["text", "lines", "nothing", "blank", "number", "quoted", "list", "null", "nan", "infinite", "deep"],
)
def test_p20_p21_p22_what_is_printed_becomes_the_output(workshop: Any, printed: str, output: Any):
    tool = workshop.make(f"import sys; sys.stdout.write({printed!r})")
    assert facts(workshop.run(tool)) == (True, output, 0, None)


def test_p23_a_failed_script_still_has_its_output(workshop: Any):
    outcome = workshop.outcome(
        workshop.make("import sys; print('{\"a\": 1}'); sys.stderr.write('bad'); sys.exit(3)")
    )
    assert outcome.status is Status.FAILED
    assert facts(outcome.tool) == (False, {"a": 1}, 3, "bad")


def test_p24_a_failure_without_a_word(workshop: Any):
    end = workshop.run(workshop.make("exit 5", name="x.sh"))
    assert facts(end) == (False, None, 5, "Process exited with code 5")


def test_p25_a_timeout_keeps_what_was_printed(workshop: Any):
    tool = workshop.make("echo part; echo err >&2; sleep 60", name="x.sh", timeout=3000)
    started = time.monotonic()
    outcome = workshop.outcome(tool)
    assert time.monotonic() - started < 30
    assert outcome.status is Status.TIMEOUT
    assert facts(outcome.tool) == (False, None, -1, "Script timed out after 3000ms")
    assert (outcome.tool.stdout, outcome.tool.stderr) == ("part\n", "err\n")


def test_p26_a_script_that_ignores_sigterm_is_killed(workshop: Any):
    script = """
        import signal, time
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        print("deaf", flush=True)
        while True:
            time.sleep(1)
    """
    end = workshop.run(workshop.make(script, timeout=700))
    assert facts(end) == (False, None, -1, "Script timed out after 700ms")


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM")])
def test_p27_a_death_by_signal_is_no_success(workshop: Any, number: int, name: str):
    end = workshop.run(workshop.make(f"echo 1; kill -{number} $$", name="x.sh"))
    assert facts(end) == (False, 1, 128 + number, f"Process was ended by {name}")


def test_p28_what_goes_on_in_the_background_is_not_waited_for_and_ends(workshop: Any):
    tool = workshop.make("sleep 600 & echo done", name="x.sh", timeout=60_000)
    assert facts(workshop.run(tool)) == (True, {"output": "done"}, 0, None)


def test_p29_a_timeout_is_cut_to_the_longest(workshop: Any):
    tool = workshop.make("print(1)", timeout=700_000)
    outcome = workshop.outcome(tool, limits={"timeout_ms": 600_000})
    assert outcome.decision.tool.timeout_ms == 300_000
    assert outcome.decision.reasons == (
        "the timeout of 600000 ms is over tools.max_timeout_ms, which holds instead",
    )
    assert workshop.outcome(tool).decision.tool.timeout_ms == 300_000
    assert workshop.outcome(workshop.make("print(1)", timeout=0.2)).decision.tool.timeout_ms == 1


def test_p30_secrets_of_the_environment_stay_outside(workshop: Any, monkeypatch: pytest.MonkeyPatch):
    for name in ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "value-of-it")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("EDITOR", "vi")
    environment = workshop.run(workshop.make("import json, os; print(json.dumps(dict(os.environ)))")).output
    assert {"PATH", "HOME", "LANG", "EDITOR"} <= set(environment)
    assert "value-of-it" not in json.dumps(environment)
    assert environment["HOME"] != os.environ["HOME"]


def test_p31_the_request_wins_over_the_tool_and_nobody_over_the_context(workshop: Any):
    script = "import json, os; print(json.dumps({k: os.environ.get(k) for k in ('A', 'B', 'SCRIPT_TOOL_ID', 'SCRIPT_PROMPT_ID', 'SCRIPT_TOOL_DIR')}))"
    own = {"A": "1", "B": "1", "SCRIPT_TOOL_ID": "x", "SCRIPT_TOOL_DIR": "y"}
    tool = workshop.make(script, folder="prompts/ask/tools", env=own)
    (workshop.workspace / "prompts/ask/prompt.yaml").write_text("")
    output = workshop.run(tool, env={"A": "2", "SCRIPT_PROMPT_ID": "z"}).output
    assert output == {
        "A": "2",
        "B": "1",
        "SCRIPT_TOOL_ID": tool,
        "SCRIPT_PROMPT_ID": "ask",
        "SCRIPT_TOOL_DIR": str(workshop.directory(tool, "prompts/ask/tools")),
    }


def test_p32_variables_in_a_tools_environment_are_expanded(workshop: Any, monkeypatch: pytest.MonkeyPatch):
    script = "import os; print(os.environ['K'])"
    tool = workshop.make(script, env={"K": "<${HOME}:${CI}:$HOME>"})
    monkeypatch.delenv("CI", raising=False)
    assert workshop.run(tool).output == {"output": f"<{os.environ['HOME']}::$HOME>"}


def test_p32_a_variable_that_tools_may_not_see_is_refused(workshop: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_KEY", "value-of-it")
    tool = workshop.make("import os; print(os.environ['K'])", env={"K": "${MY_KEY}"})
    why = "Variable MY_KEY is not given to tools; name it in `environment` under [tools] in paddock.toml"
    assert facts(workshop.run(tool)) == (False, None, -1, why)
    workshop.open(environment=("MY_KEY",))
    assert workshop.run(tool).output == {"output": "value-of-it"}


@pytest.mark.parametrize(
    ("name", "script", "runtime"),
    [
        ("x.py", "import sys; print(sys.executable)", "python"),
        ("x.PY", "import sys; print(sys.executable)", "python"),
        ("x.js", "console.log(process.execPath); require('fs')", "node"),
        ("x.mjs", "import 'fs'; console.log(process.execPath)", "node"),
        ("x.cjs", "console.log(process.execPath); require('fs')", "node"),
        ("x.sh", "readlink /proc/$$/exe", "bash"),
        ("x.bash", "readlink /proc/$$/exe", "bash"),
        ("x", "readlink /proc/$$/exe", "bash"),
        ("x.xyz", "readlink /proc/$$/exe", "bash"),
    ],
)
def test_p33_the_suffix_says_what_runs_a_script(workshop: Any, name: str, script: str, runtime: str):
    end = workshop.run(workshop.make(script, name=name))
    assert end.error is None
    assert Path(end.output["output"]).name.startswith(runtime)


def test_p33_a_named_runtime_wins_over_the_suffix(workshop: Any):
    assert workshop.run(workshop.make("echo $((6 * 7))", name="x.py", runtime="shell")).output == 42


def test_p34_inputs_that_nobody_reads_are_no_fault(workshop: Any):
    tool = workshop.make("print('done')")
    assert facts(workshop.run(tool, text="x" * 1_000_000)) == (True, {"output": "done"}, 0, None)


def test_p35_a_character_in_two_pieces_stays_whole(workshop: Any):
    script = """
        import os, time
        os.write(1, b"caf\\xc3")
        time.sleep(0.05)
        os.write(1, b"\\xa9")
    """
    assert workshop.run(workshop.make(script)).output == {"output": "café"}


def test_p36_the_working_directory(workshop: Any):
    script = "import os; print(os.getcwd())"
    tool = workshop.make(script)
    assert workshop.run(tool).output == {"output": str(workshop.directory(tool))}
    tool = workshop.make(script, workingDir="sub")
    assert workshop.run(tool).error == "Working directory not found: sub"
    (workshop.directory(tool) / "sub").mkdir()
    assert workshop.run(tool).output == {"output": f"{workshop.directory(tool)}/sub"}
    for place in ("../..", "/tmp", "sub/../.."):
        tool = workshop.make(script, workingDir=place)
        (workshop.directory(tool) / "sub").mkdir()
        why = f"Working directory not allowed: {place} leads out of the tool's directory"
        assert facts(workshop.run(tool)) == (False, None, -1, why)


def test_p44_an_interpreter_that_cannot_be_started(
    workshop: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    broken = tmp_path / "bin"
    broken.mkdir(mode=0o755)
    (broken / "bash").write_text("#!/nowhere/interpreter\n")
    (broken / "bash").chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken}:{os.environ['PATH']}")
    outcome = workshop.outcome(workshop.make("echo 1", name="x.sh"))
    assert outcome.status is Status.UNAVAILABLE
    assert (outcome.tool.success, outcome.tool.exit_code) == (False, -1)
    assert outcome.tool.error.startswith("Spawn error: ")


def test_a_runtime_that_is_not_installed_says_how_to_get_it(
    workshop: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    outcome = workshop.outcome(workshop.make("print(1)"))
    assert outcome.status is Status.UNAVAILABLE
    assert outcome.tool.error == "No interpreter found for runtime 'python'"
    assert outcome.error.hint == "paddock runtimes install python"


def test_typescript_has_its_own_runtime(workshop: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    outcome = workshop.outcome(workshop.make("const a: number = 1; console.log(a)", name="x.ts"))
    assert outcome.tool.error == "No interpreter found for runtime 'node'"
    assert outcome.error.hint == "paddock runtimes install typescript (a .ts script is run as TypeScript)"


def test_a_compiled_language_is_compiled_first(workshop: Any):
    program = """
        #include <stdio.h>
        int main(void) {
            char line[100];
            printf("{\\"got\\": %s}\\n", fgets(line, sizeof line, stdin));
            return 3;
        }
    """
    end = workshop.run(workshop.make(program, name="x.c"), a=1)
    assert facts(end) == (False, {"got": {"a": 1}}, 3, "Process exited with code 3")
    wrong = workshop.run(workshop.make("int main(void) { return x; }", name="x.c"))
    assert (wrong.success, wrong.output) == (False, None)
    assert "undeclared" in wrong.stderr


def test_inputs_arrive_as_compact_json(workshop: Any):
    schema = {"type": "object", "properties": {"list": {"type": "array"}}}
    tool = workshop.make(ECHO, schema=schema)
    end = workshop.run(tool, list=" [1, {}]", text="é", nothing=None)
    assert end.stdout == '{"list":[1,{}],"text":"é","nothing":null}\n'


def test_half_a_character_arrives_as_json(workshop: Any):
    tool = workshop.make(ECHO)
    end = workshop.run(tool, **{"half": "\ud83d", "other\udfff": ["é\ud800"]})
    assert end.stdout == '{"half":"\\ud83d","other\\udfff":["é\\ud800"]}\n'
    assert end.output == {"half": "\ud83d", "other\udfff": ["é\ud800"]}


def test_a_run_is_on_the_record_without_its_inputs(workshop: Any):
    tool = workshop.make("print('printed')")
    outcome = workshop.outcome(tool, text="given")
    records = [json.loads(line) for line in workshop.records().splitlines()]
    kinds = [(each["event"], each["name"]) for each in records if each.get("kind") == "tool"]
    assert kinds == [("started", tool), ("finished", tool)]
    assert (outcome.audit in workshop.records(), outcome.decision.audit_hash in workshop.records()) == (
        True,
        True,
    )
    assert "given" not in workshop.records()
    assert "printed" not in workshop.records()


def test_what_is_put_back_after_a_script_is_told(workshop: Any):
    workshop.open(access="workspace-write")
    script = "import os; os.mkdir(os.environ['PADDOCK_WORKSPACE'] + '/.vscode'); print(1)"
    outcome = workshop.outcome(workshop.make(script, workspace="workspace-write"))
    assert (outcome.status, outcome.value, outcome.tool.violations) == ("ok", 1, (".vscode",))
    assert outcome.tool.model_dump(mode="json", by_alias=True)["violations"] == [".vscode"]
    assert not (workshop.workspace / ".vscode").exists()
    assert json.loads(workshop.records().splitlines()[-1])["violations"] == [".vscode"]
    quiet = workshop.outcome(workshop.make("print(2)", workspace="workspace-write"))
    assert "violations" not in quiet.tool.model_dump(mode="json", by_alias=True)


def test_secrets_in_what_a_script_prints_are_removed(workshop: Any):
    key = "ghp_" + "a" * 30
    tool = workshop.make(f"import sys; print('{{\"k\": \"{key}\"}}'); sys.stderr.write('{key}'); sys.exit(1)")
    outcome = workshop.outcome(tool)
    assert key not in outcome.model_dump_json()
    assert outcome.tool.output == outcome.value == {"k": "[REDACTED:github-token]"}
    assert (outcome.tool.stderr, outcome.tool.error) == ("[REDACTED:github-token]", "[REDACTED:github-token]")


def test_a_tool_that_goes_between_request_and_run_is_not_run(workshop: Any):
    tool = workshop.make(ECHO)
    work = make_tool_run(workshop.session.scripts.library, tool, {})
    (workshop.directory(tool) / "tool.yaml").unlink()
    outcome = workshop.outcome(tool, work=work)
    assert outcome.status is Status.INVALID
    assert outcome.error.message.startswith(f"Tool not found: {tool}\n  searched:\n")


def test_a_tool_reaches_the_hosts_that_it_declares_and_a_rule_allows(workshop, tmp_path):
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "a.txt").write_text("hello")
    fetch = """
        import json, sys, urllib.error, urllib.request
        address = json.load(sys.stdin)["address"]
        try:
            print(json.dumps(urllib.request.urlopen(address).read().decode()))
        except urllib.error.HTTPError as error:
            print(json.dumps(error.read().decode()))
        """
    handler = functools.partial(_QuietHandler, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        rule = NetworkRule(
            host="localhost",
            effect="allow",
            ports=(server.server_port,),
            addresses=("127.0.0.0/8",),
            origin="user",
        )
        settings = Settings(
            audit=AuditSettings(directory=workshop.ledger),
            tools=ToolSettings(network="hosts"),
            network=NetworkSettings(rule=(rule,)),
        )
        workshop.start(settings)
        address = f"http://localhost:{server.server_port}/a.txt"
        every = workshop.make(fetch, network="hosts")
        other = workshop.make(fetch, network=["files.example.com", "localhost"])
        ended = workshop.outcome(every, address=address)
        assert (ended.tool.output, [each.verdict for each in ended.network]) == ("hello", ["allowed"])
        refused = workshop.outcome(every, address="http://files.example.com/")
        assert [each.verdict for each in refused.network] == ["refused"]
        denied = workshop.outcome(other, address=address)
        assert denied.decision.reasons == (
            'no rule allows files.example.com; add a [[network.rule]] with host = "files.example.com" and effect = "allow" to the user\'s '
            "paddock.toml",
        )
        server.shutdown()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
