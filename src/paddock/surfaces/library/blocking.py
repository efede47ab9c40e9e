"""Paddock for programs without an event loop: the same methods, each waiting for its answer."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import ExitStack, suppress
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from paddock.model.settings import Settings
from paddock.surfaces.library.paddock import Paddock

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
        self._open = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        """Start the loop and open the session."""
        with ExitStack() as opening:
            portal = opening.enter_context(start_blocking_portal())
            opening.enter_context(portal.wrap_async_context_manager(self._paddock))
            self._open = opening.pop_all()
        self._portal = portal
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process, make the record durable, and end the loop."""
        self._portal = None
        self._open.__exit__(kind, error, trace)

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
        if self._portal is None:
            raise RuntimeError("this Paddock is not open: use it as `with BlockingPaddock() as p:`")
        return self._portal.call(work)
