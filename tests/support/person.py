"""A person who answers questions, for tests."""

from paddock.model.approval import Answer, Question, Verdict


class Person:
    """Gives the answers of a test, and keeps the questions."""

    def __init__(self, *verdicts: Verdict) -> None:
        self.asked: list[Question] = []
        self._verdicts = iter(verdicts)

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(verdict=next(self._verdicts), by="the test")
