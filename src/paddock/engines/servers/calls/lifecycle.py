"""The life of upstream servers as one state machine: no I/O, no clock, no randomness.

`ServerPool.handle_event(event, now)` takes an event and returns instructions. The same events and times give the
same instructions, so that Hypothesis can drive it and a failure can be replayed.

A *child* is one incarnation of a server: a process, or an HTTP connection. Its state changes only along `TRANSITIONS`.
It occupies a slot in the pool from the instruction to start it until the report that nothing of it is left. A closed or
failed child that is still ending keeps its slot, so that there are never more than `bound` processes. Calls that cannot
be sent at once wait in one queue, first come first served. A server has at most one child, which its concurrent calls
share.

Times are milliseconds on any monotonic clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

MAX_LIVE = 20
IDLE_TIMEOUT_MS = 300_000
FAILURE_THRESHOLD = 5
"""Number of consecutive failures that opens the breaker."""
COOLDOWN_MS = 30_000
"""How long the breaker stays open, in milliseconds, including the last one."""


class ServerState(StrEnum):
    """The state of a child."""

    IDLE = "idle"
    CONNECTING = "connecting"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


TRANSITIONS: Mapping[ServerState, frozenset[ServerState]] = {
    ServerState.IDLE: frozenset({ServerState.CONNECTING, ServerState.ACTIVE, ServerState.CLOSED}),
    ServerState.CONNECTING: frozenset({ServerState.ACTIVE, ServerState.FAILED, ServerState.CLOSED}),
    ServerState.ACTIVE: frozenset({ServerState.IDLE, ServerState.FAILED, ServerState.CLOSED}),
    ServerState.FAILED: frozenset({ServerState.CONNECTING, ServerState.CLOSED}),
    ServerState.CLOSED: frozenset(),
}


class CallHealth(StrEnum):
    """What a call or a connect shows about the health of its server."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"
    """Refused credentials, an exited process, a cancelled call: the breaker does not count it."""


class CallRefusal(StrEnum):
    """Why a call is refused."""

    BREAKER_OPEN = "breaker open"
    POOL_FULL = "pool full"
    CONNECT_FAILED = "connect failed"
    SHUT_DOWN = "shut down"


@dataclass(frozen=True, slots=True)
class CallRequested:
    """A caller wants to call a server. `call` is a number that was never used before."""

    call: int
    server: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call has ended: it was answered, or cancelled before or after its dispatch."""

    call: int
    verdict: CallHealth


@dataclass(frozen=True, slots=True)
class WaitExpired:
    """A call has waited for a slot for the maximum time."""

    call: int


@dataclass(frozen=True, slots=True)
class Connected:
    """A child is ready for calls."""

    child: int


@dataclass(frozen=True, slots=True)
class ConnectFailed:
    """A child could not be made ready."""

    child: int
    verdict: CallHealth


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A ready child ended without an instruction."""

    child: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """Nothing is left of a child: its process group is dead, its connection closed."""

    child: int


@dataclass(frozen=True, slots=True)
class Swept:
    """Time to look for children that have been idle too long."""


@dataclass(frozen=True, slots=True)
class ShutDown:
    """The pool ends: everything stops, and no further call is accepted."""


Event = (
    CallRequested
    | CallEnded
    | WaitExpired
    | Connected
    | ConnectFailed
    | ConnectionLost
    | Disconnected
    | Swept
    | ShutDown
)


@dataclass(frozen=True, slots=True)
class Start:
    """Start a server as this child. Report Connected or ConnectFailed, and Disconnected at the end."""

    child: int
    server: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End a child and everything that it started. Report Disconnected."""

    child: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send a waiting call to a ready child."""

    call: int
    child: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse a waiting call."""

    call: int
    server: str
    why: CallRefusal


Instruction = Start | Stop | Dispatch | Refuse


@dataclass(frozen=True, slots=True)
class Breaker:
    """The circuit breaker of one server: a value that counts consecutive failures.

    It refuses calls while it is open; after the cooldown, it allows them again. Opening resets the count, so that a
    server needs five more failures to open it again.
    """

    threshold: int = FAILURE_THRESHOLD
    cooldown_ms: float = COOLDOWN_MS
    failures: int = 0
    opened_at: float | None = None

    def is_open(self, now: float) -> bool:
        """Return whether calls are refused at `now`, in milliseconds."""
        return self.opened_at is not None and now - self.opened_at <= self.cooldown_ms

    def record_failure(self, now: float) -> "Breaker":
        """Return the breaker after one more failure at `now`."""
        if self.failures + 1 < self.threshold:
            return replace(self, failures=self.failures + 1)
        return replace(self, failures=0, opened_at=now)

    def record_success(self) -> "Breaker":
        """Return the breaker after a success: its failures are forgotten."""
        return (
            replace(self, failures=0, opened_at=None) if self.failures or self.opened_at is not None else self
        )


@dataclass(frozen=True, slots=True)
class IdleRules:
    """How long a server's child may stay idle."""

    idle_timeout_ms: float | None = IDLE_TIMEOUT_MS
    """None: without a limit (keep-alive)."""
    ephemeral: bool = False
    """End it when its last call ends."""


