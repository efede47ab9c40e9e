"""Sessions of programs in language runtimes: an interpreter that lives across requests."""

import asyncio
import errno
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice

from paddock.engines.programs.engine import RuntimeEngine
from paddock.engines.programs.task import ProgramTask, Sinks
from paddock.engines.programs.workdir import InputFileError, read_below, remove_below, walk_files
from paddock.engines.sessions.bundles import MAX_RESULTS
from paddock.engines.sessions.channel import split_frames
from paddock.engines.sessions.interpreter import Interpreter, Read
from paddock.engines.sessions.languages import DRIVERS, find_driver
from paddock.engines.sessions.table import OpenSession, SessionTable, refuse
from paddock.foundation.cancellation import run_shielded
from paddock.model.errors import PaddockError, RequestError
from paddock.model.network import NETWORKS
from paddock.model.outcome import RawResult
from paddock.model.program import ACCESSES, ProgramGrants
from paddock.model.request import RuntimeRun
from paddock.model.session import NEW, Result
from paddock.model.work_files import INPUT_BYTES
from paddock.policy.settings.schema import SessionSettings
from paddock.record.output.work_files import LeftFile


@dataclass(slots=True)
class ProgramSession(OpenSession):
    """One open session of programs in a language."""

    interpreter: Interpreter
    work: RuntimeRun
    """The program that opened it: language, access and network stay."""
    grants: ProgramGrants
    memory_bytes: int
    """The memory limit of its interpreter."""

    @property
    def language(self) -> str:
        return self.work.runtime

    @property
    def background(self) -> bool:
        return self.work.background

    @property
    def process(self) -> Interpreter:
        return self.interpreter

    def stop_background(self) -> AbstractAsyncContextManager[None]:
        return self.interpreter.stop_background()


