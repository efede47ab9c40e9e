"""Sessions of the library: `async with p.session("python") as s:`, and their twin that blocks."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from paddock.model.base import Texts
from paddock.model.changes import ChangesSummary
from paddock.model.errors import ChangesNotFound, PaddockError
from paddock.model.outcome import Outcome
from paddock.model.session import NEW
from paddock.model.work_files import OutputFile
from paddock.surfaces.client.arguments import check_type, read_text

if TYPE_CHECKING:
    from paddock.gate.program_service import ProgramService
    from paddock.record.output.recording import OnOutput
    from paddock.surfaces.client.arguments import InputData
    from paddock.surfaces.client.paddock import Paddock

P = ParamSpec("P")
T = TypeVar("T")


class SessionOwner(Protocol):
    """The sessions of a Paddock, as one of them sees it: on this machine, or on a server."""

    @property
    def paddock(self) -> "Paddock":
        """What sends the requests."""
        ...

    async def find_language(self, handle: str) -> str:
        """Return the language of an open session. Raises PaddockError if there is none."""
        ...

    async def interrupt(self, handle: str) -> None:
        """Interrupt what a session executes now. Does nothing without a program or a session."""
        ...

    async def close(self, handle: str) -> None:
        """Close a session. Does nothing if there is none."""
        ...

    async def read_file(self, handle: str, path: str) -> bytes:
        """Return the content of a file. Raises OSError, ValueError for what is no regular file, PaddockError."""
        ...

    async def remove_file(self, handle: str, path: str) -> None:
        """Remove a file. Raises OSError, and PaddockError for a session that has ended."""
        ...

    async def list_files(self, handle: str) -> tuple[OutputFile, ...]:
        """Return all files with readers, by path. Raises PaddockError for a session that has ended."""
        ...


class LocalSessions:
    """The sessions of one caller in an open Paddock."""

    def __init__(self, programs: "Callable[[], ProgramService]", actor: str, paddock: "Paddock") -> None:
        """Use what runs the programs of `actor`, and the Paddock that sends them."""
        self._programs = programs
        self._actor = actor
        self.paddock = paddock

    async def find_language(self, handle: str) -> str:
        known = self._programs().find_session(self._actor, handle)
        if known is None:
            raise PaddockError(self._programs().sessions.explain_end(self._actor, handle))
        return known.work.runtime

    async def interrupt(self, handle: str) -> None:
        self._programs().sessions.interrupt(self._actor, handle)

    async def close(self, handle: str) -> None:
        await self._programs().sessions.close_session(self._actor, handle)

    async def read_file(self, handle: str, path: str) -> bytes:
        return await self._programs().sessions.read_file(self._actor, handle, path)

    async def remove_file(self, handle: str, path: str) -> None:
        await self._programs().sessions.remove_file(self._actor, handle, path)

    async def list_files(self, handle: str) -> tuple[OutputFile, ...]:
        sessions = self._programs().sessions
        found = await self._programs().list_session_files(self._actor, handle)
        for file in found:
            file.attach_reader(partial(sessions.read_file_now, self._actor, handle, file.path))
        return found


class SessionFiles:
    """The files of a session."""

    def __init__(self, session: "InterpreterSession", owner: SessionOwner) -> None:
        """Work on the files of `session`."""
        self._session = session
        self._owner = owner

    async def write(self, path: str, data: "InputData") -> None:
        """Write a file into the working directory, and replace one that is there.

        The write is a separate request, decided and recorded. Raises RequestError for a path that leads out,
        OutcomeError for a session that is lost.
        """
        outcome = await self._session.run("", files={read_text(path, "path"): data})
        outcome.check()

    async def read(self, path: str) -> bytes:
        """Return the content of a file. Raises OSError, RequestError for a path of no regular file, PaddockError."""
        return await self._owner.read_file(self._session.id, read_text(path, "path"))

    async def remove(self, path: str) -> None:
        """Remove a file. Raises OSError, RequestError for a wrong path, PaddockError for a session that has ended."""
        await self._owner.remove_file(self._session.id, read_text(path, "path"))

    async def list(self) -> tuple[OutputFile, ...]:
        """Return all files, by path. Raises PaddockError for a session that has ended."""
        return await self._owner.list_files(self._session.id)


class InterpreterSession:
    """An interpreter that keeps its variables, files and processes from one execution to the next.

    Nothing of it runs between two executions. `async with` opens and closes it; `await` only opens it.
    """

    def __init__(
        self, owner: SessionOwner, language: str | None, opening: Mapping[str, Any], handle: str
    ) -> None:
        """Use `Paddock.session` instead: `opening` has arguments for the first program, which opens a new session."""
        self._owner = owner
        self._language = language
        self._opening = opening
        self._handle = handle
        self._attached = handle != NEW
        self._changes: ChangesSummary | None = None
        self.files = SessionFiles(self, owner)
        """Its files."""
        self.expires_in_s = 0.0
        """Seconds until it is closed if it is not used, after the last execution."""

    @property
    def id(self) -> str:
        """Its handle, with which `Paddock.session(id=...)` finds it again. It cannot be guessed."""
        return self._handle

    def __await__(self) -> Generator[Any, None, Self]:
        """Open it and return it."""
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        """Open it. Raises OutcomeError if it cannot be opened, PaddockError if there is none of its `id`."""
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, unless it was open before."""
        if not self._attached:
            await self.close()

    async def _open(self) -> Self:
        if self._handle == NEW:
            (await self.run("")).check()
        else:
            self._language = await self._owner.find_language(self._handle)
        return self

    async def run(
        self,
        code: str,
        *,
        stdin: bytes | str | None = None,
        files: "Mapping[str, InputData] | None" = None,
        outputs: Texts | None = None,
        timeout_ms: int | None = None,
        cpu_ms: int | None = None,
        keep: bool = True,
        on_output: "OnOutput | None" = None,
        stop: asyncio.Event | None = None,
    ) -> Outcome:
        """Execute a program after what was executed before, and return its outcome.

        `outcome.results` are the values that it showed, among them its last expression; `outcome.text` is its output.
        A limit interrupts it, and `outcome.session.state` says whether the session survived. A lost session gives
        an outcome with the status `lost`. The other arguments are those of `Paddock.exec`.
        Raises RequestError for an argument that is not valid; the session stays.
        """
        opening = dict(self._opening) if self._handle == NEW else {}
        first: Mapping[str, InputData] = opening.pop("files", None) or {}
        check_type(first, Mapping, "files", "a dict of contents by path")
        check_type(files, (Mapping, type(None)), "files", "a dict of contents by path")
        outcome = await self._owner.paddock.exec(
            language=self._language or await self._find_language(),
            code=code,
            session=self._handle,
            stdin=stdin,
            files={**first, **(files or {})} if first else files,
            outputs=outputs,
            timeout_ms=timeout_ms,
            cpu_ms=cpu_ms,
            keep=keep,
            on_output=on_output,
            stop=stop,
            **opening,
        )
        if outcome.session is not None:
            self._handle, self.expires_in_s = outcome.session.id, outcome.session.expires_in_s
            if outcome.session.number:  # it was executed
                self._changes = outcome.changes
        return outcome

    async def changes(self) -> ChangesSummary | None:
        """Return what it has changed in its overlay since it was opened; None without the access `overlay`.

        It is `outcome.changes` of the latest execution. Without one, an empty program is executed. The `id` is empty if
        nothing was changed. Raises OutcomeError if that program fails.
        """
        if self._changes is None and (outcome := await self.run("")).changes is None:
            outcome.check()
        return self._changes

    async def accept(self, *paths: str, merge: bool = False) -> Outcome:
        """Write its changes at `paths`, or all that need no naming, to the workspace, as `Paddock.accept_changes`.

        The session keeps its overlay. Raises ChangesNotFound if it has changed nothing, OutcomeError as `changes`.
        """
        return await self._owner.paddock.accept_changes(await self._find_changes(), *paths, merge=merge)

    async def discard(self) -> Outcome:
        """Delete the change set of the latest execution, as `Paddock.discard_changes`.

        The files stay in the overlay, so that the next execution reports them again. Raises as `accept`.
        """
        return await self._owner.paddock.discard_changes(await self._find_changes())

    async def _find_changes(self) -> str:
        """Return the ID of its change set. Raises ChangesNotFound, and OutcomeError as `changes`."""
        summary = await self.changes()
        if summary is None:
            raise ChangesNotFound(
                'The session has no overlay, and thus no changes; open it with `access="overlay"`'
            )
        if not summary.id:
            raise ChangesNotFound("The session has changed nothing in the workspace")
        return summary.id

    async def _find_language(self) -> str:
        """Return the language of a session that was open before; without one, nothing runs."""
        with suppress(PaddockError):
            return await self._owner.find_language(self._handle)
        return "python"

    async def interrupt(self) -> None:
        """Interrupt the program that is executed now; its outcome is `cancelled`. Does nothing without one."""
        await self._owner.interrupt(self._handle)

    async def close(self) -> None:
        """Close it: end its processes and remove its files. Does nothing the second time."""
        await self._owner.close(self._handle)


