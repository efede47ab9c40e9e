"""The executions of a server: those that run, and those that have ended, kept for a bounded time.

An execution is a separate task. A request that waits for it may break off; without an `Idempotency-Key` this cancels
the execution, because nobody could learn its outcome. With a key it goes on, and the same request again gets the
outcome. Its questions go to another user of the server or to `paddock approve`: they are kept in `gate/questions.py`.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock.foundation.cancellation import Stop, cancel_all, unless_stopped
from paddock.gate.approvals import ClientAsker
from paddock.gate.questions import Questions
from paddock.model.approval import Answer, Question
from paddock.model.errors import AlreadyClaimed, ApprovalError, LedgerError, PaddockError
from paddock.model.ids import mint_id
from paddock.model.limits import MIB
from paddock.model.outcome import Outcome, Status, write_outcome
from paddock.model.path_privacy import hide_paths
from paddock.model.request import KEY_REUSED as KEY_REUSED_ERROR
from paddock.model.request import UNKEPT_OUTCOME
from paddock.surfaces.client.attached import AttachedPaddock
from paddock.surfaces.client.requests import LibraryCaller
from paddock.surfaces.http_api.events import Listener, Publisher
from paddock.surfaces.http_api.idempotency import (
    KeyedRequest,
    check_unclaimed,
    current_time,
    derive_id,
    explain_lost,
)
from paddock.surfaces.http_server.problems import (
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    KEY_REUSED,
    NOT_FOUND,
    RECORD_FAILED,
    SERVER_BUSY,
    SERVER_ENDING,
    UNAUTHORIZED,
    UNAVAILABLE,
    Problem,
)
from paddock.surfaces.mcp_server.requests import SERVER_ENDING as ENDING_TEXT
from paddock.surfaces.mcp_server.requests import InFlightRequests
from paddock.surfaces.tenants import TenantBusy, UnknownToken
from paddock.surfaces.tenants.tenant import NO_PROGRAM, SlotNeeds

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.surfaces.tenants import Tenant

_log = logging.getLogger("paddock.http")

KEEP_S = 900.0
"""Time for which the outcome of an ended execution is kept, in seconds."""
MAX_ENDED_EXECUTIONS = 256
"""Maximum number of ended executions of one caller that are kept."""
MAX_OUTCOME_BYTES = 64 * MIB
"""Maximum size of the kept outcomes of one caller, in bytes. Those of all callers may have four times as much."""
MAX_HELD_BYTES = 512 * MIB
"""Maximum size of the bodies of all executions that wait or run, in bytes."""
STOP_S = 10.0
"""Time in which a cancelled execution may end in order, in seconds, before its task is cancelled."""
_ALL_CALLERS = 4

Send = Callable[[AttachedPaddock, "RunningExecution"], Awaitable[Outcome]]
"""Sends the request of an execution, by methods of the library."""


class RunningExecution:
    """One execution."""

    def __init__(
        self,
        id_: str,
        actor: str,
        keyed: KeyedRequest | None,
        held_bytes: int = 0,
        needs: SlotNeeds = NO_PROGRAM,
    ) -> None:
        self.needs = needs
        self.id = id_
        self.held_bytes = held_bytes
        """Size of its body, which is in memory until it ends."""
        self.actor = actor
        self.keyed = keyed
        self.created_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.ended_at = 0.0
        """When it ended, on the monotonic clock."""
        self.stop = Stop()
        self.done = asyncio.Event()
        self.publisher = Publisher()
        self.question: Question | None = None
        self.outcome: bytes | None = None
        """The outcome as JSON."""
        self.problem: Problem | None = None
        self.status: Status | None = None
        """The status of the outcome."""
        self.task: asyncio.Task[None] | None = None
        self.replayed = False
        """Whether the outcome is that of an earlier request with its key, which another replica may have run."""

    @property
    def size(self) -> int:
        """Bytes that are kept of it."""
        return len(self.outcome or b"") + 512

    def cancel(self) -> None:
        """Cancel it, in order if possible. Does nothing once it has ended."""
        if self.task is None or self.stop.is_set() or self.done.is_set():
            return
        self.stop.set()
        timer = asyncio.get_running_loop().call_later(STOP_S, self.task.cancel)
        self.task.add_done_callback(lambda _: timer.cancel())

    def send_end(self, target: Publisher | Listener) -> None:
        """Send its last event."""
        if self.problem is not None:
            target.end("problem", self.problem.render())
        else:
            target.end("outcome", self.outcome or b"null")

    def replay(self) -> bytes:
        """Return the outcome as JSON. Raises its Problem without one."""
        if self.problem is not None:
            raise self.problem
        assert self.outcome is not None
        return self.outcome


class Executions:
    """All executions of a server."""

    def __init__(self, workspace: "Path", requests: InFlightRequests, *, shared: bool = False) -> None:
        """`shared`: keys are claimed in the database of a cluster, instead of the ledger of this machine."""
        self._workspace = workspace
        self._shared = shared
        self._requests = requests
        self._running: dict[str, RunningExecution] = {}
        self._kept: OrderedDict[str, RunningExecution] = OrderedDict()
        """Ended ones, the oldest first."""
        self._by_key: dict[tuple[str, str], RunningExecution] = {}

    def start(
        self,
        tenant: "Tenant",
        send: Send,
        keyed: KeyedRequest | None,
        *,
        size: int = 0,
        needs: SlotNeeds = NO_PROGRAM,
    ) -> tuple[RunningExecution, bool]:
        """Start an execution, or find the one that the same key has started; return it and whether it is an old one.

        `size` is that of its body, in bytes. Raises Problem: the server is ending, the key belongs to another request,
        or too many bodies are in memory.
        """
        if keyed is not None and (known := self._find_by_key(keyed)) is not None:
            return known, True
        if self._requests.ending:
            raise Problem(SERVER_ENDING, f"{ENDING_TEXT} Send it again to another server, or later.")
        if size + sum(each.held_bytes for each in self._running.values()) > MAX_HELD_BYTES:
            raise Problem(SERVER_BUSY, "Too many large requests wait or run just now. Send it again later.")
        id_ = mint_id() if keyed is None or self._shared else derive_id(keyed, current_time())
        execution = RunningExecution(id_, tenant.actor, keyed, size, needs)
        if keyed is not None:
            self._by_key[keyed.actor, keyed.key] = execution
        self._running[id_] = execution
        execution.task = asyncio.create_task(self._carry_out(execution, tenant, send))
        return execution, False

    def _find_by_key(self, keyed: KeyedRequest) -> RunningExecution | None:
        self._forget_old()
        known = self._by_key.get((keyed.actor, keyed.key))
        if known is not None and known.keyed is not None and known.keyed.digest != keyed.digest:
            raise Problem(
                KEY_REUSED,
                f"The execution {known.id} has this Idempotency-Key and was requested with other contents. "
                "Send a new key with each new request.",
                execution=known.id,
            )
        return known

    def has(self, actor: str, id_: str) -> bool:
        """Return whether an execution of a caller runs here, or its outcome is kept."""
        found = self._running.get(id_) or self._kept.get(id_)
        return found is not None and found.actor == actor

    def find(self, actor: str, id_: str) -> RunningExecution:
        """Return an execution of a caller. Raises Problem."""
        self._forget_old()
        found = self._running.get(id_) or self._kept.get(id_)
        if found is None or found.actor != actor:
            raise Problem(
                NOT_FOUND,
                f"There is no execution {id_[:64]!r} of this caller, or it ended more than {KEEP_S:.0f} s ago"
                f"{', or with the replica that ran it' if self._shared else ''}. "
                "The audit record knows it longer.",
            )
        return found

    def list_own(self, actor: str) -> list[RunningExecution]:
        """Return the executions of a caller that run or are kept, the oldest first."""
        self._forget_old()
        known = [*self._kept.values(), *self._running.values()]
        return sorted((each for each in known if each.actor == actor), key=lambda each: each.created_at)

    async def _carry_out(self, execution: RunningExecution, tenant: "Tenant", send: Send) -> None:
        with self._requests.in_flight(execution.id):
            try:
                outcome = await self._send(execution, tenant, send)
                _check_key(outcome, execution)
                execution.replayed = outcome.id != execution.id
                execution.outcome = write_outcome(outcome).encode("utf-8", "replace")
                execution.status = outcome.status
            except asyncio.CancelledError:
                execution.problem = Problem(
                    CANCELLED,
                    f"The execution {execution.id} was cancelled, and did not end in time to have an outcome.",
                    execution=execution.id,
                )
            except Exception as error:  # noqa: BLE001 - whoever waits gets the answer
                execution.problem = _explain_failure(execution, tenant, error, self._workspace)
            finally:
                self._end(execution)

    async def _send(self, execution: RunningExecution, tenant: "Tenant", send: Send) -> Outcome:
        async with AsyncExitStack() as admitted:
            entering = admitted.enter_async_context(
                tenant.admit(asker=_Asking(execution, tenant.questions).ask, needs=execution.needs)
            )
            admission = await unless_stopped(entering, execution.stop)
            if admission is None:
                text = (
                    f"The execution {execution.id} was cancelled while it waited for a slot. Nothing started."
                )
                raise Problem(CANCELLED, text, execution=execution.id)
            if execution.keyed is not None and not self._shared:
                sink, now = tenant.opened.gate.audit, current_time()
                await asyncio.to_thread(check_unclaimed, sink, execution.keyed, now)
            asker = ClientAsker(tenant.actor, admission.ask)
            key = execution.keyed.to_request_key() if execution.keyed and self._shared else None
            caller = LibraryCaller(
                tenant.actor, "http", asker, execution.id, execution.stop, key, admission.slot
            )
            paddock = AttachedPaddock(tenant.opened, tenant.settings, self._workspace, caller)
            return await send(paddock, execution)

    def _end(self, execution: RunningExecution) -> None:
        execution.ended_at = time.monotonic()
        self._running.pop(execution.id, None)
        self._kept.pop(execution.id, None)  # an earlier attempt with the same key; the newest one is the last
        self._kept[execution.id] = execution
        if not _is_final(execution):
            self._forget_key(execution)
        self._forget_old(execution.actor)
        execution.done.set()
        execution.send_end(execution.publisher)

    def _forget_old(self, actor: str | None = None) -> None:
        """Forget ended executions that are old, and those of an actor beyond its limits."""
        oldest = time.monotonic() - KEEP_S
        while self._kept and next(iter(self._kept.values())).ended_at < oldest:
            self._forget(next(iter(self._kept.values())))
        if actor is None:
            return
        own = [each for each in self._kept.values() if each.actor == actor]
        size, everybody = sum(each.size for each in own), sum(each.size for each in self._kept.values())
        for position, each in enumerate(own[:-1]):
            most = len(own) - position > MAX_ENDED_EXECUTIONS or size > MAX_OUTCOME_BYTES
            if not most and everybody <= _ALL_CALLERS * MAX_OUTCOME_BYTES:
                return
            self._forget(each)
            size, everybody = size - each.size, everybody - each.size

    def _forget(self, execution: RunningExecution) -> None:
        self._kept.pop(execution.id, None)
        self._forget_key(execution)

    def _forget_key(self, execution: RunningExecution) -> None:
        keyed = execution.keyed
        if keyed is not None and self._by_key.get((keyed.actor, keyed.key)) is execution:
            del self._by_key[keyed.actor, keyed.key]

    async def wait(
        self, execution: RunningExecution, await_disconnect: Callable[[], Awaitable[None]]
    ) -> bytes:
        """Return the outcome as JSON when it is there. Raises Problem.

        A client that disconnects before cancels an execution without a key.
        """
        async with self.watch(execution, await_disconnect):
            await execution.done.wait()
        return execution.replay()

    @asynccontextmanager
    async def watch(
        self, execution: RunningExecution, await_disconnect: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[None]:
        """Cancel an execution without a key if its client disconnects during the context, or leaves it early."""

        async def cancel_on_disconnect() -> None:
            await await_disconnect()
            if execution.keyed is None:
                execution.cancel()

        watching = asyncio.create_task(cancel_on_disconnect())
        try:
            yield
        finally:
            if execution.keyed is None and not execution.done.is_set():
                execution.cancel()
            await cancel_all([watching])

    def cancel_running(self) -> None:
        """Cancel all that run."""
        for execution in [*self._running.values()]:
            execution.cancel()

    async def close(self) -> None:
        """End all that run at once."""
        await cancel_all([each.task for each in [*self._running.values()] if each.task is not None])


class _Asking:
    """Asks the questions of one execution: they wait for another user or for `paddock approve`."""

    def __init__(self, execution: RunningExecution, questions: Questions) -> None:
        self._execution = execution
        self._questions = questions

    async def ask(self, question: Question) -> Answer:
        """Keep a question until it is answered."""
        try:
            async with self._questions.keep_question(question):
                self._execution.question = question  # from now on, others can answer it
                self._execution.publisher.put("question", question.model_dump(mode="json"))
                return await self._questions.wait_for_answer(question)
        except (ApprovalError, OSError) as error:  # its text is for the operator
            _log.warning("no person can be asked: %s", error)
            told = "asking failed: questions cannot be kept; see the log of the server"
            return Answer(verdict="unasked", by="paddock", told=told)
        finally:
            self._execution.question = None


def _check_key(outcome: Outcome, execution: RunningExecution) -> None:
    """Raise Problem if a request with the same key on another replica leaves this one without an outcome.

    A program that ran names its errors as it likes, but not their phase.
    """
    if outcome.error is None or outcome.error.phase != "decide" or execution.keyed is None:
        return
    if outcome.error.name == KEY_REUSED_ERROR:
        raise Problem(KEY_REUSED, f"{outcome.error.message} Send a new key with each new request.")
    if outcome.error.name == UNKEPT_OUTCOME:
        raise explain_lost(outcome.id, outcome.status.value)


def _is_final(execution: RunningExecution) -> bool:
    """Return whether the same request again must not run: something may have started, or policy has decided."""
    if execution.problem is not None:
        return execution.problem.kind in {CANCELLED, INTERNAL_ERROR, RECORD_FAILED}
    return execution.status is not Status.UNAVAILABLE


def _explain_failure(
    execution: RunningExecution, tenant: "Tenant", error: Exception, workspace: "Path"
) -> Problem:
    if isinstance(error, Problem):
        return error
    if tenant.revoked.is_set():
        return Problem(UNAUTHORIZED, str(UnknownToken()))
    if isinstance(error, TenantBusy):
        return Problem(UNAVAILABLE, str(error))
    if isinstance(error, AlreadyClaimed):  # by another process with the same ledger
        return explain_lost(execution.id, None)
    if isinstance(error, LedgerError):
        # The record could not be written: before the start, or after it.
        why = hide_paths(str(error), workspace)
        if execution.keyed is None:
            return Problem(RECORD_FAILED, f"{why} Whether it ran is not known.", execution=execution.id)
        remedy = "Send it again with the same Idempotency-Key: it starts at most once."
        return Problem(UNAVAILABLE, f"{why} {remedy}", execution=execution.id)
    if isinstance(error, PaddockError):
        return Problem(INVALID_REQUEST, hide_paths(str(error), workspace))
    _log.error("an execution failed", exc_info=error)
    return explain_fault(error)


def explain_fault(error: Exception) -> Problem:
    """Return the problem for a fault of Paddock, without its text, which may have a path or a secret."""
    return Problem(
        INTERNAL_ERROR, f"Paddock failed ({type(error).__name__}). The log of the server has the details."
    )
