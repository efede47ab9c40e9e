"""Which replica answers a request: each route with a name in its path declares it by its class.

A name in a body (`session`) is looked up by `executions.py`, with `find_elsewhere`, too.

OneReplicaRoute     `{id}` is of what one replica has in its memory: sessions, executions
EveryReplicaRoute   the name is of what all replicas read from one store: stored output, questions
"""

from collections.abc import Callable, Coroutine
from datetime import UTC
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from paddock.model.base import Json
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import is_id
from paddock.model.numbers import dumps
from paddock.surfaces.http_api.context import HttpCall, find_call
from paddock.surfaces.http_api.idempotency import explain_lost
from paddock.surfaces.http_server.asgi import Receive, Scope, Send
from paddock.surfaces.http_server.entry import HOP_KEY
from paddock.surfaces.http_server.problems import EXECUTION_LOST, UNAVAILABLE, Problem

if TYPE_CHECKING:
    from paddock.cluster.replicas import Replica
    from paddock.surfaces.http_api.forwarding import Forwarding


class OneReplicaRoute(APIRoute):
    """A route that is answered by the replica that has the `id` of its path; by any, if its path has none."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers: another replica sees a request before anything of it is checked here."""
        answer_here = super().get_route_handler()

        async def answer(request: Request) -> Response:
            elsewhere = await find_elsewhere(find_call(request), request.path_params.get("id"))
            return await answer_here(request) if elsewhere is None else elsewhere

        return answer


class EveryReplicaRoute(APIRoute):
    """A route that each replica answers alike."""


async def find_elsewhere(call: HttpCall, name: str | None, body: Json = None) -> Response | None:
    """Return the answer of the other replica that has a session or an execution; None if this one must answer.

    `body` is the value of the request's body, if that was read. Raises Problem.
    """
    if name is None or (forwarding := _find_forwarding(call)) is None:
        return None
    if (owner := await forwarding.find_owner(call.request.scope, name)) is None:
        return None
    return _ForwardedResponse(forwarding, owner, None if body is None else dumps(body).encode())


async def list_everywhere(
    call: HttpCall, member: str, own: list[dict[str, Any]]
) -> dict[str, list[dict[str, Any]] | list[str]]:
    """Return a list of what all replicas have, the oldest first, as `member` of an answer.

    Its member `partial` has the names of the replicas that did not answer.
    """
    if (forwarding := _find_forwarding(call)) is None:
        return {member: own, "partial": []}
    entries, silent = await forwarding.list_elsewhere(call.request.scope, member)
    return {
        member: sorted([*own, *entries], key=lambda each: str(each.get("created_at", ""))),
        "partial": silent,
    }


def note_execution(call: HttpCall, id_: str) -> None:
    """Note which execution a request waits for, for the replica that may have passed it on."""
    if call.server.forwarding is not None:
        call.server.forwarding.note_execution(call.request.scope, id_)


def _find_forwarding(call: HttpCall) -> "Forwarding | None":
    """Return what knows the other replicas; None for a request that one of them has passed on."""
    return None if call.request.scope[HOP_KEY] else call.server.forwarding


async def find_ended(call: HttpCall, id_: str) -> Response | None:
    """Return the state of an execution with effects whose replica does not have it any more; None without a record.

    Raises Problem if it is lost, and while that is not known.
    """
    if call.server.cluster is None or not is_id(id_):
        return None
    from paddock.cluster.status import read_run

    try:
        run = await read_run(call.server.cluster.database, call.tenant.actor, id_)
    except StoreUnavailable as error:
        raise Problem(UNAVAILABLE, str(error)) from None
    if run is None or run.state == "fenced":
        return None
    if run.state == "started":
        text = f"The replica that runs the execution {id_} cannot be reached just now. Ask again later."
        raise Problem(UNAVAILABLE, text, execution=id_)
    if run.state == "lost":
        text = f"The replica that ran the execution {id_} has ended. Whether and how far it was done is not known."
        raise Problem(EXECUTION_LOST, text, execution=id_)
    if run.outcome is None:
        raise explain_lost(id_, run.status)
    created = run.started.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    state = dumps({"id": id_, "state": "finished", "created_at": created, "question": None, "problem": None})
    return Response(f'{state[:-1]},"outcome":{run.outcome}}}', media_type="application/json")


class _ForwardedResponse(Response):
    def __init__(self, forwarding: "Forwarding", owner: "Replica", content: bytes | None) -> None:
        super().__init__()
        self._forwarding = forwarding
        self._owner = owner
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._forwarding.pass_on(self._owner, scope, receive, send, self._content)
