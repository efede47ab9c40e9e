"""`/v1/changes`: what programs changed in overlays of the workspace. Accepting is a request to the gate."""

import asyncio
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, NamedTuple

from fastapi import APIRouter, Path, Query, Response

from paddock.gate.change_sets import ChangeSets, describe_change, describe_set, print_path
from paddock.model.errors import ChangesError, ChangesNotFound
from paddock.model.numbers import dumps
from paddock.model.outcome import Outcome
from paddock.model.path_privacy import hide_paths
from paddock.model.request import ChangesAction, ChangeSetRun
from paddock.surfaces.http_api.bodies import read_model
from paddock.surfaces.http_api.context import HttpCall, ThisCall, await_disconnect
from paddock.surfaces.http_api.elsewhere import EveryReplicaRoute
from paddock.surfaces.http_api.models import ChangesBody, ChangeSetDetails, ChangesList
from paddock.surfaces.http_api.openapi import describe_answer, describe_body, describe_problems
from paddock.surfaces.http_server.problems import (
    BODY_TOO_LARGE,
    CANCELLED,
    INVALID_REQUEST,
    MALFORMED_BODY,
    NOT_FOUND,
    UNSUPPORTED_MEDIA_TYPE,
    Problem,
)

if TYPE_CHECKING:
    from paddock.record.changes.store import StoredChanges
    from paddock.surfaces.client.attached import AttachedPaddock
    from paddock.surfaces.http_api.running import RunningExecution

router = APIRouter(prefix="/v1/changes", tags=["changes"], route_class=EveryReplicaRoute)

_MAX_DIFF_CHARS = 16_000_000
_TEXT = "text/plain; charset=utf-8"
_SET_PROBLEMS = describe_problems(NOT_FOUND, INVALID_REQUEST)
_SETTLE_RESPONSES = {
    **describe_answer(Outcome, "The outcome; its value names the paths."),
    **describe_problems(
        *(MALFORMED_BODY, NOT_FOUND, CANCELLED, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST)
    ),
}
_Id = Annotated[str, Path(description="ID of the change set, or the beginning of it.")]


class _Found(NamedTuple):
    sets: ChangeSets
    stored: "StoredChanges"


@router.get(
    "",
    summary="List change sets",
    response_class=Response,
    responses=describe_answer(ChangesList, "The change sets of this caller, the newest first."),
)
async def list_changes(call: ThisCall) -> Response:
    """Return what programs of this caller with the access `overlay` changed."""
    sets = call.tenant.opened.changes
    try:
        await asyncio.to_thread(sets.recover, call.server.workspace)
        found = await asyncio.to_thread(sets.list_sets, call.server.workspace)
    except ChangesError as error:
        raise _explain(error, call.server.workspace) from None
    return Response(dumps({"changes": [describe_set(each) for each in found]}), media_type="application/json")


@router.get(
    "/{id}",
    summary="Look up a change set",
    response_class=Response,
    responses={**describe_answer(ChangeSetDetails, "The change set with its paths."), **_SET_PROBLEMS},
)
async def show(id: _Id, call: ThisCall) -> Response:  # noqa: A002 - the name in the path
    """Return a change set with its paths."""
    stored = (await _find(call, id)).stored
    details = {
        **describe_set(stored),
        "changes": [describe_change(each) for each in stored.change_set.changes],
        "left_out": [print_path(each) for each in stored.change_set.left_out],
    }
    return call.server.downloads.respond(dumps(details).encode("utf-8", "replace"), "application/json")


@router.get(
    "/{id}/diff",
    summary="Read the difference of a change set",
    response_class=Response,
    responses={
        200: {
            "description": "A unified difference.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **_SET_PROBLEMS,
    },
)
async def diff(
    id: _Id,  # noqa: A002 - the name in the path
    call: ThisCall,
    path: Annotated[list[str] | None, Query(description="Only these paths, with all below them.")] = None,
) -> Response:
    """Return the unified difference of a change set, without secrets and with hidden characters escaped."""
    found = await _find(call, id)
    try:
        text = await asyncio.to_thread(found.sets.render, found.stored, _MAX_DIFF_CHARS, path or ())
    except ChangesError as error:
        raise _explain(error, call.server.workspace) from None
    return call.server.downloads.respond(f"{text}\n".encode("utf-8", "replace"), _TEXT)


@router.post(
    "/{id}/accept",
    summary="Accept changes",
    response_class=Response,
    responses=_SETTLE_RESPONSES,
    openapi_extra=describe_body(ChangesBody, required=False),
)
async def accept(id: _Id, call: ThisCall) -> Response:  # noqa: A002 - the name in the path
    """Write changes to the workspace, all or nothing. A person is asked first, unless a rule allows it."""
    return await _settle(call, id, "accept")


@router.post(
    "/{id}/undo",
    summary="Undo accepted changes",
    response_class=Response,
    responses=_SETTLE_RESPONSES,
    openapi_extra=describe_body(ChangesBody, required=False),
)
async def undo(id: _Id, call: ThisCall) -> Response:  # noqa: A002 - the name in the path
    """Take back accepted changes, all or nothing. A person is asked first, unless a rule allows it."""
    return await _settle(call, id, "undo")


@router.post("/{id}/discard", summary="Discard changes", response_class=Response, responses=_SETTLE_RESPONSES)
async def discard(id: _Id, call: ThisCall) -> Response:  # noqa: A002 - the name in the path
    """Delete the contents of a change set."""
    return await _settle(call, id, "discard")


async def _settle(call: HttpCall, prefix: str, action: ChangesAction) -> Response:
    body = ChangesBody()
    if action != "discard":
        body = (await read_model(call.request, call.server.bodies, ChangesBody)).model
    sets, workspace = call.tenant.opened.changes, call.server.workspace
    try:
        set_id = await asyncio.to_thread(sets.find_id, prefix, workspace, action)
    except ChangesError as error:
        raise _explain(error, workspace) from None
    work = ChangeSetRun(action=action, id=set_id, paths=tuple(body.paths), merge=body.merge)

    async def send(paddock: "AttachedPaddock", _: "RunningExecution") -> Outcome:
        return await paddock.settle_changes(work)

    executions = call.server.executions
    execution, _ = executions.start(call.tenant, send, None)
    outcome = await executions.wait(execution, partial(await_disconnect, call.request))
    headers = {"Location": f"/v1/executions/{execution.id}"}
    return call.server.downloads.respond_outcome(outcome, headers)


async def _find(call: HttpCall, prefix: str) -> _Found:
    sets, workspace = call.tenant.opened.changes, call.server.workspace
    try:
        await asyncio.to_thread(sets.recover, workspace)
        return _Found(sets, await asyncio.to_thread(sets.find, prefix, workspace))
    except ChangesError as error:
        raise _explain(error, workspace) from None


def _explain(error: ChangesError, workspace: FilePath) -> Problem:
    kind = NOT_FOUND if isinstance(error, ChangesNotFound) else INVALID_REQUEST
    return Problem(kind, f"{hide_paths(str(error), workspace)}.")
