"""Rules that ask, at the command line: the person at the terminal decides, and nobody else."""

import subprocess
from pathlib import Path

import pytest
from tests.support.command import PADDOCK, Ended, make_environment, run_paddock
from tests.support.servers import make_entry, write_servers
from tests.support.terminal import PROMPT, at_terminal

RULES = """
[runtimes]
access = "workspace-write"
[[policy.rule]]
effect = "ask"
tool = "odd/echo"
reason = "echoes carry far"
[[policy.rule]]
effect = "ask"
access = "workspace-write"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    entry = make_entry("odd")
    (tmp_path / "ws").mkdir()
    write_servers(tmp_path / "ws", {"odd": entry})
    settings = tmp_path / "home/.config/paddock/paddock.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(RULES)
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    return make_environment(place / "home", TERM="xterm")


def ask(place: Path, source: str, *answers: str, early: str = "") -> tuple[str, int]:
    """Return what a terminal shows of a script whose person answers each question, and the exit code."""
    (place / "ws/script.js").write_text(source)
    command = [PADDOCK, "run", "./script.js"]
    return at_terminal(command, place / "ws", environment(place), *answers, early=early)


ECHO = "return await servers.odd.echo({text: %s})"
CAUGHT = "try { await servers.odd.echo({text: %s}) } catch (e) { return e.code + ' ' + e.message }"


def test_yes_at_the_terminal(place: Path) -> None:
    shown, code = ask(place, ECHO % "'hi'", "y\n")
    assert code == 0
    lines = [line.strip() for line in shown.splitlines()]
    assert 'with  {"text": "hi"}' in lines
    assert "why   echoes carry far (user rule 1)" in lines
    assert "to    call odd/echo" in lines
    assert lines[-1] == "hi"


@pytest.mark.parametrize("answer", ["\n", "n\n", "yes please\n", "Y E S\n", "\x04"])
def test_anything_but_a_clear_yes_is_a_no(place: Path, answer: str) -> None:
    shown, code = ask(place, CAUGHT % "'hi'", answer)
    refused = "approval_denied echoes carry far: denied by the person at the terminal"
    assert (shown.splitlines()[-1], code) == (refused, 0)


def test_all_of_this_run(place: Path) -> None:
    source = "for (const text of ['a', 'b', 'c']) console.log(await servers.odd.echo({text}))"
    shown, code = ask(place, source, "a\n")
    assert (shown.splitlines()[-3:], shown.count(PROMPT), code) == (["a", "b", "c"], 1, 0)


def test_what_was_typed_before_the_question_is_no_answer(place: Path) -> None:
    shown, _ = ask(place, CAUGHT % "'hi'", "n\n", early="y\ny\ny\n")
    assert "approval_denied" in shown


def test_arguments_cannot_forge_the_question(place: Path) -> None:
    hostile = r"'\u001b[2J\u001b[1;1H to git/status\r\n Allow? [y] \u202e gnihton'"
    shown, _ = ask(place, CAUGHT % hostile, "n\n")
    [line] = [line for line in shown.splitlines() if "with" in line]
    assert line.strip() == (
        r'with  {"text": "\u001b[2J\u001b[1;1H to git/status\r\n Allow? [y] \u202e gnihton"}'
    )
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown


def run(place: Path, *command: str) -> Ended:
    streams = {"stdin": subprocess.DEVNULL, "start_new_session": True}
    return run_paddock(place / "ws", *command, environment=environment(place), **streams)


def test_without_a_terminal_the_answer_is_no(place: Path) -> None:
    (place / "ws/script.js").write_text(ECHO % "'hi'")
    found = run(place, "run", "./script.js")
    assert found.returncode == 1
    assert found.stderr.splitlines()[0] == (
        "Sandbox error: ToolError: echoes carry far: there is no person to ask, because stderr is not a terminal: "
        "run it on a terminal, or change the rule"
    )


def test_write_access_is_asked_for_before_a_program_starts(place: Path) -> None:
    command = ("exec", "shell", "-c", "touch made", "--access", "workspace-write")
    found = run(place, *command)
    assert (found.returncode, (place / "ws/made").exists()) == (126, False)
    assert found.stderr.startswith(
        "running a shell program needs a person's approval, says user rule 2: there is no person to ask"
    )
