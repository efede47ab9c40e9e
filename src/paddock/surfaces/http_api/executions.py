"""`/v1/executions`: run something, and look up what became of it."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from paddock.model.numbers import dumps
from paddock.model.outcome import Outcome
from paddock.model.session import NEW
from paddock.model.work_files import GivenFile, InputFile
from paddock.surfaces.http_api.bodies import ReadBody, read_model
from paddock.surfaces.http_api.context import HttpCall, ThisCall, await_disconnect
from paddock.surfaces.http_api.elsewhere import (
    OneReplicaRoute,
    find_elsewhere,
    find_ended,
    list_everywhere,
    note_execution,
)
from paddock.surfaces.http_api.events import EVENT_SCHEMA, Listener
from paddock.surfaces.http_api.events import MEDIA_TYPE as EVENT_STREAM
from paddock.surfaces.http_api.idempotency import HEADER, REPLAYED_HEADER, KeyedRequest, read_key
from paddock.surfaces.http_api.models import (
    REQUIRED,
    ExecutionBody,
    ExecutionList,
    ExecutionState,
    SessionExecutionBody,
    WorkKind,
    infer_kind,
    list_misplaced,
)
from paddock.surfaces.http_api.openapi import describe_answer, describe_body, describe_problems
from paddock.surfaces.http_api.running import RunningExecution, Send
from paddock.surfaces.http_server.problems import (
    BODY_TOO_LARGE,
    CANCELLED,
    EXECUTION_LOST,
    INVALID_KEY,
    INVALID_REQUEST,
    KEY_REUSED,
    MALFORMED_BODY,
    NOT_FOUND,
    OUTCOME_LOST,
    OUTCOME_UNKNOWN,
    UNSUPPORTED_MEDIA_TYPE,
    reject_fields,
    reject_invalid,
)
from paddock.surfaces.tenants.tenant import SlotNeeds

if TYPE_CHECKING:
    from paddock.surfaces.client.attached import AttachedPaddock
    from paddock.surfaces.tenants import Tenant

router = APIRouter(tags=["executions"], route_class=OneReplicaRoute)

RUN_PROBLEMS = (
    *(MALFORMED_BODY, INVALID_KEY, CANCELLED, OUTCOME_LOST, EXECUTION_LOST, BODY_TOO_LARGE),
    *(UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, KEY_REUSED, OUTCOME_UNKNOWN),
)
"""The problems of a request that runs something."""
_OUTCOME = describe_answer(Outcome, "The outcome, whatever its status.")
_OUTCOME[200]["content"][EVENT_STREAM] = {"schema": EVENT_SCHEMA}
_OUTCOME[200]["headers"] = {
    REPLAYED_HEADER: {
        "description": "`true` for the outcome of an earlier request with the same key.",
        "schema": {"type": "string"},
    }
}
RUN_RESPONSES = {
    **_OUTCOME,
    **describe_answer(ExecutionState, "It was started (`Prefer: respond-async`).", 202),
    **describe_problems(*RUN_PROBLEMS),
}


def read_key_header(
    key: Annotated[
        str | None,
        Header(
            alias=HEADER,
            description="Starts the request at most once. The same request with the same key gets the same outcome.",
        ),
    ] = None,
) -> str | None:
    """Return the `Idempotency-Key` of a request."""
    return key


class Answering(NamedTuple):
    """How a client wants the answer of an execution."""

    streams: bool
    at_once: bool


def read_answering(
    accept: Annotated[str, Header(description="`text/event-stream`: answer with server-sent events.")] = "",
    prefer: Annotated[str, Header(description="`respond-async`: answer 202 at once (RFC 7240).")] = "",
    *,
    stream: Annotated[bool, Query(description="Answer with server-sent events.")] = False,
) -> Answering:
    """Return how the client of a request wants the answer."""
    return Answering(stream or EVENT_STREAM in accept, "respond-async" in prefer)


KeyHeader = Annotated[str | None, Depends(read_key_header)]
ThisAnswering = Annotated[Answering, Depends(read_answering)]


@router.post(
    "/v1/executions",
    summary="Run something",
    response_class=Response,
    responses=RUN_RESPONSES,
    openapi_extra=describe_body(ExecutionBody),
)
async def execute(call: ThisCall, key: KeyHeader, answering: ThisAnswering) -> Response:
    """Run a program, a computation, a tool or a script tool, and return its outcome."""
    read = await read_model(call.request, call.server.bodies, ExecutionBody)
    keyed = read_key(call.tenant.actor, key, ["execution", read.value])
    if (elsewhere := await find_elsewhere(call, read.model.session, read.value)) is not None:
        return elsewhere
    return await run_body(call, read, read.model.session, keyed=keyed, answering=answering)


async def run_body(
    call: HttpCall,
    read: ReadBody[ExecutionBody] | ReadBody[SessionExecutionBody],
    session: str | None,
    *,
    keyed: KeyedRequest | None,
    answering: Answering,
) -> Response:
    """Run what a body asks for, in a session if one is named, and return the answer."""
    executions, body = call.server.executions, read.model
    given = {**body.given, **({} if session is None else {"session": session})}
    kind, given = _complete(call.tenant, body, given)
    call.server.downloads.check_room()
    language = "javascript" if kind in ("run", "compute") else str(given.get("language") or "")
    needs = SlotNeeds(language, in_session=given.get("session") is not None)
    watched = answering != Answering(streams=False, at_once=False) or keyed is not None
    sending = make_send(kind, body, given, watched=watched)
    execution, old = executions.start(call.tenant, sending, keyed, size=read.size, needs=needs)
    note_execution(call, execution.id)
    headers = {"Location": f"/v1/executions/{execution.id}", **({REPLAYED_HEADER: "true"} if old else {})}
    if answering.streams:
        events = _stream(call, execution)
        return StreamingResponse(events, media_type=EVENT_STREAM, headers={**headers, **_EVENT_HEADERS})
    if answering.at_once:
        answer = {"Preference-Applied": "respond-async", **headers}
        return Response(render_state(execution), 202, answer, "application/json")
    outcome = await executions.wait(execution, partial(await_disconnect, call.request))
    if execution.replayed:
        headers[REPLAYED_HEADER] = "true"
    return call.server.downloads.respond_outcome(outcome, headers)


_EVENT_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def _complete(
    tenant: "Tenant", body: SessionExecutionBody, given: dict[str, Any]
) -> tuple[WorkKind, dict[str, Any]]:
    """Return the kind of work, and the fields with the language of their session. Raises Problem."""
    kind, session = infer_kind(body), given.get("session")
    if kind in (None, "exec") and "language" not in given and session not in (None, NEW):
        found = tenant.opened.programs.sessions.find_open(tenant.actor, session)
        language = "python" if found is None else found.language  # without one, nothing runs
        given = {**given, "language": language}
        kind = kind or ("run" if language == "javascript" else "exec")
    if kind is None:
        text = 'give `language`, for example "python"; or `kind`, `server` and `tool`, or `tool`'
        raise reject_fields([("language", text)])
    if faults := list_misplaced(kind, given):
        raise reject_fields(faults)
    if kind == "exec" and "language" not in given:
        raise reject_fields([("language", 'give `language`, for example "python"')])
    return kind, given


def make_send(kind: WorkKind, body: SessionExecutionBody, given: Mapping[str, Any], *, watched: bool) -> Send:
    """Return what sends a request by the method of the library for its kind. Raises Problem.

    Output of a program that may be `watched` is passed on at once.
    """
    fields = {name: value for name, value in given.items() if name not in {"kind", "stdin_base64"}}
    language: str | None = fields.pop("language", None)
    missing = [(name, "this field is required") for name in REQUIRED[kind] if name not in fields]
    if missing:
        raise reject_fields(missing)
    if body.files:
        fields["files"] = read_files(body.files)
    if body.stdin_bytes is not None:
        fields["stdin"] = body.stdin_bytes

    async def send(paddock: "AttachedPaddock", execution: RunningExecution) -> Outcome:
        seen = execution.publisher
        match kind:
            case "run":
                return await paddock.execute(**fields, on_console=seen.on_console, on_call=seen.on_call)
            case "exec":
                listener = seen.on_output if watched else None
                return await paddock.exec(language, **fields, on_output=listener)
            case "compute":
                return await paddock.compute(fields.pop("code"), **fields)
            case "call":
                return await paddock.call(**fields)
            case "tool":
                return await paddock.tool(
                    fields["tool"], fields.get("inputs"), timeout_ms=fields.get("timeout_ms")
                )

    return send


def read_files(files: Iterable[GivenFile]) -> list[InputFile]:
    """Return files as a request has them. Raises Problem."""
    try:
        return [file.to_input_file() for file in files]
    except ValidationError as problem:
        raise reject_invalid(problem) from None


async def _stream(call: HttpCall, execution: RunningExecution) -> AsyncGenerator[bytes]:
    """Yield the events of an execution: also of one that has ended, whose last event is its outcome."""
    listener = Listener()
    listener.put("started", {"id": execution.id})
    execution.publisher.add(listener)
    if execution.done.is_set():
        execution.send_end(listener)
    try:
        async with call.server.executions.watch(execution, partial(await_disconnect, call.request)):
            async for event in listener.stream():
                with call.server.downloads.hold(len(event), refuses=False):
                    yield event
    finally:
        execution.publisher.remove(listener)


def render_state(execution: RunningExecution) -> bytes:
    """Return an execution as JSON."""
    question, problem = execution.question, execution.problem
    state = {
        "id": execution.id,
        "state": "finished" if execution.done.is_set() else "running",
        "created_at": execution.created_at,
        "question": None if question is None else question.model_dump(mode="json"),
        "problem": None if problem is None else problem.document,
    }
    text = dumps(state, separators=(",", ":")).encode()
    return b'%s,"outcome":%s}' % (text[:-1], execution.outcome or b"null")


_STATE_RESPONSES = {
    **describe_answer(ExecutionState, "The execution."),
    **describe_problems(NOT_FOUND, OUTCOME_LOST, EXECUTION_LOST, INVALID_REQUEST),
}


@router.get(
    "/v1/executions",
    summary="List executions",
    response_class=Response,
    responses=describe_answer(ExecutionList, "The executions of this caller."),
)
async def list_executions(call: ThisCall) -> Response:
    """Return the executions of this caller that run, and those that ended not long ago."""
    found: list[dict[str, Any]] = [
        {
            "id": each.id,
            "state": "finished" if each.done.is_set() else "running",
            "created_at": each.created_at,
            "status": each.status,
        }
        for each in call.server.executions.list_own(call.tenant.actor)
    ]
    listed = await list_everywhere(call, "executions", found)
    return Response(dumps(listed), media_type="application/json")


@router.get(
    "/v1/executions/{id}", summary="Look up an execution", response_class=Response, responses=_STATE_RESPONSES
)
async def show(id: str, call: ThisCall) -> Response:  # noqa: A002 - the name in the path
    """Return the state of an execution of this caller, and its outcome for some time after its end."""
    executions, actor = call.server.executions, call.tenant.actor
    if not executions.has(actor, id) and (ended := await find_ended(call, id)) is not None:
        return ended
    return call.server.downloads.respond(render_state(executions.find(actor, id)), "application/json")


@router.delete(
    "/v1/executions/{id}", summary="Cancel an execution", response_class=Response, responses=_STATE_RESPONSES
)
async def cancel(id: str, call: ThisCall) -> Response:  # noqa: A002 - as above
    """Cancel an execution of this caller, and return it when it has ended. Does nothing after its end."""
    executions, actor = call.server.executions, call.tenant.actor
    if not executions.has(actor, id) and (ended := await find_ended(call, id)) is not None:
        return ended
    execution = executions.find(actor, id)
    execution.cancel()
    await execution.done.wait()
    return call.server.downloads.respond(render_state(execution), "application/json")
