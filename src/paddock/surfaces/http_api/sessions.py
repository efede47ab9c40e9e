"""`/v1/sessions`: interpreters that keep their variables and files from one execution to the next."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Response

from paddock.model.errors import PaddockError, RequestError
from paddock.model.languages import read_guest_language
from paddock.model.numbers import dumps
from paddock.model.outcome import Outcome, Status
from paddock.model.session import NEW, SessionInfo, is_handle
from paddock.model.work_files import InputFile
from paddock.surfaces.client.arguments import make_value
from paddock.surfaces.http_api.bodies import MAX_FILE_BYTES, read_model
from paddock.surfaces.http_api.context import HttpCall, ThisCall, await_disconnect
from paddock.surfaces.http_api.elsewhere import (
    OneReplicaRoute,
    find_elsewhere,
    list_everywhere,
    note_execution,
)
from paddock.surfaces.http_api.executions import (
    RUN_PROBLEMS,
    RUN_RESPONSES,
    KeyHeader,
    ThisAnswering,
    read_files,
    run_body,
)
from paddock.surfaces.http_api.idempotency import KeyedRequest, read_key
from paddock.surfaces.http_api.models import FileList, SessionBody, SessionExecutionBody, SessionList
from paddock.surfaces.http_api.openapi import describe_answer, describe_body, describe_problems
from paddock.surfaces.http_server.problems import (
    BODY_TOO_LARGE,
    DENIED,
    EXECUTION_LOST,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    NOT_CARRIED_OUT,
    NOT_FOUND,
    OUTCOME_UNKNOWN,
    SESSION_LOST,
    UNAVAILABLE,
    Problem,
)
from paddock.surfaces.rendering.render import explain_outcome
from paddock.surfaces.tenants.tenant import SlotNeeds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.engines.sessions.table import OpenSession
    from paddock.surfaces.client.attached import AttachedPaddock
    from paddock.surfaces.http_api.running import RunningExecution
    from paddock.surfaces.tenants import Tenant

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=OneReplicaRoute)

SessionId = Annotated[str, Path(description="The handle of the session.")]
FilePath = Annotated[str, Path(description="Path of the file, relative to the working directory.")]
_ABSENCES = describe_problems(NOT_FOUND, SESSION_LOST, EXECUTION_LOST, INVALID_REQUEST)
_OUTCOME_PROBLEMS = (DENIED, SESSION_LOST, INVALID_REQUEST, NOT_CARRIED_OUT, UNAVAILABLE, INTERNAL_ERROR)
_NO_CONTENT: dict[int | str, dict[str, Any]] = {204: {"description": "Done."}}
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.get(
    "",
    summary="List sessions",
    response_class=Response,
    responses=describe_answer(SessionList, "The open sessions of this caller."),
)
async def list_sessions(call: ThisCall) -> Response:
    """Return the open sessions of this caller, the oldest first."""
    tenant = call.tenant
    found = [info.model_dump(mode="json") for info in tenant.opened.programs.list_sessions(tenant.actor)]
    return _respond(await list_everywhere(call, "sessions", found))


@router.post(
    "",
    summary="Open a session",
    status_code=201,
    response_class=Response,
    responses={
        **describe_answer(SessionInfo, "The session.", 201),
        **describe_problems(*RUN_PROBLEMS, *_OUTCOME_PROBLEMS),
    },
    openapi_extra=describe_body(SessionBody),
)
async def open_session(call: ThisCall, key: KeyHeader) -> Response:
    """Open an interpreter. It is closed if it is not used for some time; executions say when."""
    tenant = call.tenant
    body, value, size = await read_model(call.request, call.server.bodies, SessionBody)
    keyed = read_key(tenant.actor, key, ["session", value])
    given: dict[str, Any] = {
        name: item for name in SessionBody.model_fields if (item := getattr(body, name)) is not None
    }
    language: str = given.pop("language")
    given["files"] = read_files(body.files or ())

    async def send(paddock: "AttachedPaddock") -> Outcome:
        if read_guest_language(language) == "javascript":
            if names := ", ".join(f"`{name}`" for name, item in given.items() if item):
                text = f"A session of the V8 guest has no options. Leave out {names}, or choose `node`."
                raise Problem(INVALID_REQUEST, text)
            return await paddock.execute("", session=NEW)
        return await paddock.exec(language, "", session=NEW, **given)

    outcome = await _run(call, send, read_guest_language(language) or language, keyed, size=size)
    session = outcome["session"]
    info = next(
        (each for each in tenant.opened.programs.list_sessions(tenant.actor) if each.id == session["id"]),
        None,
    )
    if info is None:
        # An earlier request with the same key may have opened it on another replica, which answers this one, too.
        if (elsewhere := await find_elsewhere(call, session["id"], value)) is not None:
            return elsewhere
        raise _explain_absence(tenant, session["id"])
    return _respond(info.model_dump(mode="json"), status=201, headers={"Location": f"/v1/sessions/{info.id}"})


async def _run(
    call: HttpCall,
    send: "Callable[[AttachedPaddock], Awaitable[Outcome]]",
    language: str,
    keyed: KeyedRequest | None = None,
    *,
    size: int = 0,
) -> Any:  # noqa: ANN401 - the JSON of an outcome
    """Run a request of the server's own, and return its outcome as JSON. Raises Problem unless it is ok."""

    async def send_and_check(paddock: "AttachedPaddock", _execution: "RunningExecution") -> Outcome:
        return await send(paddock)

    execution, _ = call.server.executions.start(
        call.tenant, send_and_check, keyed, size=size, needs=SlotNeeds(language, in_session=True)
    )
    note_execution(call, execution.id)
    text = await call.server.executions.wait(execution, partial(await_disconnect, call.request))
    outcome = Outcome.model_validate_json(text)
    if outcome.ok:
        return outcome.model_dump(mode="json")
    raise explain_refusal(outcome)


