"""A pool of workers that are ready before they are needed: one fork server per engine profile, and a few idle workers.

    open -> take() -> [worker runs one program] -> death reported by the fork server

A worker runs one program. Taking one starts the next, after the request. A fork server is replaced after
`MAX_RUNS_PER_FORK_SERVER` forks, because all its children have the same address layout. One that fails or dies is
replaced at the next request.
"""

import asyncio
import json
import os
import signal
import socket
from collections import deque

from paddock.engines.javascript.launch import EngineProcess, EngineProfile, Launcher
from paddock.engines.javascript.worker_client import Worker, WorkerExit, WorkerUsage
from paddock.model.errors import EngineError, explain_start_failure

MAX_RUNS_PER_FORK_SERVER = 1000
_START_TIMEOUT_S = 20.0
_REFILL_DELAY_S = 0.003
_CONTROL_BYTES = 4096
_CLOSING = "Paddock is closing"


class WorkerForkServerClient:
    """The parent's side of one fork server (`paddock.engines.javascript.child.fork_server`)."""

    def __init__(self, child: EngineProcess) -> None:
        self.forks = 0
        self.alive = True
        self._retired = False
        self.landlock_abi = 0
        self._loop = asyncio.get_running_loop()
        self._process, self._control = child
        self._control.setblocking(False)
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self._waiting: deque[Worker] = deque()
        self.workers: dict[int, Worker] = {}
        self._loop.add_reader(self._control.fileno(), self._on_message)

    async def fork_worker(self) -> Worker:
        """Return a new worker that is locked down and ready. Raises EngineError if none can start."""
        try:
            ours, theirs, errors, their_errors = _make_channels()
        except OSError as error:
            raise EngineError(
                explain_start_failure(f"no guest worker could start: {error.strerror}")
            ) from error
        os.set_blocking(errors, False)
        worker = Worker(errors)
        ours.setblocking(False)
        try:
            try:
                await asyncio.shield(self.ready)  # other tasks wait for the same future
                socket.send_fds(self._control, [b"F"], [theirs.fileno(), their_errors])
                # Enqueue only after the fork server accepted the request; otherwise this worker would consume
                # another request's "born" message.
                self.forks += 1
                self._waiting.append(worker)
            except OSError as error:
                raise EngineError(
                    f"the fork server for JavaScript accepts no requests ({error.strerror})"
                ) from error
            finally:
                theirs.close()
                os.close(their_errors)
            await self._loop.create_connection(lambda: worker, sock=ours)
            try:
                await await_ready(worker.ready)
            except (TimeoutError, EngineError) as error:
                why = explain_start_failure(worker.last_words() or str(error))
                raise EngineError(f"no guest worker could start: {why}") from error
        except BaseException:  # also after a cancellation: no other code knows this worker
            worker.ready.cancel()
            worker.kill()
            worker.dispose()
            ours.close()
            raise
        worker.observe()
        return worker

    def retire(self) -> None:
        """End the fork server when its last worker has ended."""
        self._retired = True
        if not self.workers and not self._waiting:
            self._end("retired")
            self._process.kill()
            self._process.wait()

    async def close(self) -> None:
        """End the fork server and with it every worker."""
        if not self.alive:
            return
        self._end(_CLOSING)
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    def _on_message(self) -> None:
        while True:
            try:
                text, descriptors, _, _ = socket.recv_fds(self._control, _CONTROL_BYTES, 1)
            except BlockingIOError:
                return
            except OSError:
                text, descriptors = b"", []
            if not text:
                self._end("the fork server for JavaScript died")
                self._process.wait()
                return
            self._take(json.loads(text), descriptors)
            if not self.alive:
                return

    def _take(self, message: dict[str, int | float | str], descriptors: list[int]) -> None:
        if "born" in message:
            worker = self._waiting.popleft()
            worker.on_started(int(message["born"]), descriptors[0] if descriptors else -1)
            self.workers[worker.pid] = worker
        elif "dead" in message:
            death = WorkerExit(
                int(message["code"]), WorkerUsage(float(message["cpu_ms"]), int(message["peak_bytes"]))
            )
            self.workers.pop(int(message["dead"])).on_exit(death)
            if self._retired and self.alive:
                self.retire()
        elif "unborn" in message:
            self._waiting.popleft()  # its socket is closed, and its standard error has the reason
        elif "failed" in message:
            self._end(explain_start_failure(str(message["failed"])))
            self._process.kill()
            self._process.wait()
        elif not self.ready.done():
            self.landlock_abi = int(message["landlock"])
            self.ready.set_result(None)

    def _end(self, why: str) -> None:
        self.alive = False
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        if not self.ready.done():
            self.ready.set_exception(EngineError(why))
            self.ready.exception()  # marks it as retrieved, because no task may be waiting
        for worker in self.workers.values():
            worker.on_exit(WorkerExit(-signal.SIGKILL, WorkerUsage(0.0, 0)))
        self.workers.clear()


