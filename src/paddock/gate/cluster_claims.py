"""Claim requests with effects among the machines of a cluster, directly before they start.

    take    the key is new: the request may run; otherwise the outcome of the request that had it
    run     runs the work, and ends it if the lease of this server is lost
    end     stores the outcome before anybody sees it; withdraws the claim of a request that did not start

A request without effects passes through: the database is not used for it. While a request waits for a slow database,
others use its slot (`database_queue`).
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from paddock.cluster.database import clean_text
from paddock.cluster.lease import FENCE_S
from paddock.cluster.runs import Claim, Fenced, Finished, KeyReused, Lost, Started, StoredEnd, Taken
from paddock.engines.live_run import WITHDRAWN
from paddock.foundation.cancellation import run_shielded, unless_stopped
from paddock.foundation.fair_slots import Bound, NoSlotError, Slot
from paddock.gate.database_queue import MAX_CLAIMS
from paddock.gate.program_service import BUSY_ERROR_NAME
from paddock.gate.watchers import Watchers
from paddock.model.errors import LedgerError, StoreUnavailable
from paddock.model.outcome import Decision, ErrorInfo, Outcome, RawResult, Status, read_outcome, write_outcome
from paddock.model.request import KEY_REUSED, UNKEPT_OUTCOME, ExecutionRequest
from paddock.policy.decisions.effects import has_effects
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import Field

if TYPE_CHECKING:
    from paddock.gate.cluster import Cluster

_RETRY_S = 0.25
"""Time after which an end is stored again, in seconds."""
_log = logging.getLogger("paddock.cluster")

_ALLOWED = Decision(allowed=True)
_NOBODY = Watchers()
_STOPPED = RawResult(
    status=Status.CANCELLED,
    error=ErrorInfo(
        name="Cancelled",
        message="It was cancelled while it waited for the request with the same key, which another server runs.",
        phase="decide",
    ),
)
_WITHDRAWN = RawResult(status=Status.CANCELLED, error=WITHDRAWN)
_CANCELLED = StoredEnd(Status.CANCELLED.value, None)
_AGAIN = "nothing was started: send it again later, with the same key"
_LEASE_LOST = RawResult(
    status=Status.LOST,
    error=ErrorInfo(
        name="LeaseLost",
        message=f"It was ended because this server had not reached the database of the cluster for {FENCE_S:.0f} s.",
        hint="what it did until then remains: check that before you send it again with a new key",
    ),
)


class PaddockClaims:
    """The claims of one opened Paddock."""

    def __init__(self, cluster: "Cluster", settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._waiting = Bound(MAX_CLAIMS, settings.runtimes.max_waiting)

    @asynccontextmanager
    async def begin(self, request: ExecutionRequest) -> "AsyncGenerator[RequestClaim]":
        """Yield the claim of a request that no other one contains. What is claimed at the end is ended then."""
        claim = RequestClaim(self._cluster, self._settings, request, self._waiting)
        try:
            yield claim
        except asyncio.CancelledError:
            await run_shielded(claim.close(_CANCELLED))
            raise
        finally:  # without an outcome only if there is an error, for example of the record
            await run_shielded(claim.close(_explain_unrecorded(request, self._cluster.node.id)))

    async def confirm_record(self, watchers: Watchers = _NOBODY) -> RawResult | None:
        """Wait until the database has all records so far, where the settings want that; return why it has not.

        Others use the slot of the request meanwhile. A request that gets none afterwards must not start either.
        """
        if self._settings.cluster.record != "all":
            return None
        try:
            with self._cluster.queue.lend(watchers.slot):
                await self._cluster.shipper.flush()
        except (StoreUnavailable, LedgerError) as error:
            return _refuse(str(error), "nothing was started: send it again later")
        return await _take_slot_again(watchers, _find_wait_ms(watchers, self._settings))


class RequestClaim:
    """The claim of one request."""

    def __init__(
        self, cluster: "Cluster", settings: Settings, request: ExecutionRequest, waiting: Bound
    ) -> None:
        """Use `waiting` to bound the requests of the caller that wait for the database."""
        self._cluster = cluster
        self._settings = settings
        self._request = request
        self._waiting = waiting
        self._place: Slot | None = None
        """Its place among the requests that are claimed and have not started."""
        self._lease = 0
        self._generation = ""
        """The generation of the database in which it was claimed."""
        self._run: Started | None = None
        self._began = False

    def list_facts(self, request: ExecutionRequest) -> dict[str, Field]:
        """Return what the record of a start has of its claim: a restored database learns from it which keys ran.

        A call that is repeated under another name has a separate record, and no further claim.
        """
        if self._run is None or self._run.claim.request != request.id:
            return {}
        return {"claim_sha256": self._run.claim.sha256}

    async def take(
        self, request: ExecutionRequest, decision: Decision, watchers: Watchers
    ) -> RawResult | None:
        """Claim the request if it may have effects; return its end if it must not run.

        That is an Outcome if a request with its key ran before. `request` has the names that were resolved. A request
        that must run has its slot again.
        """
        if self._run is not None or not has_effects(request, decision, self._settings):
            return None
        wait_ms = _find_wait_ms(watchers, self._settings)
        try:
            self._cluster.clock.check()
            self._cluster.lease.check()  # it need not wait for its turn without a lease
            taken = await self._send(watchers, wait_ms)
        except StoreUnavailable as error:
            return _refuse(str(error), _AGAIN)
        except NoSlotError as error:
            why = f"It waited {wait_ms} ms for its turn to be claimed."
            if error.why == "number":
                limit = f"runtimes.max_waiting = {self._waiting.max_waiting}"
                why = f"Too many requests of this caller wait for the database of the cluster already ({limit})."
            return _refuse(why, _AGAIN, BUSY_ERROR_NAME)
        if isinstance(taken, Started):
            return await _take_slot_again(watchers, wait_ms) or self._check_generation()
        self._end_place()
        return taken if isinstance(taken, RawResult) else _explain_unclaimed(taken)

    async def _send(self, watchers: Watchers, wait_ms: int | None) -> Taken | RawResult:
        """Claim the request in its turn, and return what became of that, or the end of one that was stopped before."""
        own, key = self._request, self._request.key
        name, digest = own.id, hashlib.sha256(own.id.encode()).digest()
        if key is not None:
            name, digest = clean_text(key.name), key.digest
        with self._cluster.queue.lend(watchers.slot) as lend_now:
            place = self._place = await self._cluster.queue.enter(
                own.actor, self._waiting, stop=watchers.stop, max_wait_ms=wait_ms
            )
            if place is None:
                return _WITHDRAWN

            def wait_for_other() -> None:
                place.end()
                lend_now()

            self._lease = self._cluster.lease.check()
            self._cluster.generation.check()
            self._generation = self._cluster.generation.id
            claim = Claim(clean_text(own.actor), name, own.id, digest)
            taken = await self._cluster.runs.take(claim, watchers.stop, wait_for_other)
            if isinstance(taken, Started):
                self._run = taken
            return _STOPPED if taken is None else taken

    def _check_generation(self) -> RawResult | None:
        """Return why the request must not start: the database forgot its claim while it waited for its slot.

        Once the record has its start, the report of this server keeps its key from starting again.
        """
        try:
            self._cluster.generation.check()
        except StoreUnavailable as error:
            return _refuse(str(error), _AGAIN)
        if self._cluster.generation.id == self._generation:
            return None
        return _refuse("The database was restored after the request was claimed.", _AGAIN)

    async def run(self, work: Coroutine[Any, Any, RawResult]) -> RawResult:
        """Return the result of the work, which is ended early if the lease of this server is lost."""
        if self._run is None:
            return await work
        self._end_place()
        try:
            with self._cluster.lease.hold(self._lease) as fenced:
                self._began = True
                return await unless_stopped(work, fenced) or _LEASE_LOST
        except StoreUnavailable as error:  # only from `hold`: nothing ran
            work.close()
            return _refuse(str(error), _AGAIN)

    async def end(self, outcome: Outcome) -> Outcome:
        """Store the outcome, and return what the caller gets."""
        self._end_place()
        run, self._run = self._run, None
        if run is None:
            return outcome
        if outcome.status is Status.UNAVAILABLE or not self._began:
            await run_shielded(self._store(run, None))
            return outcome
        ended = _store_outcome(outcome)
        if await run_shielded(self._store(run, ended)):
            return outcome
        _log.warning("the outcome of %s is dropped: another server took the request for lost", outcome.id)
        return _make_lost(outcome.id, self._cluster.node.id, outcome.decision)

    async def close(self, end: StoredEnd) -> None:
        """Store the `end` of a claim without an outcome: its task was cancelled, or the record cannot be written."""
        self._end_place()
        run, self._run = self._run, None
        if run is not None:
            await self._store(run, end if self._began else None)

    def _end_place(self) -> None:
        if self._place is not None:
            self._place.end()

    async def _store(self, run: Started, ended: StoredEnd | None) -> bool:
        """Store an end, as long as the lease lasts, and not for longer; later it is stored in the background.

        A database can renew a lease and not store an end, for example if its disk is full.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + FENCE_S
        while True:
            try:
                return await self._cluster.runs.end(run, ended)
            except StoreUnavailable as error:
                if ended is None or self._cluster.lease.age_s >= FENCE_S or loop.time() >= until:
                    _log.warning("the end of %s is stored later: %s", run.claim.request, error)
                    return True
            await asyncio.sleep(_RETRY_S)


