"""The queue of a server that handles a bounded number of calls at a time (`maxConcurrent` of its entry)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from paddock.foundation.fair_slots import Bound, FairSlots, NoSlotError
from paddock.model.base import count
from paddock.model.errors import ServerTimeout, ServerUnavailable

T = TypeVar("T")

MAX_WAITING = 1_000
"""Maximum number of waiting calls of one server. A further one is refused at once."""


class Turns:
    """The calls of one server: at most `max_concurrent` run, the others wait. Callers take turns."""

    def __init__(self, server: str, max_concurrent: int) -> None:
        self._server = server
        self._slots = FairSlots()
        self._bound = Bound(max_concurrent, MAX_WAITING)

    @property
    def waiting(self) -> int:
        """Number of waiting calls."""
        return self._bound.waiting

    async def take(self, what: str, caller: str, limit_ms: float, call: Callable[[float], Awaitable[T]]) -> T:
        """Wait for a turn and return what `call` returns. It gets the rest of `limit_ms`, which the wait uses up.

        `what` names the call in errors. Raises ServerTimeout if no turn came within `limit_ms`, ServerUnavailable if
        too many calls wait, and the errors of `call`. A ServerTimeout of `call` also reports the wait.
        """
        ahead = self._bound.active + self._bound.waiting
        others = f"{count(ahead, 'call')} of this server (`maxConcurrent` is {self._bound.max_active})"
        try:
            slot = await self._slots.enter(caller, self._bound, max_wait_ms=max(round(limit_ms), 1))
        except NoSlotError as refusal:
            if refusal.why == "time":
                text = f"Server {self._server}: {what} waited for {others}, and was not sent within {limit_ms:g} ms."
                raise ServerTimeout(
                    f"{text} Call less at once, or raise `maxConcurrent` or `timeoutMs`."
                ) from None
            text = f"Server {self._server}: {what} was not sent: {MAX_WAITING} calls of this server wait already."
            raise ServerUnavailable(
                f"{text} Call less at once, or raise `maxConcurrent`.", retryable=True
            ) from None
        assert slot is not None  # only an event could end the wait without one
        try:
            return await call(max(limit_ms - slot.waited_ms, 1))
        except ServerTimeout as error:
            if not slot.waited_ms:
                raise
            text = f"{error} Before, it waited for {others}, which took {slot.waited_ms:.0f} ms."
            raise ServerTimeout(text, sent=error.sent) from None
        finally:
            slot.end()
