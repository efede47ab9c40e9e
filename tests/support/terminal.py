"""A command whose person sits at a terminal."""

import os
import pty
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PROMPT = "N: no] "


def at_terminal(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], *answers: str, early: str = ""
) -> tuple[str, int]:
    """Return what a terminal shows of a command whose person answers each question, and the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(command[0], command, {**environment, "TERM": "xterm"})
    os.write(terminal, early.encode())
    shown, rest = "", list(answers)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other side has closed
            break
        shown += data.decode("utf-8", "replace")
        if rest and shown.count(PROMPT) > len(answers) - len(rest):
            os.write(terminal, rest.pop(0).encode())
    os.close(terminal)
    return shown, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
