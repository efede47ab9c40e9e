"""Pass the output of a running program on: bytes to a pipe, escaped text to a terminal."""

import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Literal, TextIO

from paddock.model.capture import decode_stream
from paddock.surfaces.cli.streams import why_broken, write_escaped
from paddock.surfaces.rendering.terminal import (
    NO_COLOUR,
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
