"""One worker, seen from the host: its socket, its process, what it costs and how it ends."""

import asyncio
import contextlib
import math
import os
import re
import signal
import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol, cast

from paddock.javascript import frames
from paddock.model.errors import NO_MORE_FILES, EngineError
from paddock.model.limits import GuestLimits

_STDERR_BYTES = 4096
_READ_BYTES = 64 * 1024
_GREETING_BYTES = 4096
"""Maximum size of a message before the worker has a program: it says that it is ready, and nothing else."""
SHORT_S = 0.05
"""Seconds after which a program is no short one, and makes way for those that begin."""
NICENESS = 10
"""Of such a program, setpriority(2): against one of 0 it gets a tenth of a processor."""
_PEAK_PATTERN = re.compile(rb"VmHWM:\s*(\d+) kB")


class WorkerUsage(NamedTuple):
    """What a worker used, as the kernel counts it."""

    cpu_ms: float
    peak_bytes: int
    """Largest resident set, pages shared with the fork server included."""


class WorkerExit(NamedTuple):
    """How a worker ended, from wait4(2)."""

    code: int
    """Exit status, or minus the signal."""
    cost: WorkerUsage


class Worker(asyncio.BufferedProtocol):
    """One locked process that waits for its one program."""

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
        self._errors = errors
        self._clock = -1
        self._status = -1
        self._began = math.inf
        self._writable = asyncio.Event()
        self._writable.set()
        self._reader = frames.FrameReader(_GREETING_BYTES, _GREETING_BYTES)
        self._decoding: asyncio.Task[None] | None = None
        # asyncio's own would be 256 KiB anew for each message, which the C library maps and unmaps each time.
        self._buffer = memoryview(bytearray(_READ_BYTES))

    def serve(self, listener: "WorkerListener", limits: GuestLimits) -> None:
        """Tell `listener` what comes from now on, in messages within the limits of its program."""
        self._reader = frames.FrameReader(limits.frame_bytes, limits.frame_values)
        self.listener = listener
        self._began = time.perf_counter()

    def on_started(self, pid: int, pidfd: int) -> None:
        """Learn the process behind the socket. Without a pidfd, for want of a descriptor, it cannot be used."""
        self.pid, self._pidfd = pid, pidfd
        if pidfd < 0 and not self.ready.done():
            self.ready.set_exception(EngineError(NO_MORE_FILES))
        self._on_ready()

    def on_exit(self, death: WorkerExit) -> None:
        """Learn how it ended."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if not self.death.done():
            self.death.set_result(death)

    def is_alive(self) -> bool:
        """Return whether the process may still take a program."""
        return self.transport is not None and not self.transport.is_closing() and not self.death.done()

    def kill(self) -> None:
        """End the process now; harmless when it is gone."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Hold the process: it computes nothing until `go_on`. Harmless when it is gone."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a process that was held go on; harmless when it is gone."""
        self._signal(signal.SIGCONT)

    def make_way(self) -> None:
        """Let the parent and a program that begins now run first, where this one has run for long."""
        if self._pidfd >= 0 and time.perf_counter() > self._began + SHORT_S:
            self._began = math.inf  # once is enough
            with contextlib.suppress(OSError):  # it has ended, or the kernel refuses: then all share alike
                os.setpriority(os.PRIO_PROCESS, self.pid, NICENESS)

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def cost(self) -> WorkerUsage | None:
        """Return what the process has used so far, None when it is gone (proc(5): schedstat, status)."""
        try:
            nanoseconds = int(os.pread(self._clock, 64, 0).split()[0])
            peak = _PEAK_PATTERN.search(os.pread(self._status, 4096, 0))
        except OSError:
            return None
        return WorkerUsage(nanoseconds / 1e6, int(peak[1]) * 1024) if peak else None

    def observe(self) -> None:
        """Open what `cost` reads, while nobody waits. The process has one thread, and no further one can start."""
        with contextlib.suppress(OSError):
            self._clock = os.open(f"/proc/{self.pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            self._status = os.open(f"/proc/{self.pid}/status", os.O_RDONLY | os.O_CLOEXEC)

    def pause_writing(self) -> None:
        """Learn that the worker does not read what it is sent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Learn that it reads again."""
        self._writable.set()

    async def drain(self) -> None:
        """Wait until the worker has read most of what it was sent, or is gone."""
        await self._writable.wait()

    def send(self, frame: bytes) -> None:
        """Queue a frame for the worker; a worker that is gone loses it."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame)

    def wake(self) -> None:
        """Have a worker that waits awake for its program; once, for many may expect the same one."""
        if not self._woken:
            self._woken = True
            self.send(frames.WAKE)

    def last_words(self) -> str:
        """Return what the worker left on its standard error, once; it may be anything."""
        if self._errors < 0:
            return ""
        try:
            text = os.read(self._errors, _STDERR_BYTES)
        except BlockingIOError:
            text = b""
        self.dispose()
        return text.decode("utf-8", "replace")

    def end(self) -> None:
        """Kill the process and close what this side holds."""
        self.kill()
        self.dispose()

    def dispose(self) -> None:
        """Close what this side still holds."""
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
        """Pass on what the bytes complete; kill a worker that breaks the protocol."""
        self._pass_on(self._reader.feed(bytes(self._buffer[:nbytes])))

    def _pass_on(self, messages: Iterator[frames.Message | frames.LargeMessage]) -> None:
        try:
            for message in messages:
                if isinstance(message, frames.LargeMessage):
                    assert self.transport is not None
                    self.transport.pause_reading()
                    self._decoding = asyncio.create_task(self._decode(message, messages))
                    return
                self._pass_one(message)
        except frames.FrameError as error:
            self._fail_protocol(error)

    def _pass_one(self, message: frames.Message) -> None:
        if self.listener is not None:
            self.listener.on_message(message)
        elif isinstance(message, frames.Ready):
            self._greeted = True
            self._on_ready()

    async def _decode(
        self, large: frames.LargeMessage, rest: Iterator[frames.Message | frames.LargeMessage]
    ) -> None:
        """Pass a large message on, and what came behind it; meanwhile nothing more is read from the worker."""
        try:
            self._pass_one(await large.decode())
        except frames.FrameError as error:
            self._fail_protocol(error)
            return
        self._decoding = None
        self._pass_on(rest)
        if self._decoding is None and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def _fail_protocol(self, error: frames.FrameError) -> None:
        self.kill()
        if self.listener is not None:
            self.listener.on_protocol_error(error)

    def _on_ready(self) -> None:
        """Be ready when worker and fork server have both spoken; either may be the first."""
        if self._greeted and self.pid and not self.ready.done():
            self.ready.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn that the worker has closed its end, which only its death does."""
        self._writable.set()
        if not self.ready.done():
            self.ready.set_exception(EngineError("a guest worker died while it started"))
            self.ready.exception()  # retrieved: nobody may be waiting any more
        if self.listener is not None:
            self.listener.on_disconnect()


class WorkerListener(Protocol):
    """Who hears what a worker says. None of these may raise."""

    def on_message(self, message: frames.Message) -> None:
        """Take one message."""
        ...

    def on_protocol_error(self, error: frames.FrameError) -> None:
        """Learn that the worker broke the protocol and was killed."""
        ...

    def on_disconnect(self) -> None:
        """Learn that nothing more will come."""
        ...
