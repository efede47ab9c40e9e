"""The open sessions of one Paddock: who owns them, how many there are, and when they end.

A session ends when it was not used for a time, when it is old, when policy grants less than it has, when there are too
many, when its interpreter is lost, or with Paddock. Its handle then stays known for a while, to say why.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from paddock.cancellation import run_shielded
from paddock.model.errors import PaddockError
from paddock.model.outcome import ErrorInfo, RawResult, Status
from paddock.model.program import ACCESSES, NETWORKS, ProgramGrants
from paddock.model.request import RuntimeRun
from paddock.model.session import NEW, SessionEnd, SessionInfo
from paddock.model.work_files import INPUT_BYTES, normalize_path
from paddock.output.work_files import LeftFile
from paddock.runtimes.engine import RuntimeEngine
from paddock.runtimes.task import ProgramTask, Sinks
from paddock.runtimes.workdir import InputFileError, read_below, remove_below, walk_files
from paddock.sessions.interpreter import Interpreter, Read
from paddock.sessions.languages import DRIVERS
from paddock.settings.schema import SessionSettings

_MAX_REMEMBERED = 1000
"""Maximum number of ended sessions whose reason is remembered."""
_UNKNOWN = "there is no such session, or it belongs to somebody else"
_ANEW = 'open another one with the session "new"'


@dataclass(slots=True)
class ProgramSession:
    """One open session."""

    id: str
    actor: str
    work: RuntimeRun
    """The program that opened it: language, access and network stay."""
    grants: ProgramGrants
    ends_at: float
    """When it ends at the latest, on the monotonic clock."""
    interpreter: Interpreter
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    number: int = 0
    """Number of executions so far."""
    used_at: float = 0.0
    expiry: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing runs in it and nobody waits for it."""
        return not self.lock.locked()


