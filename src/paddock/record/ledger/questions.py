"""The questions that the ledger knows, each with its answer."""

from itertools import islice
from pathlib import Path
from typing import NamedTuple

from paddock.record.ledger.search import RecordFilter, find
from paddock.record.ledger.sink import AuditRecord

_MAX_ANSWERS = 100
"""More answers than one request can have."""


class RecordedQuestion(NamedTuple):
    """The records of one question."""

    asked: AuditRecord
    answered: AuditRecord | None
    """None while it waits, or if the process that asked was killed."""


def find_questions(
    directory: Path, *, actor: str | None, limit: int, skip: int = 0
) -> list[RecordedQuestion]:
    """Return questions about requests of an actor (None: of all), newest first, after the first `skip`.

    Raises LedgerError.
    """
    wanted = RecordFilter(event="asked", actor=actor)
    asked = islice(find(directory, wanted, limit=skip + limit), skip, None)
    return [RecordedQuestion(each, _find_answer(directory, each)) for each in asked]


def _find_answer(directory: Path, asked: AuditRecord) -> AuditRecord | None:
    wanted = RecordFilter(event="answered", request=asked.request)
    answers = find(directory, wanted, limit=_MAX_ANSWERS)
    return next(
        (each for each in answers if each.fields.get("question") == asked.fields.get("question")), None
    )
