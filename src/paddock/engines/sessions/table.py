"""The table of all open sessions: who owns them, how many there are, and when they end.

A session ends when it was not used for a time, when it is old, when policy grants less than it has, when there are too
many, when its process is lost, or with Paddock. Its handle then stays known for a while, to say why.
"""

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from paddock.foundation.cancellation import run_shielded
from paddock.model.outcome import ErrorInfo, RawResult, Status
from paddock.model.session import Result, SessionEnd, SessionInfo, has_other_mark, make_handle
from paddock.policy.settings.schema import SessionSettings

_MAX_REMEMBERED = 1000
"""Maximum number of ended sessions whose reason is remembered."""
_UNKNOWN = "there is no such session, or it belongs to another caller"
_REPLICA_ENDED = "the replica of the server that had it has ended"
_PROCESS_ENDED = "the process of Paddock that had it has ended"
_PROCESS_MARK = secrets.token_hex(8)
"""In the handles of a Paddock without a cluster: a later process tells those of an earlier one from unknown ones."""
_ANEW = 'open another one with the session "new"'
_KEEP_PROCESS = (
    "This client seems to start a process for each call, as LangChain's get_tools(), LlamaIndex and AutoGen do over "
    "stdio. Keep one open for all calls (client.session(...), create_mcp_server_session(...)), or connect over HTTP"
)


class SessionProcess(Protocol):
    """What executes the programs of a session, and is stopped between them."""

    @property
    def resident_bytes(self) -> int:
        """Its memory after the last execution."""
        ...

    @property
    def lost(self) -> bool:
        """Whether it has ended."""
        ...

    @property
    def loss(self) -> str:
        """Why it has ended, if it has."""
        ...

    def interrupt(self) -> None:
        """Interrupt the program that it executes now. Does nothing without one."""
        ...

    async def close(self) -> None:
        """End it. Does nothing the second time."""
        ...


@dataclass(slots=True)
class OpenSession(ABC):
    """One open session."""

    id: str
    actor: str
    ends_at: float
    """When it ends at the latest, on the monotonic clock."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, kw_only=True)
    number: int = field(default=0, kw_only=True)
    """Number of executions so far."""
    used_at: float = field(default=0.0, kw_only=True)
    expiry: asyncio.TimerHandle | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def process(self) -> SessionProcess:
        """What executes its programs."""

    @property
    @abstractmethod
    def language(self) -> str:
        """The language of its programs."""

    @property
    def background(self) -> bool:
        """Whether it runs between two programs, too."""
        return False

    def stop_background(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which nothing of it runs, except the program of a turn."""
        return nullcontext()

    @property
    def idle(self) -> bool:
        """Whether nothing runs in it and nobody waits for it."""
        return not self.lock.locked()


S = TypeVar("S", bound=OpenSession)
P = TypeVar("P", bound=SessionProcess)


