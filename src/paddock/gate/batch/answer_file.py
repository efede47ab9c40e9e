"""The file with the answers of a batch, which a later run continues.

Each answer is one line, written at once and in order. A process that is killed leaves at most one line that is torn at
the end of the file; the next run removes it, and its program runs again. A machine that loses power may leave NULs or
torn lines anywhere. These are moved to another file, and their programs run again, too.
"""

import fcntl
import json
import os
import stat
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from paddock.gate.batch.lines import BadLine
from paddock.model.errors import ConfigurationError

_ANSWER_START = b'{"id": '
"""How every answer begins."""
_NUL = b"\0"
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
        self.aside = path.with_name(f"{path.name}.damaged")
        """The file that gets damaged lines."""
        self.damaged: tuple[int, ...] = ()
        """Numbers of the lines that were moved there."""
        damaged: list[int] = []
        size = self._read_answers(damaged)
        if damaged:
            size = self._move_damaged(frozenset(damaged), size)
            self.damaged = tuple(damaged)
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

    def _read_answers(self, damaged: list[int]) -> int:
        """Read the file and return the size of its complete lines; add the numbers of those that are damaged."""
        size = 0
        for number, line in enumerate(self._file, 1):
            if _is_damaged(line, after_answers=self.kept > 0):
                damaged.append(number)
            elif not line.endswith(b"\n"):
                self._check_torn_line(line, number)
                break
            else:
                self._note_answer(line, number)
            size += len(line)
        return size

    def _move_damaged(self, numbers: AbstractSet[int], size: int) -> int:
        """Move lines to the file for damaged ones; return the size of the others, which close the gaps.

        Ended in between, this leaves lines that the next run finds damaged, and answers that are there twice.
        """
        with open(self.aside, "ab") as aside:
            self._file.seek(0)
            aside.writelines(line for number, line in enumerate(self._file, 1) if number in numbers)
            aside.flush()
            os.fsync(aside.fileno())
        read, written, number = 0, 0, 0
        while read < size:
            self._file.seek(read)
            line = self._file.readline()
            read, number = read + len(line), number + 1
            if number not in numbers:
                self._file.seek(written)
                written += self._file.write(line)
        return written

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


def _is_damaged(line: bytes, *, after_answers: bool) -> bool:
    """Return whether a line was an answer, or was to become one, before a part of it was lost."""
    if _NUL in line:
        rest = line.replace(_NUL, b"").strip()
        return after_answers or not rest or rest.startswith(_ANSWER_START)
    if not (line.startswith(_ANSWER_START) and line.endswith(b"\n")):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False


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
