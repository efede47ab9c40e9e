"""`/v1/artifacts`: stored output and files of executions."""

import asyncio
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query, Response

from paddock.model.artifact import Stream
from paddock.model.errors import ArtifactError, ArtifactStoreError, InvalidHandle, UnknownArtifact
from paddock.surfaces.http_api.context import ThisCall
from paddock.surfaces.http_api.elsewhere import EveryReplicaRoute
from paddock.surfaces.http_api.openapi import describe_problems
from paddock.surfaces.http_api.sessions import DOWNLOAD_HEADERS
from paddock.surfaces.http_server.problems import INVALID_REQUEST, NOT_FOUND, UNAVAILABLE, Problem

if TYPE_CHECKING:
    from paddock.record.output.artifacts import Artifacts

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"], route_class=EveryReplicaRoute)

_TEXT = "text/plain; charset=utf-8"


@router.get(
    "/{handle}",
    summary="Read stored output",
    response_class=Response,
    responses={
        200: {
            "description": "The content, with its own media type.",
            "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
        },
        **describe_problems(NOT_FOUND, INVALID_REQUEST),
    },
)
async def read_artifact(
    handle: Annotated[str, Path(description="The handle, as an outcome names it.")],
    call: ThisCall,
    stream: Annotated[
        Stream, Query(description="Which stream of a program; files have only `stdout`.")
    ] = "stdout",
) -> Response:
    """Return the stored output of a program, or a stored file. Secrets were removed before it was stored."""
    artifacts: Artifacts = call.tenant.opened.output.artifacts()
    try:
        found = await asyncio.to_thread(artifacts.find, handle, call.server.workspace)
        data = await asyncio.to_thread(artifacts.read, handle, call.server.workspace, stream)
    except (InvalidHandle, UnknownArtifact) as error:
        raise Problem(NOT_FOUND, str(error)) from None
    except ArtifactStoreError as error:
        raise Problem(UNAVAILABLE, f"{error}. Ask again later.") from None
    except ArtifactError as error:
        raise Problem(INVALID_REQUEST, f"{error}. Run `paddock output get` on the server.") from None
    media_type = _TEXT if found.manifest is None else found.manifest.media_type or _TEXT
    return call.server.downloads.respond(data, media_type, DOWNLOAD_HEADERS)
