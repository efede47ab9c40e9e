"""Questions that wait for a person in another process, and their answers: files in a directory of the owner alone.

    ID.question   written atomically by the asking process, which holds a lock on it while it waits
    ID.answer     written atomically by the answering process: the first one counts; it is read once

A question without a lock belongs to a process that has ended. The directory is checked each time it is opened. Files
are opened relative to it, and links are not followed.
"""

import asyncio
import fcntl
import os
import re
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from paddock.foundation.files import make_private
from paddock.foundation.own_files import check_directory, open_own
from paddock.model.approval import Answer, Question, Verdict, WaitingQuestion
from paddock.model.base import Value
from paddock.model.errors import ApprovalError
from paddock.model.ids import is_id
from paddock.model.printable import make_printable

MAX_FILE_BYTES = 256 * 1024
"""Maximum size of one file, in bytes."""
MAX_LISTED_QUESTIONS = 1000
"""Maximum number of questions in a list."""
_POLL_S = 0.2
_UNFINISHED_AGE_S = 60
"""Age after which an unfinished file counts as abandoned, in seconds."""
_FILE_NAME_PATTERN = re.compile(r"([0-9A-Z]{26})\.(question|answer)", re.ASCII)


class GivenAnswer(Value):
    """An answer to one question about one act."""

    question: str
    sha256: str
    verdict: Verdict
    by: str
    expires: float


class QuestionDirectory:
    """The waiting questions in one directory. Several processes of one user may use it at the same time."""

    def __init__(self, directory: Path) -> None:
        """Use a directory. It is created when the first question is kept."""
        self._directory = directory

    @contextmanager
    def keep_question(self, question: Question) -> Generator[None]:
        """Keep a question during the context. Raises ApprovalError."""
        waiting = WaitingQuestion(question=question, expires=time.time() + question.wait_ms / 1000)
        with self._open_directory(make=True) as directory:
            lock = _write_locked(directory, f"{question.id}.question", waiting)
            try:
                yield
            finally:
                _remove_file(directory, f"{question.id}.question")
                _remove_file(directory, f"{question.id}.answer")
                os.close(lock)

    async def wait_for_answer(self, question: Question) -> Answer:
        """Wait for the answer to a kept question. Raises ApprovalError if the answer belongs to another question."""
        while (given := self._take_answer(question.id)) is None:  # noqa: ASYNC110 - another process gives it
            await asyncio.sleep(_POLL_S)
        if (given.question, given.sha256) != (question.id, question.sha256) or given.expires < time.time():
            raise ApprovalError(f"the answer does not belong to {question.id}")
        return Answer(verdict=given.verdict, by=make_printable(given.by))

    def list_waiting(self) -> list[WaitingQuestion]:
        """Return the waiting questions, oldest first; at most `MAX_LISTED_QUESTIONS`. Raises ApprovalError.

        A question whose answer was given, and not read yet, does not wait any more.
        """
        found: list[WaitingQuestion] = []
        try:
            with self._open_directory() as directory:
                answered = {*_list_ids(directory, "answer")}
                for id_ in (each for each in _list_ids(directory, "question") if each not in answered):
                    with suppress(ApprovalError):
                        found.append(_read_question(directory, id_))
        except FileNotFoundError:
            return []
        return found[:MAX_LISTED_QUESTIONS]

    def find_question(self, id_: str) -> WaitingQuestion:
        """Return the question with an id. Raises ApprovalError."""
        if not is_id(id_):
            raise ApprovalError(
                f"{id_[:50]!r} is not the id of a question; `paddock approve` lists the waiting questions"
            )
        try:
            with self._open_directory() as directory:
                return _read_question(directory, id_)
        except FileNotFoundError:
            raise ApprovalError(_not_waiting_text(id_)) from None

    def give_answer(
        self, waiting: WaitingQuestion, verdict: Verdict, by: str, *, at_terminal: bool = False
    ) -> None:
        """Answer a question. Raises ApprovalError if it has an answer already, or no longer waits.

        No actor answers its own question. A person `at_terminal` of this machine may answer every question that waits
        here, because requests of the command line ask on their own terminal instead.
        """
        question = waiting.question
        if by == question.actor and not at_terminal:
            raise ApprovalError(f"{question.id} is a question of {by}, which cannot answer its own questions")
        given = GivenAnswer(
            question=question.id, sha256=question.sha256, verdict=verdict, by=by, expires=waiting.expires
        )
        with self._open_directory() as directory:
            try:
                os.close(_write_locked(directory, f"{question.id}.answer", given))
            except FileExistsError:
                raise ApprovalError(f"{question.id} already has an answer; the first answer counts") from None
            try:
                _read_question(directory, question.id)
            except ApprovalError:
                if _remove_file(directory, f"{question.id}.answer"):  # the question ended before it was read
                    raise

    def remove_abandoned(self) -> None:
        """Remove the files of processes that have ended. Raises ApprovalError."""
        with suppress(FileNotFoundError), self._open_directory() as directory:
            for id_ in _list_ids(directory, "question"):
                try:
                    _read_question(directory, id_)
                except ApprovalError:
                    _remove_file(directory, f"{id_}.question")
            asked = _list_ids(directory, "question")
            for id_ in _list_ids(directory, "answer"):
                if id_ not in asked:
                    _remove_file(directory, f"{id_}.answer")
            for name in os.listdir(directory):  # `directory` is a descriptor
                if name.startswith(".") and _FILE_NAME_PATTERN.match(name[1:]):
                    with suppress(FileNotFoundError):
                        made = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime
                        if made + _UNFINISHED_AGE_S < time.time():
                            _remove_file(directory, name)

    def _take_answer(self, id_: str) -> GivenAnswer | None:
        """Read and remove the answer to a question; None if there is none yet."""
        name = f"{id_}.answer"
        with self._open_directory() as directory:
            if (data := _read_file(directory, name)) is None:
                return None
            _remove_file(directory, name)
        try:
            return GivenAnswer.model_validate_json(data)
        except ValidationError:
            raise ApprovalError(f"{name} does not contain an answer") from None

    @contextmanager
    def _open_directory(self, *, make: bool = False) -> Generator[int]:
        """Open the directory. Raises ApprovalError if others may use it, and FileNotFoundError."""
        where = self._directory
        try:
            if make:
                make_private(where)
            check_directory(where)
            directory = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            text = f"{where}: cannot be opened: {error.strerror} (approvals.directory)"
            raise ApprovalError(text) from None
        try:
            yield directory
        finally:
            os.close(directory)


