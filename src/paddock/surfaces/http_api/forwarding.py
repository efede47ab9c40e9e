"""Owner forwarding: what lives in the memory of one replica is reached through any other, in one hop.

    what                             how its owner is found
    session of MCP 2025-11-25        the mark in the header `Mcp-Session-Id`
    paused call of MCP 2026-07-28    the mark in `requestState`
    interpreter session              the mark in its handle
    execution, waiting call of MCP   the first digits of the mark at the end of its id; that replica is asked for it

A mark names one start of one replica (`cluster.replicas`). It selects a row of the database, and only that row has an
address. Without a living owner the request is handled here, by what reports that there is no such thing. Which routes
of the API are about one replica's memory is declared on them (`elsewhere`).
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from paddock.cluster.hops import HEADER, HopRequest
from paddock.cluster.node import MARK_CHARS
from paddock.cluster.replicas import Replica
from paddock.foundation.cancellation import cancel_all
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import is_id
from paddock.model.session import HANDLE_PREFIX
from paddock.record.telemetry.observed_sink import Reading
from paddock.surfaces.http_api.relay import BrokenOffError, Headers, NotReachedError, StreamRelay, read_target
from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send, header_values, send_text
from paddock.surfaces.http_server.endpoint import MCP_PATH
from paddock.surfaces.http_server.entry import HOP_KEY, TENANT_KEY
from paddock.surfaces.http_server.problems import EXECUTION_LOST, SERVER_ENDING, UNAVAILABLE, Problem
from paddock.surfaces.mcp_server.http.inbound import FORWARDING_KEY
from paddock.surfaces.mcp_server.http.sessions import SESSION_HEADER

if TYPE_CHECKING:
    from paddock.cluster.peers import Peers
    from paddock.model.base import Json
    from paddock.surfaces.mcp_server.requests import InFlightRequests
    from paddock.surfaces.tenants import Tenant

_ASK_PREFIX = "/internal/holds/"
_ASK_S = 2.0
"""Maximum time until another replica says whether it has something, in seconds."""
_NO_SESSION = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}'
"""As the library of the protocol answers. The client then opens another session."""
_NOT_TAKEN = (
    "The replica that has this ended the connection before it had the whole request. Nothing was started. Send it "
    "again later, or with a smaller body."
)
_MAX_LIST_BYTES = 4 * 1024 * 1024
_RESULTS = ("answered", "unreachable", "broken_off", "lost")
"""What came of a request that was passed on; `broken_off` before the owner had all of it: nothing was started."""

_log = logging.getLogger("paddock.http")

Holds = Callable[["Tenant", str], bool]
"""Whether this replica has an execution or a waiting call of a caller."""


class Forwarding:
    """Passes requests on to the replicas that have what they are about."""

    def __init__(self, peers: "Peers", requests: "InFlightRequests", holds: Holds) -> None:
        self._replicas, self._hops = peers
        self._requests = requests
        self._holds = holds
        self._relay = StreamRelay()
        self._missed: set[str] = set()
        """Marks of replicas that could not be reached, which the log has been told."""
        self._results: Counter[str] = Counter(dict.fromkeys(_RESULTS, 0))

    async def close(self) -> None:
        """Close the connections to other replicas."""
        await self._relay.close()

    def read_metrics(self) -> Iterator[Reading]:
        """Yield the metrics of requests that were passed on. Any thread may call it."""
        about = "Requests that were passed on to another replica, by what came of them."
        yield Reading("paddock_cluster_forwards_total", about, dict(self._results), "result")

    def accept_hop(self, scope: Scope) -> bool:
        """Return whether another replica has passed a request on to this one."""
        proofs = header_values(scope, HEADER)
        return len(proofs) == 1 and self._hops.accept(proofs[0], _describe(scope))

    def is_holds_query(self, scope: Scope) -> bool:
        """Return whether a request that was passed on asks what is here."""
        return scope[HOP_KEY] and scope["path"].startswith(_ASK_PREFIX)

    async def answer_holds_query(self, scope: Scope, send: Send) -> None:
        """Answer 200 if this replica has what another one asks about, else 404."""
        asked = scope["path"].removeprefix(_ASK_PREFIX)
        await send_text(send, 200 if self._holds(scope[TENANT_KEY], asked) else 404, b"")

    def wrap_mcp(self, app: App) -> App:
        """Return an application that answers requests of MCP with `app`, or passes them on by their session."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            sessions, hop = header_values(scope, SESSION_HEADER), scope[HOP_KEY]
            mark = sessions[0][:MARK_CHARS].decode("latin-1") if len(sessions) == 1 else ""
            if not hop and (owner := await self._find(mark)) is not None:
                await self.pass_on(owner, scope, receive, send)
                return
            if sessions or not hop:  # a request that was passed on with a session is only checked
                scope = {**scope, FORWARDING_KEY: self}
            await self._answer_here(app, scope, receive, send)

        return answer

    async def _answer_here(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of MCP; its client knows its session by an id with the mark."""
        mark = self._replicas.mark.encode()
        headers = [
            (name, value.removeprefix(mark) if name == SESSION_HEADER else value)
            for name, value in scope["headers"]
        ]

        async def send_marked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                marked = [
                    (name, mark + value if name.lower() == SESSION_HEADER else value)
                    for name, value in message.get("headers", ())
                ]
                message = {**message, "headers": marked}
            await send(message)

        await app({**scope, "headers": headers}, receive, send_marked)

    async def find_owner(self, scope: Scope, name: str) -> Replica | None:
        """Return the other replica that has the thing of this name: a handle, a `requestState` or an id.

        Raises Problem if it could be on a replica that does not answer.
        """
        if is_id(name):
            return None if self._holds(scope[TENANT_KEY], name) else await self._ask_holders(scope, name)
        return await self._find(name.removeprefix(HANDLE_PREFIX)[:MARK_CHARS])

    async def _find(self, mark: str) -> Replica | None:
        with _explain_unknown():
            return await self._replicas.find(mark)

    async def _ask_holders(self, scope: Scope, name: str) -> Replica | None:
        """Return the replica that has an execution; it may not have it any more, and an old one does not mark ids."""
        with _explain_unknown():
            holders = await self._replicas.find_holders(name)
        asking = [asyncio.create_task(self._ask(each, scope, name)) for each in holders]
        silent: list[str] = []
        try:
            for one in asyncio.as_completed(asking):
                other, holds = await one
                if holds:
                    return other
                if holds is None:
                    silent.append(other.id)
        finally:
            await cancel_all(asking)
        if silent:
            text = f"{len(silent)} of the other replicas, which could have it, cannot be reached. Ask again later."
            raise Problem(UNAVAILABLE, text)
        return None

    async def _ask(self, other: Replica, scope: Scope, name: str) -> tuple[Replica, bool | None]:
        """Return whether another replica has something; None if it does not say."""
        try:
            status, _ = await self._fetch(other, f"{_ASK_PREFIX}{name}".encode(), scope, 1024)
        except NotReachedError:
            return other, None
        return other, {200: True, 404: False}.get(status)

    async def _fetch(self, other: Replica, path: bytes, scope: Scope, max_bytes: int) -> tuple[int, bytes]:
        authorization = header_values(scope, b"authorization")[0]
        request = HopRequest("GET", path.decode("latin-1"), authorization)
        headers = [(b"authorization", authorization), (HEADER, self._hops.sign(other.mark, request))]
        return await self._relay.fetch(other.url, path, headers, _ASK_S, max_bytes)

    async def pass_on(
        self, owner: Replica, scope: Scope, receive: Receive, send: Send, body: bytes | None = None
    ) -> None:
        """Answer a request with the answer of its owner. `body` is its body if it was read. Raises Problem."""
        reads = scope["method"] in {"GET", "HEAD", "DELETE"}
        if self._requests.ending and not reads:
            raise Problem(SERVER_ENDING, "This server is ending. Send it again to another server, or later.")
        scope = {**scope, "headers": [each for each in scope["headers"] if each[0] != HEADER]}
        proof: Headers = [(HEADER, self._hops.sign(owner.mark, _describe(scope)))]
        with ExitStack() as flight:
            if not reads:  # a stream of MCP that is read never ends
                flight.enter_context(self._requests.in_flight(object()))
            try:
                await self._relay.pass_on(
                    owner.url,
                    scope,
                    proof,
                    receive,
                    send,
                    body=body,
                    ended=lambda: self._replicas.wait_for_end(owner.mark),
                )
            except NotReachedError:
                await self._report_absence(owner, scope, send)
            except BrokenOffError as broken:
                if not broken.whole:
                    self._results["broken_off"] += 1
                    raise Problem(UNAVAILABLE, _NOT_TAKEN) from None
                if reads and not broken.begun:
                    await self._report_absence(owner, scope, send)
                else:
                    self._results["lost"] += 1
                    await _report_loss(owner, broken, scope, send)
            else:
                self._results["answered"] += 1

    async def _report_absence(self, owner: Replica, scope: Scope, send: Send) -> None:
        """Answer a request that did not reach its owner. Raises Problem."""
        self._results["unreachable"] += 1
        if owner.mark not in self._missed:  # clients ask again and again
            self._missed.add(owner.mark)
            _log.warning("the replica %s cannot be reached", owner.id)
        if scope["path"] == MCP_PATH and header_values(scope, SESSION_HEADER):
            await send_text(send, 404, _NO_SESSION, kind=b"application/json")
            return
        text = "The replica that has this cannot be reached. Nothing was started. Send it again later."
        raise Problem(UNAVAILABLE, text)

    async def list_elsewhere(self, scope: Scope, member: str) -> list[dict[str, "Json"]]:
        """Return the entries of a list as all other replicas that can be reached answer it."""
        others = await self._replicas.list_others()
        fetched = [self._fetch(each, read_target(scope), scope, _MAX_LIST_BYTES) for each in others]
        entries: list[dict[str, Json]] = []
        for answer in await asyncio.gather(*fetched, return_exceptions=True):
            if isinstance(answer, NotReachedError):  # it may be ending, and has no lasting sessions
                continue
            if isinstance(answer, BaseException):
                raise answer
            if answer[0] == 200:
                entries += json.loads(answer[1])[member]
        return entries


@contextmanager
def _explain_unknown() -> Generator[None]:
    """Raise Problem if the database does not say which replica it is: what is not found is not therefore lost."""
    try:
        yield
    except StoreUnavailable as error:
        raise Problem(UNAVAILABLE, f"{error} Nothing was started. Send it again later.") from None


def _describe(scope: Scope) -> HopRequest:
    """Return what a proof for a request is about."""
    given = b"\n".join(header_values(scope, b"authorization"))
    return HopRequest(scope["method"], read_target(scope).decode("latin-1"), given)


async def _report_loss(owner: Replica, broken: BrokenOffError, scope: Scope, send: Send) -> None:
    """Tell a client that its answer will not come. Raises Problem if nothing of it was sent yet."""
    _log.warning("the replica %s ended before its answer did", owner.id)
    text = "The replica that handled this has ended. Whether and how far it was done is not known."
    lost = Problem(EXECUTION_LOST, text)
    if not broken.begun:
        raise lost
    if scope["path"] == MCP_PATH or not broken.between_events:
        # Half an answer must not look like a whole one: the connection is closed.
        raise asyncio.CancelledError("the replica with the answer has ended")
    event = b"event: problem\ndata: %s\n\n" % lost.render()
    await send({"type": "http.response.body", "body": event, "more_body": False})
