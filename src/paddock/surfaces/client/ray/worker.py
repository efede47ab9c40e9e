"""The Ray task: runs the programs of a share in this worker's own Paddock. Ray's workers import this module.

The task runs in the main thread, where Ray raises KeyboardInterrupt to cancel it. The Paddock has
its event loop in another thread, which also watches its processes between two tasks. When the worker dies, its
programs die.
"""

import os
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from platformdirs import user_cache_path

from paddock.gate.batch.program import Program, ProgramResult
from paddock.gate.batch.runner import BatchOrigin, BatchRunner
from paddock.gate.open_paddock import open_paddock
from paddock.model.errors import PaddockError
from paddock.policy.settings.schema import RuntimeSettings, Settings
from paddock.surfaces.client.arguments import choose_settings, find_workspace
from paddock.surfaces.client.loop_thread import OpenLoop, start_loop
from paddock.surfaces.client.ray.frames import (
    NodeAnswer,
    ProgramShare,
    Terms,
    read_share,
    shorten_reason,
    write_answer,
)
from paddock.surfaces.client.ray.purity import Purity
from paddock.surfaces.client.requests import RunningPaddock

if TYPE_CHECKING:
    from concurrent.futures import Future

MAX_OUTPUT_CHARS = 32 * 1024 * 1024
"""Number of characters of output after which no further program of a share starts."""
_MAX_OPEN = 4
"""Maximum number of open Paddocks in a worker, one for each workspace and caller. The least recently used one ends."""
_SIGNAL_S = 0.1
"""Time after which a cancellation is noticed, in seconds: a wait for a lock is not interrupted."""
_END_S = 10.0
"""Maximum time that cancelled programs have to end, in seconds."""


class _OpenPaddock(NamedTuple):
    """A Paddock that stays open in this worker, on an event loop of its own."""

    loop: OpenLoop
    settings: Settings
    runner: BatchRunner


_open: dict[tuple[str, str], _OpenPaddock] = {}


def run_share(data: bytes) -> bytes:
    """Run a share and return its answer. It raises only what Ray raises to cancel it."""
    share = read_share(data)
    try:
        opened = _find_paddock(share.terms)
        ended = Event()
        future = opened.loop.submit(partial(_run_programs, share, ended, opened))
        return write_answer(_wait(future, ended))
    except (PaddockError, OSError) as error:
        return write_answer(NodeAnswer(refusal=shorten_reason(str(error))))


def _wait(future: "Future[NodeAnswer]", ended: Event) -> NodeAnswer:
    """Return the answer. When Ray cancels the task, end the programs first."""
    try:
        while True:
            try:
                return future.result(_SIGNAL_S)
            except TimeoutError:
                if future.done():
                    raise
    except BaseException:
        if future.cancel():
            ended.wait(_END_S)
        raise


def _find_paddock(terms: Terms) -> _OpenPaddock:
    """Return the open Paddock of a workspace and a caller. Raises PaddockError if it cannot be opened."""
    key = terms.workspace, terms.actor
    found = _open.pop(key, None)
    if found is None:
        workspace = find_workspace(terms.workspace or find_empty_workspace())
        settings = choose_settings(None, None, workspace)
        loop, running = start_loop(_open_running_paddock(settings, workspace))
        origin = BatchOrigin(workspace, terms.actor, "library")
        found = _OpenPaddock(loop, settings, BatchRunner(running.execute_request, origin, settings.runtimes))
        if len(_open) == _MAX_OPEN:
            _open.pop(next(iter(_open))).loop.end()
    _open[key] = found  # at the end: used last
    return found


@asynccontextmanager
async def _open_running_paddock(settings: Settings, workspace: Path) -> AsyncGenerator[RunningPaddock]:
    async with open_paddock(settings, workspace) as opened:
        yield RunningPaddock(opened)


def find_empty_workspace() -> Path:
    """Return an empty directory, the workspace of programs that read none."""
    empty = user_cache_path("paddock") / "ray"
    empty.mkdir(mode=0o700, parents=True, exist_ok=True)
    return empty


async def _run_programs(share: ProgramShare, ended: Event, opened: _OpenPaddock) -> NodeAnswer:
    started = time.monotonic()
    results: list[ProgramResult] = []
    slice_ = _Slice(share, opened.settings, started)
    try:
        async with aclosing(opened.runner.map(slice_, 1)) as found:
            async for result in found:
                slice_.note_output(result)
                results.append(result)
    except (PaddockError, OSError) as error:
        slice_.refusal = str(error)
    finally:
        ended.set()
    return NodeAnswer(
        results=tuple(results),
        seconds=time.monotonic() - started,
        refusal=shorten_reason(slice_.refusal),
    )


class _Slice:
    """The programs of a share that one task runs. The driver sends those again that are left when its time is over."""

    def __init__(self, share: ProgramShare, settings: Settings, started: float) -> None:
        self._share = share
        self._own = settings.runtimes
        self._purity = Purity(settings, BatchOrigin(Path(os.sep), share.terms.actor, "library"))
        self._until = started + share.seconds
        self._chars = 0
        self.refusal = ""

    def note_output(self, result: ProgramResult) -> None:
        """Count what a result adds to the answer."""
        self._chars += len(result.outcome.text) + sum(len(case.outcome.text) for case in result.tests)

    def __iter__(self) -> Iterator[Program]:
        for number, program in enumerate(self._share.programs):
            if number and (time.monotonic() > self._until or self._chars > MAX_OUTPUT_CHARS):
                return
            if effects := self._purity.find_effects(program):
                self.refusal = f"under the settings of the node a program may have effects: {effects}"
                return
            yield _narrow(program, self._share.terms, self._own)


def _narrow(program: Program, terms: Terms, own: RuntimeSettings) -> Program:
    """Return a program whose limits are within those of its caller; this node's policy decides about them as usual.

    Limits that it does not ask for are the smaller ones of its caller and this node.
    """

    def narrow(asked: int | None, most: int, here: int) -> int:
        return min(most, here) if asked is None else min(asked, most)

    return program.model_copy(
        update={
            "timeout_ms": narrow(program.timeout_ms, terms.timeout_ms, own.timeout_ms),
            "memory_bytes": narrow(program.memory_bytes, terms.memory_bytes, own.memory_bytes),
        }
    )
