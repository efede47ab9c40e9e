"""The process of a stdio server: its start, its last output, and its end including all descendants.

The child leads its own session, so that one signal to its process group reaches what `npx` and `uvx` start. When
Paddock is killed, the kernel closes the child's stdin, which ends every well-behaved server and its launcher, and kills
the child because of PR_SET_PDEATHSIG. `preexec_fn` would stall the event loop. Therefore `setpriv` of util-linux sets
that signal: 0.9 ms per start against 7 ms for a Python program. Without `setpriv`, only stdin is closed.
"""

import asyncio
import contextlib
import functools
import os
import re
import shutil
import signal
from abc import ABC, abstractmethod
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import Callable, Mapping
from pathlib import Path

from paddock.engines.servers.config import StdioServer, may_download
from paddock.engines.servers.output import MAX_LINE_BYTES, ServerOutput
from paddock.foundation.files import system_program
from paddock.record.output.digest.faults import faults

GRACE_MS = 50
"""How long a child may take to exit after its stdin was closed."""

TERM_WAITS_MS = (100, 200, 400, 800)
"""The wait after each SIGTERM; the last one is followed by SIGKILL."""

_TAIL_BYTES = 4096
_MAX_LINES = 10
_MAX_LINE_CHARS = 400
"""Maximum number of lines, and of characters in a line, that errors show of a server's output."""
_FRAME_PATTERN = re.compile(r"\s+at \S")
"""A stack line as printed by V8 and Java. Their stacks are long, and the message precedes them."""
_MISSING_MODULE_PATTERN = re.compile(r"Cannot find (?:module|package) ")
_NPX_COPY_PATTERN = re.compile(r"(?<![^\s'\"(])(/[\w./@+~-]{0,300}/_npx/[0-9a-f]{8,64})/node_modules/")
"""The directory in which npm keeps packages for npx, without characters that are special in a shell."""
_POLL_S = 0.005
_EXIT_VISIBLE_S = 0.25
_REAP_S = 1.0


class ServerPipes(SubprocessStreamProtocol):
    """The other pipes of a server. The end of its output already reports a broken input."""

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Mark the exception as retrieved; otherwise early releases of Python 3.11 log it."""
        super().pipe_connection_lost(fd, exc)
        closed: asyncio.Future[None] = vars(self)["_stdin_closed"]
        if closed.done() and not closed.cancelled():
            closed.exception()


class ServerChild(ABC):
    """The child of a stdio server, confined or not. Its owner must call `stop()`."""

    def __init__(
        self, stdin: asyncio.StreamWriter, stdout: ServerOutput, hide: Callable[[str], str], pid: int | None
    ) -> None:
        self.stdin, self.stdout = stdin, stdout
        self.pid = pid
        """Its process id; None for a child in a PID namespace."""
        self.stopping = False
        """Whether Paddock ended it."""
        self._hide = hide
        self._tail = self._strayed = b""
        self.on_stderr: Callable[[int], object] = int
        """Called with the number of bytes that arrived on stderr."""

    @abstractmethod
    async def exit_status(self) -> int | None:
        """Return the status with which the server exited by itself (negative: signal); None if it did not."""

    @abstractmethod
    async def stop(self) -> None:
        """End the server and everything that it started."""

    def note_skipped_line(self, line: bytes) -> None:
        """Record an output line that is no message."""
        self._strayed = (self._strayed + line)[-_TAIL_BYTES:]

    def note_stderr(self, data: bytes) -> None:
        """Record what arrived on stderr, of which only the tail is kept."""
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        self.on_stderr(len(data))

    async def last_words(self) -> str:
        """Return a sentence with the end of the server's readable output, secrets hidden; empty if there is none."""
        for where, tail in (("stderr", self._tail), ("output", self._strayed)):
            if words := _select_last_lines(
                self._hide(tail.decode(errors="replace")), whole=len(tail) < _TAIL_BYTES
            ):
                return f" Its {where} ends: {words}"
        return ""


