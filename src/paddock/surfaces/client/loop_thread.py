"""An event loop in a separate thread, on which callers of other threads run coroutines and wait for them."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

from paddock.surfaces.client.requests import FORKED

T = TypeVar("T")

NOT_OPEN = "this Paddock is not open: use it as `with BlockingPaddock() as p:`"
_OWN_THREAD = "a listener cannot wait for its own Paddock; call it from another thread"


class OpenLoop:
    """An event loop in a thread of this process, with a context open on it, such as a Paddock."""

    def __init__(self) -> None:
        """Belong to the current loop and thread."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.current_thread()
        self._pid = os.getpid()
        self._ending = asyncio.Event()
        self._lock = threading.Lock()
        self._ended = False

    async def wait_until_ended(self) -> None:
        """Wait until the loop should end."""
        await self._ending.wait()

    def run_and_wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run work on the loop and wait for it. Raises RuntimeError if that would block for ever."""
        return self.submit(work).result()

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Run work on the loop. Raises RuntimeError if waiting for it would block for ever."""
        if os.getpid() != self._pid:
            raise RuntimeError(FORKED)
        if threading.current_thread() is self._thread:
            raise RuntimeError(_OWN_THREAD)

        async def run_work() -> T:
            return await work()

        with self._lock:  # a loop finishes earlier work before it ends
            if self._ended:
                raise RuntimeError(NOT_OPEN)
            return asyncio.run_coroutine_threadsafe(run_work(), self._loop)

    def call_soon(self, act: Callable[[], object]) -> None:
        """Have the loop call a function; a signal handler may use this. Does nothing at its end."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act)

    def end(self) -> None:
        """End the loop and wait for its end, only in the process that owns it."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._ended:
                self._loop.call_soon_threadsafe(self._ending.set)
            self._ended = True
        if threading.current_thread() is not self._thread:
            self._thread.join()


def start_loop(context: AbstractAsyncContextManager[T]) -> tuple[OpenLoop, T]:
    """Start a loop in a thread and enter a context on it; return both. `end` leaves the context and ends the loop."""
    opened: Future[tuple[OpenLoop, T]] = Future()
    thread = threading.Thread(target=_run_loop, args=(context, opened), name="paddock", daemon=True)
    thread.start()
    return opened.result()


def _run_loop(context: AbstractAsyncContextManager[T], opened: "Future[tuple[OpenLoop, T]]") -> None:
    """Run a loop with a context open on it until it is told to end."""

    async def serve() -> None:
        async with context as value:
            one = OpenLoop()
            opened.set_result((one, value))
            await one.wait_until_ended()

    try:
        asyncio.run(serve())
    except BaseException as error:
        if opened.done():
            raise
        opened.set_exception(error)
