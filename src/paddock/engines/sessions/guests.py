"""Sessions of JavaScript programs: a V8 worker that lives across requests."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from paddock.engines.javascript.engine import GuestEngine
from paddock.engines.javascript.held_worker import HeldWorker
from paddock.engines.javascript.task import GuestTask, Host
from paddock.engines.sessions.table import OpenSession, SessionTable, refuse
from paddock.foundation.cancellation import run_shielded
from paddock.model.limits import Grants
from paddock.model.outcome import OnConsole, RawResult
from paddock.model.session import NEW, Result


@dataclass(slots=True)
class GuestSession(OpenSession):
    """One open session of JavaScript programs."""

    worker: HeldWorker
    grants: Grants

    @property
    def process(self) -> HeldWorker:
        return self.worker

    @property
    def language(self) -> str:
        return "javascript"


def find_grants(table: SessionTable, actor: str, handle: str) -> Grants | None:
    """Return what a session of JavaScript programs was opened with; None without one."""
    found = table.find_open(actor, handle)
    return found.grants if isinstance(found, GuestSession) else None


def check_session(table: SessionTable, actor: str, handle: str) -> RawResult | None:
    """Return why a program cannot run in the session of a handle; None if it can."""
    found = None if handle == NEW else table.find_open(actor, handle)
    if found is None:
        return None if handle == NEW else table.explain_absence(actor, handle)
    if not isinstance(found, GuestSession):
        return refuse("this session is one of programs in another language (run_program)")
    return None


async def run_guest(
    table: SessionTable,
    engine: GuestEngine,
    task: GuestTask,
    *,
    host: Host,
    on_console: OnConsole | None = None,
    stop: asyncio.Event | None = None,
) -> RawResult:
    """Run a program in its session, after what runs there already, or open a session for it.

    Setting `stop`, or cancelling the task, interrupts the program. Raises EngineError if no worker can start.
    """
    actor, grants = task.actor, task.grants

    async def run(session: GuestSession) -> RawResult:
        async def execute(number: int, left_ms: int) -> tuple[RawResult, tuple[Result, ...]]:
            timeout_ms = min(task.limits.timeout_ms, left_ms)
            limited = replace(task, limits=task.limits.model_copy(update={"timeout_ms": timeout_ms}))
            result = await engine.run_held(
                session.worker, number, limited, host=host, on_console=on_console, stop=stop
            )
            return result, ()

        covers = grants.jit or not session.grants.jit
        async with table.turn(session, covers=covers, stop=stop) as refused:
            return refused if refused is not None else await table.execute(session, execute)

    def make(handle: str, actor: str, ends_at: float, worker: HeldWorker) -> GuestSession:
        return GuestSession(handle, actor, ends_at, worker, grants)

    handle = task.work.session or NEW
    if handle == NEW:
        opened = await table.open(actor, partial(engine.hold, jit=grants.jit), make)
        if isinstance(opened, RawResult):
            return opened
        try:
            return await run(opened)
        except BaseException:  # also after a cancellation: nobody learns its handle
            await run_shielded(table.end(opened, "the program that opened it was not answered"))
            raise
    if why := check_session(table, actor, handle):
        return why
    found = table.find_open(actor, handle)
    assert isinstance(found, GuestSession)
    return await run(found)
