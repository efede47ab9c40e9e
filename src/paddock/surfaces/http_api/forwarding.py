"""Owner forwarding: what lives in the memory of one replica is reached through any other, in one hop.

    what                             how its owner is found
    session of MCP 2025-11-25        the mark in the header `Mcp-Session-Id`
    paused call of MCP 2026-07-28    the mark in `requestState`
    interpreter session              the mark in its handle
    execution, waiting call of MCP   the first digits of the mark at the end of its id; that replica is asked for it

A mark names one start of one replica (`cluster.replicas`). It selects a row of the database, and only that row has an
address. Without a living owner the request is handled here, by what reports that there is no such thing. Which routes
of the API are about one replica's memory is declared on them (`elsewhere`).

Replicas ask each other two questions, with the token of the user:

    GET /internal/holds/ID      whether an execution, or a waiting call, is there: 200 or 404
    GET /internal/hops/NONCE    whether a request that was passed on is still handled: 200 with the id of its execution
                                if that has started; 404 without a body
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from paddock.cluster.hops import HEADER, MAX_AGE_S, OFFSET_HEADER, HopRequest, ProofTimeError, read_nonce
from paddock.cluster.node import MARK_CHARS
from paddock.cluster.replicas import Replica, is_mark
from paddock.foundation.cancellation import cancel_all
from paddock.foundation.seldom import Seldom
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import is_id
from paddock.model.session import HANDLE_PREFIX
from paddock.record.telemetry.observed_sink import Reading
from paddock.surfaces.http_api.idempotency import HEADER as KEY_HEADER
from paddock.surfaces.http_api.relay import (
    BrokenOffError,
    NotReachedError,
    OffsetError,
    StreamRelay,
    read_target,
)
from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send, header_values, send_text
from paddock.surfaces.http_server.endpoint import MCP_PATH
from paddock.surfaces.http_server.entry import HOP_KEY, TENANT_KEY
from paddock.surfaces.http_server.problems import (
    EXECUTION_LOST,
    OUTCOME_UNKNOWN,
    SERVER_ENDING,
    UNAVAILABLE,
    Problem,
)
from paddock.surfaces.mcp_server.http.inbound import FORWARDING_KEY
from paddock.surfaces.mcp_server.http.sessions import SESSION_HEADER

if TYPE_CHECKING:
    from paddock.cluster.peers import Peers
    from paddock.model.base import Json
    from paddock.surfaces.mcp_server.requests import InFlightRequests
    from paddock.surfaces.tenants import Tenant

_HOLDS_PREFIX = "/internal/holds/"
_HOPS_PREFIX = "/internal/hops/"
_ASK_S = 2.0
"""Maximum time until another replica answers a question, in seconds."""
_ABSENT_RETRY = {"Retry-After": "3"}
"""The six attempts of the client libraries then take longer than a lease of a replica that has died."""
_NO_SESSION = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}'
"""As the library of the protocol answers. The client then opens another session."""
_NOT_TAKEN = (
    "The replica that has this ended the connection before it had the whole request. Nothing was started. Send it "
    "again later, or with a smaller body."
)
_MAX_LIST_BYTES = 4 * 1024 * 1024
_RESULTS = ("answered", "unreachable", "broken_off", "unknown", "lost")
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
        self._handled: dict[str, str] = {}
        """Requests that were passed on to this replica, by their nonces: the id of an execution, empty for none."""
        self._seldom = Seldom()
        self._results: Counter[str] = Counter(dict.fromkeys(_RESULTS, 0))

    async def close(self) -> None:
        """Close the connections to other replicas."""
        await self._relay.close()

    def read_metrics(self) -> Iterator[Reading]:
        """Yield the metrics of requests that were passed on. Any thread may call it."""
        about = "Requests that were passed on to another replica, by what came of them."
        yield Reading("paddock_cluster_forwards_total", about, dict(self._results), "result")

    @contextmanager
    def accept_hop(self, scope: Scope) -> Generator[str]:
        """Handle a request in the context; yield its nonce if another replica has passed it on. Raises Problem."""
        proofs = header_values(scope, HEADER)
        try:
            nonce = self._hops.accept(proofs[0], _describe(scope)) if len(proofs) == 1 else ""
        except ProofTimeError as error:
            raise self._refuse_time(error.offset_s) from None
        if not nonce:
            yield ""
            return
        self._handled[nonce] = ""
        try:
            yield nonce
        finally:
            del self._handled[nonce]

    def note_execution(self, scope: Scope, id_: str) -> None:
        """Note the execution that a request has started, or waits for; the replica that passed it on may ask."""
        if scope[HOP_KEY]:
            self._handled[scope[HOP_KEY]] = id_

    def is_query(self, scope: Scope) -> bool:
        """Return whether a request is a question of another replica."""
        return bool(scope[HOP_KEY]) and scope["path"].startswith((_HOLDS_PREFIX, _HOPS_PREFIX))

    async def answer_query(self, scope: Scope, send: Send) -> None:
        """Answer a question of another replica."""
        path: str = scope["path"]
        if path.startswith(_HOLDS_PREFIX):
            found = "" if self._holds(scope[TENANT_KEY], path.removeprefix(_HOLDS_PREFIX)) else None
        else:
            found = self._handled.get(path.removeprefix(_HOPS_PREFIX))
        await send_text(send, 404 if found is None else 200, (found or "").encode())

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

    def has_ended(self, state: str) -> bool:
        """Return whether a `requestState` is one of a replica that has ended, as far as its mark says."""
        mark = state[:MARK_CHARS]
        return is_mark(mark) and mark != self._replicas.mark and not self._replicas.is_living(mark)

    async def _find(self, mark: str) -> Replica | None:
        with _explain_unknown():
            return await self._replicas.find(mark)

    async def _ask_holders(self, scope: Scope, name: str) -> Replica | None:
        """Return the replica that has an execution; it may not have it any more, and an old one does not mark ids."""
        with _explain_unknown():
            holders = await self._replicas.find_holders(name)
        asking = [asyncio.create_task(self._ask(each, scope, name)) for each in holders]
        silent: list[Problem | None] = []
        try:
            for one in asyncio.as_completed(asking):
                other, holds = await one
                if holds is True:
                    return other
                if holds is not False:
                    silent.append(holds)
        finally:
            await cancel_all(asking)
        if silent:
            text = f"{len(silent)} of the other replicas, which could have it, cannot be reached. Ask again later."
            raise next(filter(None, silent), Problem(UNAVAILABLE, text))
        return None

    async def _ask(self, other: Replica, scope: Scope, name: str) -> tuple[Replica, bool | Problem | None]:
        """Return whether another replica has something; None, or the reason, if it does not say."""
        try:
            status, _ = await self._fetch(other, f"{_HOLDS_PREFIX}{name}".encode(), scope, 1024)
        except OffsetError as error:
            return other, self._report_offset(other, error.offset_s)
        except NotReachedError:
            return other, None
        return other, {200: True, 404: False}.get(status)

    async def _ask_handled(self, owner: Replica, scope: Scope, nonce: str) -> tuple[bool | None, str]:
        """Return whether a replica still handles a request, None if it does not say; and the id of its execution."""
        try:
            status, body = await self._fetch(owner, f"{_HOPS_PREFIX}{nonce}".encode(), scope, 1024)
        except NotReachedError:
            return None, ""
        if status == 200:
            return True, id_ if is_id(id_ := body.decode("latin-1")) else ""
        return status != 404 or bool(body), ""  # an earlier version of Paddock answers with a problem

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
        proof = self._hops.sign(owner.mark, _describe(scope))
        execution = ""

        async def handles() -> bool | None:
            nonlocal execution
            handled, id_ = await self._ask_handled(owner, scope, read_nonce(proof))
            execution = id_ or execution
            return handled

        with ExitStack() as flight:
            if not reads:  # a stream of MCP that is read never ends
                flight.enter_context(self._requests.in_flight(object()))
            try:
                await self._relay.pass_on(
                    owner.url,
                    scope,
                    [(HEADER, proof)],
                    receive,
                    send,
                    body=body,
                    ended=lambda: self._replicas.wait_for_end(owner.mark),
                    handles=handles,
                )
            except OffsetError as error:
                raise self._report_offset(owner, error.offset_s) from None
            except NotReachedError:
                await self._report_absence(owner, scope, send)
            except BrokenOffError as broken:
                if not broken.whole:
                    self._results["broken_off"] += 1
                    raise Problem(UNAVAILABLE, _NOT_TAKEN) from None
                if reads and not broken.begun:
                    await self._report_absence(owner, scope, send)
                else:
                    await self._report_loss(owner, broken, scope, send, execution)
            else:
                self._results["answered"] += 1

    async def _report_absence(self, owner: Replica, scope: Scope, send: Send) -> None:
        """Answer a request that did not reach its owner. Raises Problem."""
        self._results["unreachable"] += 1
        if self._seldom.is_due(f"absent {owner.mark}"):  # clients ask again and again
            _log.warning("the replica %s cannot be reached", owner.id)
        if scope["path"] == MCP_PATH and header_values(scope, SESSION_HEADER):
            await send_text(send, 404, _NO_SESSION, kind=b"application/json")
            return
        text = "The replica that has this cannot be reached. Nothing was started. Send it again later."
        raise Problem(UNAVAILABLE, text, headers=_ABSENT_RETRY)

    async def _report_loss(
        self, owner: Replica, broken: BrokenOffError, scope: Scope, send: Send, execution: str
    ) -> None:
        """Tell a client that its answer will not come. Raises Problem if nothing of it was sent yet."""
        if broken.ended or not self._replicas.is_living(owner.mark):
            self._results["lost"] += 1
            _log.warning("the replica %s ended before its answer did", owner.id)
            text = "The replica that handled this has ended. Whether and how far it was done is not known."
            problem = Problem(EXECUTION_LOST, text)
        else:
            if self._seldom.is_due(f"silent {owner.mark}"):
                _log.warning("the replica %s has a lease, and answers a request no more", owner.id)
            self._results["unknown"] += 1
            problem = _explain_silence(scope, execution)
        if not broken.begun:
            raise problem
        if scope["path"] == MCP_PATH or not broken.between_events:
            # Half an answer must not look like a whole one: the connection is closed.
            raise asyncio.CancelledError("the replica with the answer does not send the rest")
        event = b"event: problem\ndata: %s\n\n" % problem.render()
        await send({"type": "http.response.body", "body": event, "more_body": False})

    def _refuse_time(self, offset_s: int) -> Problem:
        """Return the answer to a replica whose proof has another time."""
        differs = f"request of another replica is refused: its clock is {_describe_offset(offset_s)} that of this one"
        if self._seldom.is_due("time"):
            _log.error("a %s; at most %.0f s are accepted", differs, MAX_AGE_S)
        return Problem(UNAVAILABLE, f"A {differs}.", headers={OFFSET_HEADER: str(offset_s)})

    def _report_offset(self, other: Replica, offset_s: int) -> Problem:
        """Return the answer to a client whose request another replica refused for the time of its proof."""
        if self._seldom.is_due(f"time {other.mark}"):
            _log.error(
                "the replica %s refuses requests of this one, whose clock is %s its own; at most %.0f s are accepted",
                other.id,
                _describe_offset(offset_s),
                MAX_AGE_S,
            )
        text = (
            f"The clocks of two replicas of the server differ by {abs(offset_s)} s, and at most {MAX_AGE_S:.0f} s are "
            "accepted. Nothing was started. Send it again when its operator has set them."
        )
        return Problem(UNAVAILABLE, text)

    async def list_elsewhere(self, scope: Scope, member: str) -> "tuple[list[dict[str, Json]], list[str]]":
        """Return the entries of a list as all other replicas answer it, and the names of those that do not."""
        others = await self._replicas.list_others()
        fetched = [self._fetch(each, read_target(scope), scope, _MAX_LIST_BYTES) for each in others]
        entries: list[dict[str, Json]] = []
        silent: list[str] = []
        for other, answer in zip(others, await asyncio.gather(*fetched, return_exceptions=True), strict=True):
            if isinstance(answer, OffsetError):
                self._report_offset(other, answer.offset_s)
            elif isinstance(answer, BaseException) and not isinstance(answer, NotReachedError):
                raise answer
            if isinstance(answer, BaseException) or answer[0] != 200:
                silent.append(other.id)
            else:
                entries += json.loads(answer[1])[member]
        return entries, sorted(silent)


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


def _describe_offset(offset_s: int) -> str:
    return f"{abs(offset_s)} s {'ahead of' if offset_s > 0 else 'behind'}"


def _explain_silence(scope: Scope, execution: str) -> Problem:
    """Return the problem for a request whose owner may still handle it, or may never have had it."""
    if header_values(scope, KEY_HEADER.lower().encode()):
        remedy = "Send it again with the same Idempotency-Key: it starts at most once."
    elif execution:
        remedy = f"Ask again: GET /v1/executions/{execution}."
    elif scope["path"] == MCP_PATH:
        remedy = "A call with a `paddock/key` can be sent again: it starts at most once."
    else:
        remedy = "GET /v1/executions lists what was started."
    text = f"The replica that handles this does not answer. Whether and how far it was done is not known. {remedy}"
    members: dict[str, Json] = {"execution": execution} if execution else {}
    return Problem(OUTCOME_UNKNOWN, text, headers=None, **members)
