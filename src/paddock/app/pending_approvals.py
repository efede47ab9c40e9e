"""Questions that wait for a person in another process, and their answers: files of one directory, its owner's alone.

    ID.question   written whole by who asks, and locked by them for as long as it waits
    ID.answer     written whole by who answers: the first counts; it is read once

A question that nobody locks is one whose process has ended. The directory is looked at each time it is opened; all in
it is opened relative to it, and no link is followed.
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

from paddock.files import make_private
from paddock.model.approval import Answer, Question, Verdict
from paddock.model.base import Value
from paddock.model.errors import ApprovalError
from paddock.model.ids import find_mint_time
from paddock.own_files import check_directory, open_own
from paddock.policy.questions import make_printable

MAX_FILE_BYTES = 256 * 1024
"""Bytes of one file."""
MAX_LISTED_QUESTIONS = 1000
"""Questions that are listed."""
_POLL_S = 0.2
_UNFINISHED_AGE_S = 60
"""Age from which a file that was not finished is one that nobody will finish."""
_FILE_NAME_PATTERN = re.compile(r"([0-9A-Z]{26})\.(question|answer)", re.ASCII)


class WaitingQuestion(Value):
    """A question that waits, until a time in seconds since the epoch."""

    question: Question
    expires: float


class GivenAnswer(Value):
    """An answer to one question about one thing."""

    question: str
    sha256: str
    verdict: Verdict
    by: str
    expires: float


class PendingApprovals:
    """The questions that wait below one directory. Safe between processes of one user."""

    def __init__(self, directory: Path) -> None:
        """Take the directory, which is made when a question is to be kept."""
        self._directory = directory

    @contextmanager
    def keep_question(self, question: Question) -> Generator[None]:
        """Have a question wait as long as the context lasts. Raises ApprovalError."""
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
        """Wait for the answer to a question that is kept. Raises ApprovalError for one that is no answer to it."""
        while (given := self._take_answer(question.id)) is None:  # noqa: ASYNC110 - another process gives it
            await asyncio.sleep(_POLL_S)
        if (given.question, given.sha256) != (question.id, question.sha256) or given.expires < time.time():
            raise ApprovalError(f"what was given is no answer to {question.id}")
        return Answer(verdict=given.verdict, by=make_printable(given.by))

    def list_waiting(self) -> list[WaitingQuestion]:
        """Return what waits, the oldest first; at most `MOST`. Raises ApprovalError."""
        found: list[WaitingQuestion] = []
        try:
            with self._open_directory() as directory:
                for id_ in _list_ids(directory, "question"):
                    with suppress(ApprovalError):
                        found.append(_read_question(directory, id_))
        except FileNotFoundError:
            return []
        return found[:MAX_LISTED_QUESTIONS]

    def find_question(self, id_: str) -> WaitingQuestion:
        """Return the one question of that id. Raises ApprovalError."""
        if find_mint_time(id_) is None:
            raise ApprovalError(f"{id_[:50]!r} is no id of a question; `paddock approve` lists what waits")
        try:
            with self._open_directory() as directory:
                return _read_question(directory, id_)
        except FileNotFoundError:
            raise ApprovalError(_not_waiting_text(id_)) from None

    def give_answer(self, waiting: WaitingQuestion, verdict: Verdict, by: str) -> None:
        """Answer a question that was found. Raises ApprovalError when somebody has, or it waits no longer."""
        question = waiting.question
        given = GivenAnswer(
            question=question.id, sha256=question.sha256, verdict=verdict, by=by, expires=waiting.expires
        )
        with self._open_directory() as directory:
            try:
                os.close(_write_locked(directory, f"{question.id}.answer", given))
            except FileExistsError:
                raise ApprovalError(f"{question.id} is answered already; the first answer counts") from None
            try:
                _read_question(directory, question.id)
            except ApprovalError:
                if _remove_file(directory, f"{question.id}.answer"):  # unread, and too late to be read
                    raise

    def remove_abandoned(self) -> None:
        """Remove what processes that have ended left behind. Raises ApprovalError."""
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
            for name in os.listdir(directory):  # a descriptor
                if name.startswith(".") and _FILE_NAME_PATTERN.match(name[1:]):
                    with suppress(FileNotFoundError):
                        made = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime
                        if made + _UNFINISHED_AGE_S < time.time():
                            _remove_file(directory, name)

    def _take_answer(self, id_: str) -> GivenAnswer | None:
        """Return the answer that was given, which is gone then; None when there is none yet."""
        name = f"{id_}.answer"
        with self._open_directory() as directory:
            if (data := _read_file(directory, name)) is None:
                return None
            _remove_file(directory, name)
        try:
            return GivenAnswer.model_validate_json(data)
        except ValidationError:
            raise ApprovalError(f"{name} holds no answer") from None

    @contextmanager
    def _open_directory(self, *, make: bool = False) -> Generator[int]:
        """Open the directory. Raises ApprovalError when it is not its owner's alone; FileNotFoundError."""
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
    """Return the ids of the questions or answers, the oldest first."""
    names = map(_FILE_NAME_PATTERN.fullmatch, os.listdir(directory))
    return sorted(name[1] for name in names if name is not None and name[2] == kind)


def _read_question(directory: int, id_: str) -> WaitingQuestion:
    """Return a question that still waits. Raises ApprovalError."""
    name = f"{id_}.question"
    if (data := _read_file(directory, name, locked=True)) is None:
        raise ApprovalError(_not_waiting_text(id_))
    try:
        waiting = WaitingQuestion.model_validate_json(data)
    except ValidationError:
        raise ApprovalError(f"{name} holds no question") from None
    question = waiting.question
    if question.id != id_ or waiting.expires < time.time():
        raise ApprovalError(_not_waiting_text(id_))
    spelled = {
        field: make_printable(text, MAX_FILE_BYTES) for field, text in question if isinstance(text, str)
    }
    reasons = tuple(make_printable(reason, MAX_FILE_BYTES) for reason in question.reasons)
    return waiting.model_copy(
        update={"question": question.model_copy(update={**spelled, "reasons": reasons})}
    )


def _not_waiting_text(id_: str) -> str:
    return f"{id_} does not wait for an answer, or not any longer; `paddock approve` lists what waits"


def _is_free(handle: int) -> bool:
    """Tell whether nobody holds the lock of a file, for whoever did has ended."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_locked(directory: int, name: str, value: Value) -> int:
    """Write a file that is seen whole or not at all; return a descriptor that holds its lock.

    Raises FileExistsError when there is one, ApprovalError when it cannot be written.
    """
    data = value.model_dump_json().encode()
    if len(data) > MAX_FILE_BYTES:
        raise ApprovalError(f"{name} would be larger than {MAX_FILE_BYTES} bytes")
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
    """Return what a file of ours holds; None when there is none, or none that is `locked`.

    Raises ApprovalError for anything else of that name.
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
        return None if locked and _is_free(handle) else os.read(handle, MAX_FILE_BYTES)
    finally:
        os.close(handle)


def _remove_file(directory: int, name: str) -> bool:
    """Remove a file; tell whether it was there."""
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        return False
    return True
