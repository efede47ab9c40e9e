"""The standard streams of the command line, whatever state they were handed over in."""

import io
import os
import select
import sys
from typing import IO, Any, TextIO, cast

EXIT_BROKEN_PIPE = 141
"""Exit code when nobody reads standard output any more: what a shell shows of SIGPIPE."""


class _BlockingWriter(io.BufferedWriter):
    """A buffer that waits for its reader.

    Whoever shares the file may have made it non-blocking, as Node does with what it inherits; then a full pipe would be
    an error, and the rest of the output lost. The file below stays one in C: were its `write` Python code, Ctrl-C could
    come between a write and the note that it was made, and the same bytes go out once more.
    """

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer, for which Python 3.11 has no type
        left = memoryview(data).cast("B")
        size = left.nbytes
        while True:
            try:
                super().write(left)
            except BlockingIOError as full:
                left = left[full.characters_written :]
                select.select([], [self], [])
            else:
                return size

    def flush(self) -> None:
        while True:
            try:
                return super().flush()
            except BlockingIOError:
                select.select([], [self], [])


class _Terminal(io.TextIOWrapper):
    """Text for a terminal: whoever wrote it, only line ends, tabs and colours act there."""

    def write(self, text: str, /) -> int:
        from paddock.rendering.terminal import escape_line, make_encodable

        super().write(make_encodable(escape_line(text)))
        return len(text)

    def write_escaped(self, text: str) -> None:
        """Write what was escaped already, and may hold carriage returns."""
        super().write(text)


class _Err(io.FileIO):
    """Standard error: what it does not take is lost, and nothing ends for that. `broken` is why."""

    broken: OSError | None = None

    def write(self, data: Any, /) -> int | None:  # noqa: ANN401 - any buffer, for which Python 3.11 has no type
        try:
            return super().write(data)
        except OSError as error:
            self.broken = error
            return memoryview(data).nbytes


def prepare_streams() -> None:
    """Open streams that were closed on `/dev/null`, and have output wait for its reader.

    Else the next file that is opened gets the number of one that was closed, and what is printed goes into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            device = os.open(os.devnull, os.O_RDWR)
            if device == number:
                # A child without it would open something else in its place.
                os.set_inheritable(number, True)
            else:
                os.dup2(device, number)
                os.close(device)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    sys.stdout = _wrap_raw(io.FileIO(1, "w", closefd=False), sys.stdout)
    sys.stderr = _wrap_raw(_Err(2, "w", closefd=False), sys.stderr)


def are_separate() -> bool:
    """Return whether standard output and standard error go to different places."""
    try:
        return not os.path.sameopenfile(1, 2)
    except OSError:
        return True


def terminal_stream(buffer: IO[bytes], *, encoding: str = "utf-8") -> TextIO:
    """Return a stream of text over the bytes of a terminal, which escapes whatever is written to it."""
    return _Terminal(buffer, encoding=encoding, errors="replace", line_buffering=True)


class _Controls:
    """What writes to a terminal's stream with controls of Paddock's own, such as those of a progress bar."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        write_escaped(self._file, text)
        return len(text)

    def flush(self) -> None:
        self._file.flush()

    def isatty(self) -> bool:
        return self._file.isatty()


def with_controls(file: TextIO) -> TextIO:
    """Return what writes to `file` without escaping; no text of a stranger may go there."""
    return cast("TextIO", _Controls(file))


def write_escaped(file: TextIO, text: str) -> None:
    """Write a piece of a program's output that was escaped (`terminal_text.escape_piece`)."""
    if isinstance(file, _Terminal):
        file.write_escaped(text)
    else:
        file.write(text)


def why_broken(file: TextIO) -> OSError | None:
    """Return what kept standard error from taking something, None for a stream that tells it itself."""
    raw = getattr(getattr(file, "buffer", None), "raw", None)
    return raw.broken if isinstance(raw, _Err) else None


def find_output_error() -> OSError | None:
    """Return why standard output does not take what is to be written to it, if so; then that goes nowhere.

    It would fail once more at the end of the process, whose exit code is then another.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return error
    return None


def _wrap_raw(raw: io.FileIO, file: TextIO) -> TextIO:
    """Return a stream like `file` that writes to `raw`."""
    buffer = _BlockingWriter(raw)
    if raw.isatty():
        return terminal_stream(buffer, encoding=file.encoding)
    return io.TextIOWrapper(
        buffer, encoding=file.encoding, errors=file.errors, line_buffering=isinstance(raw, _Err)
    )
