"""The file with the answers of a batch, which a later run continues.

Each answer is one line, written at once and in order. A process that is killed leaves at most one line that is torn at
the end of the file; the next run removes it, and its program runs again.
"""

import fcntl
import json
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from paddock.batch.lines import BadLine
from paddock.model.errors import ConfigurationError

_ANSWER_START = b'{"id": '
"""How every answer begins."""
_MARKS = frozenset({"status", "line"})
"""Members of an answer that a program does not have."""


class AnswerFile:
    """Answers that were written to a file, and new ones."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        """Read the answers of a file. Raises ConfigurationError if it has anything else, which stays as it is."""
        self._file = file
        self._path = path
        self._ids: set[str] = set()
        self._bad: set[tuple[int, str]] = set()
        self.kept = 0
        """Number of answers that the file had."""
        size = self._read_answers()
        file.truncate(size)
        file.seek(size)

    def has(self, name: str) -> bool:
        """Return whether a program with this id is answered."""
        return name in self._ids

    def has_line(self, bad: BadLine) -> bool:
        """Return whether this fault of this line is reported."""
        return (bad.number, bad.message) in self._bad

    def write(self, line: bytes) -> None:
        """Add an answer. Raises OSError."""
        self._file.write(line)
        self._file.flush()

    def _read_answers(self) -> int:
        """Read the file and return the size of its complete lines."""
        size = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                self._check_torn_line(line, number)
                break
            self._note_answer(line, number)
            size += len(line)
        return size

    def _check_torn_line(self, line: bytes, number: int) -> None:
        """Check that the last line, which will be removed, is an answer or the beginning of one."""
        try:
            given: object = json.loads(line)
        except (ValueError, RecursionError):
            if not line.startswith(_ANSWER_START[: len(line)]):
                raise self._refuse(number) from None
            return
        if not (isinstance(given, dict) and _MARKS & given.keys()):
            raise self._refuse(number)

    def _note_answer(self, line: bytes, number: int) -> None:
        try:
            answer: object = json.loads(line)
        except (ValueError, RecursionError):
            raise self._refuse(number) from None
        match answer:
            case {"id": str() | None, "line": int(where), "error": {"message": str(why)}}:
                self._bad.add((where, why))
            case {"id": str(name), "status": str()}:
                self._ids.add(name)
            case _:
                raise self._refuse(number)
        self.kept += 1

    def _refuse(self, number: int) -> ConfigurationError:
        return ConfigurationError(
            f"{self._path}: line {number} is no answer of `paddock batch`, so nothing was written; name another file "
            "with --output"
        )


@contextmanager
def open_answer_file(path: Path) -> Generator[AnswerFile]:
    """Open a file of answers and hold its lock; it is made if there is none.

    Raises ConfigurationError for a file that is not regular, that another process writes, or that has anything else.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as problem:
        raise ConfigurationError(f"{path}: cannot be written: {problem.strerror}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ConfigurationError(f"{path}: is not a regular file; name another one with --output")
    with open(handle, "r+b") as file:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"{path}: another `paddock batch` writes it; wait for its end") from None
        yield AnswerFile(file, path)
