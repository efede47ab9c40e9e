"""Commands that are interrupted: they end in order, with the exit code of the signal, and tell it in a line."""

import json
import os
import pty
import signal
import subprocess
import sys

import pytest
from tests.support.command import PADDOCK, run_command, run_paddock
from tests.support.processes import PATIENCE_S


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("args", [("tools",), ("search", "x"), ("diff",), ("describe", "slow.x")])
def test_what_starts_servers_ends_them(workspace, args, number):
    os.mkfifo(workspace / "up")
    entry = {"command": "sh", "args": ["-c", "echo $$ > up; exec sleep 3600"], "cwd": str(workspace)}
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"slow": entry}}))
    with subprocess.Popen(
        [PADDOCK, "servers", *args], cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        server = int((workspace / "up").read_text())
        process.send_signal(number)
        out, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, errors) == (128 + number, "", "Cancelled\n")
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


def test_one_interrupt_that_comes_twice_ends_in_order(workspace):
    """As of timeout(1), which sends it to its child, and to the group of both."""
    words = [PADDOCK, "exec", "shell", "-c", "echo go; sleep 3600"]
    with subprocess.Popen(
        words, cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode - 128 in {signal.SIGTERM, signal.SIGINT}, out, errors) == (
        True,
        "",
        "The program was cancelled\n",
    )
    shown = run_paddock(workspace, "audit", "tail", "--json")
    last = json.loads(shown.stdout)[-1]
    assert (last["event"], last["fields"]["status"]) == ("finished", "cancelled")


IGNORING = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_the_ends_of_children_are_heard_of_where_they_were_ignored(workspace):
    for name, file, text in (
        ("scripts", "one.js", "return 1"),
        (
            "sequences",
            "all.toml",
            "[[step]]\nname = 'a'\nscript = 'one'\n[[step]]\nname = 'b'\nscript = 'one'\n",
        ),
    ):
        (folder := workspace / ".paddock" / name).mkdir(parents=True)
        (folder / file).write_text(text)
    words = [sys.executable, "-c", IGNORING, PADDOCK, "sequence", "run", "all"]
    done = run_command(workspace, *words)
    told = [line.partition(" (")[0] for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout, told) == (0, "1\n", ["a: ok", "b: ok"])


@pytest.mark.parametrize(
    ("key", "code", "told"),
    [(b"\x03", 130, "Interrupted"), (b"\x04", 1, "there was no answer; nothing was done")],
)
def test_a_question_that_is_broken_off_is_told(workspace, key, code, told):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(PADDOCK, [PADDOCK, "vault", "set", "key", "-w", workspace])
    shown = b""
    while not shown.endswith(b"Value of key: "):
        shown += os.read(terminal, 1024)
    os.write(terminal, key)
    shown = b""
    try:
        while piece := os.read(terminal, 1024):
            shown += piece
    except OSError:  # the other side has closed
        pass
    os.close(terminal)
    assert (os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()) == (code, f"\r\n{told}\r\n")
