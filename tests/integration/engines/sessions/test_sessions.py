"""Sessions: what one execution leaves is there in the next, in every language, by the library."""

import asyncio
import base64
from pathlib import Path

import pytest

from paddock import BlockingPaddock, InterpreterSession, Outcome, OutcomeError, Paddock, Status
from paddock.engines.sessions import interpreter

PATIENT = {"runtimes": {"timeout_ms": 120_000}}
SHORT_MS = 400
"""A timeout for programs that never end; it says nothing about the speed of the others."""


def run_all(workspace: Path, language: str, *programs: str, **overrides: object) -> list[Outcome]:
    """Return the outcomes of programs, one after another in one session."""
    with (
        BlockingPaddock(workspace, overrides={**PATIENT, **overrides}) as p,
        p.session(language) as s,
    ):
        return [s.run(program) for program in programs]


def say(outcome: Outcome) -> tuple[str, str, int | None]:
    """Return what most tests look at."""
    assert outcome.program is not None
    return outcome.status.value, outcome.text, outcome.program.exit_code


STATES = {
    "python": ("x = 40; import math", "def f(y): return x + y", "f(2)", "42\n"),
    "shell": ("x=40; cd / && export y=2", "f() { echo $((x + y)) $PWD; }", "f; echo -n $y", "42 /\n2"),
    "node": ("const x = 40; let y", "function f() { return x + y }; y = 2", "f()", "2\n42\n"),
    "ruby": ("x = 40; require 'set'; nil", "define_singleton_method(:f) { |y| x + y }; nil", "f(2)", "42\n"),
    "r": ("x <- 40; library(stats)", "f <- function(y) x + y", "f(2)", "[1] 42\n"),
}


@pytest.mark.parametrize("language", STATES)
def test_variables_and_functions_stay(workspace: Path, language: str) -> None:
    *programs, shown = STATES[language]
    outcomes = run_all(workspace, language, *programs)
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 3
    assert "".join(outcome.text for outcome in outcomes) == shown
    assert [outcome.session.number for outcome in outcomes if outcome.session] == [1, 2, 3]


FAILING = {
    "python": ("1 / 0", "ZeroDivisionError: division by zero", 1),
    "shell": ("echo no >&2; false", "The program exited with code 1", None),
    "node": ("const q = 1\nnull.x", "TypeError: Cannot read properties of null (reading 'x')", 2),
    "ruby": ("q = 1\nraise 'no'", "RuntimeError: no", 2),
    "r": ("stop('no')", "Error: no", None),
}


@pytest.mark.parametrize("language", FAILING)
def test_an_error_keeps_the_session(workspace: Path, language: str) -> None:
    program, message, line = FAILING[language]
    failed, after = run_all(
        workspace, language, program, {"r": "1 + 1", "shell": "echo 2"}.get(language, "1 + 1")
    )
    assert failed.error is not None
    assert (failed.status, failed.error.message, failed.error.line) == (Status.FAILED, message, line)
    assert failed.program is not None
    assert failed.program.exit_code == 1
    assert after.text.removeprefix("[1] ") == "2\n"


EXITS = {
    "python": "import sys; sys.exit(3)",
    "shell": "x=1; exit 3",
    "node": "process.exit(3)",
    "ruby": "exit 3",
}


@pytest.mark.parametrize("language", EXITS)
def test_an_exit_ends_the_program_alone(workspace: Path, language: str) -> None:
    ended, after = run_all(
        workspace, language, EXITS[language], "echo $x" if language == "shell" else "0 + 1"
    )
    assert (ended.status, ended.program and ended.program.exit_code) == (Status.FAILED, 3)
    assert after.text == "1\n"


ENDLESS = {
    "python": (
        "while True: pass",
        "import time; time.sleep(1000)",
        "import threading; threading.Event().wait()",
    ),
    "shell": ("while :; do :; done", "sleep 1000", "(sleep 1000); echo never"),
    "node": ("for (;;);", "await new Promise(() => {})", "1; for (;;) {}"),
    "ruby": ("loop {}", "sleep", "begin; sleep; ensure; 1; end"),
    "r": ("repeat {}", "Sys.sleep(1000)", "while (TRUE) 1"),
}


