"""A session on an event loop of its own, for tests that send work through a real gate."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from paddock import BlockingPaddock, Paddock
from paddock.gate.open_paddock import OpenPaddock, open_paddock
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest
from paddock.policy.settings.schema import Settings

T = TypeVar("T")


class SessionRunner:
    """Runs work in a workspace, one after the other, through the gate of the session that was started last."""

    session: OpenPaddock

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.runner = asyncio.Runner()
        self._sessions = AsyncExitStack()
        self._closed = False

    def start(self, settings: Settings) -> OpenPaddock:
        """Start a session, also after `close`. It ends with this runner, as those before it do."""
        if self._closed:
            self.runner, self._closed = asyncio.Runner(), False
        opening = self._sessions.enter_async_context(open_paddock(settings, self.workspace))
        self.session = self.runner.run(opening)
        return self.session

    def execute(self, request: ExecutionRequest, **options: Any) -> Outcome:
        """Return what became of a request. Options are those of the gate."""
        return self.runner.run(self.session.gate.execute(request, **options))

    def close(self) -> None:
        """End all sessions, and the loop. Does nothing the second time."""
        if self._closed:
            return
        self._closed = True
        try:
            self.runner.run(self._sessions.aclose())
        finally:
            self.runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def execute_alone(settings: Settings, workspace: Path, work: Any, **fields: Any) -> Outcome:
    """Return what became of one piece of work in a session of its own."""
    with SessionRunner(workspace) as opened:
        opened.start(settings)
        return opened.execute(ExecutionRequest(workspace=workspace, work=work, **fields))


def find_session(paddock: Paddock | BlockingPaddock) -> OpenPaddock:
    """Return the session of an open library object. Only here do tests look behind the face of the library."""
    inner = paddock._paddock if isinstance(paddock, BlockingPaddock) else paddock
    return inner._require_running().opened


def run_on_loop(paddock: BlockingPaddock, work: Callable[[OpenPaddock], Coroutine[Any, Any, T]]) -> T:
    """Return what a coroutine function returns that is called with the session, on the event loop of a library object."""
    return paddock._run_and_wait(lambda: work(find_session(paddock)))
