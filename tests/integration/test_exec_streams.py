"""`paddock exec` where its streams are closed, full or a terminal, and where it is told to end."""

import json
import os
import pty
import signal
import subprocess
import threading

import pytest
from tests.support.command import PADDOCK, run_command, run_paddock
from tests.support.processes import PATIENCE_S

BOTH = "echo out; echo bad >&2; exit 3"


def at_shell(workspace, redirection, *options):
    """Return exit code, output and errors of a program whose command has such redirections."""
    words = ["sh", "-c", f'exec "$@" {redirection}', "sh", PADDOCK, "exec", "shell", "-c", BOTH, *options]
    return run_command(workspace, *words)


def on_terminal(workspace, code, *options):
    """Return what a terminal shows of a program, to the end of it."""
    ours, theirs = pty.openpty()
    words = [PADDOCK, "exec", "shell", "-c", code, "-w", workspace, *options]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        watchdog = threading.Timer(PATIENCE_S, process.kill)
        watchdog.start()
        shown = b""
        while piece := _read(ours):
            shown += piece
        watchdog.cancel()
    os.close(ours)
    return shown.decode()


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the last process that had it is gone
        return b""


@pytest.mark.parametrize(
    ("redirection", "options", "out", "bad"),
    [
        (">&-", (), "", "bad\n"),
        (">&-", ("--json",), "", ""),
        ("2>&-", (), "out\n", ""),
        ("<&-", ("--stdin",), "out\n", "bad\n"),
        ("<&- >&- 2>&-", (), "", ""),
    ],
)
def test_what_was_closed_is_nowhere(workspace, redirection, options, out, bad):
    """A file that is opened, such as the ledger, must not get the number of a standard stream."""
    assert at_shell(workspace, redirection, *options) == (3, out, bad)
    code, told, _ = run_paddock(workspace, "audit", "verify")
    assert (code, told[:4]) == (0, "ok: ")


@pytest.mark.parametrize("redirection", ["<&-", "2>&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_what_was_closed_is_closed_for_no_worker(workspace, redirection):
    """A file that a worker opens must not get the number of a stream that its own child then replaces."""
    (workspace / "one.js").write_text("return 1")
    words = ["sh", "-c", f'exec "$0" run one.js {redirection}', PADDOCK]
    out = "" if ">&- 2" in redirection else "1\n"
    assert run_command(workspace, *words) == (0, out, "")


@pytest.mark.parametrize("options", [(), ("--json",), ("--mode", "summary")])
def test_output_that_cannot_be_written_is_told(workspace, options):
    code, _, told = at_shell(workspace, ">/dev/full", *options)
    assert (code, "cannot write the output: No space left on device\n" in told) == (125, True)


@pytest.mark.parametrize("options", [("--json",), ("--mode", "summary")])
def test_nobody_reads_the_answer(workspace, options):
    ours, theirs = os.pipe()
    os.close(ours)
    done = run_paddock(workspace, "exec", "shell", "-c", BOTH, "-w", workspace, *options, stdout=theirs)
    os.close(theirs)
    assert done.returncode == 128 + signal.SIGPIPE


def test_s23_a_hangup_ends_the_program_and_keeps_its_output(workspace):
    words = [PADDOCK, "exec", "shell", "-c", "echo go; sleep 3600", "-w", workspace]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"go\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGHUP
    [kept] = json.loads(run_paddock(workspace, "output", "list", "-w", workspace, "--json").stdout)
    assert (kept["manifest"]["status"], kept["manifest"]["stdoutBytes"]) == ("cancelled", 3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_was_ignored_stays_ignored(workspace, number):
    """So nohup(1) has it, and a shell's jobs in the background."""
    os.mkfifo(workspace / "go")
    words = [PADDOCK, "exec", "shell", "-c", "echo begun; cat go", "-w", workspace]
    ignoring = ["python3", "-c", "import os, signal, sys; signal.signal(int(sys.argv[1]), signal.SIG_IGN); os.execv(sys.argv[2], sys.argv[2:])"]  # fmt: skip
    with subprocess.Popen([*ignoring, str(int(number)), *words], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        (workspace / "go").write_text("went\n")
        assert (process.stdout.read(), process.wait(PATIENCE_S)) == (b"went\n", 0)


def test_line_ends_and_progress_bars_are_shown_as_they_are(workspace):
    assert on_terminal(workspace, r"printf 'a\r\n10%%\r20%%\n'") == "a\r\r\n10%\r20%\r\n"


def test_a_program_cannot_hide_what_comes_after_it(workspace):
    """Colours end with the program: one of them makes text invisible."""
    shown = on_terminal(workspace, r"printf '\033[8mhidden'; kill -9 $$")
    assert shown == "\x1b[8mhidden\x1b[0m\r\nThe program was ended by SIGKILL\r\n"
    assert on_terminal(workspace, r"printf '\033[31mred\033[0m'") == "\x1b[31mred\x1b[0m"


IN_TURN = "for n in 1 2 3; do echo out $n; echo err $n >&2; done; printf unended >&2; exit 3"
TURNS = "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nunended"


def test_streams_that_go_to_the_same_place_keep_their_order(workspace):
    words = ("exec", "shell", "-c", IN_TURN)
    done = run_paddock(workspace, *words, stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout) == (3, TURNS)
    assert on_terminal(workspace, IN_TURN) == TURNS.replace("\n", "\r\n")
    apart = run_paddock(workspace, *words)
    assert (apart.stdout, apart.stderr) == ("out 1\nout 2\nout 3\n", "err 1\nerr 2\nerr 3\nunended")


def test_an_answer_has_one_stream_where_that_is_asked_for(workspace):
    words = ("exec", "shell", "-c", IN_TURN, "--mode", "summary", "--json")
    both, apart = (json.loads(run_paddock(workspace, *words, *more).stdout) for more in (["--combined"], []))
    assert (both["combined"], both["stdoutSummary"], both["stderrSummary"]) == (True, TURNS, "")
    assert (apart.get("combined"), apart["stdoutSummary"]) == (None, "out 1\nout 2\nout 3")


def test_what_paddock_says_after_an_unended_line_begins_a_new_one(workspace):
    code = "printf unended; while :; do :; done"
    words = ("exec", "shell", "-c", code, "--cpu-time", "300ms")  # it prints before it has used them
    done = run_paddock(workspace, *words, stderr=subprocess.STDOUT)
    assert done.stdout.splitlines()[:2] == ["unended", "The program used more CPU time than it may"]