async def await_ready(ready: asyncio.Future[None]) -> None:
    """Wait until a worker is ready. Raises EngineError if it ends instead, TimeoutError if it does neither.

    Waits twice for half of the timeout: one half may pass while this process itself is stopped.
    """
    for _ in range(2):
        await asyncio.wait({ready}, timeout=_START_TIMEOUT_S / 2)
        if ready.done():
            return ready.result()
    raise TimeoutError


def _make_channels() -> tuple[socket.socket, socket.socket, int, int]:
    """Return the ends of a worker's socket and of its standard error. On OSError, none is left open."""
    ours, theirs = socket.socketpair()
    try:
        return ours, theirs, *os.pipe()
    except OSError:
        ours.close()
        theirs.close()
        raise


class WorkerPool:
    """The ready workers of each engine profile."""

    def __init__(self, launcher: Launcher, *, spares: int) -> None:
        self._launcher = launcher
        self._spares = spares
        self._fork_servers: dict[EngineProfile, WorkerForkServerClient] = {}
        self._retired: list[WorkerForkServerClient] = []
        self._waiting: dict[EngineProfile, deque[asyncio.Task[Worker]]] = {}
        self._refills: dict[EngineProfile, asyncio.TimerHandle] = {}
        self._closing = False

    def prepare(self, profile: EngineProfile, count: int) -> None:
        """Start workers until `count` are ready or starting. Does not wait for them."""
        waiting = self._waiting.setdefault(profile, deque())
        while len(waiting) < count:
            waiting.append(asyncio.create_task(self._fork(profile)))

    def expect(self, profile: EngineProfile) -> None:
        """Start a worker unless one is ready or starting, and wake a ready one.

        A sleeping processor wakes up slowly, and a worker's code is slow until it is in the caches again.
        """
        self.prepare(profile, 1)
        first = self._waiting[profile][0]
        if first.done() and not first.cancelled() and first.exception() is None:
            first.result().wake()

    async def warm_up(self, profile: EngineProfile) -> None:
        """Wait until a worker is ready, and start one if none is starting. Raises EngineError if none can start."""
        self.prepare(profile, 1)
        await asyncio.shield(self._waiting[profile][0])

    async def take(self, profile: EngineProfile) -> Worker:
        """Return a ready worker, and start the next one. Raises EngineError if none can start."""
        waiting = self._waiting.setdefault(profile, deque())
        while waiting:
            task = waiting.popleft()
            try:
                worker = await task
            except EngineError:
                continue
            if worker.is_alive():
                self._refill_soon(profile)
                return worker
            worker.dispose()
        worker = await self._fork(profile)
        self._refill_soon(profile)
        return worker

    @property
    def workers(self) -> int:
        """Number of living workers."""
        return sum(len(fork_server.workers) for fork_server in (*self._fork_servers.values(), *self._retired))

    def landlock_abi(self, profile: EngineProfile) -> int:
        """Return the Landlock ABI that confines this profile's workers."""
        return self._fork_servers[profile].landlock_abi

    async def close(self) -> None:
        """End every process of this pool. It starts no more."""
        self._closing = True
        for refill in self._refills.values():
            refill.cancel()
        for waiting in self._waiting.values():
            for task in waiting:
                task.cancel()
            for result in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(result, Worker):
                    result.dispose()
        self._waiting.clear()
        await asyncio.gather(
            *(fork_server.close() for fork_server in [*self._fork_servers.values(), *self._retired])
        )
        self._fork_servers.clear()

    def _refill_soon(self, profile: EngineProfile) -> None:
        """Replace the worker just taken after a short delay, in which its program has the processor."""
        if self._spares and not self._closing:
            loop = asyncio.get_running_loop()
            self._refills[profile] = loop.call_later(_REFILL_DELAY_S, self.prepare, profile, self._spares)

    async def _fork(self, profile: EngineProfile) -> Worker:
        return await self._find_fork_server(profile).fork_worker()

    def _find_fork_server(self, profile: EngineProfile) -> WorkerForkServerClient:
        if self._closing:  # `close` would not end another fork server
            raise EngineError(_CLOSING)
        fork_server = self._fork_servers.get(profile)
        if fork_server is None or not fork_server.alive or fork_server.forks >= MAX_RUNS_PER_FORK_SERVER:
            if fork_server is not None and fork_server.alive:
                fork_server.retire()
                self._retired = [old for old in self._retired if old.alive] + [fork_server]
            fork_server = self._fork_servers[profile] = WorkerForkServerClient(
                self._launcher.start_fork_server(profile)
            )
        return fork_server
