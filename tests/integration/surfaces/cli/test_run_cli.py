"""`paddock run` as people use it: the installed command, real scripts, a real guest. Cases M of the spec."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.command import PADDOCK, Ended, make_environment, run_paddock
from tests.support.processes import PATIENCE_S

CONTAINED = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
if os.geteuid() != 0:
    CONTAINED.append("--map-current-user")

Run = Callable[..., Ended]


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    for name in ("ws", "home", "other"):
        (tmp_path / name).mkdir()
    return tmp_path / "ws"


@pytest.fixture
def environment(ws: Path) -> dict[str, str]:
    return make_environment(ws.parent / "home")


@pytest.fixture
def run(ws: Path, environment: dict[str, str]) -> Run:
    def run(*args: str, stdin: str = "", **variables: str) -> Ended:
        where = {**environment, **variables}
        return run_paddock(ws, "run", *args, stdin=stdin, environment=where)

    return run


def write(path: Path, source: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)


def first_line(text: str) -> str:
    return text.partition("\n")[0]


def test_m1_the_workspace_comes_before_home(ws: Path, run: Run) -> None:
    write(ws / ".mentu/scripts/hello.ts", "return 'workspace'")
    write(ws.parent / "home/.mentu/scripts/hello.ts", "return 'home'")
    assert run("hello") == (0, "workspace\n", "")


def test_m2_home_is_found(ws: Path, run: Run) -> None:
    write(ws.parent / "home/.mentu/scripts/hello.ts", "return 'home'")
    assert run("hello") == (0, "home\n", "")


def test_m3_a_script_that_is_nowhere(ws: Path, run: Run) -> None:
    for folder in (ws, ws.parent / "home"):
        (folder / ".mentu/scripts").mkdir(parents=True)
    done = run("hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert first_line(done.stderr) == "Script not found: hello"
    assert f"{ws}/.mentu/scripts/hello.ts" in done.stderr
    assert f"{ws.parent}/home/.mentu/scripts/hello.ts" in done.stderr
    assert f"{ws}/.mentu/scripts/.ts (.js, .mjs)\n" in run("").stderr


def test_m4_a_path_is_not_searched_for(ws: Path, run: Run) -> None:
    write(ws / "my-scripts/audit.ts", "return 'path'")
    write(ws / ".mentu/scripts/audit.ts", "return 'name'")
    assert run("./my-scripts/audit.ts") == (0, "path\n", "")


def test_m4_a_path_may_be_a_pipe(ws: Path, run: Run) -> None:
    """As `<(...)` of a shell is one; it can be read once."""
    os.mkfifo(ws / "pipe.js")
    writer = threading.Thread(target=lambda: (ws / "pipe.js").write_text("return 42"))
    writer.start()
    assert run("./pipe.js") == (0, "42\n", "")
    writer.join()


def test_m5_the_workspace_option(ws: Path, run: Run) -> None:
    other = ws.parent / "other"
    write(other / ".mentu/scripts/hello.ts", "return mentu.workspace.path")
    assert run("--workspace", str(other), "hello") == (0, f"{other}\n", "")


def test_m6_variables_are_read_from_vars(ws: Path, run: Run) -> None:
    source = "console.log(`Hello, ${mentu.vars.NAME}!`)"
    assert run("-", "--var", "NAME=world", stdin=source) == (0, "Hello, world!\n", "")


def test_m7_variables_are_split_at_the_first_equals_sign(run: Run) -> None:
    assert run("-", "--var", "A=b=c", stdin="return mentu.vars.A === 'b=c'") == (0, "true\n", "")


def test_m8_the_last_of_two_variables_wins(run: Run) -> None:
    source = "return [mentu.vars.X, typeof mentu.vars.X]"
    assert run("-", "--var", "X=1", "--var", "X=2", stdin=source) == (
        0,
        '[\n  "2",\n  "string"\n]\n',
        "",
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("mentu.vars.NAME = 'x'", "Cannot assign to read only property 'NAME' of object"),
        ("mentu.foo = 1", "Cannot add property foo, object is not extensible"),
    ],
)
def test_m9_the_sdk_is_frozen(run: Run, source: str, message: str) -> None:
    done = run("-", "--var", "NAME=world", stdin=source)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Sandbox error: TypeError: {message}")


def test_m10_lines_and_value_in_order(run: Run) -> None:
    source = "console.log('one'); console.warn('two'); return {signals: 42, healthy: true}"
    expected = 'one\n[warn] two\n{\n  "signals": 42,\n  "healthy": true\n}\n'
    assert run("-", stdin=source) == (0, expected, "")


def test_m11_a_text_is_printed_as_it_is(run: Run) -> None:
    assert run("-", stdin="return 'plain'") == (0, "plain\n", "")


@pytest.mark.parametrize(
    ("source", "output"), [("return null", "null\n"), ("const x = 1", ""), ("return undefined", "")]
)
def test_m12_null_is_a_value_and_undefined_is_none(run: Run, source: str, output: str) -> None:
    assert run("-", stdin=source) == (0, output, "")


def test_m13_a_last_expression_is_the_result(run: Run) -> None:
    assert run("-", stdin="1 + 1") == (0, "2\n", "")


def test_m14_the_limit_of_the_code_size_is_exact(ws: Path, run: Run) -> None:
    source = "return 7 // "
    write(ws / "fits.js", source + "x" * (51_200 - len(source)))
    write(ws / "over.js", source + "x" * (51_201 - len(source)))
    assert run("./fits.js") == (0, "7\n", "")
    assert run("./over.js") == (
        1,
        "",
        "Code size exceeds limit (51200 bytes)\n"
        "  hint: the program has 51201 bytes; shorten it, or raise `limits.script.code_bytes` in paddock.toml\n",
    )


def test_m15_console_output_is_cut_once(run: Run) -> None:
    done = run("-", stdin="for (let i = 0; i < 12000; i++) console.log('x'.repeat(1000))")
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines), lines[-1]) == (0, 10_486, "[output truncated]")
    assert set(lines[:-1]) == {"x" * 1000}


SLEEP = "const t = Date.now(); await sleep({}); return Date.now() - t"


def test_m16_sleep_is_capped(run: Run) -> None:
    done = run("-", stdin=SLEEP.format(60_000), PADDOCK_LIMITS_SCRIPT_SLEEP_MS="50")
    assert done.returncode == 0
    assert 45 <= int(done.stdout) < 60_000


def test_m17_a_negative_sleep_ends_at_once(run: Run) -> None:
    done = run("-", stdin=SLEEP.format(-5))
    assert done.returncode == 0
    assert 0 <= int(done.stdout) < 30_000


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("for (;;) {}", r"Sandbox error: .*(timeout|timed out) after 1000ms", id="m18"),
        pytest.param("await new Promise(() => {})", r"Sandbox error: Execution timeout", id="m19"),
        pytest.param(
            "await sleep(0); for (;;) {}", r"Sandbox error: .*(timeout|timed out) after 1000ms", id="m20"
        ),
    ],
)
def test_m18_m19_m20_a_timeout_ends_everything(run: Run, source: str, message: str) -> None:
    done = run("-", "--timeout", "1", stdin=source)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(message, first_line(done.stderr))


def test_m21_nothing_of_the_host_is_there(run: Run) -> None:
    names = ["require", "process", "Buffer", "fetch", "module", "exports", "__dirname"]
    names += ["SharedArrayBuffer", "WebAssembly"]
    done = run("-", stdin=f"return [{', '.join(f'typeof {name}' for name in names)}]")
    assert done.stderr == ""
    assert json.loads(done.stdout) == ["undefined"] * len(names)


def test_m22_no_code_comes_from_strings(run: Run) -> None:
    attempts = [
        "() => eval('1')",
        "() => new Function('return 1')()",
        "() => (function () {}).constructor('return 1')()",
        "() => (async () => {}).constructor('')",
    ]
    source = (
        f"return [{', '.join(attempts)}].map(f => "
        "{ try { f(); return 'ran' } catch (e) { return [e instanceof EvalError, e.name] } })"
    )
    done = run("-", stdin=source)
    assert done.stderr == ""
    assert json.loads(done.stdout) == [[True, "EvalError"]] * 4


def test_m23_an_error_is_told_without_paths(ws: Path, run: Run) -> None:
    write(ws / "boom.js", "\nthrow new Error('boom')")
    done = run("./boom.js")
    assert (done.returncode, done.stdout) == (1, "")
    assert first_line(done.stderr) == "Sandbox error: boom"
    assert "line 2, column 7" in done.stderr
    for path in (str(ws.parent), "/src/", "site-packages", ".py"):
        assert path not in done.stderr


def test_m24_lines_before_an_error_are_printed(run: Run) -> None:
    done = run("-", stdin="console.log('one'); console.log('two'); throw new Error('x')")
    assert (done.returncode, done.stdout, first_line(done.stderr)) == (1, "one\ntwo\n", "Sandbox error: x")


def test_m25_servers_that_are_not_used_do_not_start(ws: Path, run: Run) -> None:
    assert run("-", stdin="return 1") == (0, "1\n", "")
    entry = {"command": "touch", "args": [str(ws / "started")]}
    write(ws / ".mcp.json", json.dumps({"mcpServers": {"x": entry}}))
    assert run("-", stdin="return 1") == (0, "1\n", "")
    assert not (ws / "started").exists()


def test_m29_a_comment_at_the_end_does_no_harm(run: Run) -> None:
    assert run("-", stdin="return 1 // note") == (0, "1\n", "")


def test_m30_types_are_taken_off(ws: Path, run: Run) -> None:
    write(ws / "typed.ts", "const n: number = 1; return n")
    assert run("./typed.ts") == (0, "1\n", "")


def test_a_program_that_does_not_parse_is_no_sandbox_error(ws: Path, run: Run) -> None:
    write(ws / "wrong.js", "return 1\nconst = 2\n")
    done = run("./wrong.js")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("SyntaxError: ")
    assert "line 2" in done.stderr


def test_json_and_the_ledger_tell_the_same(run: Run, environment: dict[str, str]) -> None:
    outcome = json.loads(
        run(
            "-",
            "--json",
            stdin="console.log('a'); return input",
        ).stdout
    )
    assert (outcome["status"], outcome["value"]) == ("ok", None)
    assert outcome["console"] == [{"level": "log", "text": "a"}]
    shown = run_paddock(None, "audit", "show", outcome["id"], "--json", environment=environment)
    records = json.loads(shown.stdout)
    assert [record["event"] for record in records] == ["started", "finished"]
    assert records[-1]["id"] == outcome["audit"]
    verified = run_paddock(None, "audit", "verify", environment=environment)
    assert (verified.returncode, verified.stdout[:13]) == (0, "ok: 2 records")


def test_ctrl_c_on_a_terminal_ends_the_script_in_order(ws: Path, environment: dict[str, str]) -> None:
    write(ws / "wait.js", "console.log('so far'); for (;;) await sleep(1_000)")
    ours, theirs = os.openpty()
    try:
        process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *CONTAINED, PADDOCK, "run", "./wait.js", "--timeout", "300"],
            cwd=ws, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        output = b""
        while b"so far\r\n" not in output:
            output += os.read(ours, 4096)
        os.write(ours, b"\x03")
        while chunk := _read(ours):
            output += chunk
        assert process.wait(PATIENCE_S) == 130
    finally:
        os.close(ours)
    assert re.fullmatch(r"so far\r\n(\^C)?Sandbox error: [^\r\n]*\r\n", output.decode())


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how the master learns that the last holder of the terminal is gone
        return b""


def test_a_rehearsal_lists_what_it_would_have_called(ws: Path, run: Run) -> None:
    server = Path(__file__).resolve().parents[3] / "servers" / "odd.py"
    entry = {"command": sys.executable, "args": ["-S", str(server)]}
    (ws / ".mcp.json").write_text(json.dumps({"mcpServers": {"odd": entry}}))
    rule = '[[policy.rule]]\neffect = "ask"\ntool = "odd/hang"\nreason = "it takes long"\n'
    (ws / "paddock.toml").write_text(f'[grants]\ncalls = "dry_run"\n{rule}')
    plan = (
        "planned, not called (2):\n"
        '  odd.echo({"text":"x"})\n'
        "  odd.hang({}) - a person would be asked: it takes long\n"
    )
    calls = "await servers.odd.echo({text: 'x'}); await servers.odd.hang({});"
    assert run("-", stdin=f"{calls} return 'done'") == (0, "done\n", plan)
    failed = run("-", stdin=f"{calls} throw new Error('no')")
    assert (failed.returncode, first_line(failed.stderr)) == (1, "Sandbox error: no")
    assert failed.stderr.endswith(f"\n{plan}")


def test_an_error_shows_what_had_called(ws: Path, run: Run) -> None:
    source = "const inner = (n) => n.a.b\nfunction outer() { return inner({}) }\nouter()"
    done = run("-", stdin=source)
    assert done == (
        1,
        "",
        "Sandbox error: TypeError: Cannot read properties of undefined (reading 'b')\n"
        "  at line 1, column 26\n"
        "    const inner = (n) => n.a.b\n"
        "                             ^\n"
        "  called from outer (line 2, column 27), line 3, column 1\n",
    )


def test_a_result_over_its_limit_is_stored_and_told(ws: Path, run: Run) -> None:
    rows = "return Array.from({length: 9}, (_, id) => ({id}))"
    limit = ("--set", "limits.script.result_bytes=40")
    done = run("-", *limit, stdin=rows)
    told = "Sandbox error: The result has 82 characters as JSON, and limits.script.result_bytes is 40\n"
    assert (done.returncode, done.stdout, done.stderr.startswith(told)) == (1, "", True)
    assert "  hint: Return less of it, or read it with: paddock output show runtime-" in done.stderr
    outcome = json.loads(run("-", *limit, "--json", stdin=rows).stdout)
    assert (outcome["status"], outcome["value"]) == ("output_limit", None)
    assert outcome["error"]["hint"].endswith(f"paddock output show {outcome['artifact']}")


def test_a_program_learns_how_to_configure_a_server(run: Run) -> None:
    ended = run("-", stdin="await servers.time.now({})")
    assert ended.stderr.splitlines()[0] == (
        "Sandbox error: ToolError: Unknown server: time; "
        "no servers are configured here; name one in .paddock/servers.json of the workspace"
    )
