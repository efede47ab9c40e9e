"""Print the output of a program: as it runs (bytes to a pipe, escaped text to a terminal), or excerpts of it."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Literal, TextIO

import click

from paddock.model.base import Json, count
from paddock.model.capture import decode_stream
from paddock.surfaces.cli.streams import why_broken, write_escaped
from paddock.surfaces.rendering.terminal import (
    NO_COLOUR,
    escape_except_colour,
    escape_line,
    escape_piece,
    make_encodable,
    stays_coloured,
)

_UNFINISHED_COLOUR_PATTERN = re.compile(r"\x1b(?:\[[0-9;:]{0,30})?\Z")
"""The beginning of a sequence that the next piece may complete to a colour."""


class OutputStreamer:
    """Writes each stream to our stream with the same name.

    `broken` is why a stream cannot be written; then the command ends as if by SIGTERM.
    """

    def __init__(self, *, combined: bool = False) -> None:
        """Receive a program's streams; if they are `combined`, errors are part of standard output."""
        self.broken: OSError | None = None
        self._errors = sys.stdout if combined else sys.stderr
        self._screens: list[TerminalStream] = []
        self._write = {"stdout": self._build_writer(sys.stdout), "stderr": self._build_writer(sys.stderr)}
        self._last: str = ""
        self._unended_error = False

    def take_output(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Pass on the next output of the program. Never raises."""
        if self.broken is not None:
            return
        try:
            self._write[stream](data)
            self.broken = why_broken(sys.stderr)
        except OSError as error:
            self.broken = error
        if self.broken is not None:
            os.kill(os.getpid(), signal.SIGTERM)

    def end(self, *, more: bool) -> None:
        """Reset the program's colours on a terminal, and end its last line if `more` follows.

        `more` goes to standard error. Raises OSError.
        """
        for screen in self._screens:
            screen.end()
        if more and self._screens and self._last not in ("", "\n"):
            self._screens[-1].file.write("\n")
        elif more and self._unended_error:
            sys.stderr.write("\n")

    def _build_writer(self, file: TextIO) -> Callable[[bytes], None]:
        def write(data: bytes) -> None:
            file.buffer.write(data)
            file.buffer.flush()
            if file is self._errors:
                self._unended_error = not data.endswith(b"\n")

        if not file.isatty():
            return write
        screen = TerminalStream(file)
        self._screens.append(screen)

        def show(text: str) -> None:
            screen.write_piece(text)
            self._last = text[-1:]

        return decode_stream(show)


class TerminalStream:
    """One stream on a terminal. Carriage returns pass, for progress bars: they hide only the program's own lines."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self._pending = ""
        self._coloured = False

    def write_piece(self, text: str) -> None:
        """Write the next piece of a text. Raises OSError."""
        text = self._pending + text
        begun = _UNFINISHED_COLOUR_PATTERN.search(text)
        self._pending = begun[0] if begun else ""
        shown = escape_piece(text.removesuffix(self._pending))
        self._coloured = stays_coloured(shown, before=self._coloured)
        write_escaped(self.file, make_encodable(shown))
        self.file.flush()

    def end(self) -> None:
        """Write the withheld text, and reset the colours. Raises OSError."""
        self.file.write(escape_line(self._pending) + (NO_COLOUR if self._coloured else ""))
        self.file.flush()


def print_excerpts(excerpts: Iterable[Json]) -> None:
    """Print the excerpts of a response like `grep -n`, with stream and number before each line."""
    for number, excerpt in enumerate(excerpts):
        if number:
            click.echo("--")
        for line_number, line in enumerate(excerpt["content"].split("\n"), excerpt["lineStart"]):
            _print_text(f"{excerpt['source']}:{line_number}: {line}")


def print_response(response: Json) -> None:
    """Print a response: standard error's part to standard error, and finally the command that shows the rest."""
    if "outputBytes" in response:
        _print_text(f"{response['status']}: {count(response['outputBytes'], 'byte')} of output")
    for key, err in (("stdoutSummary", False), ("stderrSummary", True)):
        if response.get(key):
            _print_text(response[key], err=err)
    for failure in response.get("digest", {}).get("failures", ()):
        place = ":".join(str(failure[key]) for key in ("file", "line") if key in failure)
        _print_text("  " + ": ".join(filter(None, (place, failure.get("name"), failure["message"]))))
    print_excerpts(response.get("excerpts", ()))
    if "notKept" in response:
        _print_text(response["notKept"], err=True)
    if response["artifactHandle"]:
        click.echo(f"all of it: paddock output show {response['artifactHandle']}", err=True)


def _print_text(text: str, *, err: bool = False) -> None:
    shown = escape_except_colour(text) if (sys.stderr if err else sys.stdout).isatty() else text
    click.echo(make_encodable(shown), err=err)
