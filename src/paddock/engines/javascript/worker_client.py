"""The parent's side of one worker: its socket, process, cost and end."""

import asyncio
import contextlib
import itertools
import math
import os
import re
import signal
import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol, cast

from paddock.confinement.sandbox.processors import count_processors
from paddock.engines.javascript import frames
from paddock.model.errors import NO_MORE_FILES, EngineError, PaddockError
from paddock.model.limits import GuestLimits
from paddock.model.process_use import ProcessUse
from paddock.model.starvation import UNSPENT, Spent, describe_starvation, is_starved

_STDERR_BYTES = 4096
_READ_BYTES = 64 * 1024
_REAP_TIMEOUT_S = 5.0
_GREETING_BYTES = 4096
"""Maximum size of the ready message, in bytes; a worker sends no other message before it has a program."""
SHORT_S = 0.05
"""Run time after which a program gets a lower priority than those that begin, in seconds."""
NICENESS = 10
"""The lower priority (setpriority(2)): beside a process of 0 it gets a tenth of a processor."""
_INTERRUPT = signal.SIGUSR1
"""Ends the JavaScript that runs; child/v8_native.py has the same number."""
_RESIDENT_PATTERN = re.compile(rb"RssAnon:\s*(\d+) kB")
_PEAK_PATTERN = re.compile(rb"VmHWM:\s*(\d+) kB")


class WorkerUsage(NamedTuple):
    """Resources that a worker used, as counted by the kernel."""

    cpu_ms: float
    peak_bytes: int
    """Peak resident set, including pages shared with the fork server."""


class WorkerExit(NamedTuple):
    """How a worker ended, from wait4(2)."""

    code: int
    """Exit status, or the negative signal number."""
    cost: WorkerUsage


