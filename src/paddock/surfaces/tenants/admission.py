"""A job that was admitted: it has a slot, except while it waits for a person."""

from collections.abc import Awaitable, Callable

from paddock.model.approval import Answer, Question
from paddock.surfaces.tenants.slots import Share, Slots

Asker = Callable[[Question], Awaitable[Answer]]


class Admission:
    """The slot of one job, which has entered."""

    def __init__(self, slots: Slots, share: Share, ask: Asker) -> None:
        """Give back the slot while `ask` waits for an answer."""
        self._slots = slots
        self._share = share
        self._ask = ask
        self._holds = True
        self._ended = False
        self._questions = 0

    async def ask(self, question: Question) -> Answer:
        """Ask a person. Pass it to the gate as `asker`: until there is an answer, other jobs use the slot."""
        self._questions += 1
        if self._holds:
            self._give_back()
        try:
            answer = await self._ask(question)
            if self._questions == 1 and not self._ended:
                await self._slots.enter_again(self._share)
                self._holds = True
            return answer
        finally:
            self._questions -= 1
            if self._ended and self._holds:
                self._give_back()
            elif not (
                self._questions or self._ended or self._holds
            ):  # cancelled or expired: it must not wait now
                self._slots.take_beyond(self._share)
                self._holds = True

    def end(self) -> None:
        """Give the slot back for good."""
        self._ended = True
        if self._holds:
            self._give_back()

    def _give_back(self) -> None:
        self._holds = False
        self._slots.leave(self._share)
