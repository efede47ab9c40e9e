"""`paddock repl` at a real terminal, and with a program on standard input."""

import json
import re
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.test_exec_files import PNG
from tests.support.command import PADDOCK, PATIENT, Ended, make_environment, run_paddock
from tests.support.terminal import Dialogue

LOST = "The session is lost: its interpreter has ended, with all variables and files.\n  :reset opens another one.\n"
MISSING = "there is no session: :reset opens another one\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return make_environment(tmp_path / "home")


Say = Callable[[str], str]


@contextmanager
def open_repl(
    workspace: Path, environment: dict[str, str], *words: str, language: str = "python", code: int = 0
) -> Iterator[tuple[Say, Dialogue]]:
    """Give a function that types a line, and returns what the prompt shows until it waits again."""
    talk = Dialogue([PADDOCK, "repl", language, *words, *PATIENT], workspace, environment)
    prompts = f"{language}> ", f"{'...'.rjust(len(language))}> "

    def say(line: str) -> str:
        talk.type(f"{line}\r")
        return talk.wait_for("> ").removeprefix(f"{line}\n").removesuffix(prompts[0][:-2])

    talk.wait_for(prompts[0])
    yield say, talk
    assert talk.finish() == code


def clear_line(talk: Dialogue) -> None:
    """Type Ctrl-C at a prompt. Python notices it at once, or at the return key if readline is just busy with a key."""
    talk.type("\x03")
    talk.type("\r")


def pipe(workspace: Path, environment: dict[str, str], program: str, *words: str) -> Ended:
    return run_paddock(workspace, "repl", *words, *PATIENT, stdin=program, environment=environment)


@pytest.mark.parametrize("word", [":quit", "exit()", "quit"])
def test_words_that_leave_the_prompt(workspace: Path, environment: dict[str, str], word: str) -> None:
    with open_repl(workspace, environment) as (say, talk):
        assert say("print(1)") == "1\n"
        talk.type(f"{word}\r")


def test_programs_of_several_lines_and_their_state(workspace: Path, environment: dict[str, str]) -> None:
    with open_repl(workspace, environment) as (say, talk):
        assert say("x = 40") == ""
        say("def f(y):")
        say("    return x + y")
        assert say("") == ""
        assert say("f(2)") == "42\n"
        assert say("print(1, end='')") == "1\n"
        say(":paste")
        say("y = 1")
        say("")
        say("x + y")
        assert say(":end") == "41\n"
        assert "NameError: name 'nothing' is not defined\n" in say("nothing")
        say("async def g():")
        say("    return 7")
        say("")
        assert say("await g()") == "7\n"
        talk.type("\x04")


@pytest.mark.parametrize(
    ("language", "lines", "shown"),
    [
        ("shell", ("x=4\\", "2", "echo $x"), "42\n"),
        ("node", ("const x = 4 +\\", "38", "x"), "42\n"),
        ("ruby", ("x = 4 + \\", "38", "x"), "42\n"),
        ("r", ("x <- 4 +\\", "38", "x"), "[1] 42\n"),
    ],
)
def test_other_languages_continue_a_line_with_a_backslash(
    workspace: Path, environment: dict[str, str], language: str, lines: tuple[str, ...], shown: str
) -> None:
    with open_repl(workspace, environment, language=language) as (say, talk):
        assert [say(line) for line in lines][-1] == shown
        talk.type("\x04")


def test_an_interrupt_keeps_the_session_and_clears_the_line(
    workspace: Path, environment: dict[str, str]
) -> None:
    with open_repl(workspace, environment) as (say, talk):
        say("x = 5")
        talk.type("import time; print('begun', flush=True); time.sleep(1000)\r")
        talk.wait_for("begun\n")
        talk.type("\x03")
        assert "KeyboardInterrupt\nThe program was cancelled\n" in talk.wait_for("python> ")
        talk.type("half of a line")
        talk.wait_for("half of a line")
        clear_line(talk)
        talk.type("x\r")
        talk.wait_for("\n5\npython> ")
        talk.type("\x04")