def _explain_unclaimed(taken: Finished | Lost | KeyReused | Fenced) -> RawResult:
    """Return the end of a request whose key was claimed before."""
    match taken:
        case Finished(outcome=bytes(data)):
            return read_outcome(data)
        case Finished(ended, status):
            error = ErrorInfo(
                name=UNKEPT_OUTCOME,
                message=f"It ran before as {ended} and finished with the status {Status(status)}. Its outcome is "
                "not kept: it was too large, or the request was cancelled.",
                hint="nothing was started now; send a new key to run it again",
                phase="decide",
            )
            return Outcome(id=ended, status=Status(status), error=error, decision=_ALLOWED)
        case Lost(lost, node):
            return _make_lost(lost, node)
        case KeyReused(other):
            error = ErrorInfo(
                name=KEY_REUSED,
                message=f"The request {other} has this key, and asked for something else.",
                hint="send a new key with each new request",
                phase="decide",
            )
            return RawResult(status=Status.INVALID, error=error)
        case Fenced():
            return _refuse("This attempt was fenced off.", "send it again as the next attempt")


def _make_lost(request: str, node: str, decision: Decision = _ALLOWED) -> Outcome:
    error = ErrorInfo(
        name="MachineLost",
        message=f"The server {node} died while it ran {request}, could not reach the database of the cluster, or its "
        "database was restored from a backup. How far the request came is not known.",
        hint="nothing was started now; check what it did before you send it again with a new key",
    )
    return Outcome(id=request, status=Status.LOST, error=error, decision=decision)