class SessionTable:
    """Opens, finds and closes sessions of all kinds. `close` it."""

    def __init__(self, settings: SessionSettings, mark: str = "") -> None:
        """`mark` names this replica in the handles of a cluster."""
        self._settings = settings
        self._mark = mark or _PROCESS_MARK
        self._others_ended = _REPLICA_ENDED if mark else _PROCESS_ENDED
        self._open: dict[str, OpenSession] = {}
        self._opening: dict[str, int] = {}
        self._ended: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """Owner and reason by handle."""
        self._closing: set[asyncio.Task[None]] = set()

    def find_open(self, actor: str, handle: str) -> OpenSession | None:
        """Return an open session of an actor, of any kind; None if there is none of that handle."""
        found = self._open.get(handle)
        return found if found is not None and found.actor == actor else None

    def list_open(self, actor: str) -> list[OpenSession]:
        """Return the open sessions of an actor, the oldest first."""
        return [session for session in self._open.values() if session.actor == actor]

    def list_all(self) -> list[OpenSession]:
        """Return the open sessions of all actors, the oldest first."""
        return [session for session in self._open.values() if not session.process.lost]

    async def open(
        self,
        actor: str,
        start: Callable[[], Awaitable[P | RawResult]],
        make: Callable[[str, str, float, P], S],
    ) -> S | RawResult:
        """Start a process and return its session, which `make` makes; or return why there can be none."""
        if why := await self._make_room(actor):
            return why
        self._opening[actor] = self._opening.get(actor, 0) + 1
        try:
            process = await start()
        finally:
            self._opening[actor] -= 1
        if isinstance(process, RawResult):
            return process
        ends_at = time.monotonic() + self._settings.max_ms / 1000
        session = make(make_handle(self._mark), actor, ends_at, process)
        self._open[session.id] = session
        return session

    @asynccontextmanager
    async def turn(
        self, session: OpenSession, *, covers: bool, stop: asyncio.Event | None
    ) -> AsyncGenerator[RawResult | None]:
        """Lock a session for one execution: wait until nothing runs in it, and keep other programs out meanwhile.

        Enters with the result of a program that does not run: the session is lost, policy no longer `covers` what it
        was opened with, or `stop` was set; with None for any other.
        """
        async with session.lock, session.stop_background():
            if session.process.lost:
                await self.end(session, session.process.loss)
            elif not covers:
                await self.end(session, "policy grants less than it was opened with")
            if session.id not in self._open:  # it may have ended while this program waited
                yield self.explain_absence(session.actor, session.id)
            else:
                yield RawResult(status=Status.CANCELLED) if stop is not None and stop.is_set() else None

    async def execute(
        self,
        session: OpenSession,
        run: Callable[[int, int], Awaitable[tuple[RawResult, tuple[Result, ...]]]],
        *,
        counts: bool = True,
    ) -> RawResult:
        """Execute a program in a session, in its turn.

        `run` gets the number of the execution and the time that the session has left, in milliseconds. An execution
        that does not count leaves its number to the next one.
        """
        number = session.number + 1
        session.number += counts
        left_ms = max(1, round((session.ends_at - time.monotonic()) * 1000))
        try:
            result, results = await run(number, left_ms)
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
        await self.end(idle, f"it was the one not used for longest when another one was opened ({setting})")
        return None

    async def _note_use(self, session: OpenSession) -> None:
        """Let a session expire from now on; end it if its interpreter is lost, or memory is short."""
        session.used_at = time.monotonic()
        if session.process.lost:
            await self.end(session, session.process.loss)
            return
        await self._free_memory()
        if session.id in self._open:
            self._schedule_expiry(session)

    def _schedule_expiry(self, session: OpenSession) -> None:
        if session.expiry is not None:
            session.expiry.cancel()
        loop = asyncio.get_running_loop()
        session.expiry = loop.call_later(self._compute_idle_s(session), partial(self._expire, session))

    def _compute_idle_s(self, session: OpenSession) -> float:
        left = session.ends_at - time.monotonic()
        return max(0.0, min(self._settings.idle_ms / 1000, left))

    def _expire(self, session: OpenSession) -> None:
        task = asyncio.ensure_future(self._end_unused(session, session.expiry))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _end_unused(self, session: OpenSession, expiry: asyncio.TimerHandle | None) -> None:
        """End a session whose expiry has come, after what uses it now; but not if a program has renewed the expiry."""
        async with session.lock:
            if session.expiry is not expiry:
                return
            why = (
                f"it was not used for {self._settings.idle_ms} ms (sessions.idle_ms)"
                if time.monotonic() < session.ends_at
                else f"it was open for {self._settings.max_ms} ms (sessions.max_ms)"
            )
            await self.end(session, why)

    async def _free_memory(self) -> None:
        """Close idle sessions while all together have too much memory, first of the actor who has most."""
        setting = f"sessions.memory_bytes = {self._settings.memory_bytes}"
        while True:
            by_actor: dict[str, int] = {}
            for session in self._open.values():
                used = session.process.resident_bytes
                by_actor[session.actor] = by_actor.get(session.actor, 0) + used
            if sum(by_actor.values()) <= self._settings.memory_bytes:
                return
            most = max(by_actor, key=lambda actor: by_actor[actor])
            idle = min((s for s in self.list_open(most) if s.idle), key=lambda s: s.used_at, default=None)
            if idle is None:
                return
            await self.end(idle, f"all sessions together had too much memory ({setting})")

    def interrupt(self, actor: str, handle: str) -> None:
        """Interrupt the program that a session executes now. Does nothing without one."""
        if (session := self.find_open(actor, handle)) is not None:
            session.process.interrupt()

    def describe_open(self, actor: str) -> tuple[SessionInfo, ...]:
        """Return the open sessions of an actor as they show them."""
        return tuple(self.describe(each) for each in self.list_open(actor) if not each.process.lost)

    def describe(self, session: OpenSession) -> SessionInfo:
        """Return an open session as it is shown."""
        idle_s = time.monotonic() - session.used_at
        return SessionInfo(
            id=session.id,
            language=session.language,
            executions=session.number,
            running=not session.idle,
            background=session.background,
            memory_bytes=session.process.resident_bytes,
            expires_in_s=round(max(0.0, self._compute_idle_s(session) - idle_s), 3),
        )

    async def close_session(self, actor: str, handle: str) -> bool:
        """Close a session of an actor; return whether there was one."""
        session = self.find_open(actor, handle)
        if session is None:
            return False
        await self.end(session, "it was closed")
        return True

    async def end(self, session: OpenSession, why: str) -> None:
        """End a session; `why` is told to who uses it afterwards. Does nothing the second time."""
        if self._open.pop(session.id, None) is None:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        self._ended[session.id] = session.actor, why
        while len(self._ended) > _MAX_REMEMBERED:
            self._ended.popitem(last=False)
        await session.process.close()

    def explain_end(self, actor: str, handle: str) -> str:
        """Return why there is no session of a handle."""
        why = self.find_reason(actor, handle)
        return _UNKNOWN if why is None else f"the session is lost: {why}"

    def find_reason(self, actor: str, handle: str) -> str | None:
        """Return why a session has ended; None if this actor never had one of this handle here."""
        if has_other_mark(handle, self._mark):  # its replica, or an earlier process, had it
            return self._others_ended
        owner, why = self._ended.get(handle, ("", ""))
        return why if owner == actor else None

    def explain_absence(self, actor: str, handle: str) -> RawResult:
        """Return the result of a program whose session has ended, or never was."""
        why = self.find_reason(actor, handle)
        if why is None:
            error = ErrorInfo(name="Invalid", message=_UNKNOWN, hint=_ANEW, phase="decide")
            return RawResult(status=Status.INVALID, error=error)
        text = f"The session is lost: {why}. Nothing ran."
        hint = f"{_ANEW}. {_KEEP_PROCESS}" if why is _PROCESS_ENDED else _ANEW
        error = ErrorInfo(name="SessionLost", message=text, hint=hint, phase="decide")
        end = SessionEnd(id=handle, state="lost", reason=why)
        return RawResult(status=Status.LOST, error=error, session=end)

    async def close(self) -> None:
        """Close every session."""
        await asyncio.gather(*(self.end(session, "Paddock ended") for session in [*self._open.values()]))
        if self._closing:
            await asyncio.wait({*self._closing})


def refuse(why: str) -> RawResult:
    """Return the result of a request that makes no sense in its session."""
    return RawResult(status=Status.INVALID, error=ErrorInfo(name="Invalid", message=why, phase="decide"))