@dataclass(slots=True)
class ServerIncarnation:
    """One incarnation of a server."""

    number: int
    server: str
    state: ServerState = ServerState.IDLE
    live: bool = False
    """Occupies a slot: something of it may still exist."""
    idle_since: float = 0.0
    calls: set[int] = field(default_factory=set[int])

    def change_state(self, state: ServerState) -> None:
        """Change the state. A forbidden transition is a bug of this module."""
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state


class ServerPool:
    """All servers, their children, their breakers and the waiting calls."""

    def __init__(
        self, terms: Mapping[str, IdleRules], *, bound: int = MAX_LIVE, breaker: Breaker | None = None
    ) -> None:
        self.bound = bound
        self.children: dict[str, ServerIncarnation] = {}
        self.breakers = dict.fromkeys(terms, breaker or Breaker())
        self.queue: dict[int, str] = {}
        """Waiting calls and their servers, in order of arrival."""
        self.shut = False
        self._terms = dict(terms)
        self._breaker = breaker or Breaker()
        self._servers: dict[int, str] = {}
        """The server of each dispatched call."""
        self._started = 0

    def add_server(self, name: str, terms: IdleRules) -> None:
        """Take calls for a further server."""
        self._terms[name] = terms
        self.breakers[name] = self._breaker

    def handle_event(self, event: Event, now: float) -> list[Instruction]:
        """Process an event at time `now` and return the instructions. Events of former children are ignored."""
        match event:
            case CallRequested(call, server):
                self.queue[call] = server
                return self._place_call(call, server, now) + self._make_room()
            case CallEnded(call, verdict):
                return self._call_ended(call, verdict, now)
            case WaitExpired(call):
                return self._wait_expired(call)
            case Swept():
                return [
                    self._close_child(child)
                    for child in list(self.children.values())
                    if child.state is ServerState.IDLE and now - child.idle_since > self._idle_limit(child)
                ]
            case ShutDown():
                self.shut = True
                refused: list[Instruction] = [
                    self._refuse_call(call, CallRefusal.SHUT_DOWN) for call in list(self.queue)
                ]
                open_states = (ServerState.IDLE, ServerState.CONNECTING, ServerState.ACTIVE)
                return refused + [
                    self._close_child(c) for c in self.children.values() if c.state in open_states
                ]
            case _:
                return self._child_reported(event, now)

    @property
    def live(self) -> int:
        """Number of occupied slots."""
        return sum(child.live for child in self.children.values())

    def _child_reported(
        self, event: Connected | ConnectFailed | ConnectionLost | Disconnected, now: float
    ) -> list[Instruction]:
        child = next((c for c in self.children.values() if c.number == event.child), None)
        if child is None:
            return []
        match event:
            case Connected() if child.state is ServerState.CONNECTING:
                child.change_state(ServerState.ACTIVE)
                out = self._place_waiting_calls(now)
                return out + self._settle_child(child, now)
            case ConnectFailed(_, verdict) if child.state is ServerState.CONNECTING:
                child.change_state(ServerState.FAILED)
                self._update_breaker(child.server, verdict, now)
                waiting = [call for call, server in self.queue.items() if server == child.server]
                return [self._refuse_call(call, CallRefusal.CONNECT_FAILED) for call in waiting]
            case ConnectionLost() if child.state in (ServerState.IDLE, ServerState.ACTIVE):
                if child.state is ServerState.IDLE:
                    child.change_state(ServerState.ACTIVE)
                child.change_state(ServerState.FAILED)
                return []
            case Disconnected() if child.state in (ServerState.FAILED, ServerState.CLOSED):
                child.live = False
                if child.state is not ServerState.FAILED:
                    del self.children[child.server]
                return self._place_waiting_calls(now)
            case _:
                return []

    def _place_call(self, call: int, server: str, now: float) -> list[Instruction]:
        """Dispatch a waiting call, refuse it, start its server, or keep it waiting."""
        if self.shut:
            return [self._refuse_call(call, CallRefusal.SHUT_DOWN)]
        if self.breakers[server].is_open(now):
            return [self._refuse_call(call, CallRefusal.BREAKER_OPEN)]
        child = self.children.get(server)
        if child is not None and child.state in (ServerState.IDLE, ServerState.ACTIVE):
            del self.queue[call]
            self._servers[call] = server
            child.calls.add(call)
            if child.state is ServerState.IDLE:
                child.change_state(ServerState.ACTIVE)
            return [Dispatch(call, child.number)]
        if (child is None or not child.live) and self.live < self.bound:
            return [self._start_child(server, child)]
        return []

    def _start_child(self, server: str, failed: ServerIncarnation | None) -> Start:
        self._started += 1
        child = failed or ServerIncarnation(self._started, server)
        child.number, child.live = self._started, True
        child.calls.clear()
        child.change_state(ServerState.CONNECTING)
        self.children[server] = child
        return Start(child.number, server)

    def _make_room(self) -> list[Instruction]:
        """Close the longest idle children until there will be a slot for each waiting server."""
        if not self.queue:
            return []
        ready = (ServerState.IDLE, ServerState.ACTIVE, ServerState.CONNECTING)
        homeless = {
            server
            for server in self.queue.values()
            if (child := self.children.get(server)) is None or child.state not in ready
        }
        dying = sum(child.live and child.state not in ready for child in self.children.values())
        short = len(homeless) - dying - (self.bound - self.live)
        idle = sorted(
            (c for c in self.children.values() if c.state is ServerState.IDLE), key=lambda c: c.idle_since
        )
        return [self._close_child(child) for child in idle[: max(short, 0)]]

    def _place_waiting_calls(self, now: float) -> list[Instruction]:
        return [i for call, server in list(self.queue.items()) for i in self._place_call(call, server, now)]

    def _call_ended(self, call: int, verdict: CallHealth, now: float) -> list[Instruction]:
        self.queue.pop(call, None)
        server = self._servers.pop(call, None)
        if server is None:
            return []
        self._update_breaker(server, verdict, now)
        child = self.children.get(server)
        if child is None or call not in child.calls:
            return []
        child.calls.remove(call)
        return self._settle_child(child, now) if child.state is ServerState.ACTIVE else []

    def _settle_child(self, child: ServerIncarnation, now: float) -> list[Instruction]:
        """Keep a child without calls idle, or end it if it is ephemeral or its breaker has opened."""
        if child.calls:
            return []
        child.change_state(ServerState.IDLE)
        child.idle_since = now
        if self._terms[child.server].ephemeral or self.breakers[child.server].is_open(now):
            return [self._close_child(child)]
        return self._make_room()

    def _wait_expired(self, call: int) -> list[Instruction]:
        """Refuse a call that has no slot. A call keeps waiting if its server is starting or ending."""
        server = self.queue.get(call)
        if server is None or (server in self.children and self.children[server].live):
            return []
        if any(
            child.live and child.state in (ServerState.CLOSED, ServerState.FAILED)
            for child in self.children.values()
        ):
            return []
        return [self._refuse_call(call, CallRefusal.POOL_FULL)]

    def _update_breaker(self, server: str, verdict: CallHealth, now: float) -> None:
        if verdict is CallHealth.SUCCESS:
            self.breakers[server] = self.breakers[server].record_success()
        elif verdict is CallHealth.FAILURE:
            self.breakers[server] = self.breakers[server].record_failure(now)

    def _idle_limit(self, child: ServerIncarnation) -> float:
        limit = self._terms[child.server].idle_timeout_ms
        return float("inf") if limit is None else limit

    def _close_child(self, child: ServerIncarnation) -> Stop:
        child.change_state(ServerState.CLOSED)
        return Stop(child.number)

    def _refuse_call(self, call: int, why: CallRefusal) -> Refuse:
        return Refuse(call, self.queue.pop(call), why)