def test_a_lost_session_is_reported_once_and_another_one_is_opened_on_demand(
    workspace: Path, environment: dict[str, str]
) -> None:
    with open_repl(workspace, environment, "--env", "COLOR=blue") as (say, talk):
        say("x = 5")
        assert say("import os; os.kill(os.getpid(), 9)") == f"The program was ended by SIGKILL\n{LOST}"
        assert [say("x"), say(":files")] == [MISSING, MISSING]
        assert say(":reset") == "another session is open\n"
        assert "NameError" in say("x")
        assert say("import os; os.environ['COLOR']") == "'blue'\n"
        say("x = 6")
        assert say(":reset") == "another session is open\n"
        assert "NameError" in say("x")
        talk.type("\x04")


def test_a_session_that_expired_at_the_prompt_is_lost(workspace: Path, environment: dict[str, str]) -> None:
    with open_repl(workspace, environment, "--set", "sessions.idle_ms=1") as (say, talk):
        shown = say("1")
        while "is lost" not in shown:  # it expires as soon as it is idle
            shown = say("1")
        assert shown == (
            "The session is lost: it was not used for 1 ms (sessions.idle_ms). Nothing ran.\n"
            "  hint: :reset opens another one\n"
        )
        assert say("1") == MISSING
        talk.type("\x04")


FIGURE = f"class F:\r  def _repr_png_(self): return bytes.fromhex('{PNG.hex()}')\r"


def test_images_and_files_are_written_and_named(workspace: Path, environment: dict[str, str]) -> None:
    (workspace / "in.csv").write_text("1,2")
    with open_repl(workspace, environment, "--file-in", "in.csv", "--output-dir", "out") as (say, talk):
        talk.type(":paste\r" + FIGURE + ":end\r")
        talk.wait_for("python> ")
        assert say("F()").endswith("result-2.png (70 bytes): out/result-2.png\n")
        assert say("_ = open('a.txt', 'w').write('one')") == "a.txt (3 bytes): out/a.txt\n"
        assert say("_ = open('a.txt', 'w').write('four')") == "a.txt (4 bytes): out/a-2.txt\n"
        assert say("_ = open('.envrc', 'w').write('x')") == (
            ".envrc (1 byte) was not written, because tools may run what .envrc holds\n"
        )
        assert say(":files") == ".envrc (1 byte)\na.txt (4 bytes)\nin.csv (3 bytes)\n"
        assert say(":save in.csv") == "in.csv (3 bytes): out/in.csv\n"
        assert say(":save none").startswith("none cannot be read: there is no such file;")
        assert say(":save ../in.csv").startswith("'../in.csv' ")
        assert say("import os; os.symlink('/etc/passwd', 'link')") == ""
        assert say(":save link") == "link is a link, or leads through one; links are not followed\n"
        talk.type("\x04")
    names = {path.name: path.read_bytes() for path in (workspace / "out").iterdir()}
    assert names == {"result-2.png": PNG, "a.txt": b"one", "a-2.txt": b"four", "in.csv": b"1,2"}


def test_without_a_directory_images_go_to_a_private_temporary_one(
    workspace: Path, environment: dict[str, str]
) -> None:
    with open_repl(workspace, environment) as (_, talk):
        write = f"_ = open('p.png', 'wb').write(bytes.fromhex('{PNG.hex()}')); _ = open('b', 'w').write('b')"
        talk.type(f":paste\r{write}\r:end\r")
        talk.wait_for("b (1 byte) stays in the session; :save b writes it\n")
        shown = talk.wait_for("python> ")
        talk.type("\x04")
    found = re.search(r"p\.png \(70 bytes\): (.+/paddock-repl-[^/]+)/p\.png\n", shown)
    assert found is not None
    folder = Path(found[1])
    assert (stat.S_IMODE(folder.stat().st_mode), (folder / "p.png").read_bytes()) == (0o700, PNG)
    shutil.rmtree(folder)


SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0" + "K1l2M3n4O5p6Q7r8"


def test_the_history_is_private_and_has_no_secrets(
    workspace: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    with open_repl(workspace, environment, "--output-dir", "out") as (say, talk):
        say("x = 41")
        say(f"token = '{SECRET}'")
        say(":paste")
        say("# a program that has one")
        say(f"token = '{SECRET}'")
        say(":end")
        talk.type("\x10\r")  # the line before
        talk.wait_for("python> ")
        assert say("x + 1") == "42\n"
        say("open('t', 'w').write(token)")
        assert SECRET not in say(":save t")
        talk.type("\x04")
    file = tmp_path / "home/.local/state/paddock/repl_history"
    assert file.read_text() == "x = 41\nx = 41\nx + 1\nopen('t', 'w').write(token)\n:save t\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with open_repl(workspace, environment, language="shell") as (_, talk):
        talk.type("\x10")
        talk.wait_for(":save t")
        clear_line(talk)
        talk.type("echo $((41 + 1))\r")
        talk.wait_for("\n42\nshell> ")
        talk.type("\x04")
    assert SECRET not in "".join(
        path.read_text("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_prompt_and_the_program(
    workspace: Path, environment: dict[str, str], number: int
) -> None:
    with open_repl(workspace, environment, code=128 + number) as (_, talk):
        talk.signal(number)
        talk.type("\r")
    with open_repl(workspace, environment, code=128 + number) as (_, talk):
        talk.type("import time; print('begun', flush=True); time.sleep(1000)\r")
        talk.wait_for("begun\n")
        talk.signal(number)


def test_controls_of_a_program_do_not_reach_the_terminal(
    workspace: Path, environment: dict[str, str]
) -> None:
    with open_repl(workspace, environment) as (say, talk):
        assert say(r"print('\x1b]0;' + 'owned\x07')") == "\\x1b]0;owned\\x07\n"
        assert say(r"_ = open('\x1b]0;x', 'w').write('')").startswith(
            "\\x1b]0;x (0 bytes) stays in the session;"
        )
        assert say(r"_ = open('y\nz (9 bytes)', 'w').write('')").startswith(
            "y\\x0az (9 bytes) (0 bytes) stays"
        )
        assert say(":files") == "\\x1b]0;x (0 bytes)\ny\\x0az (9 bytes) (0 bytes)\n"
        talk.type("\x04")


@pytest.mark.parametrize(
    ("words", "program", "told"),
    [
        ((), "x = 40\nx + 2\n", (0, "42\n", "")),
        (("python",), "print(1)\nraise SystemExit(3)", (3, "1\n", "")),
        (("shell",), "echo no >&2; exit 4", (4, "no\n", "")),
        ((), "", (0, "", "")),
        (("python", "--timeout", "0.3"), "while True: pass", (124, None, None)),
        (("rust",), "1", (2, "", "rust has no sessions; python, shell, node, ruby, r have them\n")),
        (("nope",), "1", (127, "", "there is no runtime nope; did you mean node?\n")),
    ],
)
def test_a_program_of_standard_input_gives_the_exit_code(
    workspace: Path,
    environment: dict[str, str],
    words: tuple[str, ...],
    program: str,
    told: tuple[int, str | None, str | None],
) -> None:
    done = pipe(workspace, environment, program, *words)
    assert done == tuple(done[n] if each is None else each for n, each in enumerate(told))


def test_denied_sessions_are_not_opened(workspace: Path, environment: dict[str, str]) -> None:
    done = pipe(workspace, environment, "1", "python", "--set", 'runtimes.allowed=["node"]')
    assert (done.returncode, done.stdout) == (126, "")


def test_json_is_one_outcome_per_line(workspace: Path, environment: dict[str, str]) -> None:
    done = pipe(workspace, environment, "print(1)\n2", "--json")
    [line] = done.stdout.splitlines()
    outcome = json.loads(line)
    assert (done.returncode, outcome["status"], outcome["stdoutSummary"]) == (0, "ok", "1\n2")
    end = outcome["session"]
    assert (end["state"], end["reason"], end["number"], end["expires_in_s"]) == (
        "lost",
        "the command has ended",
        1,
        0.0,
    )
    assert [result["text"] for result in outcome["results"]] == ["2"]
    with open_repl(workspace, environment, "--json") as (say, talk):
        programs = ("x = 1", "x", "import os; os._exit(3)", "x")
        shown = [json.loads(say(line)) for line in programs[:3]]
        assert say(programs[3]) == MISSING
        talk.type("\x04")
    assert [(each["session"]["number"], each["session"]["state"]) for each in shown] == [
        (1, "kept"),
        (2, "kept"),
        (3, "lost"),
    ]
    assert [each["stdoutSummary"] for each in shown] == ["", "1", ""]


def test_a_program_that_asks_is_told_that_it_cannot(workspace: Path, environment: dict[str, str]) -> None:
    done = pipe(workspace, environment, "input()")
    assert (done.returncode, done.stderr) == (
        1,
        "  hint: a program of a session cannot ask; pass its input as `stdin` of the "
        "call, or assign the value at a prompt\n",
    )


def test_background_threads_go_on_while_the_prompt_waits(
    workspace: Path, environment: dict[str, str]
) -> None:
    thread = "threading.Thread(target=lambda: (time.sleep(0.05), print('done'), open('f', 'w'))).start()"
    with open_repl(workspace, environment, "--background") as (say, talk):
        shown = say(f"import threading, time; {thread}")  # it may print before this execution has ended
        while say(":files") != "f (0 bytes)\n":
            pass
        shown += say("1")
        assert [line for line in shown.splitlines() if line in {"done", "1"}] == ["done", "1"]
        talk.type("\x04")


def test_hints_of_the_prompt(workspace: Path, environment: dict[str, str]) -> None:
    (workspace / "a b.csv").write_text("1")
    with open_repl(workspace, environment) as (say, talk):
        assert say(":nothing") == "there is no command :nothing; :help lists the commands\n"
        shown = re.sub(r"\s+", " ", say("open('a b.csv')"))
        assert shown.endswith(
            "FileNotFoundError: [Errno 2] No such file or directory: 'a b.csv' hint: 'a b.csv' is in the workspace, "
            "and this program works in a separate directory: give it the file (--file-in 'a b.csv', or `files` of a "
            "call), or let it open the file by its absolute path "
        )
        assert "hint" not in say("open('none.csv')")
        shown = re.sub(r"\s+", " ", say("import nothing_like_it"))
        assert shown.count("ModuleNotFoundError") == 1
        assert (
            'Open a session with packages = ["nothing_like_it"] (paddock repl --package nothing_like_it)'
            in shown
        )
        talk.type("\x04")


def test_a_prompt_of_ipython(workspace: Path, environment: dict[str, str]) -> None:
    words = ("--kernel", "ipython", "--set", f"runtimes.python.environment={sys.prefix}")
    with open_repl(workspace, environment, *words) as (say, talk):
        assert say("x = !echo 42") == ""
        assert say("x.n") == "'42'\n"
        assert say("%pip install x").startswith("UsageError: a running session gets no packages:")
        talk.type("\x04")


def test_the_record_names_the_command_line_and_not_the_handle(
    workspace: Path, environment: dict[str, str]
) -> None:
    done = pipe(workspace, environment, "1", "--json")
    handle = json.loads(done.stdout)["session"]["id"]
    told = run_paddock(workspace, "audit", "tail", "--json", environment=environment).stdout
    started = [each for each in json.loads(told) if each["event"] == "started"]
    assert [each["fields"]["surface"] for each in started] == ["cli"]
    assert handle not in told
