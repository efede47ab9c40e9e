"""Send one request to the gate and print its outcome; handles interrupts."""

import asyncio
import sys
from typing import TYPE_CHECKING, Never

import click

from paddock.model.base import Json
from paddock.model.outcome import ConsoleLine, Outcome, write_outcome
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import fold_text
from paddock.surfaces.cli.opening import open_for_command
from paddock.surfaces.cli.signals import cancel_on_signals
from paddock.surfaces.cli.table import print_output, warn
from paddock.surfaces.cli.terminal import Terminal
from paddock.surfaces.rendering import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.gate.open_paddock import OpenPaddock
    from paddock.model.outcome import CallProgress, OnConsole, OnProgress
    from paddock.record.output.recording import OnOutput

EXIT_SIGNAL_BASE = 128
"""Added to a signal's number for the exit code of a command that the signal ended, as in a shell."""


def execute_and_exit(
    request: ExecutionRequest,
    settings: Settings,
    *,
    as_json: bool,
    print_value: "Callable[[Json], None] | None" = None,
) -> Never:
    """Run a request, print its outcome, and exit: 0 if it is ok, 1 if it is not, 130 after Ctrl-C.

    `print_value` prints the value of a successful one in another way than as text.
    """
    terminal = Terminal()
    has_console = not isinstance(request.work, ServerCall)
    printer = _ConsolePrinter(terminal, quiet=as_json, has_console=has_console, print_value=print_value)
    carried = carry_out(
        request,
        settings,
        on_console=printer.on_line,
        on_progress=printer.on_progress if printer.shows_progress else None,
        stop=asyncio.Event(),
        terminal=terminal,
    )
    outcome, number = asyncio.run(carried)
    assert outcome is not None
    printer.print_outcome(outcome)
    click.get_current_context().exit(EXIT_SIGNAL_BASE + number if number else int(not outcome.ok))


async def carry_out(
    request: ExecutionRequest,
    settings: Settings,
    *,
    on_console: "OnConsole | None" = None,
    on_output: "OnOutput | None" = None,
    on_progress: "OnProgress | None" = None,
    on_opened: "Callable[[OpenPaddock], None] | None" = None,
    stop: asyncio.Event | None = None,
    terminal: Terminal | None = None,
) -> tuple[Outcome | None, int]:
    """Run a request; return its outcome and the signal that interrupted it, if any.

    `on_opened` may add listeners before the request runs; the others are those of `Gate.execute`. A signal sets `stop`,
    or without it cancels the gate. The outcome is None if the cancelled gate returned none.
    """
    with cancel_on_signals(stop) as received:
        try:
            async with open_for_command(settings, request.workspace, terminal) as opened:
                if on_opened is not None:
                    on_opened(opened)
                outcome = await opened.gate.execute(
                    request, on_console=on_console, on_output=on_output, on_progress=on_progress, stop=stop
                )
            for text in opened.warnings:
                warn(text)
        except asyncio.CancelledError:
            if not received:
                raise
            outcome = None
    return outcome, received[0] if received else 0


def value_of(outcome: Outcome | None, number: int) -> Json:
    """Return the value of a successful request. Raises `CommandFailure`, with exit code 1 or that of the signal."""
    if outcome is None:
        raise CommandFailure("Cancelled", exit_code=EXIT_SIGNAL_BASE + number)
    if not outcome.ok:
        raise CommandFailure(render.error_text(outcome))
    return outcome.value


def _print_value_text(value: Json) -> None:
    print_output(render.value_text(value))


class _ConsolePrinter:
    """Prints console lines at once on a terminal, otherwise at the end; then the result or the error.

    A pipe gets exactly the script's output. On a terminal, control characters except colours are escaped, and nothing
    is printed below a displayed question.
    """

    def __init__(
        self,
        terminal: Terminal,
        *,
        quiet: bool,
        has_console: bool,
        print_value: "Callable[[Json], None] | None" = None,
    ) -> None:
        """Without a console, as for a single call of a tool, lines are warnings of Paddock."""
        self._print_value = print_value or _print_value_text
        self._terminal = terminal
        self._has_console = has_console
        self._quiet = quiet
        self._live = sys.stdout.isatty() and not quiet
        self._lines: list[ConsoleLine] = []
        self._printed = 0

    @property
    def shows_progress(self) -> bool:
        """Whether a person sees what servers report of their calls."""
        return sys.stderr.isatty() and not self._quiet

    def on_progress(self, progress: "CallProgress") -> None:
        """Receive what a server reports of a call. It is no output of the program."""
        if not self._terminal.asking:
            print_output(progress.text, err=True)

    def on_line(self, line: ConsoleLine) -> None:
        """Receive a console line of the running script."""
        self._lines.append(line)
        if self._live and not self._terminal.asking:
            self._print_lines(self._lines)

    def print_outcome(self, outcome: Outcome) -> None:
        """Print the rest of an outcome."""
        if self._quiet:
            click.echo(write_outcome(outcome))
        else:
            if self._has_console:
                self._print_lines(outcome.console)
            else:
                for line in outcome.console:
                    warn(line.text)
            if outcome.ok and outcome.has_value:
                self._print_value(outcome.value)
            for text in filter(None, (render.error_text(outcome), render.plan_text(outcome))):
                print_output(fold_text(text, sys.stderr), err=True)
            if outcome.recording is not None:
                print_output(f"recorded; run it again with: paddock replay {outcome.id}", err=True)

    def _print_lines(self, lines: tuple[ConsoleLine, ...] | list[ConsoleLine]) -> None:
        if not self._quiet and (rest := lines[self._printed :]):
            print_output("\n".join(map(render.console_text, rest)))
            self._printed = len(lines)