class ProgramSessions:
    """Opens, finds and closes sessions. `close` it."""

    def __init__(self, settings: SessionSettings, engine: Callable[[], RuntimeEngine], read: Read) -> None:
        self._settings = settings
        self._engine = engine
        self._read = read
        self._open: dict[str, ProgramSession] = {}
        self._opening: dict[str, int] = {}
        self._ended: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """Owner and reason by handle."""
        self._closing: set[asyncio.Task[None]] = set()

    def find(self, actor: str, handle: str) -> ProgramSession | None:
        """Return an open session of an actor; None if there is none of that handle."""
        found = self._open.get(handle)
        return found if found is not None and found.actor == actor else None

    def list_open(self, actor: str) -> list[ProgramSession]:
        """Return the open sessions of an actor, the oldest first."""
        return [session for session in self._open.values() if session.actor == actor]

    async def run(
        self, actor: str, job: ProgramTask, sinks: Sinks, stop: asyncio.Event | None = None
    ) -> RawResult:
        """Run a program in its session, after what runs there already, or open one for it.

        Setting `stop`, or cancelling the task, interrupts the program. Raises EngineError if it cannot start.
        """
        output = job.work.output.model_copy(update={"combined": True})
        job = job._replace(work=job.work.replace(output=output))
        if job.work.session != NEW:
            session = self.find(actor, job.work.session or "")
            if session is None:
                return self._explain_absence(actor, job.work.session or "")
        else:
            opened = await self._open_session(actor, job)
            if isinstance(opened, RawResult):
                return opened
            session = opened
        async with session.lock:
            if session.id not in self._open:  # it ended while this one waited
                return self._explain_absence(actor, session.id)
            return await self._run_in(session, job, sinks, stop)

    async def _run_in(
        self, session: ProgramSession, job: ProgramTask, sinks: Sinks, stop: asyncio.Event | None
    ) -> RawResult:
        if stop is not None and stop.is_set():
            return RawResult(status=Status.CANCELLED)
        if not _covers(job.terms.grants, session.grants):
            await self._end(session, "policy grants less than it was opened with")
            return self._explain_absence(session.actor, session.id)
        if job.work.stdin is not None and not DRIVERS[session.work.runtime].takes_stdin:
            return _refuse(f"an execution in a session of {session.work.runtime} has no standard input")
        if session.used_at:
            if job.work.env:
                return _refuse("`env` is given when a session is opened; set variables in its program")
            try:
                await asyncio.to_thread(session.interpreter.add_files, job)
            except InputFileError as problem:
                return _refuse(str(problem))
        number = session.number + 1
        session.number += bool((job.work.code or "").strip())
        limits = job.terms.limits
        left_ms = max(1, round((session.ends_at - time.monotonic()) * 1000))
        limits = limits.model_copy(update={"timeout_ms": min(limits.timeout_ms, left_ms)})
        job = job._replace(terms=job.terms.model_copy(update={"limits": limits}))
        try:
            result, results = await session.interpreter.execute(job, number, sinks, stop)
        finally:
            await run_shielded(self._note_use(session))
        lost = session.id not in self._open
        end = SessionEnd(
            id=session.id,
            state="lost" if lost else "kept",
            reason=self._ended[session.id][1] if lost else "",
            number=number,
            expires_in_s=0.0 if lost else round(self._compute_idle_s(session), 3),
        )
        return result.replace(session=end, results=results)

    async def _open_session(self, actor: str, job: ProgramTask) -> "ProgramSession | RawResult":
        language, settings = job.work.runtime, self._settings
        if language not in DRIVERS:
            return _refuse(f"{language} has no sessions; {', '.join(DRIVERS)} have them")
        if why := await self._make_room(actor):
            return why
        self._opening[actor] = self._opening.get(actor, 0) + 1
        try:
            interpreter = await Interpreter.start(
                self._engine(), job, DRIVERS[language], settings, self._read
            )
        finally:
            self._opening[actor] -= 1
        if isinstance(interpreter, RawResult):
            return interpreter
        session = ProgramSession(
            id=f"s_{secrets.token_hex(16)}",
            actor=actor,
            work=job.work,
            grants=job.terms.grants,
            ends_at=time.monotonic() + settings.max_ms / 1000,
            interpreter=interpreter,
        )
        self._open[session.id] = session
        return session

    async def _make_room(self, actor: str) -> RawResult | None:
        """Close the session that the actor has not used for longest, if there are too many; or refuse another one."""
        settings = self._settings
        own = self.list_open(actor)
        opening = self._opening.get(actor, 0)
        everybody = len(self._open) + sum(self._opening.values())
        if len(own) + opening < settings.max_per_actor and everybody < settings.max:
            return None
        limit = "max" if everybody >= settings.max else "max_per_actor"
        setting = f"sessions.{limit} = {getattr(settings, limit)}"
        idle = min((s for s in own if s.idle), key=lambda s: s.used_at, default=None)
        if idle is None:
            text = f"no session can be opened: all that may be open are in use ({setting})"
            hint = "close one, or wait until one expires"
            error = ErrorInfo(name="Busy", message=text, hint=hint, phase="decide")
            return RawResult(status=Status.UNAVAILABLE, error=error)
        await self._end(idle, f"it was the one not used for longest when another one was opened ({setting})")
        return None

    async def _note_use(self, session: ProgramSession) -> None:
        """Let a session expire from now on; end it if its interpreter is lost, or memory is short."""
        session.used_at = time.monotonic()
        if session.interpreter.lost:
            await self._end(session, "its interpreter has ended, with all variables and files")
            return
        await self._free_memory()
        if session.id in self._open:
            self._schedule_expiry(session)

    def _schedule_expiry(self, session: ProgramSession) -> None:
        if session.expiry is not None:
            session.expiry.cancel()
        loop = asyncio.get_running_loop()
        session.expiry = loop.call_later(self._compute_idle_s(session), partial(self._expire, session))

    def _compute_idle_s(self, session: ProgramSession) -> float:
        left = session.ends_at - time.monotonic()
        return max(0.0, min(self._settings.idle_ms / 1000, left))

    def _expire(self, session: ProgramSession) -> None:
        if not session.idle:  # it is used just now, and expires afterwards
            return
        idle = time.monotonic() < session.ends_at
        why = (
            f"it was not used for {self._settings.idle_ms} ms (sessions.idle_ms)"
            if idle
            else f"it was open for {self._settings.max_ms} ms (sessions.max_ms)"
        )
        task = asyncio.ensure_future(self._end(session, why))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _free_memory(self) -> None:
        """Close idle sessions while all together have too much memory, first of the actor who has most."""
        setting = f"sessions.memory_bytes = {self._settings.memory_bytes}"
        while True:
            by_actor: dict[str, int] = {}
            for session in self._open.values():
                used = session.interpreter.resident_bytes
                by_actor[session.actor] = by_actor.get(session.actor, 0) + used
            if sum(by_actor.values()) <= self._settings.memory_bytes:
                return
            most = max(by_actor, key=lambda actor: by_actor[actor])
            idle = min((s for s in self.list_open(most) if s.idle), key=lambda s: s.used_at, default=None)
            if idle is None:
                return
            await self._end(idle, f"all sessions together had too much memory ({setting})")

    def interrupt(self, actor: str, handle: str) -> None:
        """Interrupt the program that a session executes now. Does nothing without one."""
        if (session := self.find(actor, handle)) is not None:
            session.interpreter.interrupt()

    def describe_open(self, actor: str) -> tuple[SessionInfo, ...]:
        """Return the open sessions of an actor as they show them."""
        now = time.monotonic()
        return tuple(
            SessionInfo(
                id=session.id,
                language=session.work.runtime,
                executions=session.number,
                running=not session.idle,
                memory_bytes=session.interpreter.resident_bytes,
                expires_in_s=round(max(0.0, self._compute_idle_s(session) - (now - session.used_at)), 3),
            )
            for session in self.list_open(actor)
        )

    def _require_session(self, actor: str, handle: str) -> ProgramSession:
        if (session := self.find(actor, handle)) is None:
            owner, why = self._ended.get(handle, ("", ""))
            raise PaddockError(f"the session is lost: {why}" if owner == actor else _UNKNOWN)
        return session

    def read_file_now(self, actor: str, handle: str, path: str) -> bytes:
        """Return the content of a file of a session. Raises OSError, ValueError, PaddockError."""
        folder = self._require_session(actor, handle).interpreter.workdir
        return read_below(folder, normalize_path(path), INPUT_BYTES)

    async def read_file(self, actor: str, handle: str, path: str) -> bytes:
        """Return the content of a file of a session, once nothing runs in it. Raises as `read_file_now`."""
        async with self._require_session(actor, handle).lock:
            return await asyncio.to_thread(self.read_file_now, actor, handle, path)

    async def remove_file(self, actor: str, handle: str, path: str) -> None:
        """Remove a file of a session, once nothing runs in it. Raises OSError, ValueError, PaddockError."""
        session = self._require_session(actor, handle)
        async with session.lock:
            folder = self._require_session(actor, handle).interpreter.workdir
            await asyncio.to_thread(remove_below, folder, normalize_path(path))

    async def read_files(
        self, actor: str, handle: str, read: Callable[[Iterator[LeftFile], Mapping[str, str]], None]
    ) -> None:
        """Have `read` read all files of a session, in a thread, once nothing runs in it. Raises PaddockError."""
        session = self._require_session(actor, handle)
        async with session.lock:
            folder = self._require_session(actor, handle).interpreter.workdir
            await asyncio.to_thread(read, walk_files(folder), {})

    async def close_session(self, actor: str, handle: str) -> bool:
        """Close a session of an actor; return whether there was one."""
        session = self.find(actor, handle)
        if session is None:
            return False
        await self._end(session, "it was closed")
        return True

    async def _end(self, session: ProgramSession, why: str) -> None:
        if self._open.pop(session.id, None) is None:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        self._ended[session.id] = session.actor, why
        while len(self._ended) > _MAX_REMEMBERED:
            self._ended.popitem(last=False)
        await session.interpreter.close()

    def _explain_absence(self, actor: str, handle: str) -> RawResult:
        """Return the result of a program whose session has ended, or never was."""
        owner, why = self._ended.get(handle, ("", ""))
        if owner != actor:
            error = ErrorInfo(name="Invalid", message=_UNKNOWN, hint=_ANEW, phase="decide")
            return RawResult(status=Status.INVALID, error=error)
        text = f"The session is lost: {why}. Nothing ran."
        error = ErrorInfo(name="SessionLost", message=text, hint=_ANEW, phase="decide")
        end = SessionEnd(id=handle, state="lost", reason=why)
        return RawResult(status=Status.LOST, error=error, session=end)

    async def close(self) -> None:
        """Close every session."""
        await asyncio.gather(*(self._end(session, "Paddock ended") for session in [*self._open.values()]))
        if self._closing:
            await asyncio.wait({*self._closing})


def _covers(now: ProgramGrants, opened: ProgramGrants) -> bool:
    """Return whether policy still grants what a session was opened with."""
    return ACCESSES.index(now.access) >= ACCESSES.index(opened.access) and NETWORKS.index(
        now.network
    ) >= NETWORKS.index(opened.network)


def _refuse(why: str) -> RawResult:
    return RawResult(status=Status.INVALID, error=ErrorInfo(name="Invalid", message=why, phase="decide"))
