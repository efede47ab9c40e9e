"""`/v1/approvals`: questions that wait for a person.

A caller sees its own questions. One with the right to approve also sees those of all others, and answers them. Nobody
answers a question of their own: whoever runs something must not be the one who allows it.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Response

from paddock.http_api.bodies import read_model
from paddock.http_api.context import ThisCall
from paddock.http_api.models import AnswerBody, ApprovalList, GivenVerdict
from paddock.http_api.openapi import describe_answer, describe_body, describe_problems
from paddock.http_api.problems import (
    ALREADY_ANSWERED,
    BODY_TOO_LARGE,
    INVALID_REQUEST,
    MALFORMED_BODY,
    NOT_AN_APPROVER,
    NOT_FOUND,
    UNSUPPORTED_MEDIA_TYPE,
    Problem,
)
from paddock.model.errors import ApprovalError
from paddock.model.numbers import dumps
from paddock.model.printable import make_printable

if TYPE_CHECKING:
    from paddock.app.pending_approvals import WaitingQuestion
    from paddock.tenants import Tenant

router = APIRouter(prefix="/v1/approvals", tags=["approvals"])


@router.get(
    "",
    summary="List questions",
    response_class=Response,
    responses=describe_answer(ApprovalList, "The waiting questions, the oldest first."),
)
async def list_approvals(call: ThisCall) -> Response:
    """Return the questions that wait for a person, as far as this caller may see them."""
    server, tenant = call.server, call.tenant
    waiting = await asyncio.to_thread(server.inbox.list_waiting)
    now = time.time()
    found = [
        {
            "question": each.question.model_dump(mode="json"),
            "expires_ms": max(0, round((each.expires - now) * 1000)),
            "may_answer": not _is_own(each, tenant),
        }
        for each in waiting
        if tenant.may_approve or _is_own(each, tenant)
    ]
    return Response(dumps({"approvals": found}), media_type="application/json")


@router.post(
    "/{id}",
    summary="Answer a question",
    response_class=Response,
    responses={
        **describe_answer(GivenVerdict, "The answer, which counts from now on."),
        **describe_problems(
            *(MALFORMED_BODY, NOT_AN_APPROVER, NOT_FOUND, ALREADY_ANSWERED, BODY_TOO_LARGE),
            *(UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST),
        ),
    },
    openapi_extra=describe_body(AnswerBody),
)
async def answer(
    id: Annotated[str, Path(description="Id of the question.")],  # noqa: A002 - the name in the path
    call: ThisCall,
) -> Response:
    """Answer a question of another caller. The first answer counts; the record has the name of this caller."""
    server, tenant = call.server, call.tenant
    body, _ = await read_model(call.request, server.bodies, AnswerBody)
    try:
        waiting = await asyncio.to_thread(server.inbox.find_question, id)
    except ApprovalError:
        raise _explain_absence(id) from None
    own = _is_own(waiting, tenant)
    if not tenant.may_approve and not own:
        raise _explain_absence(id)
    if own or not tenant.may_approve:
        why = "it is a question of this caller itself" if own else "its token lacks the right `approve`"
        raise Problem(
            NOT_AN_APPROVER,
            f"This caller may not answer {waiting.question.id}: {why}. "
            "Another caller with the right `approve` can, or a person by `paddock approve`.",
        )
    if body.verdict == "run" and "run" not in waiting.question.scopes:
        raise Problem(
            INVALID_REQUEST, f"{waiting.question.id} can only be allowed once. Send the verdict `once`."
        )
    try:
        await asyncio.to_thread(server.inbox.give_answer, waiting, body.verdict, f"{tenant.actor} (HTTP)")
    except (ApprovalError, OSError) as error:
        raise Problem(ALREADY_ANSWERED, f"{error}.") from None
    given = {"id": waiting.question.id, "verdict": body.verdict, "by": tenant.actor}
    return Response(dumps(given), media_type="application/json")


def _is_own(waiting: "WaitingQuestion", tenant: "Tenant") -> bool:
    return waiting.question.actor == make_printable(tenant.actor)


def _explain_absence(id_: str) -> Problem:
    return Problem(NOT_FOUND, f"No question {id_[:64]!r} waits. GET /v1/approvals lists those that do.")
