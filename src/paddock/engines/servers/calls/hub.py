"""The hub: calls to upstream servers, over as few processes as possible.

`ServerPool` in `lifecycle` decides, and this module acts: it passes events in and carries out the instructions. One
task owns each child from its start to its end, so that each resource is closed on every path.
"""

import asyncio
import functools
import importlib
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from paddock.engines.servers.auth.tokens import Logins
from paddock.engines.servers.calls import lifecycle as on
from paddock.engines.servers.calls.call_errors import CallFailed
from paddock.engines.servers.calls.lifecycle import Breaker, CallHealth, CallRefusal, IdleRules, ServerState
from paddock.engines.servers.calls.local import LocalConnection
from paddock.engines.servers.calls.process import ServerChild, start_process
from paddock.engines.servers.calls.turns import Turns
from paddock.engines.servers.config import HttpServer, Server, StdioServer
from paddock.engines.servers.local_server import LocalServer
from paddock.engines.servers.methods import MethodResult, check_parameters, read_answer
from paddock.engines.servers.result import ToolInfo, ToolResult, read_result, read_tools, without_hidden_names
from paddock.foundation.large_json import is_large
from paddock.foundation.store_threads import run_in_store_thread
from paddock.model.errors import (
    ConfigurationError,
    ServerError,
    ServerRejected,
    ServerUnauthorized,
    ServerUnavailable,
    UnknownServer,
    explain_start_failure,
)
from paddock.model.json_meter import MAX_VALUES

if TYPE_CHECKING:
    from paddock.engines.servers.calls.call_checks import CallChecks
    from paddock.engines.servers.calls.connection import ServerConnection
    from paddock.model.outcome import OnProgress

    AnyConnection = ServerConnection | LocalConnection