class Worker(asyncio.BufferedProtocol):
    """A locked process that runs one program."""

    def __init__(self, errors: int) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.death: asyncio.Future[WorkerExit] = loop.create_future()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.transport: asyncio.Transport | None = None
        self.listener: WorkerListener | None = None
        self._pidfd = -1
        self._greeted = False
        self._woken = False
        self._made_way = False
        self._errors = errors
        self._clock = -1
        self._status = -1
        self._began = math.inf
        self._before = UNSPENT
        """What it had spent before its program began."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._reader = frames.FrameReader(_GREETING_BYTES, _GREETING_BYTES)
        self._decoding: asyncio.Task[None] | None = None
        # asyncio would allocate 256 KiB for each message, which the C library maps and unmaps each time.
        self._buffer = memoryview(bytearray(_READ_BYTES))

    def serve(self, listener: "WorkerListener", limits: GuestLimits) -> None:
        """Pass all messages from now on to `listener`; each must be within the limits of its program."""
        self._reader = frames.FrameReader(limits.frame_bytes, limits.frame_values)
        self.listener = listener
        self._before = self._read_clock() or UNSPENT
        self._began = time.perf_counter()

    def on_started(self, pid: int, pidfd: int) -> None:
        """Record the process behind the socket. Without a pidfd (no free descriptor) the worker cannot be used."""
        self.pid, self._pidfd = pid, pidfd
        if pidfd < 0 and not self.ready.done():
            self.ready.set_exception(EngineError(NO_MORE_FILES))
        self._on_ready()

    def on_exit(self, death: WorkerExit) -> None:
        """Record how the process ended."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if not self.death.done():
            self.death.set_result(death)

    def is_alive(self) -> bool:
        """Return whether the process can still take a program."""
        return self.transport is not None and not self.transport.is_closing() and not self.death.done()

    def kill(self) -> None:
        """Kill the process. Does nothing after its end."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop the process until `thaw`. Does nothing after its end."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue a stopped process. Does nothing after its end."""
        self._signal(signal.SIGCONT)

    def make_way(self) -> None:
        """Lower the priority of a program that has run for long, below the parent and programs that begin."""
        if self._pidfd >= 0 and time.perf_counter() > self._began + SHORT_S:
            self._began = math.inf  # once is enough
            self._made_way = True
            with contextlib.suppress(OSError):  # it has ended, or the kernel refuses
                os.setpriority(os.PRIO_PROCESS, self.pid, NICENESS)

    def take_turn(self) -> None:
        """Continue a stopped process for another program, with the priority of those that begin, if that is allowed."""
        if self._made_way and self._pidfd >= 0:
            self._made_way = False
            with contextlib.suppress(OSError):  # raising a priority is a privilege (setpriority(2))
                os.setpriority(os.PRIO_PROCESS, self.pid, 0)
        self.thaw()

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def cost(self) -> WorkerUsage | None:
        """Return what the process has used so far (proc(5): schedstat, status); None after its end."""
        now = self._read_clock()
        try:
            peak = _PEAK_PATTERN.search(os.pread(self._status, 4096, 0))
        except OSError:
            return None
        return WorkerUsage(now.cpu_ms, int(peak[1]) * 1024) if peak and now else None

    def complete_cost(self, measured: WorkerUsage | None) -> WorkerUsage:
        """Return what `cost` measured, or else what wait4(2) reported; nothing if neither is known."""
        if measured is not None:
            return measured
        return self.death.result().cost if self.death.done() else WorkerUsage(0.0, 0)

    async def await_death(self) -> None:
        """Wait for the exit status of a process that ends. Raises PaddockError if the kernel does not end it."""
        try:
            async with asyncio.timeout(_REAP_TIMEOUT_S):
                await asyncio.shield(self.death)
        except TimeoutError as error:
            # Not an EngineError, which means that nothing ran and that it is safe to try again.
            raise PaddockError(f"guest worker {self.pid} did not end after SIGKILL") from error

    def explain_starvation(self, wall_ms: float) -> str:
        """Return the hint for a program that others kept from running until its time was up; "" for any other.

        The process has one thread: whenever that waits for a processor, another process has it.
        """
        now = self._read_clock()
        if now is None:
            return ""
        spent = Spent(wall_ms, now.cpu_ms - self._before.cpu_ms, now.stalled_ms - self._before.stalled_ms)
        return describe_starvation(spent) if is_starved(spent, count_processors()) else ""

    def _read_clock(self) -> Spent | None:
        """Return what the process has spent since its start (proc(5), schedstat); None after its end."""
        try:
            cpu_ns, wait_ns, _ = os.pread(self._clock, 128, 0).split()
        except OSError:
            return None
        return Spent(0.0, int(cpu_ns) / 1e6, int(wait_ns) / 1e6)

    def resident_bytes(self) -> int:
        """Return the memory that the process has for itself (proc(5), RssAnon); 0 after its end."""
        try:
            found = _RESIDENT_PATTERN.search(os.pread(self._status, 4096, 0))
        except OSError:
            return 0
        return int(found[1]) * 1024 if found else 0

    async def measure(self) -> ProcessUse | None:
        """Return what the process uses now; None after its end."""
        cost = self.cost()
        return None if cost is None else ProcessUse(self.resident_bytes(), cost.cpu_ms)

    def interrupt(self) -> None:
        """End the JavaScript that the process runs now. Does nothing after its end."""
        self._signal(_INTERRUPT)

    def observe(self) -> None:
        """Open the files that `cost` reads, before the program runs. The process cannot start a second thread."""
        with contextlib.suppress(OSError):
            self._clock = os.open(f"/proc/{self.pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            self._status = os.open(f"/proc/{self.pid}/status", os.O_RDONLY | os.O_CLOEXEC)

    def pause_writing(self) -> None:
        """Block `drain`, because the worker does not read its messages."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Release `drain`, because the worker reads again."""
        self._writable.set()

    async def drain(self) -> None:
        """Wait until the worker has read most of its messages, or has ended."""
        await self._writable.wait()

    def send(self, frame: bytes) -> None:
        """Queue a frame for the worker. Does nothing after its end."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame)

    def wake(self) -> None:
        """Wake a worker that waits for its program. Does so only once, as several requests may expect the same one."""
        if not self._woken:
            self._woken = True
            self.send(frames.WAKE)

    def last_words(self) -> str:
        """Return the worker's standard error, only once. It is untrusted text."""
        if self._errors < 0:
            return ""
        try:
            text = os.read(self._errors, _STDERR_BYTES)
        except BlockingIOError:
            text = b""
        self.dispose()
        return text.decode("utf-8", "replace")

    def end(self) -> None:
        """Kill the process and close all descriptors on this side."""
        self.kill()
        self.dispose()

    def dispose(self) -> None:
        """Close all descriptors on this side."""
        for descriptor in (self._errors, self._status, self._clock):
            if descriptor >= 0:
                os.close(descriptor)
        self._errors, self._status, self._clock = -1, -1, -1
        if self._decoding is not None:
            self._decoding.cancel()
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on the messages that the bytes complete; kill a worker that breaks the protocol."""
        self._pass_on(self._reader.feed(bytes(self._buffer[:nbytes])))

    def _pass_on(self, messages: Iterator[frames.Message | frames.LargeMessage]) -> None:
        try:
            for message in messages:
                if isinstance(message, frames.LargeMessage):
                    assert self.transport is not None
                    self.transport.pause_reading()
                    self._decoding = asyncio.create_task(self._decode(message, messages))
                    return
                if self.listener is not None:
                    self.listener.on_message(message)
                elif isinstance(message, frames.Ready):
                    self._greeted = True
                    self._on_ready()
        except frames.FrameError as error:
            self._fail_protocol(error)

    async def _decode(
        self, large: frames.LargeMessage, rest: Iterator[frames.Message | frames.LargeMessage]
    ) -> None:
        """Pass on a large message and those after it. Nothing is read from the worker during decoding."""
        try:
            message = await large.decode()
        except frames.FrameError as error:
            self._fail_protocol(error)
            return
        self._decoding = None
        self._pass_on(itertools.chain((message,), rest))
        if self._decoding is None and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def _fail_protocol(self, error: frames.FrameError) -> None:
        self.kill()
        if self.listener is not None:
            self.listener.on_protocol_error(error)

    def _on_ready(self) -> None:
        """Become ready after messages of both the worker and the fork server, which arrive in any order."""
        if self._greeted and self.pid and not self.ready.done():
            self.ready.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection, which means that the worker has died."""
        self._writable.set()
        if not self.ready.done():
            self.ready.set_exception(EngineError("a guest worker died during its start"))
            self.ready.exception()  # marks it as retrieved, because no task may be waiting
        if self.listener is not None:
            self.listener.on_disconnect()


class WorkerListener(Protocol):
    """Receives the messages of a worker. None of these methods may raise."""

    def on_message(self, message: frames.Message) -> None:
        """Handle one message."""
        ...

    def on_protocol_error(self, error: frames.FrameError) -> None:
        """Handle a breach of the protocol; the worker has been killed."""
        ...

    def on_disconnect(self) -> None:
        """Handle the end of the connection."""
        ...
