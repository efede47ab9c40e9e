"""Asking the client behind a request for what only it has, most of all its person: each era in its own way.

2025-11-25    a request of ours while theirs runs
2026-07-28    theirs ends with `input_required`, the work waits, the repeated request brings the answer and it goes on
without       the call ends with `waiting`, and the person answers `paddock approve` (`pending_calls`)

Of `requestState` the library's boundary sees to it that it is ours, of this request, of this client and not too old;
here it is the name of what was asked, and good for one answer.
"""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequests,
    InputResponse,
    InputResponses,
    ListRootsRequest,
    ListRootsResult,
)
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock.app.approvals import Asker, ClientAsker
from paddock.cancellation import cancel_all
from paddock.javascript.job import OnConsole
from paddock.mcp_server.list_changes import call_at_session_end, read_session_id
from paddock.mcp_server.pending_calls import PendingCall, PendingCalls, Work, find_run_to_fetch
from paddock.mcp_server.toolbox import Caller, Inquire, ToolAnswer
from paddock.model import approval
from paddock.model.approval import Question
from paddock.model.base import Json

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")
_KEY = "approval"
_LABELS = {"once": "this call only", "run": "all such calls of this run"}
_FORMS_SINCE = "2025-06-18"
"""First protocol revision with elicitation."""
_TITLED_OPTIONS_SINCE = "2025-11-25"
"""First protocol revision whose forms have `oneOf` with titles, and a `mode`; before it was `enum` with `enumNames`."""
_MAX_WAITING_ROUNDS = 64
"""Requests that wait for the next one of their client."""
_KINDS: dict[type[InputRequest], tuple[str, type[InputResponse]]] = {
    ElicitRequest: ("elicitation", ElicitResult),
    CreateMessageRequest: ("sampling", CreateMessageResult),
    ListRootsRequest: ("roots", ListRootsResult),
}
"""What clients can be asked for: the capability that says so, and the answer."""


class RepeatableParams(Protocol):
    """The parameters of a request that may be repeated with answers."""

    input_responses: InputResponses | None
    request_state: str | None


def can_ask(context: Context) -> bool:
    """Return whether a client says that it can ask its person to fill in a form; an empty capability says so.

    A revision without elicitation has no such request, whatever its client declares.
    """
    return _supports_kind(context, "elicitation")


def read_actor(context: Context) -> str:
    """Return who calls: what the client says it is, which is for the record and grants nothing."""
    params = context.session.client_params
    if params is None:
        return "mcp client"
    return f"{params.client_info.name} {params.client_info.version}".strip()


def read_client_id(context: Context) -> str:
    """Return which client calls: its session, or its connection where a revision has no sessions.

    Over standard streams there is one client.
    """
    session = read_session_id(context)
    peer = context.request.client if context.request is not None and not session else None
    return session if peer is None else f"{peer.host}:{peer.port}"


def build_form(question: Question) -> ElicitRequest:
    """Return a question as a form."""
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
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def read_answer(result: object, question: Question, actor: str) -> approval.Answer:
    """Return what a form says. Only one that was accepted and names what is allowed is a yes.

    A client that brings no answer, or a form that says nothing, is a no of its own, and not one of its person.
    """
    by = f"the person at {actor}"
    if not isinstance(result, ElicitResult):
        by = f"{actor}, which brought no answer"
    elif result.action == "accept":
        allowed = (result.content or {}).get("allow")
        for scope in question.scopes:
            if scope == allowed:
                return approval.Answer(verdict=scope, by=by)
        by = f"{actor}, whose form does not say what is allowed"
    return approval.Answer(verdict="denied", by=by)


def create_asker(inquire: Inquire, actor: str, client: str) -> Asker:
    """Return what asks the person behind a client."""

    async def ask_person(question: Question) -> approval.Answer:
        answers = await inquire({_KEY: build_form(question)})
        return read_answer(answers.get(_KEY), question, actor)

    return ClientAsker(client, ask_person)


def create_direct_inquiry(context: Context) -> Inquire:
    """Return what asks a client of a revision up to 2025-11-25 while its request runs."""

    async def inquire(requests: InputRequests) -> Mapping[str, object]:
        _check_capabilities(context, requests)
        related = ServerMessageMetadata(related_request_id=context.request_id)
        send = context.session.send_request
        return {
            key: await send(
                _adapt_to_version(request, context.protocol_version),
                _KINDS[type(request)][1],
                metadata=related,
            )
            for key, request in requests.items()
        }

    return inquire


def _adapt_to_version(request: InputRequest, version: str) -> InputRequest:
    """Return a request as a client of a protocol revision reads it."""
    if version >= _TITLED_OPTIONS_SINCE or not isinstance(request, ElicitRequest):
        return request
    params = request.params
    if not isinstance(params, ElicitRequestFormParams):
        return request
    fields = {
        name: _add_option_names(cast("dict[str, Json]", field))
        for name, field in cast("dict[str, Json]", params.requested_schema["properties"]).items()
    }
    schema = {**params.requested_schema, "properties": fields}
    return ElicitRequest(params=params.model_copy(update={"mode": None, "requested_schema": schema}))


def _add_option_names(field: dict[str, Json]) -> dict[str, Json]:
    """Return a field of a form with `enum` and `enumNames` in place of options with titles."""
    options = cast("list[dict[str, Json]]", field.get("oneOf", []))
    if not options:
        return field
    plain = {name: value for name, value in field.items() if name != "oneOf"}
    return {
        **plain,
        "enum": [option["const"] for option in options],
        "enumNames": [option["title"] for option in options],
    }