def _list_ids(directory: int, kind: str) -> list[str]:
    """Return the ids of the questions or answers, oldest first."""
    names = map(_FILE_NAME_PATTERN.fullmatch, os.listdir(directory))
    return sorted(name[1] for name in names if name is not None and name[2] == kind)


def _read_question(directory: int, id_: str) -> WaitingQuestion:
    """Return a waiting question. Raises ApprovalError."""
    name = f"{id_}.question"
    if (data := _read_file(directory, name, locked=True)) is None:
        raise ApprovalError(_not_waiting_text(id_))
    try:
        waiting = WaitingQuestion.model_validate_json(data)
    except ValidationError:
        raise ApprovalError(f"{name} does not contain a question") from None
    question = waiting.question
    if question.id != id_ or waiting.expires < time.time():
        raise ApprovalError(_not_waiting_text(id_))
    return waiting.model_copy(update={"question": question.spell_out(MAX_FILE_BYTES)})


def _not_waiting_text(id_: str) -> str:
    return f"{id_} does not wait for an answer; `paddock approve` lists the waiting questions"


def _write_locked(directory: int, name: str, value: Value) -> int:
    """Write a file atomically and return a descriptor that holds its lock.

    Raises FileExistsError if the file exists, and ApprovalError if it cannot be written.
    """
    data = value.model_dump_json().encode()
    if len(data) > MAX_FILE_BYTES:
        raise ApprovalError(f"{name} exceeds the limit of {MAX_FILE_BYTES} bytes")
    made = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(made, flags, 0o600, dir_fd=directory)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            with open(handle, "wb", closefd=False) as file:
                file.write(data)
            os.link(made, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.close(handle)
            raise
        finally:
            _remove_file(directory, made)
    except FileExistsError:
        raise
    except OSError as error:
        raise ApprovalError(f"{name} cannot be written: {error.strerror}") from None
    return handle


def _read_file(directory: int, name: str, *, locked: bool = False) -> bytes | None:
    """Return the contents of a file. None if it does not exist or, with `locked`, if it has no lock.

    Raises ApprovalError if the name belongs to anything else than a regular file.
    """
    try:
        handle = open_own(name, within=directory, strict=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ApprovalError(f"{name} cannot be read: {error.strerror}") from None
    try:
        if os.fstat(handle).st_size > MAX_FILE_BYTES:
            raise ApprovalError(f"{name} cannot be read: it is larger than {MAX_FILE_BYTES} bytes; remove it")
        if locked:
            with suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None  # the process that locked it has ended
        return os.read(handle, MAX_FILE_BYTES)
    finally:
        os.close(handle)


def _remove_file(directory: int, name: str) -> bool:
    """Remove a file; return whether it existed."""
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        return False
    return True
