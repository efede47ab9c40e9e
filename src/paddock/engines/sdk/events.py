"""Report the events of a session to webhooks: each delivery is a separate request, decided and recorded."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from paddock.engines.sdk.requests import options_of
from paddock.foundation.cancellation import run_shielded
from paddock.model.base import Json
from paddock.model.errors import PaddockError
from paddock.model.outcome import Outcome, RawResult
from paddock.model.request import ExecutionRequest, GuestRun, SdkCall

MAX_WAITING = 100
"""Maximum number of deliveries that run or wait; further events are dropped."""
_MAX_CONCURRENT = 4
_FAREWELL_S = 10.0
"""Maximum time for deliveries after the end of the session, in seconds."""

Execute = Callable[[ExecutionRequest], Awaitable[Outcome]]


class Events:
    """Delivers the events of one session; leaving the context waits for deliveries.

    `registered` returns the ids of an event's webhooks.
    """

    def __init__(self, execute: Execute, registered: Callable[[str], list[str]]) -> None:
        self._execute = execute
        self._registered = registered
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self._tasks: set[asyncio.Task[None]] = set()
        self.dropped = 0
        """Number of messages that were not sent, after the end of the session."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about undelivered messages."""
        if not self.dropped:
            return ()
        return (
            f"{self.dropped} messages to webhooks were not sent; paddock audit tail shows those that were",
        )

    def on_end(self, request: ExecutionRequest, result: RawResult) -> None:
        """Handle the end of a request; returns at once."""
        found = event_of(request, result)
        if found is None:
            return
        event, data = found
        try:
            webhooks = self._registered(event)
        except PaddockError:
            webhooks, self.dropped = [], self.dropped + 1
        for webhook in webhooks:
            if len(self._tasks) >= MAX_WAITING:
                self.dropped += 1
                continue
            task = asyncio.get_running_loop().create_task(self._deliver_event(request, webhook, event, data))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait a limited time for running deliveries, and end the rest, which counts as dropped."""
        if not self._tasks:
            return
        try:
            await asyncio.wait(self._tasks, timeout=_FAREWELL_S)
        finally:
            for task in self._tasks:
                self.dropped += task.cancel()
            if self._tasks:
                await run_shielded(asyncio.wait(self._tasks))

    async def _deliver_event(self, cause: ExecutionRequest, webhook: str, event: str, data: Json) -> None:
        work = SdkCall(method="webhook.deliver", arguments=(webhook, event, data))
        request = ExecutionRequest(
            parent=cause.id,
            root=cause.root or cause.id,
            actor=cause.actor,
            surface="webhook",
            workspace=cause.workspace,
            work=work,
            calls=cause.calls,
        )
        try:
            async with self._slots:
                await self._execute(request)
        except PaddockError:  # nothing is sent without a record
            self.dropped += 1


def event_of(request: ExecutionRequest, result: RawResult) -> tuple[str, Json] | None:
    """Return the event for the end of a request, and its data; None for most requests."""
    match request.work:
        case GuestRun(profile="script") as work if request.parent is None:
            ms = result.usage.wall_ms
            data = {"request": request.id, "name": work.name, "status": result.status.value, "ms": ms}
            return "script.finished", data
        case SdkCall(method="sequence.run") if result.ok:
            steps = [{name: step[name] for name in ("name", "status")} for step in result.value["steps"]]
            data = {
                "request": request.id,
                "name": result.value["name"],
                "ok": result.value["ok"],
                "steps": steps,
            }
            return "sequence.finished", data
        case SdkCall(method="cir.capture", arguments=(body, *options)) if result.ok:
            given = options_of(options[0] if options else None, "cir.capture")
            data = {**given, "body": body, **result.value}
            return "signal.captured", data
        case _:
            return None
