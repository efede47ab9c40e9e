"""Sessions of Python with IPython's shell: its commands and its display, in the frames of the plain driver."""

import sys
import venv
from pathlib import Path

import pytest

from paddock import BlockingPaddock, Outcome, RequestError, Status

OVERRIDES = {"runtimes": {"timeout_ms": 120_000, "python": {"environment": sys.prefix}}}
SHORT_MS = 400
NO_PACKAGES = 'UsageError: a running session gets no packages: open a session with packages=["{0}"], or paddock repl --package {0}'


def run_all(workspace: Path, *programs: str) -> list[Outcome]:
    with (
        BlockingPaddock(workspace, overrides=OVERRIDES) as p,
        p.session("python", kernel="ipython") as s,
    ):
        return [s.run(program) for program in programs]


def test_values_and_commands(workspace: Path) -> None:
    outcomes = run_all(
        workspace,
        "x = 40; x",
        "_ + 2",
        "Out[2], _i1",
        "!echo on && echo {x}",
        "%%bash\necho from bash",
        "lines = !echo a; echo b\nlines",
        "5;",
        "import asyncio\nawait asyncio.sleep(0, 6)",
        "print('out'); import sys; print('error', file=sys.stderr)",
        "'%timeit' in dir() or get_ipython().run_line_magic('time', '7')",
    )
    texts = [outcome.text for outcome in outcomes]
    assert [outcome.status for outcome in outcomes] == [Status.OK] * len(outcomes)
    assert texts[:3] == ["40\n", "42\n", "(42, 'x = 40; x')\n"]
    assert texts[3] == "on\n40\n"
    assert texts[4:9] == ["from bash\n", "['a', 'b']\n", "", "6\n", "out\nerror\n"]
    assert texts[9].startswith("CPU times: ")
    assert [len(outcome.results) for outcome in outcomes] == [1, 1, 1, 0, 0, 1, 0, 1, 0, 1]
    assert [outcome.session.number for outcome in outcomes if outcome.session] == list(range(1, 11))


RICH = """
from IPython.display import HTML, Markdown, clear_output
class Page:
    def _repr_html_(self): return "<b>page</b>"
    def _repr_png_(self): return bytes.fromhex("89504e470d0a1a0a")
    def __repr__(self): return "page"
display(HTML("<i>x</i>"), Markdown("*x*"))
clear_output()
Page()
"""


def test_values_have_their_forms(workspace: Path) -> None:
    html, markdown, page = run_all(workspace, RICH)[0].results
    assert (html.html, markdown.markdown) == ("<i>x</i>", "*x*")
    assert (page.text, page.html, page.png) == ("page", "<b>page</b>", b"\x89PNG\r\n\x1a\n")


def test_figures_are_shown(workspace: Path) -> None:
    program = (
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nplt.plot([3]);"
    )
    (outcome,) = run_all(workspace, program)
    assert [sorted(result.data) for result in outcome.results] == [["image/png", "text/plain"]] * 2


FAILING = {
    "1 / 0": (1, "ZeroDivisionError: division by zero", 1),
    "x = 1\ndef f(:": (1, "SyntaxError: invalid syntax (In [1], line 2)", 2),
    "x = 1\nf = lambda: nothing\nf()": (1, "NameError: name 'nothing' is not defined", 2),
    "import sys; sys.exit(3)": (3, "SystemExit: 3", None),
    "%pip install x": (1, NO_PACKAGES.format("x"), 1),
    "!pip install x": (1, NO_PACKAGES.format("x"), 1),
    "%nothing": (1, "UsageError: Line magic function `%nothing` not found.", 1),
}


@pytest.mark.parametrize("program", FAILING)
def test_an_error_keeps_the_session(workspace: Path, program: str) -> None:
    code, message, line = FAILING[program]
    failed, after = run_all(workspace, program, "1 + 1")
    assert failed.error is not None
    assert failed.program is not None
    assert (failed.program.exit_code, failed.error.message, failed.error.line) == (code, message, line)
    assert failed.text.count("Traceback") == int(message.startswith(("Zero", "Name")))
    assert (failed.status, after.text) == (Status.FAILED, "2\n")


def test_leaving_and_interrupting_keep_the_session(workspace: Path) -> None:
    with (
        BlockingPaddock(workspace, overrides=OVERRIDES) as p,
        p.session("python", kernel="ipython") as s,
    ):
        assert s.run("x = 5; exit").status is Status.OK
        for program in ("while True: pass", "import time; time.sleep(1000)"):
            outcome = s.run(program, timeout_ms=SHORT_MS)
            assert (outcome.status, outcome.session and outcome.session.state) == (Status.TIMEOUT, "kept")
        assert s.run("x").text == "5\n"
        assert s.run("input()", stdin="typed\n").text == "'typed'\n"
        refused = p.exec("python", "1", session=s.id, kernel="ipython")
        assert refused.text == "1\n"


def test_a_session_needs_ipython_in_its_environment(workspace: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare")
    overrides = {"runtimes": {"timeout_ms": 120_000, "python": {"environment": str(tmp_path / "bare")}}}
    with BlockingPaddock(workspace, overrides=overrides) as p:
        outcome = p.exec("python", "1", session="new", kernel="ipython")
        plain = p.exec("python", "1", session="new")
        assert plain.session is not None
        other = p.exec("python", "1", session=plain.session.id, kernel="ipython")
        assert p.sessions() != ()
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message, outcome.error.hint) == (
        Status.UNAVAILABLE,
        "this session needs IPython, which its interpreter does not have",
        'name packages=["ipython"], or use an environment that has it (`environment` under [runtimes.python])',
    )
    assert other.error is not None
    assert other.error.message == "the session has the kernel plain, and the program wants ipython"


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        (
            {"kernel": "ipython"},
            '`kernel` and `background` are for sessions: give `session`, for example "new"',
        ),
        (
            {"kernel": "ipython", "session": "new", "language": "node"},
            "node has no kernel ipython; python has it",
        ),
        ({"kernel": "jupyter", "session": "new"}, "kernel: Input should be 'plain' or 'ipython'"),
    ],
)
def test_wishes_that_make_no_sense(workspace: Path, wishes: dict[str, str], message: str) -> None:
    with BlockingPaddock(workspace, overrides=OVERRIDES) as p, pytest.raises(RequestError) as found:
        p.exec(**{"language": "python", "code": "1", **wishes})
    assert str(found.value) == message


def test_commands_in_a_plain_session_name_the_kernel(workspace: Path) -> None:
    programs = [
        "%time 1",
        "!ls",
        "%pip install x",
        "get_ipython().run_line_magic('time', '1')",
        "get_ipython().history_manager",
    ]
    with BlockingPaddock(workspace, overrides=OVERRIDES) as p, p.session("python") as s:
        messages = [outcome.error.message for outcome in map(s.run, programs) if outcome.error]
    kernel = 'open a session with kernel="ipython", or paddock repl --kernel ipython'
    assert messages == [
        f"SyntaxError: %time is a command of IPython: {kernel} (In [1], line 1)",
        f"SyntaxError: !ls is a command of IPython: {kernel} (In [2], line 1)",
        'SyntaxError: %pip is a command of IPython: open a session with packages=["x"], or paddock repl --package x '
        "(In [3], line 1)",
        f"RuntimeError: %time is a command of IPython: {kernel}",
        f"AttributeError: no IPython runs here, so its shell has no 'history_manager': {kernel}",
    ]
