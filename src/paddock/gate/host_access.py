"""The hosts that a program reaches: serve its proxy, ask a person where a rule says so, record each connection.

    ConnectionWatch   asks and records; `Gate` makes one for each request, and one for each confined server
    RequestHosts      holds the turns of one request; `ProgramService`, `ScriptToolService` or `SdkCalls` makes it
      HostTurn        holds the connections of one process during that request: of the program (`open_for_program`),
                      or of the installation of its packages (`open_for_installation`)
        HostAccess    serves the proxy of one process until the process ends. That of a session outlives the request:
                      `ProgramService` keeps it by the session's handle, and each execution begins its own turn in it

Engines get a turn as `task.hosts`, and know it only as a `HostProxy` (`confinement/sandbox/protocol.py`). A confined
server belongs to no request: `confined_servers` makes its access and its only turn.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.confinement.sandbox.child.loopback import PROXY_ADDRESS
from paddock.foundation.cancellation import run_shielded
from paddock.model.base import count
from paddock.model.errors import ConfigurationError, EngineError
from paddock.model.host_names import Authority
from paddock.model.network import Connection, HostDecision, HostGrant, NetworkLimits
from paddock.model.outcome import RawResult, Status
from paddock.policy.decisions.environment import TRUST
from paddock.policy.decisions.network import decide_host, list_opened_hosts

if TYPE_CHECKING:
    from paddock.confinement.network.connector import Decide
    from paddock.confinement.sandbox.protocol import Pausable
    from paddock.engines.run_clock import RunClock

_BUNDLE = ".certificates.pem"
MAX_LISTED = 200
"""Maximum number of connections in an outcome; the record has all."""
_MAX_HINTS = 3
"""Maximum number of refusals that a hint explains."""


class ConnectionWatch(NamedTuple):
    """The gate's side of the connections of one request."""

    clock: "RunClock"
    """Pauses the program while a person is asked."""

    ask: Callable[[Authority, HostDecision], Awaitable[bool]]
    """Asks a person whether a program may connect to a host, or send it a request."""
    record: Callable[[Connection], Connection]
    """Writes a connection to the record, and returns it without secrets."""
    limits: NetworkLimits
    """Limits of all connections of one program together."""
    secret: Callable[[str], str | None]
    """Returns a secret of the vault by name, and removes it from everything from now on; None if there is none."""


