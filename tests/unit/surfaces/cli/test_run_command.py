"""`paddock run` with a gate that answers as it is told."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from paddock.engines.saved_scripts import MAX_SCRIPT_BYTES, list_scripts
from paddock.gate.sequences.sequence import list_files as sequences_listed
from paddock.model.errors import NO_MORE_PROCESSES
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import ConsoleLine, ErrorInfo, Outcome, Status
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli.root import command

OK = Outcome(id="1", status=Status.OK)
Execute = Callable[..., Awaitable[Outcome]]


class Gate:
    """Records what it is asked and answers with an outcome, or as a function does."""

    def __init__(self, answer: Outcome | Execute = OK) -> None:
        self.requests: list[ExecutionRequest] = []
        self.settings: list[Settings] = []
        self.closed = 0
        self._answer = answer

    async def execute(self, request: ExecutionRequest, **options: object) -> Outcome:
        self.requests.append(request)
        return self._answer if isinstance(self._answer, Outcome) else await self._answer(request, **options)

    @asynccontextmanager
    async def open(self, settings: Settings, _workspace: Path, **_: str) -> AsyncIterator[SimpleNamespace]:
        self.settings.append(settings)
        try:
            yield SimpleNamespace(gate=self, warnings=())
        finally:
            self.closed += 1

    @property
    def work(self) -> GuestRun:
        (request,) = self.requests
        assert isinstance(request.work, GuestRun)
        return request.work


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("home", "config", "ws", "cwd"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "ws")
    return tmp_path / "home"


def write(path: Path, source: str = "1") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return path


def run(gate: Gate, *args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(command, ["run", *args], obj=gate.open, input=stdin, prog_name="paddock")


def test_m1_the_workspace_comes_before_home(home: Path) -> None:
    write(Path(".mentu/scripts/hello.ts"), "workspace")
    write(home / ".mentu/scripts/hello.ts", "home")
    gate = Gate()
    assert run(gate, "hello").exit_code == 0
    assert gate.work == GuestRun(
        source="workspace", name="hello.ts", language="typescript", profile="script", raw_results=True
    )


def test_m2_home_is_found(home: Path) -> None:
    write(home / ".mentu/scripts/hello.ts", "home")
    gate = Gate()
    run(gate, "hello")
    assert gate.work.source == "home"


def test_our_folder_comes_before_the_seeds_and_ts_before_js(home: Path) -> None:
    write(Path(".mentu/scripts/hello.ts"), "seed")
    write(Path(".paddock/scripts/hello.mjs"), "mjs")
    write(Path(".paddock/scripts/hello.js"), "js")
    gate = Gate()
    run(gate, "hello")
    assert (gate.work.source, gate.work.language, gate.work.raw_results) == ("js", "javascript", False)


def test_m3_a_script_that_is_nowhere(home: Path) -> None:
    write(Path(".paddock/scripts/hallo.ts"))
    gate = Gate()
    result = run(gate, "hello")
    ws = Path.cwd()
    assert (result.exit_code, result.stdout, gate.requests) == (1, "", [])
    assert result.stderr == (
        "Script not found: hello\n"
        "  searched:\n"
        f"    {ws}/.paddock/scripts/hello.ts (.js, .mjs)\n"
        f"    {home}/.paddock/scripts/hello.ts (.js, .mjs)\n"
        "  did you mean: hallo?\n"
    )


def test_m3_a_script_that_is_nowhere_beside_scripts_of_another_runner(home: Path) -> None:
    write(Path(".mentu/scripts/other.ts"))
    ws = Path.cwd()
    assert run(Gate(), "hello").stderr == (
        "Script not found: hello\n"
        "  searched:\n"
        f"    {ws}/.paddock/scripts/hello.ts (.js, .mjs)\n"
        f"    {ws}/.mentu/scripts/hello.ts (.js, .mjs)\n"
        f"    {home}/.paddock/scripts/hello.ts (.js, .mjs)\n"
    )


def test_where_there_is_no_script_at_all_it_is_told_how_to_make_one(home: Path) -> None:
    result = run(Gate(), "hello")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        1,
        "  there are no scripts yet; run `paddock script new` to make one",
    )


def test_m4_a_path_is_not_searched_for(home: Path) -> None:
    write(Path("my-scripts/audit.ts"), "path")
    write(Path(".paddock/scripts/audit.ts"), "name")
    gate = Gate()
    run(gate, "./my-scripts/audit.ts")
    assert gate.work.source == "path"
    assert (
        run(gate, "./nope.ts").stderr
        == f"Script not found: ./nope.ts\n  searched:\n    {Path.cwd()}/nope.ts\n"
    )


@pytest.mark.parametrize(
    "name", ["n" * 300, "n" * 300 + ".ts", "./" + "n" * 300, "~nobody-of-that-name/x.ts"]
)
def test_a_name_that_no_file_can_have_is_not_found(home: Path, name: str) -> None:
    write(Path(".paddock/scripts/hallo.ts"))
    result = run(Gate(), name)
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, f"Script not found: {name}")


def test_a_link_that_leads_to_no_name_hides_no_other(home: Path) -> None:
    scripts = write(Path(".paddock/scripts/hallo.ts")).parent
    (scripts / "aside.ts").symlink_to("n" * 300)
    assert [name for name, _ in list_scripts(Path())] == ["hallo"]
    assert run(Gate(), "hello").stderr.splitlines()[-1] == "  did you mean: hallo?"
    sequences = write(Path(".paddock/sequences/daily.toml")).parent
    (sequences / "aside.toml").symlink_to("n" * 300)
    assert [name for name, _ in sequences_listed(Path(), "sequences")] == ["daily"]


def test_m5_the_workspace_option(home: Path, tmp_path: Path) -> None:
    write(tmp_path / "other/.mentu/scripts/hello.ts", "other")
    gate = Gate()
    run(gate, "--workspace", "../other", "hello")
    assert (gate.work.source, gate.requests[0].workspace) == ("other", tmp_path / "other")


def test_m6_m7_m8_variables(home: Path) -> None:
    gate = Gate()
    run(
        gate,
        "-",
        "--var",
        "NAME=world",
        "--var",
        "A=b=c",
        "--var",
        "X=1",
        "--var",
        "X=2",
        "--var",
        "E=",
        stdin="1",
    )
    assert gate.work.vars == {"NAME": "world", "A": "b=c", "X": "2", "E": ""}
    assert (gate.work.source, gate.work.name, gate.work.language) == ("1", "stdin", "auto")


def test_a_variable_without_a_value_is_a_usage_error(home: Path) -> None:
    result = run(Gate(), "-", "--var", "NAME")
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: Invalid value for '--var': 'NAME' is not KEY=VALUE\n")


@pytest.mark.parametrize(
    ("name", "text", "variables"),
    [
        ("v.json", '{"A": "x", "B": 1.5, "C": true}', {"A": "x", "B": "1.5", "C": "true"}),
        ("v.toml", 'A = "x"\nB = 2\n', {"A": "x", "B": "2"}),
        ("v.json", '\ufeff{"A": "x"}', {"A": "x"}),
        ("v.env", "\ufeffA=1\n", {"A": "1"}),
        (
            ".env",
            '# c\n\nA=1 # c\nexport B = \'x # y\'\nC="a\\n\\"b\\"" # c\nD=\nE=a#b\n',
            {"A": "1", "B": "x # y", "C": 'a\n"b"', "D": "", "E": "a#b"},
        ),
    ],
)
def test_variables_from_a_file_come_second(
    home: Path, name: str, text: str, variables: dict[str, str]
) -> None:
    write(Path(name), text)
    gate = Gate()
    run(gate, "-", "--vars-file", name, "--var", "A=over", stdin="1")
    assert gate.work.vars == {**variables, "A": "over"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.json", "[]", "v.json: variables must be an object of names and texts\n"),
        (
            "v.json",
            '{"A": {}}',
            "v.json: A must be a text or a number; pass structured values with --input\n",
        ),
        ("v.env", "A=1\nnope\n", "v.env, line 2: this is not NAME=VALUE\n"),
        ("v.env", 'A="x\n', "v.env, line 1: the value of A has no closing quote\n"),
        ("v.yaml", "", "v.yaml: variables are read from .json, .toml and .env files\n"),
    ],
)
def test_files_of_variables_that_make_no_sense(home: Path, name: str, text: str, message: str) -> None:
    write(Path(name), text)
    result = run(Gate(), "-", "--vars-file", name, stdin="1")
    assert (result.exit_code, result.stderr) == (1, message)


def test_input_is_json_a_file_or_standard_input(home: Path) -> None:
    write(Path("in.json"), '\ufeff{"a": 1}')
    write(Path("s.js"))
    for args, stdin, value in (("[1]", "", [1]), ("@in.json", "", {"a": 1}), ("-", "null", None)):
        gate = Gate()
        assert run(gate, "s.js", "--input", args, stdin=stdin).exit_code == 0
        assert gate.work.input == value
    for text in ("{", "NaN", "[-Infinity]", '{"a": 1e999}'):
        assert run(Gate(), "s.js", "--input", text).stderr.startswith("--input: this is not a JSON value: ")
    assert run(Gate(), "-", "--input", "-").exit_code == 2


def test_timeout_and_jit_are_asked_for(home: Path) -> None:
    gate = Gate()
    run(gate, "-", "--timeout", "1.5", "--jit", stdin="1")
    assert (gate.requests[0].limits, gate.requests[0].jit) == (LimitOverrides(timeout_ms=1500), True)
    assert gate.settings[0].grants.jit
    assert (gate.requests[0].surface, gate.closed) == ("cli", 1)
    for wrong in ("0", "-1", "nan", "inf", "1e308", "x"):
        assert run(gate, "-", "--timeout", wrong).exit_code == 2


def test_the_jit_flag_does_not_pass_over_a_file_that_forbids_it(home: Path) -> None:
    write(home.parent / "config/paddock/paddock.toml", "[grants]\njit = false\n")
    gate = Gate()
    done = run(gate, "-", "--jit", stdin="1")
    assert (done.exit_code, gate.requests) == (1, [])
    assert done.stderr.startswith(
        "--set grants.jit: grants.jit = true allows more than false, which is what "
    )


def test_settings_come_from_variable_and_flag(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_LIMITS_SCRIPT_SLEEP_MS", "50")
    gate = Gate()
    run(gate, "-", "--set", "limits.script.output_bytes=7", stdin="1")
    limits = gate.settings[0].limits.script
    assert (limits.sleep_ms, limits.output_bytes) == (50, 7)
    assert gate.settings[0].guest.spare_workers == 0
    write(Path("paddock.toml"), "[grants]\njit = true\n")
    result = run(gate, "-", stdin="1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        f"{Path.cwd()}/paddock.toml, line 2: grants.jit = true allows more than false"
    )


def test_m24_x40_console_lines_are_printed_before_the_error(home: Path) -> None:
    lines = (ConsoleLine(level="log", text="one"), ConsoleLine(level="error", text="two"))
    gate = Gate(
        Outcome(
            id="1", status=Status.FAILED, console=lines, error=ErrorInfo(name="Error", message="boom", line=3)
        )
    )
    result = run(gate, "-", stdin="1")
    assert (result.exit_code, result.stdout) == (1, "one\n[error] two\n")
    assert result.stderr == "Sandbox error: boom\n  at line 3\n"


def test_m10_m12_value_after_lines_and_nothing_for_undefined(home: Path) -> None:
    line = ConsoleLine(level="warn", text="\x1b[31mred")
    outcome = Outcome(id="1", status=Status.OK, console=(line,), value={"a": 1}, has_value=True)
    assert run(Gate(outcome), "-").stdout == '[warn] \x1b[31mred\n{\n  "a": 1\n}\n'
    assert run(Gate(), "-").stdout == ""


def test_json_is_the_outcome(home: Path) -> None:
    outcome = Outcome(id="1", status=Status.FAILED, error=ErrorInfo(name="Error", message="boom"), audit="7")
    result = run(Gate(outcome), "-", "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    assert Outcome.model_validate(json.loads(result.stdout)) == outcome


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_stops_and_prints_what_there_is(home: Path, number: signal.Signals, code: int) -> None:
    line = ConsoleLine(level="log", text="so far")
    error = ErrorInfo(name="Cancelled", message="Cancelled")
    outcome = Outcome(id="1", status=Status.CANCELLED, console=(line,), error=error, in_flight=1)

    async def answer(
        request: ExecutionRequest,
        *,
        on_console: Callable[[ConsoleLine], None],
        stop: asyncio.Event,
        **_: None,
    ) -> Outcome:
        on_console(line)
        os.kill(os.getpid(), number)
        await stop.wait()
        return outcome

    gate = Gate(answer)
    result = run(gate, "-", stdin="1")
    assert (result.exit_code, result.stdout, gate.closed) == (code, "so far\n", 1)
    flying = "  calls completed before the error: 0; 1 in flight, their effect is unknown\n"
    assert result.stderr == f"Sandbox error: Cancelled\n{flying}"
    result = run(gate, "-", "--json", stdin="1")
    assert (result.exit_code, result.stderr) == (code, "")
    assert Outcome.model_validate(json.loads(result.stdout)) == outcome


def test_a_script_that_is_no_text(home: Path) -> None:
    Path("x.js").write_bytes(b"a\xff")
    result = run(Gate(), "x.js")
    assert (result.exit_code, result.stderr) == (
        1,
        "x.js: this is not UTF-8 text (byte 2); save it as UTF-8\n",
    )


@pytest.mark.parametrize("argument", ["huge", ".paddock/scripts/huge.js"])
def test_a_script_that_would_fill_memory(home: Path, argument: str) -> None:
    os.truncate(write(Path(".paddock/scripts/huge.js")), MAX_SCRIPT_BYTES + 1)
    result = run(Gate(), argument)
    told = f"{argument}: cannot read this script: larger than {MAX_SCRIPT_BYTES} bytes\n"
    assert (result.exit_code, result.stderr) == (1, told)


def test_a_program_that_would_fill_memory(home: Path) -> None:
    result = run(Gate(), "-", stdin="x" * (MAX_SCRIPT_BYTES + 1))
    told = f"standard input: cannot read this script: larger than {MAX_SCRIPT_BYTES} bytes\n"
    assert (result.exit_code, result.stderr) == (1, told)


@pytest.mark.usefixtures("home")
def test_a_thread_that_cannot_start_is_told_in_a_line() -> None:
    async def no_thread(*_: object, **__: object) -> Outcome:
        raise RuntimeError("can't start new thread")

    result = run(Gate(no_thread), "-", stdin="1")
    assert (result.exit_code, result.stderr) == (1, f"{NO_MORE_PROCESSES}\n")


@pytest.mark.usefixtures("home")
def test_a_fault_of_our_own_is_not_taken_for_one_of_the_machine() -> None:
    async def faulty(*_: object, **__: object) -> Outcome:
        raise RuntimeError("a fault")

    assert repr(run(Gate(faulty), "-", stdin="1").exception) == "RuntimeError('a fault')"
