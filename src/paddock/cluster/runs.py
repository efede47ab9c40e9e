"""Claims of requests with effects: each key starts at most once among all machines of a cluster.

    take    key is new                                  -> Started: run it
            same digest, finished                       -> Finished: its stored outcome
            same digest, started, lease alive           -> wait
            same digest, started, lease expired         -> marked as lost: Lost
            same digest, lost                           -> Lost
            other digest                                -> KeyReused
            fenced                                      -> the next attempt; Fenced if the caller named the attempt
    end     stores the outcome, unless the request was taken for lost
    fence   succeeds if nothing has started, and then nothing can

A store keeps the rows: in PostgreSQL, or, in tests, in a file. Each of its methods is one atomic step.
"""

import asyncio
import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from paddock.cluster.status import State
from paddock.foundation.cancellation import unless_stopped
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import new_id
from paddock.model.limits import KIB

MAX_OUTCOME_BYTES = 64 * KIB
"""Maximum size of a stored outcome as JSON, in bytes. Of a larger one only the status is kept."""
_FIRST_PAUSE_S = 0.02
_MAX_PAUSE_S = 0.5
"""Pauses between two looks at a request that another replica runs, in seconds; each is twice as long as the last."""

KEY_PREFIX = "sha256:"
"""What the key of a row begins with that was entered from a ledger, which has only the hash of a key."""
_MAX_UNFINISHED = 1000
"""Maximum number of ends that wait for the store. A request whose end is forgotten becomes lost."""

T = TypeVar("T")


class Claim(NamedTuple):
    """What a request claims."""

    tenant: str
    """The caller, whose keys these are."""
    key: str
    request: str
    """Id of the request in the record of its node."""
    digest: bytes
    """SHA-256 over what is requested. A key belongs to one digest."""
    attempt: int | None = None
    """The attempt, from 1; None for the first one that is not fenced."""

    @property
    def sha256(self) -> str:
        """Hash of the caller and the key, as the ledger has it."""
        return hash_key(self.tenant, self.key)


class RunRow(NamedTuple):
    """What a store knows of a key: its newest attempt, or the one that was asked for."""

    attempt: int
    request: str
    digest: bytes
    """Empty if it was entered from a ledger, which does not have it."""
    node: str
    state: State
    status: str | None
    outcome: bytes | None
    alive: bool
    """Whether the process that started it may still run."""


class Started(NamedTuple):
    """The claim is made: the caller runs the request, and then calls `end`."""

    claim: Claim
    attempt: int


class Finished(NamedTuple):
    """It ran before."""

    request: str
    """Id of the request that ran."""
    status: str
    outcome: bytes | None
    """The outcome as JSON; None if it was too large, or there was none."""


class Lost(NamedTuple):
    """It was started, and its machine died. Whether and how far it ran is not known."""

    request: str
    node: str


class KeyReused(NamedTuple):
    """Another request has this key."""

    request: str


class Fenced(NamedTuple):
    """A caller has fenced this attempt off. It never starts."""

    request: str


Taken = Started | Finished | Lost | KeyReused | Fenced
_RESULTS = {
    Started: "started",
    Finished: "finished",
    Lost: "lost",
    KeyReused: "key_reused",
    Fenced: "fenced",
    type(None): "stopped",
}
"""What came of a claim, as the metrics name it; besides, `unavailable` for a store that did not answer."""


class StoredEnd(NamedTuple):
    """How a request ended."""

    status: str
    outcome: bytes | None
    """The outcome as JSON, without secrets."""


OnSend = Callable[[], None]
"""Called when a claim is about to be sent. If the call then fails, whether the claim was made is not known."""


class RunStore(Protocol):
    """Rows by tenant, key and attempt. Every method raises StoreUnavailable."""

    async def insert(self, claim: Claim, attempt: int, on_send: OnSend) -> bool:
        """Make the row of an attempt, and return whether it is new."""
        ...

    async def read(self, tenant: str, key: str, attempt: int | None) -> RunRow | None:
        """Return an attempt; the newest one for None."""
        ...

    async def lose(self, claim: Claim, row: RunRow) -> bool:
        """Mark a row as lost if its lease has expired, and return whether it was this call."""
        ...

    async def finish(self, run: Started, end: StoredEnd) -> bool:
        """Store an end, and return whether the row was still that of this start. The same end may be stored twice."""
        ...

    async def fence(self, claim: Claim, attempt: int) -> bool:
        """Fence off an attempt unless another request started it, and return whether it is fenced now."""
        ...


def hash_key(tenant: str, key: str) -> str:
    """Return the hash of a caller's key, SHA-256 in hexadecimal digits."""
    return hashlib.sha256(json.dumps([tenant, key]).encode()).hexdigest()