def _explain_unrecorded(request: ExecutionRequest, node: str) -> StoredEnd:
    """Return the end of a request that ran, and whose end the server could not record."""
    error = ErrorInfo(
        name="EndNotRecorded",
        message=f"The server {node} ran {request.id}, and could not record its end. How far the request came is not "
        "known.",
        hint="nothing was started now; check what it did before you send it again with a new key",
    )
    return _store_outcome(Outcome(id=request.id, status=Status.LOST, error=error, decision=_ALLOWED))


def _store_outcome(outcome: Outcome) -> StoredEnd:
    return StoredEnd(outcome.status.value, write_outcome(outcome).encode("utf-8", "replace"))


def _refuse(message: str, hint: str, name: str = "StoreUnavailable") -> RawResult:
    error = ErrorInfo(name=name, message=message, hint=hint, phase="decide")
    return RawResult(status=Status.UNAVAILABLE, error=error)


def _find_wait_ms(watchers: Watchers, settings: Settings) -> int | None:
    """Return how long a request may wait for its turn, in milliseconds; None for any time."""
    max_ms = settings.runtimes.max_wait_ms
    if watchers.patient:
        return None
    return max_ms if watchers.max_wait_ms is None else min(watchers.max_wait_ms, max_ms)


async def _take_slot_again(watchers: Watchers, wait_ms: int | None) -> RawResult | None:
    """Wait for the slot of a request that was lent; return the end of one that must not start without it."""
    slot = watchers.slot
    if slot is None:
        return None
    before_ms = slot.waited_ms
    try:
        entered = await slot.take_again(stop=watchers.stop, max_wait_ms=wait_ms)
    except NoSlotError:
        why = f"It waited {wait_ms} ms for a slot after the database had answered late."
        return _refuse(why, _AGAIN, BUSY_ERROR_NAME)
    else:
        return None if entered else _WITHDRAWN
    finally:
        if watchers.waits is not None:
            queue_ms = watchers.waits.get("queue_ms", 0) + slot.waited_ms - before_ms
            watchers.waits["queue_ms"] = round(queue_ms, 3)
