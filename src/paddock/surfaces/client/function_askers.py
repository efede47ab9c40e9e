"""Askers of Python programs, as ordinary or async functions."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from paddock.gate.approvals import Asker
from paddock.model.approval import Answer, Question
from paddock.surfaces.client.arguments import check_listeners

Asking = Callable[[Question], Answer | Awaitable[Answer]]
"""Asks a person, and returns the answer. An exception or a result that is not an `Answer` means no."""


class AskerExited(Exception):
    """The asker has called `sys.exit`, or the like."""


def adapt_asking(asking: Asking) -> Asker:
    """Return an asker for the gate. An ordinary function is called in its own thread.

    If its answer is no longer needed, the thread is abandoned; it does not keep the process from ending. Raises
    RequestError for what cannot be called.
    """
    check_listeners(asker=asking)

    async def ask(question: Question) -> Answer:
        called = (
            asking(question)
            if inspect.iscoroutinefunction(asking)
            else await _call_in_thread(asking, question)
        )
        answer = await called if inspect.isawaitable(called) else called
        if not isinstance(answer, Answer):
            raise TypeError(f"an asker returns an Answer, not {type(answer).__name__}")
        return answer

    return ask


async def _call_in_thread(asking: Asking, question: Question) -> Answer | Awaitable[Answer]:
    answered: Future[Answer | Awaitable[Answer]] = Future()
    answered.set_running_or_notify_cancel()

    def call_asking() -> None:
        try:
            answered.set_result(asking(question))
        except Exception as error:  # noqa: BLE001 - for the loop to raise
            answered.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - likewise, but it would end the loop
            answered.set_exception(AskerExited(repr(error)))

    threading.Thread(target=call_asking, name="paddock asker", daemon=True).start()
    return await asyncio.wrap_future(answered)