T = TypeVar("T")
WAIT_MS = 5_000
"""Maximum wait of a call for a slot in a full pool."""
SWEEP_MS = 60_000
"""Interval between checks for idle servers."""
_MAX_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The current state of one server."""

    name: str
    state: str
    """`idle` also for a server that was never started; see `live`."""
    live: bool
    """Whether its process or connection exists."""
    pid: int | None
    protocol: str
    starts: int
    """How often it was started."""
    calls_in_flight: int
    breaker_open: bool
    failures: int
    """Consecutive failures that the breaker has counted."""
    last_error: str
    warnings: tuple[str, ...]
    """How its answers broke the protocol."""
    calls_waiting: int = 0
    """Number of calls that wait because of its `maxConcurrent`."""


@dataclass(slots=True)
class _ServerRecord:
    """Facts about a server that outlive its children."""

    server: Server | LocalServer
    starts: int = 0
    legacy: bool = False
    """It does not know the stateless era; the next child need not probe."""
    connect_error: ServerError | None = None
    last_error: str = ""
    protocol: str = ""
    pid: int | None = None
    warnings: dict[str, None] = field(default_factory=dict[str, None])
    changes: int = 0
    """How often it reported that its tools changed."""
    left_out: tuple[str, ...] = ()
    """What is missing from its last listing, and why."""
    capabilities: frozenset[str] = frozenset()
    """What its last child declared, such as `resources`."""
    turns: Turns | None = None
    """The queue of its calls; None if any number of them may run."""

    @classmethod
    def of(cls, server: Server | LocalServer) -> Self:
        """Return the record of a server that was never started."""
        bound = None if isinstance(server, LocalServer) else server.max_concurrent
        return cls(server, turns=None if bound is None else Turns(server.name, bound))


StartConfined = Callable[[StdioServer, Mapping[str, str]], Awaitable[ServerChild]]
"""Starts a server in the sandbox with the grants of its entry, and these variables plus its own. Raises CallFailed."""


class Hub:
    """Calls tools of upstream servers. Use it as an async context manager, or `close()` it.

    Every child inherits `environment`, and its own variables are added. With `checks`, every child is asked for its
    tools before its first call, and whenever it reports that they changed. `absent` says by name why further servers of
    the file are not among `servers`. `start_confined` starts the servers whose entries confine them. `answer_values`
    limits the JSON values in one message of a server. `clock` returns seconds.
    """

    def __init__(
        self,
        servers: Mapping[str, Server | LocalServer],
        *,
        environment: Mapping[str, str],
        checks: "CallChecks | None" = None,
        absent: Mapping[str, str] | None = None,
        logins: Logins | None = None,
        start_confined: StartConfined | None = None,
        max_live: int = on.MAX_LIVE,
        idle_timeout_ms: float = on.IDLE_TIMEOUT_MS,
        wait_ms: float = WAIT_MS,
        sweep_ms: float = SWEEP_MS,
        answer_values: int = MAX_VALUES,
        breaker: Breaker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        terms = {name: _make_terms(server, idle_timeout_ms) for name, server in servers.items()}
        self._idle_timeout_ms = idle_timeout_ms
        self._pool = on.ServerPool(terms, bound=max_live, breaker=breaker)
        self._records = {name: _ServerRecord.of(server) for name, server in servers.items()}
        self._environment = dict(environment)
        self._checks = checks
        self._absent = absent
        self._logins = logins
        self._start_confined = start_confined
        self._wait_s = wait_ms / 1000
        self._sweep_s = sweep_ms / 1000
        self._answer_values = answer_values
        self._clock = clock
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[AnyConnection | ServerError]] = {}
        self._connections: dict[int, AnyConnection] = {}
        self._owners: dict[int, asyncio.Task[None]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        timeout_ms: float | None = None,
        caller: str = "",
        on_progress: "OnProgress | None" = None,
    ) -> ToolResult:
        """Call a tool and return its result; a result with `isError` is a result.

        The server is started if necessary. If it dies without an answer, the call is repeated once on a new child;
        after a timeout it is not repeated. `timeout_ms` limits the wait for the answer, and for the server's turn if it
        has `maxConcurrent`; callers named `caller` take turns. The server's own `timeoutMs` limits its start, and
        `wait_ms` the wait for a slot. `on_progress` receives what the server reports during the call, which extends no
        limit. Raises ServerError; its `sent` says whether the tool may have run.
        """
        record = self._find_record(server)
        limit = timeout_ms or record.server.timeout_ms

        def call(left: float) -> Awaitable[object]:
            async def ask(connection: "AnyConnection") -> object:
                await self._check_call(record, connection, tool, arguments, left)
                return await connection.call_tool(tool, dict(arguments), left, on_progress)

            return self._ask_twice(record, ask)

        turns = record.turns
        answer = await (call(limit) if turns is None else turns.take(f"tool {tool!r}", caller, limit, call))
        result = read_result(answer, server, self._answer_values)
        self._add_warnings(record, f"tool {tool!r}", result.warnings)
        return result

    async def request(
        self,
        server: str,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_ms: float | None = None,
        caller: str = "",
    ) -> MethodResult:
        """Send another method of `methods.METHODS`, under the rules of `call_tool`, and return its value.

        Raises ServerError.
        """
        check_parameters(server, method, params)
        record = self._find_record(server)
        limit = timeout_ms or record.server.timeout_ms

        def call(left: float) -> Awaitable[tuple[object, str]]:
            return self._ask_twice(record, lambda c: c.request(method, params, left))

        turns = record.turns
        answer, cut = await (call(limit) if turns is None else turns.take(method, caller, limit, call))
        result = read_answer(server, method, answer)
        warnings = (*filter(None, [cut]), *result.warnings)
        self._add_warnings(record, method, warnings)
        return MethodResult(result.value, warnings)

    def find_capabilities(self, server: str) -> frozenset[str]:
        """Return what a server declared when it was last started, such as `resources`; empty for one that was not."""
        record = self._records.get(server)
        return frozenset() if record is None else record.capabilities

    async def check_call(self, server: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """Check a call without making it. The server is started if necessary; the call then uses the same connection.

        Raises ServerError.
        """
        record = self._find_record(server)

        async def ask(connection: "AnyConnection") -> None:
            await self._check_call(record, connection, tool, arguments, record.server.timeout_ms)
            connection.check_call(tool, arguments)

        await self._ask_twice(record, ask)

    async def list_tools(self, server: str) -> list[ToolInfo]:
        """Ask the server for its tools. Raises ServerError."""
        record = self._find_record(server)
        return await self._ask_twice(record, lambda c: self._list_tools(record, c, record.server.timeout_ms))

    async def ensure_listed(self, server: str) -> None:
        """Make sure that the checks know the server's current tools; ask the server only if not. Raises ServerError."""
        record, child = self._find_record(server), self._pool.children.get(server)
        connection = self._connections.get(child.number) if child is not None else None
        if connection is None or not connection.listed:
            await self._ask_twice(record, lambda c: self._ensure_listed(record, c, record.server.timeout_ms))

    def add_server(self, server: Server | LocalServer) -> None:
        """Take calls for a further server."""
        self._pool.add_server(server.name, _make_terms(server, self._idle_timeout_ms))
        self._records[server.name] = _ServerRecord.of(server)

    def note_changed_tools(self, server: str) -> None:
        """Take note that a server has other tools than before."""
        self._on_tools_changed(self._records[server])
        child = self._pool.children.get(server)
        if child is not None and child.number in self._connections:
            self._connections[child.number].listed = False

    def count_changes(self, server: str) -> int:
        """Return how often a server has reported that its tools changed."""
        record = self._records.get(server)
        return record.changes if record is not None else 0

    def explain_left_out(self, server: str) -> tuple[str, ...]:
        """Return what is missing from the last listing of a server, and why."""
        record = self._records.get(server)
        return record.left_out if record is not None else ()

    def list_status(self) -> dict[str, ServerStatus]:
        """Return the status of every configured server, by name. Starts none."""
        return {name: self._make_status(name, record) for name, record in self._records.items()}

    async def close(self) -> None:
        """End all children concurrently, and refuse every further call. May be called again."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._feed_pool(on.ShutDown())
        while self._owners:
            await asyncio.wait(self._owners.values())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _check_call(
        self,
        record: _ServerRecord,
        connection: "AnyConnection",
        tool: str,
        arguments: Mapping[str, Any],
        limit: float,
    ) -> None:
        if self._checks is None:
            return
        server = record.server.name
        await self._ensure_listed(record, connection, limit)
        # The check of a large schema takes 100 ms and more, and the pins may be in a database.
        if self._checks.asks_pins(server, tool):
            await run_in_store_thread(self._checks.check_call, server, tool, arguments)
        elif is_large(arguments):
            await asyncio.to_thread(self._checks.check_call, server, tool, arguments)
        else:
            self._checks.check_call(server, tool, arguments)

    async def _ensure_listed(self, record: _ServerRecord, connection: "AnyConnection", limit: float) -> None:
        """Make sure that the checks have the tools of this child."""
        async with connection.listing:
            if connection.listed:
                return
            try:
                await self._list_tools(record, connection, limit)
            except CallFailed as failed:
                failed.error.sent = False  # only the listing was sent, not the call
                if not isinstance(failed.error, ServerRejected):
                    raise
                if self._checks is not None:
                    await run_in_store_thread(
                        self._checks.record_listing, record.server.name, []
                    )  # all its pinned tools are missing now

    async def _list_tools(
        self, record: _ServerRecord, connection: "AnyConnection", limit: float
    ) -> list[ToolInfo]:
        changes = record.changes
        entries, cut = await connection.list_tools(limit)
        tools, warnings = read_tools(entries)
        tools, hidden = without_hidden_names(tools)
        record.left_out = (*hidden[:_MAX_WARNINGS], *filter(None, [cut]))
        self._add_warnings(record, "tool listing", [*record.left_out, *warnings])
        if self._checks is not None:
            await run_in_store_thread(self._checks.record_listing, record.server.name, tools)
        connection.listed = record.changes == changes
        return tools

    def _find_record(self, name: str) -> _ServerRecord:
        record = self._records.get(name)
        if record is None:
            raise UnknownServer(name, self._records, self._absent)
        return record

    async def _ask_twice(self, record: _ServerRecord, ask: "Callable[[AnyConnection], Awaitable[T]]") -> T:
        """Ask, and repeat once if the first child died without an answer. The first error counts."""
        try:
            return await self._ask_once(record, ask)
        except CallFailed as failed:
            first = failed
        if first.again:
            try:
                return await self._ask_once(record, ask)
            except CallFailed as second:
                first.error.sent = first.error.sent or second.error.sent
            except (ServerError, ConfigurationError):
                pass  # the second call was not made; the first error says why, and whether the first one was sent
        record.last_error = str(first.error)
        raise first.error from None

    async def _ask_once(self, record: _ServerRecord, ask: "Callable[[AnyConnection], Awaitable[T]]") -> T:
        number = next(self._numbers)
        verdict = CallHealth.NEUTRAL
        try:
            connection = await self._wait_for_connection(number, record)
            answer = await ask(connection)
            verdict = CallHealth.SUCCESS
        except CallFailed as failed:
            verdict = failed.verdict
            raise
        finally:
            self._feed_pool(on.CallEnded(number, verdict))
        return answer

    async def _wait_for_connection(self, number: int, record: _ServerRecord) -> "AnyConnection":
        """Return the server's connection as soon as the pool grants it. Raises ServerError when it refuses."""
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(self._sweep_s, self._sweep_idle)
        granted: asyncio.Future[AnyConnection | ServerError] = asyncio.get_running_loop().create_future()
        self._waiting[number] = granted
        try:
            self._feed_pool(on.CallRequested(number, record.server.name))
            while not granted.done():
                await asyncio.wait({granted}, timeout=self._wait_s)
                if not granted.done():
                    self._feed_pool(on.WaitExpired(number))
        finally:
            del self._waiting[number]
        outcome = granted.result()
        if isinstance(outcome, ServerError):
            record.last_error = str(outcome)
            raise outcome
        return outcome

    def _feed_pool(self, event: on.Event) -> None:
        """Report an event to the pool and carry out its instructions."""
        for instruction in self._pool.handle_event(event, self._clock() * 1000):
            match instruction:
                case on.Start(child, server):
                    task = asyncio.create_task(self._own_child(child, self._records[server]))
                    self._owners[child] = task
                    # A callback, because a task that is cancelled before its first step does not run its `finally`.
                    task.add_done_callback(lambda _, child=child: self._on_child_exit(child))
                case on.Stop(child):
                    self._owners[child].cancel()
                case on.Dispatch(call, child):
                    self._waiting[call].set_result(self._connections[child])
                case on.Refuse(call, server, why):
                    self._waiting[call].set_result(self._make_refusal(server, why))

    async def _own_child(self, child: int, record: _ServerRecord) -> None:
        """Own one child from its start until nothing of it is left."""
        server = record.server
        if isinstance(server, LocalServer):
            await self._run_local(child, record, server)
            return
        try:
            try:
                shakes_hands = record.legacy or (isinstance(server, HttpServer) and server.transport == "sse")
                probe = not (shakes_hands or await self._is_silent(record))
                await self._run_child(child, record, server, probe=probe)
            except CallFailed as failed:
                if (
                    isinstance(server, HttpServer)
                    and server.transport == "auto"
                    and failed.wants_older_transport
                ):
                    await self._run_older_transport(child, record, server, failed)
                    return
                if record.legacy or not failed.again:
                    raise
                # Some servers of the older era exit at an unknown first message.
                await self._run_child(child, record, server, probe=False)
        except CallFailed as failed:
            record.connect_error = failed.error
            self._feed_pool(on.ConnectFailed(child, failed.verdict))
        except Exception as error:  # noqa: BLE001 - a fault of ours must not leave callers waiting
            text = server.secrets.hide(explain_start_failure(f"{type(error).__name__}: {error}"))
            record.connect_error = ServerUnavailable(text)
            self._feed_pool(on.ConnectFailed(child, CallHealth.FAILURE))

    async def _run_older_transport(
        self, child: int, record: _ServerRecord, server: HttpServer, first: CallFailed
    ) -> None:
        """Own a child with the transport HTTP+SSE. If its address does not have that, the first error counts."""
        try:
            await self._run_child(child, record, replace(server, transport="sse"), probe=False)
        except CallFailed:
            raise first from None

    async def _run_local(self, child: int, record: _ServerRecord, server: LocalServer) -> None:
        """Own a child that is no process: it lives until we are cancelled."""
        record.starts += 1
        self._connections[child] = connection = LocalConnection(server, self._answer_values)
        record.protocol = connection.protocol
        self._feed_pool(on.Connected(child))
        try:
            await connection.wait_until_lost()
        finally:
            self._feed_pool(on.ConnectionLost(child))

    async def _run_child(self, child: int, record: _ServerRecord, server: Server, *, probe: bool) -> None:
        """Start the child, keep it until it is lost or this task is cancelled, and end it. Raises CallFailed."""
        process = None
        record.starts += 1
        try:
            if isinstance(server, StdioServer):
                process = await self._start_process(server)
                record.pid = process.pid
            # Imported while the process is starting, because it takes most of a second.
            protocol = await asyncio.to_thread(
                importlib.import_module, "paddock.engines.servers.calls.connection"
            )
            lost = functools.partial(self._feed_pool, on.ConnectionLost(child))
            changed = functools.partial(self._on_tools_changed, record)
            auth = None
            if self._logins is not None and isinstance(server, HttpServer) and not server.has_credentials:
                # Imported here, because it imports the MCP library's OAuth client.
                from paddock.engines.servers.auth.bearer import make_bearer_auth

                auth = make_bearer_auth(server, self._logins.find_keeper(server))
            async with protocol.open_connection(
                server,
                process,
                probe=probe,
                on_lost=lost,
                on_changed=changed,
                auth=auth,
                max_values=self._answer_values,
            ) as connection:
                record.protocol = connection.protocol
                record.legacy = connection.legacy
                record.capabilities = connection.capabilities
                await self._note_silence(record, connection)
                self._connections[child] = connection
                self._feed_pool(on.Connected(child))
                await connection.wait_until_lost()
            if process is not None:
                await process.exit_status()  # so that the errors of calls report how it ended
        except OSError as error:
            text = server.secrets.hide(explain_start_failure(str(error)))
            raise CallFailed(ServerUnavailable(text), CallHealth.FAILURE) from None
        except ExceptionGroup as group:
            if child not in self._connections:
                text = server.secrets.hide(f"the connection broke ({group.exceptions[0]!r})")
                raise CallFailed(ServerUnavailable(text, retryable=True), CallHealth.FAILURE) from None
        finally:
            self._feed_pool(on.ConnectionLost(child))
            record.pid = None
            if process is not None:
                await process.stop()

    async def _start_process(self, server: StdioServer) -> ServerChild:
        """Start a server as its entry says. One that is to be confined never starts in another way."""
        if server.confine is None:
            return await start_process(server, self._environment)
        if self._start_confined is None:
            text = "it is to be confined, and this hub has no sandbox."
            raise CallFailed(ServerUnavailable(text), CallHealth.FAILURE)
        return await self._start_confined(server, self._environment)

    async def _note_silence(self, record: _ServerRecord, connection: "ServerConnection") -> None:
        """Record for later processes whether the server answered `server/discover`."""
        answers = not connection.legacy and await self._is_silent(record)
        if self._checks is not None and (connection.silent or answers):
            await run_in_store_thread(self._checks.note_silent, record.server.name, silent=connection.silent)

    async def _is_silent(self, record: _ServerRecord) -> bool:
        return self._checks is not None and await run_in_store_thread(
            self._checks.is_silent, record.server.name
        )

    def _on_tools_changed(self, record: _ServerRecord) -> None:
        record.changes += 1

    def _on_child_exit(self, child: int) -> None:
        del self._owners[child]
        self._connections.pop(child, None)
        self._feed_pool(on.Disconnected(child))

    def _sweep_idle(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(self._sweep_s, self._sweep_idle)
        self._feed_pool(on.Swept())

    def _make_refusal(self, server: str, why: CallRefusal) -> ServerError:
        """Return the error for a call that the pool refused; nothing was sent."""
        match why:
            case CallRefusal.SHUT_DOWN:
                return ServerUnavailable("The hub is closed; no server can be called any more.")
            case CallRefusal.POOL_FULL:
                text = f"Pool upper bound ({self._pool.bound}) reached, no idle children to evict"
                return ServerUnavailable(text, retryable=True)
            case CallRefusal.BREAKER_OPEN:
                cooldown = self._pool.breakers[server].cooldown_ms
                text = f"Circuit breaker open for {server} — cooldown {cooldown:g}ms"
                return ServerUnavailable(text, retryable=True)
            case CallRefusal.CONNECT_FAILED:
                error = self._records[server].connect_error
                kind = ServerUnauthorized if isinstance(error, ServerUnauthorized) else ServerUnavailable
                text = f"Failed to connect to server {server}: {error}"
                return kind(text, retryable=error is not None and error.retryable)

    def _add_warnings(self, record: _ServerRecord, where: str, warnings: Sequence[str]) -> None:
        for text in warnings:
            if len(record.warnings) < _MAX_WARNINGS:
                record.warnings[f"{where}: {text}"] = None

    def _make_status(self, name: str, record: _ServerRecord) -> ServerStatus:
        child, breaker = self._pool.children.get(name), self._pool.breakers[name]
        return ServerStatus(
            name=name,
            state=child.state if child is not None else ServerState.IDLE,
            live=child is not None and child.live,
            pid=record.pid,
            protocol=record.protocol,
            starts=record.starts,
            calls_in_flight=len(child.calls) if child is not None else 0,
            breaker_open=breaker.is_open(self._clock() * 1000),
            failures=breaker.failures,
            last_error=record.last_error,
            warnings=tuple(record.warnings),
            calls_waiting=record.turns.waiting if record.turns is not None else 0,
        )


def _make_terms(server: Server | LocalServer, default_ms: float) -> IdleRules:
    """Return how long a server's child may stay idle: keep-alive without a limit, unless the entry sets one."""
    if isinstance(server, LocalServer):
        return IdleRules(None)
    own = server.lifecycle
    if own.mode == "ephemeral":
        return IdleRules(own.idle_timeout_ms or default_ms, ephemeral=True)
    kept = None if own.mode == "keep-alive" else default_ms
    return IdleRules(own.idle_timeout_ms or kept)