class ServerProcess(ServerChild):
    """A server that runs as the user."""

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        pipes: SubprocessStreamProtocol,
        output: tuple[asyncio.ReadTransport, ServerOutput],
        hide: Callable[[str], str],
    ) -> None:
        assert pipes.stdin is not None
        self._leader = transport.get_pid()
        super().__init__(pipes.stdin, output[1], hide, self._leader)
        self._output = output[0]
        self._transport = transport
        self._stderr = pipes.stderr
        self._drain = asyncio.create_task(self._drain_stderr())

    async def exit_status(self) -> int | None:
        """Return the status with which the server exited by itself (negative: signal); None if it did not."""
        await _wait_until(lambda: self.stopping or not self._leader_alive(), _EXIT_VISIBLE_S)
        return None if self.stopping else self._transport.get_returncode()

    async def last_words(self) -> str:
        """Return a sentence with the end of the server's readable output, secrets hidden; empty if there is none."""
        await asyncio.wait({self._drain}, timeout=_POLL_S)
        return await super().last_words()

    async def stop(self) -> None:
        """End the whole process group: close stdin, then SIGTERM with growing waits, then SIGKILL.

        Takes at most 1.55 s plus the time of the kernel. A second cancellation skips to SIGKILL.
        """
        self.stopping = self._leader_alive()
        ended = False
        try:
            self.stdin.close()
            ended = await _wait_until(self._is_group_ended, GRACE_MS / 1000)
            for wait in TERM_WAITS_MS:
                if ended:
                    break
                self._signal_group(signal.SIGTERM)
                ended = await _wait_until(self._is_group_ended, wait / 1000)
        finally:
            if not ended:
                self._signal_group(signal.SIGKILL)
                await _wait_until(self._is_group_ended, _REAP_S)
            # A descendant in another session may keep its ends of the pipes open; close ours anyway.
            self._drain.cancel()
            self._output.close()
            self._transport.close()
            await asyncio.sleep(0)

    async def _drain_stderr(self) -> None:
        """Read stderr without a pause, so that a full pipe never blocks the server; keep only the tail."""
        assert self._stderr is not None
        while chunk := await self._stderr.read(65536):
            self.note_stderr(chunk)

    def _leader_alive(self) -> bool:
        return self._transport.get_returncode() is None

    def _is_group_ended(self) -> bool:
        if self._leader_alive():
            return False
        try:
            os.killpg(self._leader, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return not is_any_running(self._leader)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leader, number)


async def start_process(server: StdioServer, environment: Mapping[str, str]) -> ServerProcess:
    """Start the server with `environment` plus its own variables, and nothing else.

    Raises OSError if the command or the working directory does not exist or may not be used.
    """
    env = {**environment, **server.env}
    argv = [*find_death_signal(), find_executable(server, env), *server.args]
    loop = asyncio.get_running_loop()
    ours, theirs = os.pipe()
    try:
        # A separate pipe: output through asyncio's own pipe arrives one turn of the event loop later.
        output = await loop.connect_read_pipe(ServerOutput, os.fdopen(ours, "rb", buffering=0))
        try:
            transport, pipes = await loop.subprocess_exec(
                lambda: ServerPipes(limit=MAX_LINE_BYTES, loop=loop),
                *argv,
                stdin=PIPE,
                stdout=theirs,
                stderr=PIPE,
                env=env,
                cwd=server.cwd,
                start_new_session=True,
            )
        except BaseException:
            output[0].close()
            raise
    finally:
        os.close(theirs)
    return ServerProcess(transport, pipes, output, server.secrets.hide)


def find_executable(server: StdioServer, env: Mapping[str, str]) -> str:
    """Return the path of the command. Behind `setpriv`, a missing command would look like a crash."""
    if server.cwd is not None and not server.cwd.is_dir():
        raise NotADirectoryError(f"working directory {server.cwd} does not exist; correct `cwd`")
    command = server.command
    if os.sep in command:
        path = Path(server.cwd or "", command).absolute()
        if not os.access(path, os.X_OK) or path.is_dir():
            raise FileNotFoundError(f"command {command} is not an executable file; correct `command`")
        return str(path)
    folders = [folder for folder in env.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    found = shutil.which(command, path=os.pathsep.join(folders))  # relative ones would be within a workspace
    if found is None:
        raise FileNotFoundError(f"command {command} is not on the PATH; install it or give its full path")
    return found


@functools.cache
def find_death_signal() -> tuple[str, ...]:
    """Return the command prefix that makes the kernel kill the child when Paddock dies; empty if there is none."""
    setpriv = system_program("setpriv")
    if setpriv is None or Path(setpriv).resolve().name == "busybox":  # busybox has no --pdeathsig
        return ()
    return (setpriv, "--pdeathsig", "KILL", "--")


def _select_last_lines(text: str, *, whole: bool) -> str:
    """Return the last lines of a text, and the last error above them, without stack lines."""
    lines = text.splitlines() if whole else text.partition("\n")[2].splitlines()
    relevant = [
        line.rstrip()[:_MAX_LINE_CHARS] for line in lines if line.strip() and not _FRAME_PATTERN.match(line)
    ]
    above, last = relevant[:-_MAX_LINES], relevant[-_MAX_LINES:]
    if above and not any(faults(last)) and (errors := [fault.message for fault in faults(above)]):
        last = [errors[-1], "...", *last[2:]]
    return "\n".join(last)


def suggest_remedy(command: str, words: str) -> str:
    """Return the remedy for an incomplete copy of a package, which npx's output names; empty otherwise.

    npx uses an existing copy. If its installation was interrupted, the copy stays incomplete for ever.
    """
    found = (
        _NPX_COPY_PATTERN.search(words)
        if may_download(command) and _MISSING_MODULE_PATTERN.search(words)
        else None
    )
    return f"\nnpm's copy of the package is incomplete: remove {found[1]}, and try again." if found else ""


def is_any_running(group: int) -> bool:
    """Return whether the group has a member that is not a zombie (proc(5), stat).

    If no process reaps orphans, as in a container whose first process is Paddock, dead members stay visible.
    """
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, member_of = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(member_of) == group and state != "Z":
            return True
    return False


async def _wait_until(done: Callable[[], bool], seconds: float) -> bool:
    """Poll until `done`, at most `seconds`: asyncio's `wait()` also waits for the pipes."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not done():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True
