"""Paddock for programs without an event loop: the same methods, each waiting for its answer."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar
from weakref import finalize

from paddock.model.settings import Settings
from paddock.surfaces.library.paddock import Paddock
from paddock.surfaces.library.running import FORKED

if TYPE_CHECKING:
    from paddock.surfaces.library.asking import Asking

P = ParamSpec("P")
T = TypeVar("T")


class BlockingPaddock:
    """Does what `Paddock` does, for ordinary functions: `with BlockingPaddock() as p:`.

    An event loop runs in a thread of its own, so it serves notebooks and callers from
    several threads too. Ctrl-C while a program runs ends the program when the block is left.
    """

    def __init__(
        self,
        workspace: Path | str = ".",
        *,
        settings: Settings | None = None,
        overrides: Mapping[str, str] | None = None,
        actor: str = "local",
        asker: "Asking | None" = None,
    ) -> None:
        """Take what `Paddock` takes, and raise what it raises."""
        self._paddock = Paddock(workspace, settings=settings, overrides=overrides, actor=actor, asker=asker)
        self._open: _Open | None = None
        self._end: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        """Start the loop and open the session."""
        opened: Future[_Open] = Future()
        thread = threading.Thread(target=_serve, args=(self._paddock, opened), name="paddock", daemon=True)
        thread.start()
        self._open = opened.result()
        self._end = ending = finalize(self, _end, self._open)
        ending.atexit = False  # too late for what needs threads; the end of this process ends the others
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process, make the record durable, and end the loop. In a forked child it does nothing."""
        self._open = None
        if self._end is not None:
            self._end()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._paddock.settings

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was wrong with files that were read so far."""
        return self._paddock.warnings

    @staticmethod
    def _waiting(
        method: Callable[Concatenate[Paddock, P], Coroutine[Any, Any, T]],
    ) -> "Callable[Concatenate[BlockingPaddock, P], T]":
        """Return a method that does what `method` does and waits for it."""

        @wraps(method)
        def wait(self: "BlockingPaddock", *args: P.args, **named: P.kwargs) -> T:
            return self._wait(partial(method, self._paddock, *args, **named))

        return wait

    @staticmethod
    def _yielding(
        method: Callable[Concatenate[Paddock, P], AsyncGenerator[T]],
    ) -> "Callable[Concatenate[BlockingPaddock, P], Generator[T]]":
        """Return a method that yields what `method` yields, waiting for each."""

        @wraps(method)
        def each(self: "BlockingPaddock", *args: P.args, **named: P.kwargs) -> Generator[T]:
            source = method(self._paddock, *args, **named)
            try:
                with suppress(StopAsyncIteration):
                    while True:
                        yield self._wait(source.__anext__)
            finally:
                self._wait(source.aclose)

        return each

    execute = _waiting(Paddock.execute)
    run = _waiting(Paddock.run)
    exec = _waiting(Paddock.exec)
    tool = _waiting(Paddock.tool)
    prompt = _waiting(Paddock.prompt)
    compute = _waiting(Paddock.compute)
    call = _waiting(Paddock.call)
    query = _waiting(Paddock.query)

    events = _yielding(Paddock.events)

    def _wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._open is None:
            raise RuntimeError("this Paddock is not open: use it as `with BlockingPaddock() as p:`")
        if os.getpid() != self._open.pid:
            raise RuntimeError(FORKED)
        if threading.current_thread() is self._open.thread:
            raise RuntimeError(
                "a listener cannot wait for the Paddock that it listens to; call it from another thread"
            )

        async def done() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(done(), self._open.loop).result()


class _Open(NamedTuple):
    """A loop that runs in a thread of this process, and what it waits for."""

    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    ended: asyncio.Event
    pid: int


def _serve(paddock: Paddock, opened: "Future[_Open]") -> None:
    """Have a loop run with a Paddock open on it until it is told to end."""

    async def serve() -> None:
        ended = asyncio.Event()
        async with paddock:
            loop = asyncio.get_running_loop()
            opened.set_result(_Open(loop, threading.current_thread(), ended, os.getpid()))
            await ended.wait()

    try:
        asyncio.run(serve())
    except BaseException as error:
        if opened.done():
            raise
        opened.set_exception(error)


def _end(opened: _Open) -> None:
    """End the loop, in the process that has it; also of a Paddock that was never left, once nobody knows it."""
    if os.getpid() != opened.pid:
        return
    opened.loop.call_soon_threadsafe(opened.ended.set)
    if threading.current_thread() is not opened.thread:
        opened.thread.join()
