"""Start the child processes of this package: fork servers, and the parser.

Importing the rest of Paddock takes as long as these processes need to become ready. Therefore this module imports
little, and the command line starts the processes before it imports anything else (`prestart_fork_server`,
`prestart_parse_worker`).
"""

import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from paddock.confinement.sandbox import interpreter
from paddock.confinement.sandbox.child import preflight
from paddock.model.errors import EngineError, explain_start_failure

EngineProfile = Literal["guest", "guest-jit"]


class EngineProcess(NamedTuple):
    """A child process and this side of its one socket."""

    process: subprocess.Popen[bytes]
    connection: socket.socket


class Launcher:
    """Returns children that were started early, then starts new ones. Raises EngineError without mini-racer."""

    def __init__(self) -> None:
        self._fork_servers: dict[EngineProfile, EngineProcess] = {}
        self._readers: list[EngineProcess] = []

    @property
    def spare_children(self) -> tuple[EngineProcess, ...]:
        """The children that were started early and not used yet."""
        return (*self._fork_servers.values(), *self._readers)

    def prestart_fork_server(self, profile: EngineProfile) -> None:
        """Start a fork server before it is needed."""
        self._fork_servers[profile] = self.start_fork_server(profile)

    def prestart_parse_worker(self) -> None:
        """Start a parser before it is needed."""
        self._readers.append(self.start_parse_worker())

    def start_fork_server(self, profile: EngineProfile) -> EngineProcess:
        """Return a fork server (`paddock.engines.javascript.child.fork_server`); the caller ends it."""
        early = self._fork_servers.pop(profile, None)
        return early or _launch_child("fork_server", profile, kind=socket.SOCK_SEQPACKET)

    def start_parse_worker(self) -> EngineProcess:
        """Return a parser (`paddock.engines.javascript.child.parse_worker`); the caller ends it."""
        return (
            self._readers.pop() if self._readers else _launch_child("parse_worker", kind=socket.SOCK_STREAM)
        )

    def close(self) -> None:
        """End the children that were started early and never used."""
        children = self.spare_children
        self._fork_servers.clear()
        self._readers.clear()
        for process, connection in children:
            connection.close()
            process.kill()
            process.wait()


def _launch_child(module: str, *arguments: str, kind: socket.SocketKind) -> EngineProcess:
    """Start a process without site-packages and environment; it gets one socket and the engine's directory."""
    if lacking := preflight.powers_lacking(preflight.FOR_GUESTS):
        raise EngineError(lacking)
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    except OSError as error:
        raise EngineError(
            explain_start_failure(f"the {module} could not be started ({error.strerror})")
        ) from error
    number, name = theirs.fileno(), f"paddock.engines.javascript.child.{module}"
    with theirs:
        try:
            process = interpreter.start(name, str(number), *arguments, find_engine_directory(), keep=number)
        except EngineError:
            ours.close()
            raise
    return EngineProcess(process, ours)


def find_engine_directory() -> str:
    """Return where mini-racer keeps its library, without importing it."""
    spec = find_spec("py_mini_racer")
    if spec is None or spec.origin is None:
        raise EngineError("the V8 library is missing: reinstall Paddock with its dependency mini-racer")
    return str(Path(spec.origin).parent)
