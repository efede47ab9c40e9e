"""A stdio server as a process of the sandbox. Its messages go through pipes, as those of an unconfined server do."""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial

from paddock.confinement.sandbox.process import RunningProcess
from paddock.confinement.sandbox.protocol import OnProxySocket, Streams
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.engines.servers.calls.process import GRACE_MS, ServerChild
from paddock.engines.servers.config import StdioServer
from paddock.engines.servers.output import MAX_LINE_BYTES, ServerOutput
from paddock.foundation.cancellation import run_shielded
from paddock.model.limits import KIB, MIB
from paddock.model.process import GIB, ProcessGrants, ProcessLimits, ProcessResult

_LIFETIME_MS = 10 * 365 * 24 * 3600 * 1000
"""Ten years, in milliseconds: the hub ends a server. CPU time has the same limit for each of 64 processors."""
LIMITS = ProcessLimits(
    timeout_ms=_LIFETIME_MS,
    cpu_ms=64 * _LIFETIME_MS,
    memory_bytes=2 * GIB,
    processes=256,
    open_files=4096,
    scratch_bytes=1 * GIB,
    stderr_bytes=2**62,  # the hub limits the rate
    kept_bytes=1 * KIB,
    file_bytes=512 * MIB,
)
"""Limits of a confined server and everything that it starts. It has no wall time: it lives as long as its hub."""

_EXIT_VISIBLE_S = 1.0
_END_S = 3.0
_NOT_STARTED = 127
_log = logging.getLogger("paddock.engines.servers")


class ConfinedProcess(ServerChild):
    """A server in the sandbox."""

    def __init__(
        self,
        name: str,
        stdin: asyncio.StreamWriter,
        output: tuple[asyncio.ReadTransport, ServerOutput],
        hide: Callable[[str], str],
        on_end: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(stdin, output[1], hide, pid=None)
        self._name = name
        self._output = output[0]
        self._on_end = on_end
        self._running: RunningProcess | None = None

    def take_process(self, running: RunningProcess) -> None:
        """Take the process that was started."""
        self._running = running
        running.result.add_done_callback(self._report_violations)

    async def exit_status(self) -> int | None:
        """Return the status with which the server exited by itself (negative: signal); None if it did not."""
        assert self._running is not None
        await asyncio.wait({self._running.result}, timeout=_EXIT_VISIBLE_S)
        result = self._find_result()
        if self.stopping or result is None:
            return None
        if result.limit is not None:
            return -signal.SIGKILL
        if result.signal is not None:
            return -result.signal
        return _NOT_STARTED if result.exit_code is None else result.exit_code

    async def last_words(self) -> str:
        """Return which limit ended the server, or why it did not start, and the end of its readable output."""
        result = self._find_result()
        why = ""
        if result is not None and result.limit is not None:
            why = f" It exceeded its limit of {result.limit.replace('_', ' ')} in the sandbox."
        elif result is not None and result.reason:
            why = f" {self._hide(result.reason)}."
        return f"{why}{await super().last_words()}"

    async def stop(self) -> None:
        """Close stdin, and kill every process of it if the server does not exit within the grace time."""
        await run_shielded(self._stop())

    async def _stop(self) -> None:
        self.stdin.close()
        if (running := self._running) is not None:
            self.stopping = not running.result.done()
            await asyncio.wait({running.result}, timeout=GRACE_MS / 1000)
            running.kill()
            await asyncio.wait({running.result}, timeout=_END_S)
        self._output.close()
        await self._on_end()

    def _find_result(self) -> ProcessResult | None:
        done = (
            self._running is not None and self._running.result.done() and not self._running.result.cancelled()
        )
        return self._running.result.result() if self._running is not None and done else None

    def _report_violations(self, _: object) -> None:
        if (result := self._find_result()) is not None and result.violations:
            paths = ", ".join(result.violations)
            _log.warning("server %s changed protected paths, which have been restored: %s", self._name, paths)


async def start_confined(
    server: StdioServer,
    sandbox: KernelSandbox,
    argv: Sequence[str],
    grants: ProcessGrants,
    *,
    on_proxy_socket: OnProxySocket | None,
    on_end: Callable[[], Awaitable[None]],
) -> ConfinedProcess | ProcessResult:
    """Start a server with these grants, or return why it may not start.

    `on_proxy_socket` gets the socket of its proxy. `on_end` is called when `stop` has ended it. Raises EngineError if
    the sandbox fails, and OSError without descriptors.
    """
    with ExitStack() as theirs, ExitStack() as on_failure:
        stdin, our_stdin = os.pipe()
        their_stdin = theirs.enter_context(os.fdopen(stdin, "rb", buffering=0))
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES, loop=loop)
        # Nothing is read; the base class of this protocol controls the flow.
        transport, protocol = await loop.connect_write_pipe(
            partial(asyncio.StreamReaderProtocol, reader, loop=loop), os.fdopen(our_stdin, "wb", buffering=0)
        )
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        on_failure.callback(writer.close)
        our_stdout, stdout = os.pipe()
        their_stdout = theirs.enter_context(os.fdopen(stdout, "wb", buffering=0))
        output = await loop.connect_read_pipe(ServerOutput, os.fdopen(our_stdout, "rb", buffering=0))
        on_failure.callback(output[0].close)
        process = ConfinedProcess(server.name, writer, output, server.secrets.hide, on_end)
        streams = Streams(
            channel=their_stdin,
            output=their_stdout,
            stderr=process.note_stderr,
            on_proxy_socket=on_proxy_socket,
        )
        running = await sandbox.launch(argv, grants, LIMITS, streams)
        if isinstance(running, ProcessResult):
            return running
        on_failure.pop_all()
        process.take_process(running)
        return process
