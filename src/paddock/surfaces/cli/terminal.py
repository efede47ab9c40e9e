"""Ask the person at the terminal.

The question is written to the terminal itself, not to standard output, and the answer is read from there. Therefore a
program in a pipeline can be asked about, and a pipe cannot answer. Text that was typed before the question is
discarded, and no console line of a program is printed below it.
"""

import asyncio
import os
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress

from paddock.model.approval import Answer, Question, Scope

NO_TERMINAL = (
    "there is no person to ask, because stderr is not a terminal: run it on a terminal, or change the rule"
)
_CHOICES: Mapping[tuple[Scope, ...], str] = {
    ("once",): "y: yes / N: no",
    ("once", "run"): "y: yes, this once / a: all such calls of this run / N: no",
    ("run",): "y: yes, to all such calls of this run / N: no",
}
_TTY = "/dev/tty"
_MAX_LINE_BYTES = 1024


class Terminal:
    """Asks one question after the other."""

    def __init__(self) -> None:
        self.asking = False

    async def ask(self, question: Question) -> Answer:
        """Return the person's answer; everything except a clear yes means no."""
        if not sys.stderr.isatty():
            return Answer(verdict="unasked", told=NO_TERMINAL)
        try:
            tty = os.open(_TTY, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return Answer(verdict="unasked", told=NO_TERMINAL)
        self.asking = True
        try:
            termios.tcflush(tty, termios.TCIFLUSH)
            os.write(tty, render_question(question).encode())
            typed = (await _read_line(tty)).strip().lower()
        finally:
            self.asking = False
            with suppress(OSError):
                os.write(tty, b"\r\n")
            os.close(tty)
        if typed in ("a", "all") and "run" in question.scopes:
            return Answer(verdict="run", by="the person at the terminal")
        verdict = question.scopes[0] if typed in ("y", "yes") else "denied"
        return Answer(verdict=verdict, by="the person at the terminal")


def render_question(question: Question) -> str:
    """Return a question as lines of text. Each part and each reason is one line, whatever it contains.

    Lines of a difference are indented and begin with a bar.
    """
    arguments, *difference = question.render_arguments(" " * 8)
    first, *others = question.reasons
    rule = f" ({question.rule})" if question.rule and question.rule not in first else ""
    facts = {
        "to": question.what,
        "with": "\r\n".join([arguments, *difference]),
        "in": question.workspace,
        "for": f"{question.actor} ({question.surface}, run {question.run})",
        "why": f"{first}{rule}",
    }
    lines = [f"  {name:<5} {text}" for name, text in facts.items() if text]
    lines += [f"  {'':<5} {reason}" for reason in others]
    return "\r\n".join(
        ["", "paddock asks for your approval", *lines, f"Allow? [{_CHOICES[question.scopes]}] "]
    )


async def _read_line(tty: int) -> str:
    """Return the typed line; nothing when the terminal closes."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        loop.remove_reader(tty)
        try:
            text = os.read(tty, _MAX_LINE_BYTES).decode("utf-8", "replace")
        except OSError:
            text = ""
        if not typed.done():
            typed.set_result(text)

    loop.add_reader(tty, read)
    try:
        return await typed
    finally:
        loop.remove_reader(tty)
