"""Sessions of JavaScript programs: a V8 worker that lives across requests."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from paddock.javascript.engine import GuestEngine
from paddock.javascript.held_worker import HeldWorker
from paddock.javascript.job import GuestJob, Host, OnConsole
from paddock.model.limits import Grants
from paddock.model.outcome import RawResult, Status
from paddock.model.session import NEW, Result
from paddock.sessions.table import OpenSession, SessionTable, refuse


@dataclass(slots=True)
class GuestSession(OpenSession):
    """One open session of JavaScript programs."""

    executor: HeldWorker
    grants: Grants

    @property
    def language(self) -> str:
        return "javascript"


def find_grants(table: SessionTable, actor: str, handle: str) -> Grants | None:
    """Return what a session of JavaScript programs was opened with; None without one."""
    found = table.find_open(actor, handle)
    return found.grants if isinstance(found, GuestSession) else None


async def run_guest(
    table: SessionTable,
    engine: GuestEngine,
    actor: str,
    job: GuestJob,
    host: Host,
    on_console: OnConsole | None = None,
    stop: asyncio.Event | None = None,
) -> RawResult:
    """Run a program in its session, after what runs there already, or open a session for it.

    Setting `stop`, or cancelling the task, interrupts the program. Raises EngineError if no worker can start.
    """
    handle = job.work.session or NEW
    if handle == NEW:
        opened = await table.open(
            actor, partial(engine.hold, jit=job.grants.jit), partial(_make_session, job.grants)
        )
        if isinstance(opened, RawResult):
            return opened
        session = opened
    else:
        found = table.find_open(actor, handle)
        if found is None:
            return table.explain_absence(actor, handle)
        if not isinstance(found, GuestSession):
            return refuse("this session is one of programs in another language (run_program)")
        session = found
    async with session.lock:
        if session.executor.lost:
            await table.end(session, session.executor.loss)
        elif session.grants.jit and not job.grants.jit:
            await table.end(session, "policy grants less than it was opened with")
        if table.find_open(actor, session.id) is None:  # it ended, or had ended while this one waited
            return table.explain_absence(actor, session.id)
        if stop is not None and stop.is_set():
            return RawResult(status=Status.CANCELLED)

        async def execute(number: int, left_ms: int) -> tuple[RawResult, tuple[Result, ...]]:
            timeout_ms = min(job.limits.timeout_ms, left_ms)
            limited = replace(job, limits=job.limits.model_copy(update={"timeout_ms": timeout_ms}))
            return await engine.run_held(session.executor, number, limited, host, on_console, stop), ()

        return await table.execute(session, execute)


def _make_session(
    grants: Grants, handle: str, actor: str, ends_at: float, worker: HeldWorker
) -> GuestSession:
    return GuestSession(handle, actor, ends_at, worker, grants)
