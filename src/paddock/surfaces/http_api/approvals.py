"""`/v1/approvals`: questions that wait for a person.

A caller sees its own questions. One with the right to approve also sees those of all others, and answers them. Nobody
answers a question of their own: whoever runs something must not be the one who allows it.
"""

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Response

from paddock.model.errors import ApprovalError, AskerEnded, StoreUnavailable
from paddock.model.numbers import dumps
from paddock.surfaces.http_api.bodies import read_model
from paddock.surfaces.http_api.context import ThisCall
from paddock.surfaces.http_api.elsewhere import EveryReplicaRoute
from paddock.surfaces.http_api.models import AnswerBody, ApprovalList, GivenVerdict
from paddock.surfaces.http_api.openapi import describe_answer, describe_body, describe_problems
from paddock.surfaces.http_server.problems import (
    ALREADY_ANSWERED,
    BODY_TOO_LARGE,
    EXECUTION_LOST,
    INVALID_REQUEST,
    MALFORMED_BODY,
    NOT_FOUND,
    NOT_PERMITTED,
    UNAVAILABLE,
    UNSUPPORTED_MEDIA_TYPE,
    Problem,
)
from paddock.surfaces.tenants import NotPermitted

if TYPE_CHECKING:
    from paddock.model.approval import WaitingQuestion

_log = logging.getLogger("paddock.http")

router = APIRouter(prefix="/v1/approvals", tags=["approvals"], route_class=EveryReplicaRoute)


@router.get(
    "",
    summary="List questions",
    response_class=Response,
    responses=describe_answer(ApprovalList, "The waiting questions, the oldest first."),
)
async def list_approvals(call: ThisCall) -> Response:
    """Return the questions of this caller; and those of all others, if it may answer them."""
    tenant, now = call.tenant, time.time()
    try:
        own: list[WaitingQuestion] = []
        with suppress(ApprovalError):  # questions cannot be kept at all
            own = await tenant.list_own_questions()
        others = await tenant.list_questions() if tenant.may_approve else []
    except StoreUnavailable as error:
        raise _explain_unavailable(error) from None
    waiting = [(each, each in others) for each in (*own, *others)]
    found = [
        {
            "question": each.question.model_dump(mode="json"),
            "expires_ms": max(0, round((each.expires - now) * 1000)),
            "may_answer": may_answer,
        }
        for each, may_answer in sorted(waiting, key=lambda pair: pair[0].question.id)
    ]
    return Response(dumps({"approvals": found}), media_type="application/json")


@router.post(
    "/{id}",
    summary="Answer a question",
    response_class=Response,
    responses={
        **describe_answer(GivenVerdict, "The answer, which counts from now on."),
        **describe_problems(
            *(MALFORMED_BODY, NOT_PERMITTED, NOT_FOUND, ALREADY_ANSWERED, BODY_TOO_LARGE),
            *(EXECUTION_LOST, UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST),
        ),
    },
    openapi_extra=describe_body(AnswerBody),
)
async def answer(
    id: Annotated[str, Path(description="Id of the question.")],  # noqa: A002 - the name in the path
    call: ThisCall,
) -> Response:
    """Answer a question of another caller. The first answer counts; the record has the name of this caller.

    With several replicas, the answer comes when the one that asked has taken it.
    """
    body = (await read_model(call.request, call.server.bodies, AnswerBody)).model
    try:
        await call.tenant.answer_question(id, body.verdict)
    except NotPermitted as error:
        raise Problem(NOT_PERMITTED, f"{error}.") from None
    except StoreUnavailable as error:
        raise _explain_unavailable(error) from None
    except AskerEnded as error:
        raise Problem(EXECUTION_LOST, f"{error}.") from None
    except ApprovalError as error:
        others = await call.tenant.list_questions()
        waiting = next((each for each in others if each.question.id == id), None)
        if waiting is None:
            text = f"{error}. GET /v1/approvals lists the questions that wait."
            raise Problem(NOT_FOUND, text) from None
        if body.verdict == "run" and "run" not in waiting.question.scopes:
            raise Problem(INVALID_REQUEST, f"{error}. Send the verdict `once`.") from None
        raise Problem(ALREADY_ANSWERED, f"{error}.") from None
    given = {"id": id, "verdict": body.verdict, "by": call.tenant.actor}
    return Response(dumps(given), media_type="application/json")


def _explain_unavailable(error: StoreUnavailable) -> Problem:
    _log.error("questions cannot be read: %s", error)  # its text is for the owner of the server
    return Problem(
        UNAVAILABLE, "Questions cannot be read or answered just now. Send the request again later."
    )