@pytest.mark.parametrize("language", ENDLESS)
def test_a_timeout_interrupts_and_keeps_the_session(workspace: Path, language: str) -> None:
    setting = "x=5" if language == "shell" else "x = 5" if language != "node" else "var x = 5"
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session(language) as s:
        s.run(setting)
        for program in ENDLESS[language]:
            outcome = s.run(program, timeout_ms=SHORT_MS)
            assert outcome.error is not None
            assert (outcome.status, outcome.error.message, outcome.session and outcome.session.state) == (
                Status.TIMEOUT,
                "The program ran out of time",
                "kept",
            ), program
        assert s.run("echo $x" if language == "shell" else "x").text.removeprefix("[1] ") == "5\n"


def test_a_limit_of_processor_time_interrupts_too(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        s.run("x = 5")
        outcome = s.run("while True: pass", cpu_ms=100)
        assert outcome.error is not None
        assert (outcome.status, outcome.error.message, outcome.session and outcome.session.state) == (
            Status.TIMEOUT,
            "The program used more CPU time than it may",
            "kept",
        )
        assert s.run("x", cpu_ms=60_000).text == "5\n"
        assert p.exec("python", "while True: pass", cpu_ms=100).program.limit == "cpu"


def test_sessions_can_be_forbidden(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides={**PATIENT, "sessions": {"enabled": False}}) as p:
        outcome = p.exec("python", "1", session="new")
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message) == (
        Status.DENIED,
        "Sessions are disabled in configuration (sessions.enabled = false)",
    )


def test_what_catches_the_interrupt_is_killed_and_its_session_lost(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "GRACE_MS", 500)
    program = "import time\nwhile True:\n  try: time.sleep(1000)\n  except BaseException: pass"
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        outcome = s.run(program, timeout_ms=SHORT_MS)
        again = s.run("1")
    assert (outcome.status, outcome.session and outcome.session.state) == (Status.TIMEOUT, "lost")
    assert again.status is Status.LOST
    assert again.error is not None
    assert (again.error.name, again.error.message, again.error.hint) == (
        "SessionLost",
        "The session is lost: its interpreter has ended, with all variables and files. Nothing ran.",
        'open another one with the session "new"',
    )
    assert again.session is not None
    assert (again.session.id, again.session.state) == (s.id, "lost")


RICH = """
class Page:
    def _repr_html_(self): return "<b>x</b>"
    def _repr_markdown_(self): return "**x**"
    def _repr_latex_(self): return "$x$"
    def _repr_svg_(self): return "<svg/>"
    def _repr_json_(self): return {"x": [1]}
    def __repr__(self): return "page"
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None): return {"text/html": "<i>y</i>", "text/plain": "y", "x/y": "z"}
print("before"); display(Bundle()); print("after", end="")
Page()
"""


