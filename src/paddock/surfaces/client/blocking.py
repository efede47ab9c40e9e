"""Paddock for programs without an event loop: the same methods, each waits for its result."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, cast, overload
from weakref import finalize

from paddock.model.base import Json
from paddock.model.outcome import Outcome
from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.arguments import check_programs
from paddock.surfaces.client.loop_thread import NOT_OPEN, OpenLoop, start_loop
from paddock.surfaces.client.paddock import Paddock
from paddock.surfaces.client.sessions import BlockingSession, InterpreterSession

if TYPE_CHECKING:
    from concurrent.futures import Future

    from paddock.confinement.sandbox.protocol import Sandbox
    from paddock.gate.batch.program import Program, ProgramResult
    from paddock.record.ledger.sink import AuditSink
    from paddock.record.output.backends import ArtifactStore
    from paddock.surfaces.client.function_askers import Asking

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class BlockingPaddock:
    """Like `Paddock`, for ordinary functions: `with BlockingPaddock() as p:`.

    An event loop runs in a separate thread, so that notebooks and callers in several threads can use it, too. After
    Ctrl-C during a program, the program is ended when the block is left.
    """

    def __init__(
        self,
        workspace: Path | str = ".",
        *,
        settings: Settings | None = None,
        overrides: Mapping[str, Any] | None = None,
        actor: str = "local",
        asker: "Asking | None" = None,
        audit: "AuditSink | None" = None,
        sandbox: "Sandbox | None" = None,
        artifacts: "ArtifactStore | None" = None,
        tool_server: str = "local",
    ) -> None:
        """Take the arguments of `Paddock`, and raise its errors."""
        paddock = Paddock(
            workspace,
            settings=settings,
            overrides=overrides,
            actor=actor,
            asker=asker,
            audit=audit,
            sandbox=sandbox,
            artifacts=artifacts,
            tool_server=tool_server,
        )
        self._wrap(paddock)

    def _wrap(self, paddock: Paddock) -> None:
        self._paddock = paddock
        self._open: OpenLoop | None = None
        self._end: Callable[[], object] | None = None

    @classmethod
    def connect(cls, url: str, *, token: str | None = None, unencrypted: bool = False) -> Self:
        """Return one whose programs run on a server, as `Paddock.connect` does with the same arguments."""
        blocking = cls.__new__(cls)
        blocking._wrap(Paddock.connect(url, token=token, unencrypted=unencrypted))  # noqa: SLF001 - its own
        return blocking

    def __enter__(self) -> Self:
        """Start the loop and open the session."""
        self._open, _ = start_loop(self._paddock)
        # The finalizer also ends an instance that was never closed, once it is garbage.
        self._end = ending = finalize(self, self._open.end)
        ending.atexit = False  # too late for threads; the end of this process ends the others
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process, make the record durable, and end the loop. Has no effect in a forked child."""
        self._open = None
        if self._end is not None:
            self._end()

    def open(self) -> Self:
        """Open it without a block, as for the cells of a notebook, and return it. `close` ends it."""
        return self.__enter__() if self._open is None else self

    def close(self) -> None:
        """End every process, make the record durable, and end the loop."""
        self.__exit__(None, None, None)

    @property
    def settings(self) -> Settings:
        """The effective settings."""
        return self._paddock.settings

    @property
    def warnings(self) -> tuple[str, ...]:
        """Faults of the files that were read so far."""
        return self._paddock.warnings

    @staticmethod
    def _make_waiting(
        method: Callable[Concatenate[Paddock, P], Coroutine[Any, Any, T]],
    ) -> "Callable[Concatenate[BlockingPaddock, P], T]":
        """Return a method that runs `method` and waits for its result."""

        @wraps(method)
        def wait(self: "BlockingPaddock", *args: P.args, **named: P.kwargs) -> T:
            own = getattr(self._paddock, method.__name__)  # of a subclass, if it is connected to a server
            return self._run_and_wait(partial(own, *args, **named))

        return wait

    @staticmethod
    def _make_yielding(
        method: Callable[Concatenate[Paddock, P], AsyncGenerator[T]],
    ) -> "Callable[Concatenate[BlockingPaddock, P], Generator[T]]":
        """Return a method that yields the items of `method` and waits for each."""

        @wraps(method)
        def each(self: "BlockingPaddock", *args: P.args, **named: P.kwargs) -> Generator[T]:
            source: AsyncGenerator[T] = getattr(self._paddock, method.__name__)(*args, **named)
            try:
                with suppress(StopAsyncIteration):
                    while True:
                        yield self._run_and_wait(source.__anext__)
            finally:
                self._run_and_wait(source.aclose)

        return each

    execute = _make_waiting(Paddock.execute)
    run = _make_waiting(Paddock.run)
    exec = _make_waiting(Paddock.exec)
    prompt = _make_waiting(Paddock.prompt)
    compute = _make_waiting(Paddock.compute)
    call = _make_waiting(Paddock.call)
    search_tools = _make_waiting(Paddock.search_tools)
    accept_changes = _make_waiting(Paddock.accept_changes)
    undo_changes = _make_waiting(Paddock.undo_changes)
    discard_changes = _make_waiting(Paddock.discard_changes)
    query = _make_waiting(Paddock.query)
    find_records = _make_waiting(Paddock.find_records)

    sessions = _make_waiting(Paddock.sessions)

    events = _make_yielding(Paddock.events)

    _map = _make_yielding(Paddock.map)

    def map(
        self,
        programs: "Iterable[Program]",
        *,
        max_parallel: int | None = None,
        engine: Literal["local", "ray"] = "local",
    ) -> "Generator[ProgramResult]":
        """Run many programs and yield their results as `Paddock.map` does.

        An iterator of programs may wait, or use this Paddock itself: it runs in another thread. A sequence is read as
        a whole before the first program runs, and may do neither.
        """
        check_programs(programs)
        given = programs if isinstance(programs, Sequence) else _iterate_in_thread(programs)
        return self._map(given, max_parallel=max_parallel, engine=engine)

    @staticmethod
    def _make_opening(
        method: Callable[Concatenate[Paddock, P], InterpreterSession],
    ) -> "Callable[Concatenate[BlockingPaddock, P], BlockingSession]":
        """Return a method that makes the session of `method` one that waits."""

        @wraps(method)
        def open_session(self: "BlockingPaddock", *args: P.args, **named: P.kwargs) -> BlockingSession:
            return BlockingSession(method(self._paddock, *args, **named), self._run_and_wait)

        return open_session

    session = _make_opening(Paddock.session)

    @overload
    def tool(
        self, name: str, inputs: Mapping[str, Json] | None = None, *, timeout_ms: int | None = None
    ) -> Outcome: ...

    @overload
    def tool(self, name: F) -> F: ...

    @overload
    def tool(
        self,
        *,
        tool_name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        name: str | F | None = None,
        inputs: Mapping[str, Json] | None = None,
        *,
        timeout_ms: int | None = None,
        tool_name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
    ) -> Outcome | F | Callable[[F], F]:
        """Do what `Paddock.tool` does. Coroutine functions run on the loop of this Paddock, others in threads."""
        if isinstance(name, str):
            return self._run_and_wait(partial(self._paddock.tool, name, inputs, timeout_ms=timeout_ms))
        decorate = partial(
            self._paddock.tool,
            tool_name=tool_name,
            description=description,
            read_only=read_only,
            timeout_ms=timeout_ms,
        )

        async def add_to_open(function: F) -> F:
            return decorate()(function)

        def add(function: F) -> F:
            if self._open is None:
                return decorate()(function)
            return self._run_and_wait(partial(add_to_open, function))

        return add if name is None else add(name)

    def submit(self, work: Callable[[Paddock], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Start `work` on the loop of this Paddock, with the asynchronous twin as its argument, and return its future.

        Callers on another event loop await it: `await asyncio.wrap_future(p.submit(lambda p: p.execute("return 42")))`.
        Cancelling the future cancels the work. Raises RuntimeError if this Paddock is not open.
        """
        if self._open is None:
            raise RuntimeError(NOT_OPEN)
        return self._open.submit(partial(work, self._paddock))

    def _run_and_wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._open is None:
            raise RuntimeError(NOT_OPEN)
        return self._open.run_and_wait(work)


async def _iterate_in_thread(items: Iterable[T]) -> AsyncGenerator[T]:
    """Yield the items of an iterable, which runs in another thread; those of a list need none."""
    if isinstance(items, list | tuple):
        for item in cast("list[T]", items):
            yield item
        return
    left: list[T] = []
    iterator = iter(items)

    def take() -> None:
        left.extend(islice(iterator, 1))

    while True:
        await asyncio.to_thread(take)
        if not left:
            return
        yield left.pop()
