"""Answers to requests that are about what other replicas have, or had."""

from datetime import UTC
from typing import Any

from fastapi import Response

from paddock.model.base import Json
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import find_mint_time
from paddock.model.numbers import dumps
from paddock.surfaces.http_api.context import HttpCall
from paddock.surfaces.http_api.idempotency import explain_lost
from paddock.surfaces.http_door.asgi import Receive, Scope, Send
from paddock.surfaces.http_door.problems import EXECUTION_LOST, UNAVAILABLE, Problem
from paddock.surfaces.mcp_server.http.inbound import FORWARDING_KEY, Forwarder


async def find_elsewhere(call: HttpCall, session: str | None, body: Json) -> Response | None:
    """Return the answer of the other replica that has a session; None if this one must answer. Raises Problem."""
    forwarder: Forwarder | None = call.request.scope.get(FORWARDING_KEY)
    if forwarder is None or session is None:
        return None
    owner = await forwarder.find_owner(call.request.scope, session)
    return None if owner is None else _ForwardedResponse(forwarder, owner, dumps(body).encode())


async def find_ended(call: HttpCall, id_: str) -> Response | None:
    """Return the state of an execution with effects whose replica does not have it any more; None without a record.

    Raises Problem if it is lost, and while that is not known.
    """
    if call.server.cluster is None or find_mint_time(id_) is None:
        return None
    from paddock.cluster.ended_runs import read_run

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
    def __init__(self, forwarder: Forwarder, owner: Any, content: bytes) -> None:  # noqa: ANN401 - its own value
        super().__init__()
        self._forwarder = forwarder
        self._owner = owner
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._forwarder.pass_on(self._owner, scope, receive, send, self._content)