class BlockingSession:
    """Like `InterpreterSession`, for ordinary functions: `with p.session("python") as s:`."""

    def __init__(self, session: InterpreterSession, wait: Callable[..., Any]) -> None:
        """Run the coroutines of `session` by `wait`."""
        self._session = session
        self._wait = wait
        self.files = BlockingSessionFiles(session.files, wait)
        """Its files."""

    @property
    def id(self) -> str:
        """Its handle."""
        return self._session.id

    @property
    def expires_in_s(self) -> float:
        """Seconds until it is closed if it is not used, after the last execution."""
        return self._session.expires_in_s

    def __enter__(self) -> Self:
        """Open it. Raises OutcomeError if it cannot be opened, PaddockError if there is none of its `id`."""
        self._wait(self._session.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, unless it was open before."""
        self._wait(partial(self._session.__aexit__, kind, error, trace))

    def open(self) -> Self:
        """Open it without a block, and return it. `close` ends it."""
        return self.__enter__()

    @staticmethod
    def _make_waiting(
        method: Callable[Concatenate[InterpreterSession, P], Coroutine[Any, Any, T]],
    ) -> "Callable[Concatenate[BlockingSession, P], T]":
        """Return a method that runs `method` and waits for its result."""

        @wraps(method)
        def wait(self: "BlockingSession", *args: P.args, **named: P.kwargs) -> T:
            return self._wait(partial(method, self._session, *args, **named))

        return wait

    run = _make_waiting(InterpreterSession.run)
    changes = _make_waiting(InterpreterSession.changes)
    accept = _make_waiting(InterpreterSession.accept)
    discard = _make_waiting(InterpreterSession.discard)

    def interrupt(self) -> None:
        """Interrupt the program that another thread executes."""
        self._wait(self._session.interrupt)

    def close(self) -> None:
        """Close it."""
        self._wait(self._session.close)


class BlockingSessionFiles:
    """The files of a session, as `SessionFiles`."""

    def __init__(self, files: SessionFiles, wait: Callable[..., Any]) -> None:
        """Run the coroutines of `files` by `wait`."""
        self._files = files
        self._wait = wait

    def write(self, path: str, data: "InputData") -> None:
        """Write a file into the working directory."""
        self._wait(partial(self._files.write, path, data))

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return self._wait(partial(self._files.read, path))

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._wait(partial(self._files.remove, path))

    def list(self) -> tuple[OutputFile, ...]:
        """Return all files, by path."""
        found = self._wait(self._files.list)
        for file in found:
            file.attach_reader(partial(self.read, file.path))
        return found