class ProgramSessions(SessionTable):
    """The table of sessions, with what opens and uses those of programs in language runtimes."""

    def __init__(
        self, settings: SessionSettings, engine: Callable[[], RuntimeEngine], read: Read, mark: str = ""
    ) -> None:
        super().__init__(settings, mark)
        self._engine = engine
        self._read = read

    def find(self, actor: str, handle: str) -> ProgramSession | None:
        """Return an open session of an actor; None if there is none of that handle."""
        found = self.find_open(actor, handle)
        return found if isinstance(found, ProgramSession) else None

    def read_shown(self, data: bytes) -> tuple[Result, ...]:
        """Return the values that a program without a session showed, from the frames that it left."""
        shown = islice((frame["display"] for frame in split_frames(data) if "display" in frame), MAX_RESULTS)
        return tuple(map(self._read, shown))

    def check(self, actor: str, work: RuntimeRun) -> RawResult | None:
        """Return why a program cannot run in the session that it names; None if it can."""
        if work.session == NEW:
            if find_driver(work.runtime, work.kernel) is None:
                return refuse(f"{work.runtime} has no sessions; {', '.join(DRIVERS)} have them")
            return None
        found = self.find_open(actor, work.session or "")
        if found is None:
            return self.explain_absence(actor, work.session or "")
        if not isinstance(found, ProgramSession):
            return refuse("this session is one of JavaScript programs (execute_code)")
        return None

    async def run(
        self, actor: str, task: ProgramTask, sinks: Sinks, stop: asyncio.Event | None = None
    ) -> RawResult:
        """Run a program in its session, after what runs there already, or open one for it.

        Setting `stop`, or cancelling the task, interrupts the program. Raises EngineError if it cannot start.
        """
        output = task.work.output.model_copy(update={"combined": True})
        task = task._replace(work=task.work.replace(output=output))
        if why := self.check(actor, task.work):
            return why
        if session := self.find(actor, task.work.session or ""):
            return await self._run_in(session, task, sinks, stop)
        opened = await self._open_session(actor, task, sinks, stop)
        if isinstance(opened, RawResult):
            return opened
        known = False
        try:
            result = await self._run_in(opened, task, sinks, stop)
            known = result.session is not None
            return result
        finally:
            if not known:  # nobody has its handle
                await run_shielded(self.end(opened, "its first program did not run"))

    async def _run_in(
        self, session: ProgramSession, task: ProgramTask, sinks: Sinks, stop: asyncio.Event | None
    ) -> RawResult:
        now, opened = task.terms.grants, session.grants
        covers = (
            NETWORKS.index(now.network) >= NETWORKS.index(opened.network)
            and now.hosts == opened.hosts
            and ACCESSES.index(now.access) >= ACCESSES.index(opened.access)
            and now.background >= opened.background
            and now.directories == opened.directories
        )

        async def execute(number: int, left_ms: int) -> tuple[RawResult, tuple[Result, ...]]:
            limits = task.terms.limits
            limits = limits.model_copy(update={"timeout_ms": min(limits.timeout_ms, left_ms)})
            limited = task._replace(terms=task.terms.model_copy(update={"limits": limits}))
            try:
                return await session.interpreter.execute(limited, number, sinks, stop)
            finally:
                await run_shielded(session.interpreter.keep_changes(sinks.overlay))

        async with self.turn(session, covers=covers, stop=stop) as refused:
            if refused is not None:
                return refused
            if task.work.stdin is not None and not DRIVERS[session.work.runtime].takes_stdin:
                return refuse(f"an execution in a session of {session.work.runtime} has no standard input")
            if task.hosts is not None:
                task.hosts.begin()
            if session.used_at:
                if task.work.env:
                    return refuse("`env` is given when a session is opened; set variables in its program")
                try:
                    await asyncio.to_thread(session.interpreter.add_files, task)
                except InputFileError as problem:
                    return refuse(str(problem))
            return await self.execute(session, execute, counts=bool((task.work.code or "").strip()))

    async def _open_session(
        self, actor: str, task: ProgramTask, sinks: Sinks, stop: asyncio.Event | None
    ) -> ProgramSession | RawResult:
        driver = find_driver(task.work.runtime, task.work.kernel)
        assert driver is not None

        async def start() -> Interpreter | RawResult:
            return await Interpreter.start(
                self._engine(), task, driver, self._settings, self._read, stop=stop, overlay=sinks.overlay
            )

        def make(handle: str, owner: str, ends_at: float, interpreter: Interpreter) -> ProgramSession:
            terms = task.terms
            memory_bytes = terms.limits.memory_bytes
            return ProgramSession(handle, owner, ends_at, interpreter, task.work, terms.grants, memory_bytes)

        return await self.open(actor, start, make)

    def _require_session(self, actor: str, handle: str) -> ProgramSession:
        if (session := self.find(actor, handle)) is None:
            raise PaddockError(self.explain_end(actor, handle))
        return session

    def read_file_now(self, actor: str, handle: str, path: str, max_bytes: int = INPUT_BYTES) -> bytes:
        """Return the content of a file of a session, also while a program runs in it.

        Raises OSError, RequestError for a wrong path, a link and a larger file, PaddockError.
        """
        folder = self._require_session(actor, handle).interpreter.workdir
        with _refuse_wrong_path(path):
            return read_below(folder, path, max_bytes)

    def list_files_now(self, actor: str, handle: str, max_files: int) -> list[tuple[str, int]]:
        """Return paths and sizes of the first files of a session, also while a program runs in it.

        Raises PaddockError.
        """
        folder = self._require_session(actor, handle).interpreter.workdir
        return [(file.path, file.facts.st_size) for file in islice(walk_files(folder), max_files)]

    async def read_file(self, actor: str, handle: str, path: str) -> bytes:
        """Return the content of a file of a session, once nothing runs in it. Raises as `read_file_now`."""
        session = self._require_session(actor, handle)
        async with session.lock, session.stop_background():
            return await asyncio.to_thread(self.read_file_now, actor, handle, path)

    async def remove_file(self, actor: str, handle: str, path: str) -> None:
        """Remove a file of a session, once nothing runs in it. Raises as `read_file_now`."""
        session = self._require_session(actor, handle)
        async with session.lock, session.stop_background():
            folder = self._require_session(actor, handle).interpreter.workdir
            with _refuse_wrong_path(path):
                await asyncio.to_thread(remove_below, folder, path)

    async def read_files(
        self, actor: str, handle: str, read: Callable[[Iterator[LeftFile], Mapping[str, str]], None]
    ) -> None:
        """Have `read` read all files of a session, in a thread, once nothing runs in it. Raises PaddockError."""
        session = self._require_session(actor, handle)
        async with session.lock, session.stop_background():
            folder = self._require_session(actor, handle).interpreter.workdir
            await asyncio.to_thread(read, walk_files(folder), {})


@contextmanager
def _refuse_wrong_path(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise RequestError(f"{path} is a link, or leads through one; links are not followed") from None
    except ValueError as error:
        raise RequestError(str(error)) from None
