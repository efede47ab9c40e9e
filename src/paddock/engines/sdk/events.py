"""Report the events of a session to webhooks: each delivery is a separate request, decided and recorded.

on_end       a request has ended: `script.finished`, `sequence.finished`, `signal.captured`
on_waiting   a question waits for a person: `approval.waiting`, and a message to the channels of `approvals.notify`

No event contains more than its question or its result, without secrets.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, NamedTuple, Self

from paddock.engines.sdk.requests import options_of
from paddock.foundation.cancellation import run_shielded
from paddock.model.approval import Question
from paddock.model.base import Json
from paddock.model.errors import PaddockError
from paddock.model.outcome import Outcome, RawResult
from paddock.model.request import Calls, ExecutionRequest, GuestRun, SdkCall
from paddock.model.texts import cut_middle

MAX_WAITING = 100
"""Maximum number of deliveries that run or wait; further events are dropped."""
_MAX_CONCURRENT = 4
_FAREWELL_S = 10.0
"""Maximum time for deliveries after the end of the session, in seconds."""

SURFACE: Literal["webhook"] = "webhook"
"""Surface of the requests that report something."""
_TITLE_CHARS = 200
_BODY_CHARS = 1000
_REPORTED = ("id", "run", "actor", "surface", "what", "details", "reasons", "rule", "scopes", "wait_ms")
"""Fields of a question that its event has. Its texts contain no secret and no path of this machine's workspace."""

Execute = Callable[[ExecutionRequest], Awaitable[Outcome]]


class _Cause(NamedTuple):
    """The request that something is reported of."""

    request: str
    run: str
    actor: str
    workspace: Path
    calls: Calls = "run"


class Events:
    """Delivers the events of one session; leaving the context waits for deliveries.

    `registered` returns the ids of an event's webhooks.
    """

    def __init__(
        self, execute: Execute, registered: Callable[[str], list[str]], *, notifies: bool = False
    ) -> None:
        """`notifies`: questions that wait are also sent to notification channels."""
        self._execute = execute
        self._registered = registered
        self._notifies = notifies
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
        root = request.root or request.id
        cause = _Cause(request.id, root, request.actor, request.workspace, request.calls)
        self._report(cause, *found)

    def on_waiting(self, question: Question, workspace: Path) -> None:
        """Handle a question that begins to wait; returns at once. Questions about reports are not reported."""
        if question.surface == SURFACE:
            return
        cause = _Cause(question.request, question.run, question.actor, workspace)
        self._report(cause, "approval.waiting", question.model_dump(mode="json", include=set(_REPORTED)))
        if self._notifies:
            title = cut_middle(f"Waits for your approval: {question.what}", _TITLE_CHARS)
            body = cut_middle(
                f"Asked by {question.actor or 'a client'}: {'; '.join(question.reasons)}", _BODY_CHARS
            )
            self._send(cause, SdkCall(method="notify.approval", arguments=(title, body)))

    def _report(self, cause: _Cause, event: str, data: Json) -> None:
        """Begin the deliveries of an event."""
        try:
            webhooks = self._registered(event)
        except PaddockError:
            webhooks, self.dropped = [], self.dropped + 1
        for webhook in webhooks:
            self._send(cause, SdkCall(method="webhook.deliver", arguments=(webhook, event, data)))

    def _send(self, cause: _Cause, work: SdkCall) -> None:
        if len(self._tasks) >= MAX_WAITING:
            self.dropped += 1
            return
        task = asyncio.get_running_loop().create_task(self._execute_report(cause, work))
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

    async def _execute_report(self, cause: _Cause, work: SdkCall) -> None:
        request = ExecutionRequest(
            parent=cause.request,
            root=cause.run,
            actor=cause.actor,
            surface=SURFACE,
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