class ElicitationRounds:
    """How the work for each request reaches its client; the work that waits for the next request of its client."""

    def __init__(self, wait_ms: int, pending: PendingCalls) -> None:
        """Keep what waits at most `wait_ms` for its answer; `held` keeps the calls of clients that cannot ask."""
        self.wait_ms = wait_ms
        self._pending = pending
        self.waiting: dict[str, _Round[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def call_tool(
        self,
        context: Context,
        params: CallToolRequestParams,
        actor: str,
        work: Work[ToolAnswer],
        on_console: OnConsole | None,
    ) -> ToolAnswer | dict[str, Json]:
        """Return the answer of a tool, or the result that asks the client for an answer first."""
        if (run := find_run_to_fetch(params.name, params.arguments)) is not None:
            return await self._pending.fetch_answer(run, actor)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            current = self._start_or_resume(context, params, actor, work)
            return await current.wait_for_requests(on_console) or await self._pending.settle_call(current)
        inquire, client = create_direct_inquiry(context), read_client_id(context)
        if can_ask(context):
            return await work(
                Caller(actor, on_console, create_asker(inquire, actor, client), inquire, present=True)
            )
        if self._pending.add_client(client):
            call_at_session_end(context, self._pending.end_calls_of_client)
        return await self._pending.run_call(
            actor, client, lambda caller: work(replace(caller, inquire=inquire)), on_console
        )

    async def get_result(
        self, context: Context, params: RepeatableParams, actor: str, work: Work[T]
    ) -> T | dict[str, Json]:
        """Return what any other request gives, or the result that asks its client first."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await work(Caller(actor, inquire=create_direct_inquiry(context)))
        current = self._start_or_resume(context, params, actor, work)
        return await current.wait_for_requests(None) or await current.task

    async def close(self) -> None:
        """End what still waits."""
        await self._pending.close()
        await cancel_all(self._tasks)

    def _start_or_resume(
        self, context: Context, params: RepeatableParams, actor: str, work: Work[T]
    ) -> "_Round[T]":
        """Return the work for a request: begun, or for one that is repeated that which waits, with its answers."""
        if params.request_state is None:
            begun = _Round(context, self, self._pending, actor, work)
            self._tasks.add(begun.task)
            begun.task.add_done_callback(self._tasks.discard)
            return begun
        current = self.waiting.pop(params.request_state, None)
        if current is None:
            raise MCPError(code=INVALID_PARAMS, message="Invalid or expired requestState")
        current.deliver_answers(params.input_responses or {})
        return cast("_Round[T]", current)


class _Round(PendingCall[T]):
    """The work for one request, over as many requests as it asks for something and one more."""

    def __init__(
        self, context: Context, rounds: ElicitationRounds, pending: PendingCalls, actor: str, work: Work[T]
    ) -> None:
        self._context = context
        self._rounds = rounds
        self._requests: InputRequests = {}
        self._state = ""
        self._reply: asyncio.Future[Mapping[str, object]] | None = None
        super().__init__(actor, read_client_id(context), work, pending.inbox)

    def make_caller(self) -> Caller:
        """Return a caller who can be asked as the client says."""
        if not can_ask(self._context):
            return replace(super().make_caller(), inquire=self.ask_client)
        ask = create_asker(self.ask_client, self.actor, self.client)
        return Caller(self.actor, self.on_console_line, ask, self.ask_client, present=True)

    async def ask_client(self, requests: InputRequests) -> Mapping[str, object]:
        """Wait for the next request of the client. When none comes in time, nobody is there for the rest."""
        _check_capabilities(self._context, requests)
        waiting = self._rounds.waiting
        if len(waiting) >= _MAX_WAITING_ROUNDS:
            text = f"{_MAX_WAITING_ROUNDS} requests wait for what they asked their clients for; try later"
            raise MCPError(code=INTERNAL_ERROR, message=text)
        self._reply = asyncio.get_running_loop().create_future()
        self._state = secrets.token_urlsafe(24)
        self._requests = requests
        waiting[self._state] = self
        self.asking.set()
        try:
            async with asyncio.timeout(self._rounds.wait_ms / 1000):
                return await self._reply
        finally:
            self._requests = {}
            if waiting.pop(self._state, None) is not None:
                self.task.cancel()

    def deliver_answers(self, responses: InputResponses) -> None:
        """Let the work go on with those answers that were asked for."""
        if self._reply is not None and not self._reply.done():
            self._reply.set_result({key: responses[key] for key in self._requests if key in responses})

    async def wait_for_requests(self, listener: OnConsole | None) -> dict[str, Json] | None:
        """Wait for the end of the work; return what it asks its client for instead, if it does.

        Cancelling ends the work.
        """
        await self.wait_until_paused(listener)
        if not self._requests:
            return None
        self.asking.clear()
        requests = {
            key: request.model_dump(by_alias=True, mode="json", exclude_none=True)
            for key, request in self._requests.items()
        }
        return {"resultType": "input_required", "inputRequests": requests, "requestState": self._state}


def _supports_kind(context: Context, kind: str) -> bool:
    offered = getattr(context.session.client_capabilities, kind, None)
    if offered is None or kind != "elicitation":
        return offered is not None
    return context.protocol_version >= _FORMS_SINCE and (offered.form is not None or offered.url is None)


def _check_capabilities(context: Context, requests: InputRequests) -> None:
    """Raise MCPError unless a client says that it can do all that is asked of it, as both revisions want."""
    missing = {
        kind
        for kind, _ in (_KINDS[type(each)] for each in requests.values())
        if not _supports_kind(context, kind)
    }
    if missing:
        text = f"this needs a client that declares the capability {', '.join(sorted(missing))}"
        required: dict[str, Json] = {kind: {"form": {}} if kind == "elicitation" else {} for kind in missing}
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY, message=text, data={"requiredCapabilities": required}
        )
