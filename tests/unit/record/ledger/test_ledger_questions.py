"""The questions in a ledger: each with its own answer, newest first, in pages, of one actor or of all."""

from pathlib import Path

from paddock.record.ledger.questions import find_questions
from paddock.record.ledger.writer import Ledger


def ask(ledger: Ledger, request: str, question: str, actor: str, answer: str | None) -> None:
    """Record a question, and its answer if there is one."""
    ledger.append("asked", request, {"actor": actor, "question": question})
    if answer is not None:
        ledger.append("answered", request, {"question": question, "answer": answer, "answered_by": "bob"})


def test_each_question_has_its_own_answer(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ask(ledger, "r1", "q1", "ada", "once")
    ask(ledger, "r1", "q2", "ada", "denied")
    ask(ledger, "r2", "q3", "eve", None)
    ledger.close()

    def read(actor: str | None, skip: int = 0, limit: int = 10) -> list[tuple[object, object]]:
        found = find_questions(tmp_path, actor=actor, skip=skip, limit=limit)
        return [
            (each.asked.fields["question"], each.answered and each.answered.fields["answer"])
            for each in found
        ]

    assert read(None) == [("q3", None), ("q2", "denied"), ("q1", "once")]
    assert read("ada") == [("q2", "denied"), ("q1", "once")]
    assert read(None, skip=1, limit=1) == [("q2", "denied")]
    assert read("bob") == read(None, skip=3) == find_questions(tmp_path / "none", actor=None, limit=1) == []
