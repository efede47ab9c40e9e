"""The interface of sandboxes, which run confined processes."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from paddock.model.network import HostGrant
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.process_use import MeasureUse
from paddock.model.sandbox import Tier

if TYPE_CHECKING:
    from paddock.confinement.sandbox.child.hiding import HidingRules
    from paddock.confinement.sandbox.child.protection import ProtectionRules
    from paddock.confinement.sandbox.state_paths import StateFile

ByteSink = Callable[[bytes], None]
"""Receives every byte of a stream in chunks, in order, and an empty chunk at the end. Must not block or raise."""


class OpenFile(Protocol):
    """An open file, pipe or socket."""

    def fileno(self) -> int:
        """Return its descriptor."""
        ...


class Pausable(Protocol):
    """A computation that can be paused."""

    def pause(self) -> None:
        """Pause it. Does nothing after it has ended."""
        ...

    async def ready(self) -> None:
        """Wait until it may continue, with the resources that it gave up for the pause."""
        ...

    def resume(self) -> None:
        """Continue it. Does nothing after it has ended, or if it was not paused."""
        ...


OnProxySocket = Callable[[socket.socket, Pausable | None], None]
"""Receives the socket at which a process connects to its proxy, and closes it. Must not block or raise. The second
argument pauses the process and its time limit while a person is asked; None if the sandbox cannot do that."""


OnStart = Callable[[MeasureUse], None]
"""Receives what measures the processes of a program. Must not block or raise."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Standard input of a process, and the receivers of its output."""

    stdin: bytes = b""
    """Contents of standard input."""
    stdout: ByteSink | None = None
    """Receives standard output in chunks, and an empty chunk at its end. Must not block and must not raise."""
    stderr: ByteSink | None = None
    """Receives standard error in the same way."""
    combined: bool = False
    """Whether standard error goes into the pipe of standard output. One pipe keeps the order of writing, two do not."""
    channel: OpenFile | None = None
    """A connected socket, or the end of a pipe, that takes the place of standard input. The caller closes it."""
    output: OpenFile | None = None
    """The end of a pipe that takes the place of standard output, which is then neither kept nor limited. The caller
    closes it."""
    on_proxy_socket: OnProxySocket | None = None
    """Receives, with the grant `hosts`, the listening socket of the proxy of this process."""
    on_start: OnStart | None = None
    """Receives what measures its processes, when it has started. A sandbox that cannot measure them leaves it alone."""


class HostProxy(Protocol):
    """What serves the proxy of a process with the network `hosts`, during one request."""

    def prepare(self, scratch: Path) -> Mapping[str, str]:
        """Return the variables that lead clients to the proxy; the files that they name are written into scratch."""
        ...

    def begin(self) -> None:
        """Take the connections from now on: a session serves one request after another."""

    def serve(self, proxy_socket: socket.socket, process: Pausable | None) -> None:
        """Serve the proxy on this socket, and close it at the end. Pause the process while a person is asked."""

    async def close(self) -> None:
        """Close the connections of the process, which has ended."""


OpenHosts = Callable[[HostGrant], HostProxy]
"""Makes what serves the connections of one process to the hosts that are granted."""


@asynccontextmanager
async def open_hosts(
    hosts: HostProxy | None, scratch: Path
) -> AsyncGenerator[tuple[Mapping[str, str], OnProxySocket | None]]:
    """Yield the variables of a process that runs within the context, and what receives the socket of its proxy."""
    if hosts is None:
        yield {}, None
        return
    hosts.begin()
    try:
        yield hosts.prepare(scratch), hosts.serve
    finally:
        await hosts.close()


class SandboxSlot(Protocol):
    """A directory in which one program can start. Its files can be written before the program and read after it."""

    @property
    def scratch(self) -> Path:
        """The directory, which the program may write to. It has the same path inside of the sandbox."""
        ...

    def make_next(self) -> None:
        """Start to prepare another slot like this one, beside the program. May do nothing."""
        ...

    def release(self) -> None:
        """Remove the directory. A program that still runs in it is killed first. A second call does nothing."""
        ...


class Sandbox(Protocol):
    """Runs programs of this machine, confined: those in languages, script tools, and commands of the SDK.

    A program sees the files of this machine at their own paths, as far as its grants name them, and the system's
    directories (`/usr`, `/bin`, `/lib`, ...) for reading.
    """

    @property
    def facts(self) -> SandboxFacts:
        """The layers that confine programs, and the remaining risks, for people."""
        ...

    @property
    def tier(self) -> Tier:
        """How strongly it confines. Paddock attacks it before its first program and relies only on refusals."""
        ...

    def user(self, grants: ProcessGrants) -> int | None:
        """Return the number of the user that a program with such grants runs as; None for this process's own."""
        ...

    async def take_slot(self, grants: ProcessGrants, limits: ProcessLimits) -> SandboxSlot:
        """Return a slot for one program. The caller releases it. Raises EngineError if none can be made."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        grants: ProcessGrants | None = None,
        limits: ProcessLimits | None = None,
        streams: Streams | None = None,
        *,
        slot: Any = None,  # noqa: ANN401 - each sandbox has slots of its own
        stop: asyncio.Event | None = None,
    ) -> ProcessResult:
        """Run a program to its end and return the result, when no process of it is left.

        Processes that the kernel has not ended by then are counted in `survivors`, and are killed further.

        A program that goes beyond `limits` ends with the status and `limit` that say so. It gets the variables of
        `grants` alone. In a workspace that it may write to, protected paths such as `.git/hooks` and `.mcp.json` stay
        as they are, or are put back and reported as `violations`. Setting `stop` ends the program as `cancelled`, and
        so does cancelling the task. `slot` is one of this sandbox, or None for one that ends with the program.
        Raises EngineError when the sandbox itself fails before the program starts.
        """
        ...


class GuardingSandbox(Sandbox, Protocol):
    """A sandbox that keeps programs from Paddock's own files."""

    @property
    def own(self) -> tuple[str, ...]:
        """Paddock's own directories."""
        ...

    @property
    def files(self) -> "tuple[StateFile, ...]":
        """Paddock's own files elsewhere."""
        ...

    @property
    def installed(self) -> tuple[str, ...]:
        """Directories of Paddock's installation."""
        ...

    @property
    def protection(self) -> "ProtectionRules":
        """What of a writable workspace is protected."""
        ...

    @property
    def hiding(self) -> "HidingRules":
        """Which files of granted folders no program can read."""
        ...