def explain_refusal(outcome: Outcome) -> Problem:
    """Return the problem for an outcome of something that is no program of the client."""
    kind = _KINDS.get(outcome.status, NOT_CARRIED_OUT)
    text = explain_outcome(outcome)
    return Problem(kind, text, execution=outcome.id, outcome=outcome.model_dump(mode="json"))


_KINDS = {
    Status.DENIED: DENIED,
    Status.INVALID: INVALID_REQUEST,
    Status.UNAVAILABLE: UNAVAILABLE,
    Status.LOST: SESSION_LOST,
    Status.ERROR: INTERNAL_ERROR,
}


def _find(tenant: "Tenant", handle: str) -> "OpenSession":
    """Return an open session of a caller. Raises Problem."""
    found = tenant.opened.programs.sessions.find_open(tenant.actor, handle)
    if found is None or found.process.lost:
        raise _explain_absence(tenant, handle)
    return found


def _explain_absence(tenant: "Tenant", handle: str) -> Problem:
    sessions = tenant.opened.programs.sessions
    kind = NOT_FOUND if sessions.find_reason(tenant.actor, handle) is None else SESSION_LOST
    why = sessions.explain_end(tenant.actor, handle)
    return Problem(kind, f"{why[0].upper()}{why[1:]}. Open another one with POST /v1/sessions.")


@router.get(
    "/{id}",
    summary="Look up a session",
    response_class=Response,
    responses={**describe_answer(SessionInfo, "The session."), **_ABSENCES},
)
async def show_session(id: SessionId, call: ThisCall) -> Response:  # noqa: A002 - the name in the path
    """Return a session of this caller."""
    _find(call.tenant, id)
    infos = call.tenant.opened.programs.list_sessions(call.tenant.actor)
    return _respond(next(info for info in infos if info.id == id).model_dump(mode="json"))


@router.delete(
    "/{id}",
    summary="Close a session",
    status_code=204,
    response_class=Response,
    responses={**_NO_CONTENT, **_ABSENCES},
)
async def close_session(id: SessionId, call: ThisCall) -> Response:  # noqa: A002 - as above
    """Close a session of this caller: end its processes and remove its files."""
    _find(call.tenant, id)
    await call.tenant.opened.programs.sessions.close_session(call.tenant.actor, id)
    return Response(status_code=204)


@router.post(
    "/{id}/interrupt",
    summary="Interrupt the running program",
    status_code=204,
    response_class=Response,
    responses={**_NO_CONTENT, **_ABSENCES, **describe_problems(OUTCOME_UNKNOWN)},
)
async def interrupt(id: SessionId, call: ThisCall) -> Response:  # noqa: A002 - as above
    """Interrupt the program that the session executes now; its outcome is `cancelled`. The session stays."""
    _find(call.tenant, id)
    call.tenant.opened.programs.sessions.interrupt(call.tenant.actor, id)
    return Response(status_code=204)


