"""Ask the client behind a request, and through it its person. Each protocol revision has its own way.

    2025-11-25    the server sends a request while the client's request runs
    2026-07-28    the client's request ends with `input_required` and the work waits; a repeated request brings the
                  answer and continues the work
    its tasks     the client sees the question when it polls its task, and answers with `tasks/update` (`tasks`)
    without       the call ends with `waiting`, and the person answers with `paddock approve` (`pending_calls`)

The library checks that `requestState` was created by this server for this request and this client, and is recent. Here
it names the question, and is valid for one answer.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar, cast

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
from pydantic import ValidationError

from paddock.gate.approvals import Asker, ClientAsker
from paddock.model import approval
from paddock.model.approval import Question
from paddock.model.base import Json
from paddock.model.outcome import OnConsole
from paddock.surfaces.mcp_server.list_changes import call_at_session_end, read_session_id
from paddock.surfaces.mcp_server.pending_calls import (
    CallWork,
    PendingCall,
    PendingCalls,
    end_calls,
    find_run_to_fetch,
    run_alone,
)
from paddock.surfaces.mcp_server.toolbox import Inquire, McpCaller, ToolAnswer

Context = ServerRequestContext[Any, Any]
ACTOR_KEY = "paddock.actor"
"""In the scope of an HTTP request: the caller, as the server knows it by its token."""
T = TypeVar("T")
_KEY = "approval"
_LABELS = {"once": "this call only", "run": "all such calls of this run"}
_FORMS_SINCE = "2025-06-18"
"""First protocol revision with elicitation."""
_TITLED_OPTIONS_SINCE = "2025-11-25"
"""First protocol revision whose forms have `oneOf` with titles, and a `mode`; earlier: `enum` and `enumNames`."""
_MAX_WAITING_ROUNDS = 64
"""Maximum number of requests that wait for the next request of their client."""
_KINDS: dict[type[InputRequest], tuple[str, type[InputResponse]]] = {
    ElicitRequest: ("elicitation", ElicitResult),
    CreateMessageRequest: ("sampling", CreateMessageResult),
    ListRootsRequest: ("roots", ListRootsResult),
}
"""By request: the capability that a client must declare, and the type of the answer."""


class RepeatableParams(Protocol):
    """The parameters of a request that may be repeated with answers."""

    input_responses: InputResponses | None
    request_state: str | None


def can_ask(context: Context) -> bool:
    """Return whether a client declares that it can show forms; an empty capability counts.

    Revisions without elicitation have no such request, whatever the client declares. A caller that the server knows by
    its token is never asked: no actor answers its own question.
    """
    return _find_known_actor(context) is None and _supports_kind(context, "elicitation")


def read_actor(context: Context) -> str:
    """Return the caller, where the server knows its callers; otherwise the client's own name and version.

    The client's own name is recorded and grants nothing.
    """
    if (known := _find_known_actor(context)) is not None:
        return known
    params = context.session.client_params
    if params is None:
        return "mcp client"
    return f"{params.client_info.name} {params.client_info.version}".strip()


def _find_known_actor(context: Context) -> str | None:
    """Return the actor of a caller that the server knows by its token; None for any other client."""
    return None if context.request is None else context.request.scope.get(ACTOR_KEY)


def read_client_id(context: Context) -> str:
    """Return the id of the calling client: its session, or its connection in a revision without sessions.

    Over stdio there is one client.
    """
    session = read_session_id(context)
    peer = context.request.client if context.request is not None and not session else None
    return session if peer is None else f"{peer.host}:{peer.port}"


def name_conversation(context: Context, actor: str) -> str:
    """Return what shares the results of a call, for flow rules: the client over stdio, or the session over HTTP.

    In a revision without sessions a client may open a connection for each call. Then it is the actor.
    """
    if context.request is None:
        return "stdio"
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    session = "" if modern else read_session_id(context)
    return f"session {session}" if session else f"actor {actor}"


def build_form(question: Question) -> ElicitRequest:
    """Return a question as a form."""
    arguments, *difference = question.render_arguments("")
    why = f"{'; '.join(question.reasons)} ({question.rule})" if question.rule else question.reasons[0]
    message = "\n".join(
        [
            f"Paddock asks: may this run {question.what}?",
            f"With: {arguments}",
            *difference,
            f"Workspace: {question.workspace}. Run: {question.run}.",
            f"Reason: {why}",
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
    """Return the answer in a form. It allows the call only if it was accepted and names an allowed scope.

    A client without an answer, or an empty form, counts as a refusal by the client, not by its person.
    """
    by = f"the person at {actor}"
    if not isinstance(result, ElicitResult):
        by = f"{actor}, which returned no answer"
    elif result.action == "accept":
        allowed = (result.content or {}).get("allow")
        for scope in question.scopes:
            if scope == allowed:
                return approval.Answer(verdict=scope, by=by)
        by = f"{actor}, whose form does not name an allowed scope"
    return approval.Answer(verdict="denied", by=by)


def create_asker(inquire: Inquire, actor: str, client: str) -> Asker:
    """Return an asker for the person behind a client."""

    async def ask_person(question: Question) -> approval.Answer:
        answers = await inquire({_KEY: build_form(question)})
        return read_answer(answers.get(_KEY), question, actor)

    return ClientAsker(client, ask_person)


def create_direct_inquiry(context: Context) -> Inquire:
    """Return an inquiry for a client of a revision up to 2025-11-25, sent while its request runs."""

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
    """Return a request in the form of a protocol revision."""
    if version >= _TITLED_OPTIONS_SINCE or not isinstance(request, ElicitRequest):
        return request
    params = request.params
    if not isinstance(params, ElicitRequestFormParams):
        return request
    fields = cast("dict[str, dict[str, Json]]", {**params.requested_schema["properties"]})
    for name, field in fields.items():
        if options := cast("list[dict[str, Json]]", field.get("oneOf", [])):  # with titles
            fields[name] = {
                **{key: value for key, value in field.items() if key != "oneOf"},
                "enum": [option["const"] for option in options],
                "enumNames": [option["title"] for option in options],
            }
    schema = {**params.requested_schema, "properties": fields}
    return ElicitRequest(params=params.model_copy(update={"mode": None, "requested_schema": schema}))


class TaskOffer(NamedTuple):
    """How a call may continue without its request."""

    after_s: float
    """Time in which the call may still end or ask, in seconds."""
    add_call: "Callable[[Round[ToolAnswer]], dict[str, Json] | None]"
    """Returns the result of the request; None: the request waits for the end of the call."""


class ElicitationRounds:
    """Connects the work of each request with its client, and keeps the work that waits for its next request."""

    def __init__(self, wait_ms: int, pending: PendingCalls) -> None:
        """Keep waiting work for at most `wait_ms`. `pending` keeps the calls of clients that cannot ask."""
        self.wait_ms = wait_ms
        self._pending = pending
        self.waiting: dict[str, Round[Any]] = {}
        self._begun: set[Round[Any]] = set()

    async def call_tool(
        self,
        context: Context,
        params: CallToolRequestParams,
        actor: str,
        work: CallWork[ToolAnswer],
        on_console: OnConsole | None,
        *,
        offer: "TaskOffer | None" = None,
    ) -> ToolAnswer | dict[str, Json]:
        """Return a tool's answer, or a result that asks the client first. In 2026-07-28 `offer` may answer instead."""
        if (run := find_run_to_fetch(params.name, params.arguments)) is not None:
            return await self._pending.fetch_result(run, actor, name_conversation(context, actor))
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            current = self._start_or_resume(context, params, actor, work)
            if offer is not None and not await current.wait_until_paused(on_console, seconds=offer.after_s):
                task = offer.add_call(current)
                if task is not None:
                    return task
            await current.wait_until_paused(on_console)
            return current.take_requests() or self.report_end(current)
        inquire, client = create_direct_inquiry(context), read_client_id(context)
        conversation = name_conversation(context, actor)
        if can_ask(context):
            asker = create_asker(inquire, actor, client)
            caller = McpCaller(actor, on_console, asker, inquire, present=True, conversation=conversation)
            return await run_alone(work, caller)
        if self._pending.add_client(client):
            call_at_session_end(context, self._pending.end_calls_of_client)
        return await self._pending.run_call(
            actor,
            client,
            lambda caller: work(replace(caller, inquire=inquire, conversation=conversation)),
            on_console,
        )

    def report_end(self, call: "Round[ToolAnswer]") -> ToolAnswer:
        """Return the answer of a call that has ended, or that it waits for a person elsewhere."""
        return self._pending.report_or_keep_call(call)

    async def get_result(
        self, context: Context, params: RepeatableParams, actor: str, work: CallWork[T]
    ) -> T | dict[str, Json]:
        """Return the result of any other request, or a result that asks its client first."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            conversation = name_conversation(context, actor)
            return await work(
                McpCaller(actor, inquire=create_direct_inquiry(context), conversation=conversation)
            )
        current = self._start_or_resume(context, params, actor, work)
        await current.wait_until_paused(None)
        return current.take_requests() or await current.task

    def holds_run(self, run: str, actor: str) -> bool:
        """Return whether the answer of a waiting call can be fetched here."""
        return self._pending.holds_run(run, actor)

    async def close(self) -> None:
        """End all waiting work."""
        await self._pending.close()
        await end_calls(self._begun)

    def _start_or_resume(
        self, context: Context, params: RepeatableParams, actor: str, work: CallWork[T]
    ) -> "Round[T]":
        """Start the work of a request. For a repeated request, continue the waiting work with its answers."""
        if params.request_state is None:
            begun = Round(context, self, self._pending, actor, work)
            self._begun.add(begun)
            begun.task.add_done_callback(lambda _: self._begun.discard(begun))
            return begun
        current = self.waiting.pop(params.request_state, None)
        if current is None:
            raise MCPError(code=INVALID_PARAMS, message="Invalid or expired requestState")
        current.deliver_answers(params.input_responses or {})
        return cast("Round[T]", current)


class Round(PendingCall[T]):
    """The work of one request, which may take several rounds with the client.

    The client's answers come with a repeated request (`deliver_answers`), or one by one to a task (`answer_requests`).
    """

    def __init__(
        self,
        context: Context,
        rounds: ElicitationRounds,
        pending: PendingCalls,
        actor: str,
        work: CallWork[T],
    ) -> None:
        self._context = context
        self._rounds = rounds
        self._requests: InputRequests = {}
        self._answers: dict[str, InputResponse] = {}
        self._asked_times = 0
        self._state = ""
        self._reply: asyncio.Future[Mapping[str, object]] | None = None
        super().__init__(actor, read_client_id(context), work, pending.questions)

    def make_caller(self) -> McpCaller:
        """Return a caller whose client is asked through this round."""
        conversation = name_conversation(self._context, self.actor)
        if not can_ask(self._context):
            return replace(super().make_caller(), inquire=self.ask_client, conversation=conversation)
        ask = create_asker(self.ask_client, self.actor, self.client)
        return McpCaller(
            self.actor,
            self.on_console_line,
            ask,
            self.ask_client,
            present=True,
            conversation=conversation,
        )

    async def ask_client(self, requests: InputRequests) -> Mapping[str, object]:
        """Wait for the client's next request. If it does not come in time, no later question is asked."""
        _check_capabilities(self._context, requests)
        waiting = self._rounds.waiting
        if len(waiting) >= _MAX_WAITING_ROUNDS:
            text = f"{_MAX_WAITING_ROUNDS} requests wait for answers of their clients; try again later"
            raise MCPError(code=INTERNAL_ERROR, message=text)
        self._reply = asyncio.get_running_loop().create_future()
        self._state = secrets.token_urlsafe(24)
        self._requests, self._answers = requests, {}
        self._asked_times += 1
        waiting[self._state] = self
        self.mark_asking()
        try:
            async with asyncio.timeout(self._rounds.wait_ms / 1000):
                return await self._reply
        finally:
            self._requests = {}
            self.mark_answered()
            if waiting.pop(self._state, None) is not None:
                self.end()

    def deliver_answers(self, responses: InputResponses) -> None:
        """Continue the work with the answers to its questions; ignore all others."""
        if self._reply is not None and not self._reply.done():
            self._reply.set_result({key: responses[key] for key in self._requests if key in responses})
            self._requests = {}

    def take_requests(self) -> dict[str, Json] | None:
        """Return the result that asks the client, if the work waits for that, and expect a repeated request."""
        if not self._requests:
            return None
        self.mark_answered()
        requests = {key: _dump_request(request) for key, request in self._requests.items()}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": self._state}

    def list_requests(self) -> dict[str, Json]:
        """Return the requests without an answer, under names that are unique during the work."""
        return {name: _dump_request(self._requests[key]) for name, key in self._name_requests().items()}

    def answer_requests(self, responses: Mapping[str, Json]) -> None:
        """Take answers to `list_requests`, and ignore others; with the last one the work continues.

        Raises MCPError if an answer does not fit its request. Then none is taken.
        """
        taken: dict[str, InputResponse] = {}
        for name, key in self._name_requests().items():
            if name in responses:
                kind = _KINDS[type(self._requests[key])][1]
                try:
                    taken[key] = kind.model_validate(responses[name], by_name=False)
                except ValidationError:
                    text = f"The answer to {name} is not a valid {kind.__name__}. Send tasks/update again."
                    raise MCPError(code=INVALID_PARAMS, message=text) from None
        self._answers |= taken
        if taken and len(self._answers) == len(self._requests):
            self._rounds.waiting.pop(self._state, None)
            self.deliver_answers(self._answers)

    def _name_requests(self) -> dict[str, str]:
        """Return the keys of requests without an answer, by name."""
        return {f"{key}-{self._asked_times}": key for key in self._requests if key not in self._answers}


def _dump_request(request: InputRequest) -> Json:
    return request.model_dump(by_alias=True, mode="json", exclude_none=True)


def _supports_kind(context: Context, kind: str) -> bool:
    offered = getattr(context.session.client_capabilities, kind, None)
    if offered is None or kind != "elicitation":
        return offered is not None
    return context.protocol_version >= _FORMS_SINCE and (offered.form is not None or offered.url is None)


def _check_capabilities(context: Context, requests: InputRequests) -> None:
    """Raise MCPError unless the client declares every capability that the requests need, as both revisions demand."""
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