class HostAccess:
    """The access of one program, or of one session, to hosts."""

    def __init__(self, grant: HostGrant, decide: "Decide | None" = None) -> None:
        """Decide by `decide`, or else by the grant alone.

        Raises EngineError if Paddock's own proxy, which HTTPS_PROXY names, cannot be used.
        """
        # Imported here, because most programs connect to nothing, and few rules look at requests.
        from paddock.confinement.network.outer_proxy import read_outer_proxy

        try:
            self._outer = read_outer_proxy(os.environ)
        except ConfigurationError as error:
            raise EngineError(str(error)) from None
        self._grant = grant
        self._certificates = None
        """Signs for the hosts whose TLS is opened; None if no rule looks at requests."""
        if opened := list_opened_hosts(grant):
            from paddock.confinement.network.certificates import CertificateAuthority

            self._certificates = CertificateAuthority(opened)
        self._decide = decide or partial(decide_host, grant)
        self._turn: HostTurn | None = None
        self._process: Pausable | None = None
        self._served: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    @property
    def opens_tls(self) -> bool:
        """Whether TLS of a host is opened, so that the program must trust an authority of ours."""
        return self._certificates is not None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead the clients of the program to its proxy."""
        from paddock.confinement.network.environment import make_node_options, make_proxy_environment
        from paddock.confinement.sandbox.spec import is_system_path  # most programs connect to nothing

        # Paddock's own variables for certificate authorities, as far as every program can read their files.
        trusted = {
            name: paths
            for name, paths in ((name, os.environ.get(name, "")) for name in TRUST)
            if all(os.path.isabs(path) and is_system_path(path) for path in paths.split(os.pathsep))
        }
        variables = make_proxy_environment(PROXY_ADDRESS[1], self._grant.rules)
        return {**trusted, **variables, "NODE_OPTIONS": make_node_options()}

    def prepare(self, scratch: Path) -> dict[str, str]:
        """Return the variables of the program, and write the certificates that they name into scratch."""
        if self._certificates is None:
            return self.environment
        from paddock.confinement.network.certificates import read_system_certificates
        from paddock.confinement.network.environment import make_trust_environment

        bundle = scratch / _BUNDLE
        bundle.write_text(f"{read_system_certificates()}\n{self._certificates.certificate}")
        bundle.chmod(0o644)
        return {**self.environment, **make_trust_environment(str(bundle))}

    @property
    def is_closed(self) -> bool:
        """Whether its program has ended."""
        return self._ended.is_set()

    def begin_turn(self, turn: "HostTurn") -> None:
        """Ask and record for another request from now on."""
        self._leave_clock()
        self._turn = turn
        self._join_clock()

    def _join_clock(self) -> None:
        if self._turn is not None and self._process is not None:
            self._turn.watch.clock.add(self._process)

    def _leave_clock(self) -> None:
        if self._turn is not None and self._process is not None:
            self._turn.watch.clock.remove(self._process)

    def serve(self, proxy_socket: socket.socket, process: "Pausable | None") -> None:
        """Serve the proxy of the program on this socket, in a task, which closes the socket.

        The clock of each request pauses the `process`.
        """
        self._process = process
        self._join_clock()
        self._served = asyncio.create_task(self._serve(proxy_socket))

    async def _serve(self, proxy_socket: socket.socket) -> None:
        from paddock.confinement.network.connector import ProxyTerms  # most programs connect to nothing
        from paddock.confinement.network.proxy import open_proxy

        assert self._turn is not None
        terms = ProxyTerms(
            decide=self._decide,
            on_connection=self._take,
            limits=self._turn.watch.limits,
            ask=self._ask,
            certificates=self._certificates,
            secret=self._turn.watch.secret,
            outer=self._outer,
        )
        async with open_proxy(proxy_socket, terms):
            await self._ended.wait()

    async def _ask(self, authority: Authority, decision: HostDecision) -> bool:
        assert self._turn is not None
        return await self._turn.watch.ask(authority, decision)

    def _take(self, connection: Connection) -> None:
        assert self._turn is not None
        self._turn.take(connection)

    async def close(self) -> None:
        """Close all connections. The processes of the program have ended."""
        self._ended.set()
        self._leave_clock()
        if self._served is not None:
            await run_shielded(asyncio.wait({self._served}))


class HostTurn:
    """The connections during one request: of a whole program, or of one execution in a session."""

    def __init__(self, access: HostAccess, watch: ConnectionWatch) -> None:
        self.access = access
        self.watch = watch
        self._connections: dict[object, Connection] = {}

    def prepare(self, scratch: Path) -> dict[str, str]:
        """Return the variables that lead the clients of a program to its proxy, and write what they name."""
        return self.access.prepare(scratch)

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The connections that ended or were refused, in order; equal refusals once."""
        return tuple(self._connections.values())

    def begin(self) -> None:
        """Take the connections from now on."""
        self.access.begin_turn(self)

    def serve(self, proxy_socket: socket.socket, process: "Pausable | None") -> None:
        """Serve the proxy of the program on this socket, and close it at the end. Pause it while a person is asked."""
        self.access.serve(proxy_socket, process)

    def take(self, connection: Connection) -> None:
        """Record a connection that has ended or was refused."""
        shown = self.watch.record(connection)
        is_refused = connection.verdict == "refused"  # clients try again and again
        key = (shown.host, shown.port, shown.reason) if is_refused else object()
        if len(self._connections) < MAX_LISTED:
            self._connections.setdefault(key, shown)

    async def close(self) -> None:
        """Close the connections of the program, which has ended."""
        await self.access.close()


class RequestHosts:
    """The connections of one request: of its program, and of the installation of its packages."""

    def __init__(self, watch: ConnectionWatch) -> None:
        self._watch = watch
        self._turns: list[HostTurn] = []
        self._of_program: HostTurn | None = None

    def open_for_installation(self, grant: HostGrant) -> HostTurn:
        """Return what serves the connections of an installation to the hosts that are granted."""
        return self._add_turn(HostAccess(grant))

    def open_for_program(self, access: HostAccess) -> HostTurn:
        """Return what serves the connections of the program; `access` is that of its session, if it has one."""
        self._of_program = self._add_turn(access)
        return self._of_program

    def _add_turn(self, access: HostAccess) -> HostTurn:
        self._turns.append(HostTurn(access, self._watch))
        return self._turns[-1]

    def add_connections(self, result: RawResult) -> RawResult:
        """Return the result with the connections, if there are any.

        The hint on a program that failed says what would allow its connections that were refused. It replaces a hint
        that was guessed from the program's output. A program that used its proxy gets no hint to use it.
        """
        connections = tuple(each for turn in self._turns for each in turn.connections)
        if not connections:
            return result
        own = self._of_program.connections if self._of_program is not None else ()
        if own and result.error is not None:
            from paddock.engines.programs.outcome_mapping import (
                PROXY_ONLY,
            )  # most programs connect to nothing

            hint = result.error.hint.removesuffix(PROXY_ONLY).removesuffix("; ")
            if result.error.phase == "run" and result.status is Status.FAILED:
                hint = _explain_refusals(own) or hint
            result = result.replace(error=result.error.replace(hint=hint))
        return result.replace(network=connections)


def _explain_refusals(connections: Iterable[Connection]) -> str:
    """Return why connections were refused, which names what would allow them; empty if none was."""
    reasons = list(dict.fromkeys(each.reason for each in connections if each.verdict == "refused"))
    more = len(reasons) - _MAX_HINTS
    return "; ".join(reasons[:_MAX_HINTS] + ([f"and {count(more, 'more', 'more')}"] if more > 0 else []))
