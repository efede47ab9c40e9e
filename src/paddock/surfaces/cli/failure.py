"""The exception for a command that cannot be done."""

import errno
import os
import signal
import sys
from typing import IO, Any

import click

from paddock.model.errors import NO_MORE_FILES, NO_MORE_PROCESSES, explain_start_failure
from paddock.surfaces.cli.folding import fold_text
from paddock.surfaces.cli.interrupts import EXIT_INTERRUPTED, end_at_next
from paddock.surfaces.rendering.terminal import escape_text

PRINTED_KEY = "paddock.printed"
"""Key in a context's `meta`: the document of `--json` was printed; a later failure prints no second one."""

_NO_TEMPORARY_DIRECTORY = "No usable temporary directory"
"""The error text of `tempfile` if no directory is writable, or all are full."""


class CommandFailure(click.ClickException):
    """A command cannot be done; the message is printed to standard error unchanged."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        # click declares it for classes and reads it from instances.
        self.exit_code = exit_code  # pyright: ignore[reportAttributeAccessIssue]

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message; it may contain untrusted text."""
        click.echo(fold_text(escape_text(self.message), file or sys.stderr), file=file, err=True)


def build_refusal_failure(error: OSError, *, exit_code: int = 1) -> CommandFailure:
    """Return the failure for an error of the operating system, wherever it was raised."""
    if isinstance(error, FileNotFoundError) and not error.filename and not _is_somewhere():
        return CommandFailure("the current directory was removed; go to another one", exit_code=exit_code)
    if str(error.strerror).startswith(_NO_TEMPORARY_DIRECTORY):
        return CommandFailure(
            f"{error.strerror}; set TMPDIR to a directory that can be written to", exit_code=exit_code
        )
    what = error.filename or "input or output failed"
    message = (
        NO_MORE_FILES if error.errno in {errno.EMFILE, errno.ENFILE} else f"{what}: {error.strerror or error}"
    )
    return CommandFailure(message, exit_code=exit_code)


def build_interrupt_failure() -> CommandFailure:
    """Return the failure of a command that Ctrl-C ends. The next Ctrl-C ends the process at once."""
    end_at_next(signal.SIGINT)
    return CommandFailure("Interrupted", exit_code=EXIT_INTERRUPTED)


def _is_somewhere() -> bool:
    """Return whether the current directory exists; relative names start there."""
    try:
        os.getcwd()  # raises where the directory was removed
    except FileNotFoundError:
        return False
    return True


def build_thread_failure(error: RuntimeError, *, exit_code: int = 1) -> CommandFailure | None:
    """Return the failure for a thread that could not be started; None for any other error."""
    why = explain_start_failure(str(error))
    return CommandFailure(why, exit_code=exit_code) if why == NO_MORE_PROCESSES else None
