"""The V8 engine of an opened Paddock, with its pool and its parser, and the check of types."""

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.confinement.sandbox.protocol import Sandbox
    from paddock.engines.javascript.engine import GuestEngine
    from paddock.engines.javascript.launch import Launcher
    from paddock.engines.types.check import TypeChecker
    from paddock.foundation.fair_slots import FairSlots
    from paddock.policy.settings.schema import GuestSettings


class GuestService:
    """Runs JavaScript programs. The engine is created, and its files are imported, at the first use."""

    def __init__(
        self,
        settings: "GuestSettings",
        slots: "FairSlots",
        open_sandbox: "Callable[[], Awaitable[Sandbox]]",
        launcher: "Launcher | None" = None,
    ) -> None:
        """Use the processes that `launcher` has started; programs wait in `slots`. Types are checked in the sandbox."""
        self.settings = settings
        self._open_sandbox = open_sandbox
        self._slots = slots
        self._launcher = launcher
        self._closing: tuple[Callable[[], Awaitable[None]], ...] = ()

    @cached_property
    def engine(self) -> "GuestEngine":
        """The engine."""
        from paddock.engines.javascript import parse_cache
        from paddock.engines.javascript.engine import GuestEngine
        from paddock.engines.javascript.launch import Launcher
        from paddock.engines.javascript.parse import Parser
        from paddock.engines.javascript.pool import WorkerPool

        launcher = self._launcher or Launcher()
        pool = WorkerPool(launcher, spares=self.settings.spare_workers)
        parser = Parser(launcher, parse_cache.ParseCache(parse_cache.find_directory()))
        self._closing = (pool.close, parser.close)
        return GuestEngine(pool, parser, self.settings.max_workers, self._slots)

    @cached_property
    def type_checker(self) -> "TypeChecker":
        """Checks the types of programs."""
        from paddock.engines.types.check import TypeChecker

        return TypeChecker(self._open_sandbox)

    @property
    def waiting(self) -> int:
        """Number of programs that wait for a slot."""
        return self.engine.waiting if self._closing else 0

    @property
    def workers(self) -> int:
        """Number of living workers, including spares."""
        return self.engine.workers if self._closing else 0

    async def close(self) -> None:
        """End every worker and parser."""
        await asyncio.gather(*(close() for close in self._closing))
