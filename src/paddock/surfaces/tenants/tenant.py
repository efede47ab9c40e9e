"""One tenant: a token, its opened Paddock, and what it may do."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, Unpack

from paddock.foundation.cancellation import run_shielded
from paddock.foundation.fair_slots import Bound, FairSlots, NoSlotError, Slot
from paddock.gate.approvals import Asker
from paddock.gate.open_paddock import OpenPaddock
from paddock.gate.questions import AnswerableQuestions, Questions, QuestionStore, ask_and_wait
from paddock.model.approval import Answer, Question, WaitingQuestion
from paddock.model.errors import ApprovalError, PaddockError
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, GuestRun, ReplayRun, RuntimeRun, Work
from paddock.policy.settings.schema import Settings
from paddock.policy.settings.serve import ServeToken
from paddock.record.ledger.search import RecordFilter, find
from paddock.record.ledger.sink import AuditRecord
from paddock.surfaces.tenants.errors import NotPermitted, TenantBusy, UnknownToken
from paddock.surfaces.tenants.refusals import Refusals

if TYPE_CHECKING:
    from paddock.gate.flow.tracker import FlowMemory
    from paddock.gate.gate import Gate
    from paddock.gate.watchers import Listeners

OpenSession = Callable[[Settings, str, Asker], AbstractAsyncContextManager[OpenPaddock]]
"""Opens a Paddock for an actor, whose questions go to an asker."""
_MAX_RECORDS = 1000
_MAX_MEMORIES = 10_000
"""Maximum number of users whose flow labels are kept. The one whose Paddock was opened first is forgotten."""
_log = logging.getLogger("paddock.surfaces.tenants")


class SlotNeeds(NamedTuple):
    """What a request needs a slot for."""

    language: str = ""
    """The language of a program; empty for other work."""
    in_session: bool = False
    """Whether the program runs in a session."""

    @classmethod
    def from_work(cls, work: Work) -> "SlotNeeds":
        """Return what work needs."""
        match work:
            case GuestRun():
                return cls("javascript", work.session is not None)
            case ReplayRun():
                return cls("javascript")
            case RuntimeRun():
                return cls(work.runtime, work.session is not None)
            case _:
                return cls()


NO_PROGRAM = SlotNeeds()


class FlowMemories:
    """What the clients of each user have read, as flow rules know it.

    Connections outlive a Paddock, and a client that has none continues after its token was changed or replaced.
    """

    def __init__(self) -> None:
        self._by_actor: OrderedDict[str, FlowMemory] = OrderedDict()

    def share(self, actor: str, gate: "Gate") -> None:
        """Let a gate continue with what earlier gates of a user remember, and those that are still open."""
        gate.restore_flow(self._by_actor.get(actor))
        if (memory := gate.flow_memory) is None:
            return
        self._by_actor[actor] = memory
        self._by_actor.move_to_end(actor)
        if len(self._by_actor) > _MAX_MEMORIES:
            self._by_actor.popitem(last=False)


class Admission:
    """An admitted request: it has a slot, except while it waits for a person."""

    def __init__(self, slot: Slot, ask: Asker) -> None:
        self.slot = slot
        self._ask = ask
        self._questions = 0

    async def ask(self, question: Question) -> Answer:
        """Ask a person. Pass it to the gate as `asker`: until there is an answer, other requests use the slot."""
        self._questions += 1
        self.slot.give_back()
        try:
            answer = await self._ask(question)
            if self._questions == 1:
                await self.slot.take_again()
            return answer
        finally:
            self._questions -= 1
            if not self._questions:
                self.slot.take_now()  # cancelled or expired: it must not wait now


class Tenant:
    """A token that was identified. The same object serves all of its requests, until it is revoked."""

    def __init__(  # noqa: PLR0917 - the parts of a tenant
        self,
        token: ServeToken,
        settings: Settings,
        slots: FairSlots,
        everybody: Bound,
        asked: QuestionStore,
        opening: OpenSession,
        flush: Callable[[], object],
        refusals: Refusals,
        flow_memories: "FlowMemories",
    ) -> None:
        """Use the narrowed `settings` of the token. `everybody` bounds the requests of all users.

        `flush` writes the records that are still in memory. `flow_memories` outlive this tenant.
        """
        self._refusals = refusals
        self.token = token
        self.actor = token.actor_name
        """The actor of every request of this tenant."""
        self.settings = settings
        self._open_paddock = opening
        self._flush = flush
        self._slots = slots
        self._everybody = everybody
        self._own = Bound(token.max_jobs or everybody.max_active, settings.runtimes.max_waiting)
        self.questions: Questions = asked.of_actor(self.actor)
        """The questions of its own requests."""
        self._others = asked.of_others(self.actor)
        self._opened: OpenPaddock | None = None
        self._flow_memories = flow_memories
        self._serving: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._turn = asyncio.Lock()
        self._uses = 0
        self._used_at = time.monotonic()
        self.revoked = asyncio.Event()
        """Set when the token is no longer valid. What runs under it is then being ended."""

    @property
    def questions_of_others(self) -> AnswerableQuestions:
        """The waiting questions of other users."""
        return self._others

    @property
    def may_approve(self) -> bool:
        """Whether it may list and answer the questions of other users."""
        return self.token.approve

    @property
    def opened(self) -> OpenPaddock:
        """The Paddock that `identify` opened. Raises UnknownToken after that was closed."""
        if self._opened is None:
            raise UnknownToken
        return self._opened

    @property
    def running(self) -> int:
        """Number of its requests that have a slot."""
        return self._own.active

    @property
    def waiting(self) -> int:
        """Number of its requests that wait for a slot."""
        return self._own.waiting

    @property
    def idle_s(self) -> float:
        """Time since its last use, in seconds; 0 while it is in use or has an open interpreter."""
        if self._uses or (self._opened and self._opened.programs.list_sessions(self.actor)):
            return 0.0
        return time.monotonic() - self._used_at

    @property
    def is_open(self) -> bool:
        """Whether its Paddock is open."""
        return self._opened is not None

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Keep its Paddock open during the context, however long nothing runs in it."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self._used_at = time.monotonic()

    @asynccontextmanager
    async def admit(
        self,
        max_wait_ms: int | None = None,
        asker: Asker | None = None,
        needs: SlotNeeds = NO_PROGRAM,
    ) -> AsyncGenerator[Admission]:
        """Wait for a slot among all users, and hold it during the context.

        Passed to the gate, the slot of a program serves there, too. The questions of the request go to `asker`; by
        default they wait for another user or `paddock approve`. Raises TenantBusy if too many requests of the token
        wait, or after `max_wait_ms`; and UnknownToken if it was revoked.
        """
        with self.in_use():
            await self.open()
            slot = await self._take_slot(max_wait_ms, needs)
            try:
                yield Admission(slot, asker or self._ask)
            finally:
                slot.end()

    def _list_bounds(self, needs: SlotNeeds) -> list[Bound]:
        bounds = [self._own, self._everybody]
        if needs.language == "javascript":
            # In a session it waits for the earlier ones first, and takes no worker's slot meanwhile.
            return bounds if needs.in_session else [*bounds, self.opened.gate.engines.guest.bound]
        return [*bounds, self.opened.programs.bound] if needs.language else bounds

    async def _take_slot(self, max_wait_ms: int | None, needs: SlotNeeds) -> Slot:
        """Return a slot. Raises TenantBusy and UnknownToken."""
        bounds = self._list_bounds(needs)
        limits = self.settings.runtimes
        wait_ms = limits.max_wait_ms if max_wait_ms is None else min(max_wait_ms, limits.max_wait_ms)
        waiting = time.monotonic()
        try:
            slot = await self._slots.enter(self.actor, *bounds, stop=self.revoked, max_wait_ms=wait_ms)
        except NoSlotError as error:
            self._refusals.note("no-slot", self.actor, needs.language)
            why = f"no slot became free within {wait_ms} ms"
            if error.why != "time":
                why = f"too many requests of this token wait already (runtimes.max_waiting = {limits.max_waiting})"
            raise TenantBusy(f"{why}. Nothing started; it is safe to retry.") from None
        finally:
            self._refusals.observe_wait(time.monotonic() - waiting)
        if slot is None:
            raise UnknownToken
        return slot

    async def execute(
        self,
        request: ExecutionRequest,
        *,
        asker: Asker | None = None,
        **listeners: "Unpack[Listeners]",
    ) -> Outcome:
        """Run a request as this tenant's actor and return its outcome; see `admit` and `Gate.execute`.

        Raises UnknownToken if the token is revoked meanwhile; the request then ends, and its record says `cancelled`.
        """
        own = request.model_copy(update={"actor": self.actor})
        async with self.admit(
            listeners.get("max_wait_ms"), asker, SlotNeeds.from_work(request.work)
        ) as admission:
            running = asyncio.ensure_future(
                self.opened.gate.execute(own, asker=admission.ask, **{**listeners, "slot": admission.slot})
            )
            try:
                await asyncio.wait({running})
            finally:
                if not running.done():
                    running.cancel()
                    await run_shielded(asyncio.wait({running}))
            if not running.cancelled():
                return running.result()
            if self.revoked.is_set():
                raise UnknownToken
            raise PaddockError("the server ends; nothing more runs")

    async def list_own_questions(self) -> list[WaitingQuestion]:
        """Return the questions of its own requests that wait for a person, oldest first.

        Raises ApprovalError and StoreUnavailable.
        """
        return await self.questions.list_waiting()

    async def list_questions(self) -> list[WaitingQuestion]:
        """Return the waiting questions of other users, oldest first.

        Raises NotPermitted without that right, ApprovalError and StoreUnavailable.
        """
        self._require_approval_right()
        return await self._others.list_waiting()

    async def answer_question(self, id_: str, verdict: Literal["once", "run", "denied"]) -> Question:
        """Answer the question of another user, and return it.

        Raises NotPermitted without that right and for a question of its own; ApprovalError and StoreUnavailable.
        """
        self._require_approval_right()
        if any(each.question.id == id_ for each in await self.questions.list_waiting()):
            raise NotPermitted(
                "users cannot answer their own questions; another user with the right `approve` can, or a person at a "
                f"terminal of the server: paddock approve {id_}"
            )
        waiting = await self._others.find_question(id_)
        if verdict == "run" and "run" not in waiting.question.scopes:
            raise ApprovalError(f"{id_} can only be approved once")
        await self._others.give_answer(waiting, verdict, self.actor)
        return waiting.question

    async def find_records(
        self,
        limit: int = _MAX_RECORDS,
        *,
        name: str | None = None,
        event: str | None = None,
        status: str | None = None,
        since: datetime | None = None,
    ) -> list[AuditRecord]:
        """Return the records of this actor's requests, newest first. `name` is an id of a record or a request.

        Raises LedgerError.
        """
        wanted = RecordFilter(actor=self.actor, name=name, event=event, status=status, since=since)
        count = max(0, min(limit, _MAX_RECORDS))

        def read() -> list[AuditRecord]:
            self._flush()
            return list(islice(find(self.settings.audit.directory, wanted, limit=count), count))

        return await asyncio.to_thread(read)

    async def open(self) -> None:
        """Open its Paddock unless it is open. Raises ConfigurationError, LedgerError, and UnknownToken if revoked."""
        async with self._turn:
            if self.revoked.is_set():
                raise UnknownToken
            self._used_at = time.monotonic()
            if self._opened is None:
                await self._end_serving()
                ready: asyncio.Future[OpenPaddock] = asyncio.get_running_loop().create_future()
                self._stop = asyncio.Event()
                self._serving = asyncio.create_task(self._serve(ready, self._stop))
                opened = await ready
                self._flow_memories.share(self.actor, opened.gate)
                self._opened = opened

    async def close(self) -> None:
        """Close its Paddock and end everything that runs; the next `open` opens another one."""
        async with self._turn:
            await self._end_serving()

    async def revoke(self) -> None:
        """Close its Paddock for good."""
        self.revoked.set()
        await self.close()

    async def _end_serving(self) -> None:
        self._opened = None
        self._stop.set()
        if self._serving is not None:
            await run_shielded(asyncio.wait({self._serving}))
            self._serving = None

    async def _serve(self, ready: "asyncio.Future[OpenPaddock]", stop: asyncio.Event) -> None:
        """Keep a Paddock open until `stop` is set. The same task opens and closes it; other tasks use it."""
        try:
            async with self._open_paddock(self.settings, self.actor, self._ask) as opened:
                if not ready.cancelled():
                    ready.set_result(opened)
                    await stop.wait()
        except Exception as error:  # noqa: BLE001 - the caller of `open` gets it, or the log
            if ready.done():
                _log.error("the session of %s did not end in order: %s", self.actor, error)
            else:
                ready.set_exception(error)

    async def _ask(self, question: Question) -> Answer:
        return await ask_and_wait(self.questions, question)

    def _require_approval_right(self) -> None:
        if not self.may_approve:
            raise NotPermitted(
                "this token may not answer questions; the owner of the server can make one that may: "
                "paddock serve token new NAME --approve"
            )