@router.post(
    "/{id}/executions",
    summary="Run a program in a session",
    response_class=Response,
    responses={**RUN_RESPONSES},
    openapi_extra=describe_body(SessionExecutionBody),
)
async def execute_in_session(
    id: SessionId,  # noqa: A002 - as above
    call: ThisCall,
    key: KeyHeader,
    answering: ThisAnswering,
) -> Response:
    """Run a program after what ran in the session before. The outcome of a session that has ended is `lost`."""
    read = await read_model(call.request, call.server.bodies, SessionExecutionBody)
    if id == NEW or not is_handle(id):
        raise Problem(INVALID_REQUEST, "This is not the handle of a session. GET /v1/sessions lists them.")
    keyed = read_key(call.tenant.actor, key, ["session execution", id, read.value])
    return await run_body(call, read, id, keyed=keyed, answering=answering)


@router.get(
    "/{id}/files",
    summary="List the files of a session",
    response_class=Response,
    responses={**describe_answer(FileList, "The files."), **_ABSENCES},
)
async def list_files(id: SessionId, call: ThisCall) -> Response:  # noqa: A002 - as above
    """Return all files in the working directory of a session."""
    _require_files(call.tenant, id)
    try:
        found = await call.tenant.opened.programs.list_session_files(call.tenant.actor, id)
    except PaddockError:
        raise _explain_absence(call.tenant, id) from None
    return _respond({"files": [file.model_dump(mode="json") for file in found]})


@router.get(
    "/{id}/files/{path:path}",
    summary="Read a file of a session",
    response_class=Response,
    responses={200: {"description": "The content.", "content": _BYTES}, **_ABSENCES},
)
async def read_file(id: SessionId, path: FilePath, call: ThisCall) -> Response:  # noqa: A002 - as above
    """Return the content of a file, once nothing runs in the session."""
    _require_files(call.tenant, id)
    try:
        data = await call.tenant.opened.programs.sessions.read_file(call.tenant.actor, id, path)
    except (OSError, RequestError) as error:
        raise _explain_file(path, error) from None
    except PaddockError:
        raise _explain_absence(call.tenant, id) from None
    return call.server.downloads.respond(data, "application/octet-stream", DOWNLOAD_HEADERS)


DOWNLOAD_HEADERS = {
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Headers of what programs wrote: a browser must not show it as a page of this server."""


@router.put(
    "/{id}/files/{path:path}",
    summary="Write a file of a session",
    status_code=204,
    response_class=Response,
    responses={
        **_NO_CONTENT,
        **_ABSENCES,
        **describe_problems(BODY_TOO_LARGE, *_OUTCOME_PROBLEMS, NOT_FOUND, OUTCOME_UNKNOWN),
    },
    openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
)
async def write_file(id: SessionId, path: FilePath, call: ThisCall) -> Response:  # noqa: A002 - as above
    """Write a file into the working directory, and replace one that is there. The record shows it as an execution."""
    language = _require_files(call.tenant, id)
    async with call.server.bodies.read(call.request, MAX_FILE_BYTES) as data:
        try:
            file = make_value(InputFile, {"path": path, "data": data})
        except RequestError as error:
            raise _explain_file(path, error) from None

        async def send(paddock: "AttachedPaddock") -> Outcome:
            return await paddock.exec(language, "", session=id, files=(file,))

        await _run(call, send, language)
    return Response(status_code=204)


@router.delete(
    "/{id}/files/{path:path}",
    summary="Remove a file of a session",
    status_code=204,
    response_class=Response,
    responses={**_NO_CONTENT, **_ABSENCES},
)
async def remove_file(id: SessionId, path: FilePath, call: ThisCall) -> Response:  # noqa: A002 - as above
    """Remove a file, once nothing runs in the session."""
    _require_files(call.tenant, id)
    try:
        await call.tenant.opened.programs.sessions.remove_file(call.tenant.actor, id, path)
    except (OSError, RequestError) as error:
        raise _explain_file(path, error) from None
    except PaddockError:
        raise _explain_absence(call.tenant, id) from None
    return Response(status_code=204)


def _require_files(tenant: "Tenant", handle: str) -> str:
    """Return the language of a session that has files. Raises Problem."""
    language = _find(tenant, handle).language
    if tenant.opened.programs.find_session(tenant.actor, handle) is None:
        raise Problem(INVALID_REQUEST, f"A session of the V8 guest ({language}) has no files.")
    return language


def _explain_file(path: str, error: OSError | ValueError) -> Problem:
    if isinstance(error, FileNotFoundError):
        return Problem(
            NOT_FOUND, f"The session has no file {path[:200]!r}. GET /v1/sessions/ID/files lists them."
        )
    why = error.strerror if isinstance(error, OSError) else str(error)
    return Problem(INVALID_REQUEST, f"{quote(path[:200])}: {why}")


def _respond(value: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(dumps(value, separators=(",", ":")), status, headers, "application/json")
