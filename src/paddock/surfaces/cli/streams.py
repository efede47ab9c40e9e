"""The standard streams of the command line, whatever their inherited state."""

import io
import os
import select
import stat
import sys
from typing import IO, Any, TextIO, cast

EXIT_BROKEN_PIPE = 141
"""Exit code when standard output has no reader: the one that a shell shows for SIGPIPE."""

INPUT_WAIT_S = 0.1
"""Maximum time to wait for data on a pipe, in seconds."""


class _BlockingWriter(io.BufferedWriter):
    """A buffer that waits for its reader.

    A process that shares the file may have made it non-blocking, like Node does with inherited files; then a full pipe
    would be an error, and the rest of the output lost. The raw file must be one in C: with a `write` in Python, Ctrl-C
    could arrive between a write and its registration, and the same bytes would be written again.
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


class _TerminalWriter(io.TextIOWrapper):
    """Text for a terminal: whatever its origin, only line ends, tabs and colours have an effect."""

    def write(self, text: str, /) -> int:
        from paddock.surfaces.rendering.terminal import escape_line, make_encodable

        super().write(make_encodable(escape_line(text)))
        return len(text)

    def write_escaped(self, text: str) -> None:
        """Write text that is already escaped and may contain carriage returns."""
        super().write(text)


class _Err(io.FileIO):
    """Standard error: output that cannot be written is lost, without an exception. `broken` is the reason."""

    broken: OSError | None = None

    def write(self, data: Any, /) -> int | None:  # noqa: ANN401 - any buffer, for which Python 3.11 has no type
        try:
            return super().write(data)
        except OSError as error:
            self.broken = error
            return memoryview(data).nbytes


def prepare_streams() -> None:
    """Open closed streams on `/dev/null`, and let output wait for its reader.

    Otherwise the next opened file would get the number of a closed stream, and receive its output.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            device = os.open(os.devnull, os.O_RDWR)
            if device == number:
                # Otherwise a child would open another file under this number.
                os.set_inheritable(number, True)
            else:
                os.dup2(device, number)
                os.close(device)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    sys.stdout = _wrap_raw(io.FileIO(1, "w", closefd=False), sys.stdout)
    sys.stderr = _wrap_raw(_Err(2, "w", closefd=False), sys.stderr)


def has_input() -> bool:
    """Return whether standard input is a file, or a pipe that has data or ends within `INPUT_WAIT_S`.

    A pipe may stay open without data for ever: agents and services leave theirs to the commands that they start.
    """
    try:
        kind = os.fstat(0).st_mode
        return stat.S_ISREG(kind) or (
            (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)) and bool(select.select([0], [], [], INPUT_WAIT_S)[0])
        )
    except OSError:
        return False


def are_separate() -> bool:
    """Return whether standard output and standard error are different files."""
    try:
        return not os.path.sameopenfile(1, 2)
    except OSError:
        return True


def terminal_stream(buffer: IO[bytes], *, encoding: str = "utf-8") -> TextIO:
    """Return a text stream on the bytes of a terminal that escapes everything written to it."""
    return _TerminalWriter(buffer, encoding=encoding, errors="replace", line_buffering=True)


class _Controls:
    """Writes to a terminal's stream with Paddock's own control sequences, such as those of a progress bar."""

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
    """Return a stream that writes to `file` without escaping; untrusted text must not be written to it."""
    return cast("TextIO", _Controls(file))


def write_escaped(file: TextIO, text: str) -> None:
    """Write an escaped piece of a program's output (`terminal_text.escape_piece`)."""
    if isinstance(file, _TerminalWriter):
        file.write_escaped(text)
    else:
        file.write(text)


def why_broken(file: TextIO) -> OSError | None:
    """Return why standard error could not be written; None for a stream that raises itself."""
    raw = getattr(getattr(file, "buffer", None), "raw", None)
    return raw.broken if isinstance(raw, _Err) else None


def find_output_error() -> OSError | None:
    """Return why standard output cannot be written, if so, and redirect it to nowhere.

    Otherwise it would fail again at the end of the process and change the exit code.
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