def test_values_are_shown_in_all_their_forms(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        outcome = s.run(RICH)
        assert outcome.text == "before\ny\nafterpage\n"
        bundle, page = outcome.results
        assert bundle.data == {"text/plain": "y", "text/html": "<i>y</i>"}
        assert (page.text, page.html, page.markdown, page.latex, page.svg, page.json_value) == (
            "page",
            "<b>x</b>",
            "**x**",
            "$x$",
            "<svg/>",
            {"x": [1]},
        )
        assert sorted(page.handles) == ["image/svg+xml", "text/html", "text/latex", "text/markdown"]
        assert s.run("None").results == ()
        assert s.run("5;").results == ()
        assert s.run("_.__class__.__name__").text == "'Page'\n"


FORMS = """
import sys; sys.path[:] = [path for path in sys.path if "-packages" not in path]
from IPython.display import HTML, Image, Markdown, clear_output, display
clear_output(wait=True)
display(HTML("<b>x</b>"), {"text/plain": "raw", "text/html": "<i>raw</i>"}["text/plain"])
display({"text/plain": "raw", "text/html": "<i>raw</i>"}, raw=True)
Markdown("*x*")
"""
FAILING_FORM = """
class Page:
    def _repr_html_(self): raise ValueError("bad form")
    def _repr_latex_(self): raise NotImplementedError
    def __repr__(self): return "page"
Page()
"""


def test_programs_find_the_display_of_ipython_where_it_is_not_installed(workspace: Path) -> None:
    [outcome] = run_all(workspace, "python", FORMS)
    assert outcome.text == (
        "<IPython.core.display.HTML object>\n'raw'\nraw\n<IPython.core.display.Markdown object>\n"
    )
    assert [(result.html, result.markdown) for result in outcome.results] == [
        ("<b>x</b>", None),
        (None, None),
        ("<i>raw</i>", None),
        (None, "*x*"),
    ]


def test_a_form_that_fails_is_reported_and_the_others_are_shown(workspace: Path) -> None:
    [outcome] = run_all(workspace, "python", FAILING_FORM)
    assert (outcome.status, [result.data for result in outcome.results]) == (
        Status.OK,
        [{"text/plain": "page"}],
    )
    assert outcome.text == (
        "Traceback (most recent call last):\n"
        '  File "In [1]", line 3, in _repr_html_\n'
        '    def _repr_html_(self): raise ValueError("bad form")\n'
        "                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "ValueError: bad form\npage\n"
    )


def test_commands_of_ipython(workspace: Path) -> None:
    inline, pip = run_all(
        workspace, "python", "%matplotlib inline\nif True:\n    %matplotlib inline\n5", "1\n!pip list"
    )
    assert inline.text == "5\n"
    assert pip.error is not None
    assert pip.error.message == (
        'SyntaxError: !pip is a command of IPython: open a session with kernel="ipython", or paddock repl --kernel ipython (In [2], line 2)'
    )


def test_await_at_the_top_and_output_of_a_thread(workspace: Path) -> None:
    outcomes = run_all(
        workspace,
        "python",
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7",
        "await f()",
        "import threading, queue\nq = queue.Queue()\n"
        "t = threading.Thread(target=lambda: print('got', q.get(), flush=True), daemon=True); t.start()",
        "q.put(3); t.join()",
    )
    assert [outcome.text for outcome in outcomes] == ["", "7\n", "", "got 3\n"]


def test_an_input_belongs_to_one_execution(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p:
        for language, program in (("python", "input()"), ("ruby", "gets"), ("shell", "cat; echo")):
            with p.session(language) as s:
                first, second = s.run(program, stdin=b"a\xc3\xa9\n"), s.run(program)
                assert first.text.strip("\n'\"").removesuffix("\\n") == "a\u00e9", language
                assert second.status is (Status.FAILED if language == "python" else Status.OK)
        with p.session("node") as s, pytest.raises(OutcomeError, match="has no standard input"):
            s.run("1", stdin="x").check()


def test_files_of_a_session(workspace: Path) -> None:
    png = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    with (
        BlockingPaddock(workspace, overrides=PATIENT) as p,
        p.session("python", files={"a.csv": "1,2\n"}) as s,
    ):
        assert s.run("open('a.csv').read()").text == "'1,2\\n'\n"
        s.files.write("d/b.png", png)
        assert s.files.read("d/b.png") == png
        outcome = s.run(
            "import shutil, os; shutil.copy('d/b.png', 'c.png'); os.symlink('/etc/passwd', 'link')"
        )
        assert [(file.path, file.media_type, file.read() == png) for file in outcome.files] == [
            ("c.png", "image/png", True)
        ]
        assert s.run("1").files == ()
        outcome = s.run("open('a.csv', 'a').write('3')", outputs=["*.csv"])
        assert [(file.path, file.read()) for file in outcome.files] == [("a.csv", b"1,2\n3")]
        assert s.files.list()[0].read() == b"1,2\n3"
        assert [(file.path, file.size) for file in s.files.list()] == [
            ("a.csv", 5),
            ("c.png", len(png)),
            ("d/b.png", len(png)),
        ]
        s.files.remove("d/b.png")
        assert [file.path for file in s.files.list()] == ["a.csv", "c.png"]
        for path in ("../program.py", "/etc/passwd", "d"):
            with pytest.raises((ValueError, OSError)):
                s.files.read(path)


def test_two_callers_at_once_are_queued(workspace: Path) -> None:
    async def scenario() -> list[str]:
        async with Paddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
            await s.run("n = 0")
            runs = [s.run("a = n; import time; time.sleep(0.002); n = a + 1; n") for _ in range(20)]
            return sorted((outcome.text for outcome in await asyncio.gather(*runs)), key=int)

    assert asyncio.run(scenario()) == [f"{number}\n" for number in range(1, 21)]


def test_an_interrupt_and_a_cancellation_keep_the_session(workspace: Path) -> None:
    async def begin(s: InterpreterSession) -> "tuple[asyncio.Task[Outcome], asyncio.Event]":
        begun = asyncio.Event()
        task = asyncio.create_task(
            s.run("print('on', flush=True)\nimport time\ntime.sleep(1000)", on_output=lambda *_: begun.set())
        )
        await begun.wait()
        return task, begun

    async def scenario() -> None:
        async with Paddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
            await s.run("x = 5")
            task, _ = await begin(s)
            await s.interrupt()
            outcome = await task
            assert (outcome.status, outcome.session and outcome.session.state) == (Status.CANCELLED, "kept")
            task, _ = await begin(s)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await s.run("x")).text == "5\n"
            await s.interrupt()  # nothing runs
            assert (await s.run("x")).text == "5\n"

    asyncio.run(scenario())


def test_sessions_are_found_again_and_listed(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        s.run("x = 1")
        with p.session(id=s.id) as same:
            assert same.run("x").text == "1\n"
        assert [(each.id, each.language, each.executions, each.running) for each in p.sessions()] == [
            (s.id, "python", 2, False)
        ]
        s.close()
        assert p.sessions() == ()
        outcome = s.run("x")
        assert outcome.error is not None
        assert outcome.error.message == "The session is lost: it was closed. Nothing ran."
        guessed = p.exec("python", "1", session="s_" + "0" * 32)
        assert guessed.error is not None
        assert (guessed.status, guessed.error.message) == (
            Status.INVALID,
            "there is no such session, or it belongs to another caller",
        )


def test_languages_without_sessions_and_wrong_uses(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p:
        outcome = p.exec("rust", "fn main() {}", session="new")
        assert outcome.error is not None
        assert outcome.error.message == "rust has no sessions; python, shell, node, ruby, r have them"
        with pytest.raises(ValueError, match="a session runs `code`, and takes no `args`"):
            p.exec("python", "1", args=["x"], session="new")
        with pytest.raises(
            ValueError, match='give a language, for example "python", or the `id` of an open session'
        ):
            p.session()
        with pytest.raises(
            ValueError, match=r'`network` names hosts in a list, such as \["api.example.com"\]'
        ):
            p.exec("python", "1", network="api.example.com")
    granted = {**PATIENT["runtimes"], "environment": ["X"]}
    with (
        BlockingPaddock(workspace, overrides={"runtimes": granted}) as p,
        p.session("shell", env={"X": "5"}) as s,
    ):
        assert s.run("echo $X").text == "5\n"
        denied = p.exec("shell", "true", session=s.id, env={"X": "1"})
        assert denied.error is not None
        assert denied.error.message == "`env` is given when a session is opened; set variables in its program"


def test_a_session_is_in_the_record_and_its_handle_is_not(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p:
        opened = p.exec("python", "x = 1", session="new")
        assert opened.session is not None
        p.exec("python", "x", session=opened.session.id)
        records = [
            record.to_wire() if hasattr(record, "to_wire") else record for record in p.find_records(limit=20)
        ]
        text = str([vars(record) if hasattr(record, "__dict__") else record for record in records])
    assert opened.session.id not in text
    assert text.count("session_state") == 2


ODD = {
    "python": (
        (r"raise ValueError('\ud800')", "failed"),
        ("class J:\n  def _repr_json_(self): return [float('nan'), 10**400]\nJ()", "ok"),
        ("class H:\n  def _repr_html_(self): return 'é' * 2_500_000\nH()", "ok"),
        ("raise SystemExit(10**5000)", "failed"),
        ("import sys; sys.stderr = None; sys.exit('bye')", "failed"),
    ),
    "shell": (
        ("IFS=,", "ok"),
        ("exit 3", "failed"),
        ("set -e; false; echo no", "failed"),
        ("echo 'a\0b'", "ok"),
    ),
    "node": (("throw undefined", "failed"), (r"throw new Error('\ud800')", "failed")),
}


@pytest.mark.parametrize("language", ODD)
def test_odd_programs_keep_the_session(workspace: Path, language: str) -> None:
    outcomes = run_all(workspace, language, *(program for program, _ in ODD[language]))
    states = [outcome.session.state for outcome in outcomes if outcome.session]
    assert [outcome.status.value for outcome in outcomes] == [status for _, status in ODD[language]]
    assert states == ["kept"] * len(outcomes)


@pytest.mark.parametrize(
    ("language", "program"),
    [
        ("python", "import sys; sys.stdin.buffer.read().hex()"),
        ("ruby", "STDIN.binmode.read.unpack1('H*')"),
        ("shell", "od -An -tx1 | tr -d ' '"),
    ],
)
def test_input_may_be_any_bytes(workspace: Path, language: str, program: str) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session(language) as s:
        assert "ff005c30" in s.run(program, stdin=b"\xff\0\\0").text


def test_output_of_node_stays_in_its_program(workspace: Path) -> None:
    loop = "for (let i = 0; i < 50; i++) process.stdout.write('a'.repeat(10000)); undefined"
    first, second = run_all(workspace, "node", loop, "1")
    assert (first.text, second.text) == ("a" * 500_000, "1\n")


DIFFERENT = {
    "language": ({}, "shell", {}, "the session has the language python, and the program wants shell"),
    "network": (
        {},
        "python",
        {"network": "full"},
        "the session has the network none, and the program wants full",
    ),
    "packages": (
        {},
        "python",
        {"packages": ["x"]},
        "the session has no packages, and the program wants x",
    ),
    "executable": (
        {},
        "python",
        {"executable": "python3"},
        "the session has the executable of its language, and the program wants python3",
    ),
    "memory": (
        {"memory_bytes": 200 << 20},
        "python",
        {"memory_bytes": 100 << 20},
        "the session has the memory limit 209715200 bytes, and the program wants 104857600 bytes",
    ),
    "access": (
        {"access": "none"},
        "python",
        {"access": "read-only"},
        "the session has the access none, and the program wants read-only",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_a_session_does_not_have_is_refused(workspace: Path, what: str) -> None:
    opening, language, wishes, message = DIFFERENT[what]
    overrides = {"runtimes": {**PATIENT["runtimes"], "network": "full"}}
    with BlockingPaddock(workspace, overrides=overrides) as p, p.session("python", **opening) as s:
        refused = p.exec(language, "1", session=s.id, **wishes)
        assert refused.error is not None
        assert (refused.status, refused.error.message, refused.error.hint) == (
            Status.INVALID,
            message,
            'open another session with "new", which can have it',
        )
        assert s.run("1 + 1").text == "2\n"


def test_hints_name_the_limits_of_the_session(workspace: Path) -> None:
    overrides = {**PATIENT, "sessions": {"disk_bytes": 20 << 20}}
    fill = "for number in range(50): open(str(number), 'wb').write(bytes([1]) * (1 << 20))\nwhile True: pass"
    with (
        BlockingPaddock(workspace, overrides=overrides) as p,
        p.session("python", memory_bytes=200 << 20) as s,
    ):
        allocated, filled = s.run("bytearray(600 << 20)"), s.run(fill)
        assert allocated.error is not None
        assert filled.error is not None
        assert (allocated.status, allocated.error.hint) == (
            Status.MEMORY_LIMIT,
            "it had 200 MiB; runtimes.memory_bytes is the maximum",
        )
        assert filled.status is Status.OUTPUT_LIMIT
        assert filled.error.hint == "it may hold 20 MiB, and no path over 4,096 bytes"


def test_texts_of_node_that_are_not_complete(workspace: Path) -> None:
    outcome, after = run_all(workspace, "node", "await (", "1 + 1")
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message.partition(":")[0], after.text) == (
        Status.FAILED,
        "SyntaxError",
        "2\n",
    )


FRAME = """
df <- data.frame(a = 1:2, b = c("x<y", NA), l = I(list(1, "é")), row.names = c("<1>", "&"))
df
"""
TABLE = (
    "<table><thead><tr><th></th><th>a</th><th>b</th><th>l</th></tr></thead><tbody>"
    "<tr><th>&lt;1&gt;</th><td>1</td><td>x&lt;y</td><td>1</td></tr>"
    "<tr><th>&amp;</th><td>2</td><td>NA</td><td>\u00e9</td></tr></tbody></table>"
)


def test_data_frames_of_r_are_shown_as_html_too(workspace: Path) -> None:
    shown, large, long, empty, other = run_all(
        workspace,
        "r",
        FRAME,
        "data.frame(matrix(1, 300, 60))",
        "data.frame(a = strrep('x', 1000))",
        "data.frame(a = integer(0))",
        "invisible(df); summary(df$a)[['Max.']]",
    )
    [frame] = shown.results
    assert (frame.html, shown.text) == (TABLE, f"{frame.text}\n")
    assert large.results[0].html is not None
    assert large.results[0].html.endswith("</table><p>300 rows, 60 columns</p>")
    assert large.results[0].html.count("<td>1</td>") == 100 * 50
    assert long.results[0].html is not None
    assert f"<td>{'x' * 200}...</td>" in long.results[0].html
    assert empty.results[0].html == (
        "<table><thead><tr><th></th><th>a</th></tr></thead><tbody></tbody></table>"
    )
    assert (other.results, other.text) == ((), "[1] 2\n")
