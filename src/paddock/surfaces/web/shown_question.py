"""A question as a page shows it, and what binds an answer to exactly what was shown."""

import hashlib
import time
from typing import NamedTuple

from paddock.model.approval import Question, WaitingQuestion
from paddock.model.numbers import dumps

_CHANGES_PREFIX = "changes-"


class ShownQuestion(NamedTuple):
    """A question for display. All texts may come from a program."""

    question: Question
    digest: str
    """Hash of all that is shown. A form repeats it, because another process may change the question meanwhile."""
    arguments: tuple[tuple[str, str], ...] | None
    """Names and values; None if the arguments were too long to be shown in whole."""
    difference: tuple[str, ...]
    """The beginning of the difference, if changes are to be accepted."""
    change_set: str
    """ID of the change set; empty without one."""
    remaining_ms: int = 0
    """Time that is left for an answer, in milliseconds."""
    may_answer: bool = False


def show_question(question: Question) -> ShownQuestion:
    """Return a question for display."""
    found = question.read_arguments()
    if found is None:
        return ShownQuestion(question, hash_shown(question), None, (), "")
    arguments, change_set = dict(found.named), ""
    if isinstance(given := arguments.get("id"), str) and given.startswith(_CHANGES_PREFIX):
        change_set = given
        del arguments["id"]
    rows = tuple((name, _write(value)) for name, value in arguments.items())
    return ShownQuestion(question, hash_shown(question), rows, found.difference, change_set)


def show_waiting(waiting: WaitingQuestion, *, may_answer: bool) -> ShownQuestion:
    """Return a waiting question for display."""
    left_ms = max(0, round((waiting.expires - time.time()) * 1000))
    return show_question(waiting.question)._replace(remaining_ms=left_ms, may_answer=may_answer)


def hash_shown(question: Question) -> str:
    """Return the hash of all that is shown of a question, in hex."""
    return hashlib.sha256(question.model_dump_json().encode("utf-8", "replace")).hexdigest()


def _write(value: object) -> str:
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)
