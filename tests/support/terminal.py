"""A command whose person sits at a terminal."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.forked import take_terminal
from tests.support.processes import PATIENCE_S

PROMPT = "N: no] "


def start_at_terminal(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a command with a new terminal, which controls its session; return it and the side of the person."""
    person, terminal = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509 - it makes one system call
        **streams,
    )
    os.close(terminal)
    return process, person


def at_terminal(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], *answers: str, early: str = ""
) -> tuple[str, int]:
    """Return what a terminal shows of a command whose person answers each question, and the exit code."""
    process, terminal = start_at_terminal(command, cwd, {**environment, "TERM": "xterm"})
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
    return shown, process.wait()


class Dialogue:
    """A command at a terminal, with which a test talks: it types, and waits for what the command shows."""

    def __init__(self, command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
        """Start the command."""
        self.shown = ""
        """Everything that the terminal has shown."""
        self._read_to = 0
        environment = {**environment, "TERM": "dumb"}
        self._process, self._terminal = start_at_terminal(command, cwd, environment)

    def type(self, text: str) -> None:
        """Type a text, in which `\\r` is the return key."""
        os.write(self._terminal, text.encode())

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        os.kill(self._process.pid, number)

    def wait_for(self, text: str) -> str:
        """Wait until the terminal shows a text, and return what it showed since the last one."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.shown.find(text, self._read_to)) < 0:
            assert time.monotonic() < deadline, self.shown[self._read_to :]
            assert self._read(), self.shown[self._read_to :]
        begin, self._read_to = self._read_to, found + len(text)
        return self.shown[begin:found]

    def finish(self) -> int:
        """Wait for the end of the command and return its exit code."""
        while self._read():
            pass
        os.close(self._terminal)
        return self._process.wait()

    def _read(self) -> bool:
        if not select.select([self._terminal], [], [], PATIENCE_S)[0]:
            return False
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # the other side has closed
            return False
        self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)
