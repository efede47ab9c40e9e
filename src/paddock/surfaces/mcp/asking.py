"""Asking the person behind an MCP client, each era in its own way.

2025-11-25    `elicitation/create` while the call runs
2026-07-28    the call ends with `input_required`, the program waits, the repeated call brings the answer and goes on
without       the call ends with `waiting`, and the person answers `paddock approve` (`paddock.surfaces.mcp.held`)

Of `requestState` the library's boundary sees to it that it is ours, of this call, of this client and not too old; here
it is the name of one question, and good for one answer.
"""

import asyncio
import secrets
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock.approvals import Asker
from paddock.guest.job import OnConsole
from paddock.model import approval
from paddock.model.approval import Question
from paddock.model.base import Json
from paddock.surfaces.mcp.held import Detached, Held, Work, fetched_run
from paddock.surfaces.mcp.tools import Answer, Caller

Context = ServerRequestContext[Any, Any]
_KEY = "approval"
_LABELS = {"once": "this call only", "run": "all such calls of this run"}


def can_ask(context: Context) -> bool:
    """Tell whether a client says that it can ask its person to fill in a form; an empty capability says so."""
    capabilities = context.session.client_capabilities
    offered = capabilities.elicitation if capabilities else None
    return offered is not None and (offered.form is not None or offered.url is None)


def form(question: Question) -> dict[str, Any]:
    """Return a question as the parameters of `elicitation/create`."""
    why = f"{'; '.join(question.reasons)} ({question.rule})" if question.rule else question.reasons[0]
    message = "\n".join(
        [
            f"Paddock asks: may this run {question.what}?",
            f"With: {question.details}",
            f"Workspace: {question.workspace}. Run: {question.run}.",
            f"Why you are asked: {why}",
        ]
    )
    allow = {
        "type": "string",
        "title": "Allow",
        "oneOf": [{"const": scope, "title": _LABELS[scope]} for scope in question.scopes],
    }
    schema = {"type": "object", "properties": {"allow": allow}, "required": ["allow"]}
    return {"mode": "form", "message": message, "requestedSchema": schema}


def read(result: object, question: Question, actor: str) -> approval.Answer:
    """Return what a form says. Only one that was accepted and names what is allowed is a yes."""
    if isinstance(result, ElicitResult) and result.action == "accept":
        allowed = (result.content or {}).get("allow")
        for scope in question.scopes:
            if scope == allowed:
                return approval.Answer(verdict=scope, by=f"the person at {actor}")
    return approval.Answer(verdict="denied", by=f"the person at {actor}")


def eliciting(context: Context, actor: str) -> Asker:
    """Return what asks while the call runs."""

    async def ask(question: Question) -> approval.Answer:
        asked = form(question)
        result = await context.session.elicit_form(
            asked["message"], asked["requestedSchema"], context.request_id
        )
        return read(result, question, actor)

    return ask


class Rounds:
    """How each call of a tool reaches its person; the calls that wait for the next request of their client."""

    def __init__(self, wait_ms: int, held: Held) -> None:
        """Keep what waits at most `wait_ms` for its answer; `held` keeps the calls of clients that cannot ask."""
        self.wait_ms = wait_ms
        self._held = held
        self._waiting: dict[str, _Round] = {}
        self._tasks: set[asyncio.Task[Answer]] = set()

    async def call(
        self,
        context: Context,
        params: CallToolRequestParams,
        actor: str,
        work: Work,
        on_console: OnConsole | None,
    ) -> Answer | dict[str, Json]:
        """Return the answer of a tool, or the result that asks the client for an answer first."""
        if (run := fetched_run(params.name, params.arguments)) is not None:
            return await self._held.fetch(run, actor)
        if not can_ask(context):
            return await self._held.call(actor, work, on_console)
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await work(Caller(actor, on_console, eliciting(context, actor), present=True))
        if params.request_state is None:
            current = _Round(actor, work, self._waiting)
            self._tasks.add(current.task)
            current.task.add_done_callback(self._tasks.discard)
        else:
            current = self._waiting.pop(params.request_state, None)
            if current is None or current.question is None:
                raise MCPError(code=INVALID_PARAMS, message="Invalid or expired requestState")
            given = (params.input_responses or {}).get(_KEY)
            current.answer(read(given, current.question, actor))
        return await current.next(on_console)

    async def close(self) -> None:
        """End what still waits."""
        await self._held.close()
        for task in (tasks := [*self._tasks]):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _Round(Detached):
    """One call of a tool, over as many requests as it has questions and one more."""

    present = True

    def __init__(self, actor: str, work: Work, waiting: "dict[str, _Round]") -> None:
        self._waiting = waiting
        self._state = ""
        self._reply: asyncio.Future[approval.Answer] | None = None
        super().__init__(actor, work)

    async def ask(self, question: Question) -> approval.Answer:
        """Wait for the next request of the client. When none comes in time, nobody is there for the rest."""
        self._reply = asyncio.get_running_loop().create_future()
        self._state = secrets.token_urlsafe(24)
        self.question = question
        self._waiting[self._state] = self
        self.asking.set()
        try:
            return await self._reply
        finally:
            self.question = None
            if self._waiting.pop(self._state, None) is not None:
                self.task.cancel()

    def answer(self, answer: approval.Answer) -> None:
        """Let the program go on."""
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(answer)

    async def next(self, listener: OnConsole | None) -> Answer | dict[str, Json]:
        """Return the answer of the tool, or the next question. Cancelling ends the work."""
        await self.pause(listener)
        if self.task.done() or self.question is None:
            return await self.task
        self.asking.clear()
        request = {"method": "elicitation/create", "params": form(self.question)}
        result = {"resultType": "input_required", "inputRequests": {_KEY: request}}
        return cast("dict[str, Json]", {**result, "requestState": self._state})