class StoredRuns:
    """Claims of one process, in a store."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self._unsettled: dict[tuple[str, str, int], Claim] = {}
        """Claims that did not start, and that may be in the store: perhaps the connection broke."""
        self._unfinished: OrderedDict[Started, StoredEnd] = OrderedDict()
        """Ends that could not be stored yet, the oldest first."""
        self.results = Counter(dict.fromkeys((*_RESULTS.values(), "unavailable"), 0))
        """Number of claims by what came of them."""

    @property
    def pending(self) -> int:
        """Number of ends, and of claims that did not start, that the store does not have yet."""
        return len(self._unfinished) + len(self._unsettled)

    async def take(
        self, claim: Claim, stop: asyncio.Event | None = None, on_wait: Callable[[], None] = lambda: None
    ) -> Taken | None:
        """Claim a request, or return what became of it. Waits for its end where it runs; None if `stop` is set.

        `on_wait` is called before that wait, which may take as long as the request. Raises StoreUnavailable: nothing
        was claimed, or what was is fenced off later.
        """
        try:
            taken = await self._take(claim, stop, on_wait)
        except StoreUnavailable:
            self.results["unavailable"] += 1
            raise
        self.results[_RESULTS[type(taken)]] += 1
        return taken

    async def _take(
        self, claim: Claim, stop: asyncio.Event | None, on_wait: Callable[[], None]
    ) -> Taken | None:
        attempt = claim.attempt or 1
        while True:
            if await self._send_claim(partial(self.store.insert, claim, attempt), claim, attempt):
                return Started(claim, attempt)
            row = await self._wait_for_end(claim, stop, on_wait)
            if row is None:
                return None
            if row.state == "fenced":
                if claim.attempt is not None:
                    return Fenced(row.request)
                if row.attempt < attempt:  # no other process made it: the store accepts no claims of this one
                    raise _explain_unclaimed(claim)
                attempt = row.attempt + 1
            elif row.digest and row.digest != claim.digest:
                return KeyReused(row.request)
            elif row.state == "finished":
                return Finished(row.request, row.status or "", row.outcome)
            elif row.state == "lost":
                return Lost(row.request, row.node)
            else:  # the row is read again: it may have ended meanwhile
                await self.store.lose(claim, row)

    async def _wait_for_end(
        self, claim: Claim, stop: asyncio.Event | None, on_wait: Callable[[], None]
    ) -> RunRow | None:
        """Return the row of a key once its request does not run, or is another one; None if `stop` is set before.

        Once the request was seen to run, a store that is away is waited for: it would be wrong to tell the caller that
        nothing started.
        """
        pause, runs = _FIRST_PAUSE_S, False
        while True:
            try:
                row = await self.store.read(claim.tenant, claim.key, claim.attempt)
            except StoreUnavailable:
                if not runs:
                    raise
            else:
                if row is None:
                    raise _explain_unclaimed(claim)
                runs = row.state == "started" and row.alive and row.digest == claim.digest
                if not runs:
                    return row
            on_wait()
            if stop is not None and stop.is_set():
                return None
            await unless_stopped(asyncio.sleep(pause), stop)
            pause = min(2 * pause, _MAX_PAUSE_S)

    async def _send_claim(self, send: Callable[[OnSend], Awaitable[T]], claim: Claim, attempt: int) -> T:
        """Return what `send` returns. If it is not known whether it claimed, that is fenced off later."""
        sent = asyncio.Event()
        try:
            return await send(sent.set)
        except BaseException:
            if sent.is_set():
                self._unsettled[claim.tenant, claim.key, attempt] = claim
            raise

    async def end(self, run: Started, end: StoredEnd | None) -> bool:
        """Store the end of a request, None if it never started; return False if it was superseded or taken for lost.

        Raises StoreUnavailable; then it is stored later.
        """
        if end is not None:
            if end.outcome is not None and len(end.outcome) > MAX_OUTCOME_BYTES:
                end = StoredEnd(end.status, None)
            try:
                return await self.store.finish(run, end)
            except BaseException:
                self._unfinished[run] = end
                if len(self._unfinished) > _MAX_UNFINISHED:
                    self._unfinished.popitem(last=False)
                raise
        name = run.claim.tenant, run.claim.key, run.attempt
        self._unsettled[name] = run.claim
        await self._settle_claim(name, run.claim)
        return True

    async def fence(self, tenant: str, key: str, attempt: int) -> bool:
        """Return True if the attempt has not started, and never will. Raises StoreUnavailable."""
        return await self.store.fence(Claim(tenant, key, new_id(), b""), attempt)

    async def settle(self) -> None:
        """Store ends, and fence off claims that did not start, where that failed before. Raises StoreUnavailable."""
        for run, end in [*self._unfinished.items()]:
            await self.store.finish(run, end)
            self._unfinished.pop(run, None)
        for name, claim in [*self._unsettled.items()]:
            await self._settle_claim(name, claim)

    async def _settle_claim(self, name: tuple[str, str, int], claim: Claim) -> None:
        await self.store.fence(claim, name[2])
        if self._unsettled.get(name) is claim:
            del self._unsettled[name]


def _explain_unclaimed(claim: Claim) -> StoreUnavailable:
    return StoreUnavailable(f"The key {claim.key!r} could not be claimed just now. Send it again.")
