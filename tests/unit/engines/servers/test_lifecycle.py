import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from paddock.engines.servers.calls.lifecycle import (
    TRANSITIONS,
    Breaker,
    CallEnded,
    CallHealth,
    CallRefusal,
    CallRequested,
    Connected,
    ConnectFailed,
    ConnectionLost,
    Disconnected,
    Dispatch,
    IdleRules,
    Refuse,
    ServerIncarnation,
    ServerPool,
    ServerState,
    ShutDown,
    Start,
    Stop,
    Swept,
    WaitExpired,
)


def pool(*servers, **options):
    return ServerPool(dict.fromkeys(servers, IdleRules()), **options)


def connected(machine, call, server, child, now=0):
    """Bring a server up with one call; the call is over when this returns."""
    assert machine.handle_event(CallRequested(call, server), now) == [Start(child, server)]
    assert machine.handle_event(Connected(child), now) == [Dispatch(call, child)]
    assert machine.handle_event(CallEnded(call, CallHealth.SUCCESS), now) == []


@pytest.mark.parametrize("source", ServerState)
def test_legal_moves_are_those_of_the_specification(source):
    legal = {
        ServerState.IDLE: {ServerState.CONNECTING, ServerState.ACTIVE, ServerState.CLOSED},
        ServerState.CONNECTING: {ServerState.ACTIVE, ServerState.FAILED, ServerState.CLOSED},
        ServerState.ACTIVE: {ServerState.IDLE, ServerState.FAILED, ServerState.CLOSED},
        ServerState.FAILED: {ServerState.CONNECTING, ServerState.CLOSED},
        ServerState.CLOSED: set(),
    }
    assert TRANSITIONS[source] == legal[source]
    for target in ServerState:
        child = ServerIncarnation(1, "a", source)
        if target in legal[source]:
            child.change_state(target)
            assert child.state is target
        else:
            with pytest.raises(AssertionError, match=f"{source} -> {target}"):
                child.change_state(target)


def test_concurrent_calls_share_one_child():
    machine = pool("a")
    assert machine.handle_event(CallRequested(1, "a"), 0) == [Start(1, "a")]
    assert machine.handle_event(CallRequested(2, "a"), 0) == []
    assert machine.handle_event(Connected(1), 0) == [Dispatch(1, 1), Dispatch(2, 1)]
    assert machine.handle_event(CallRequested(3, "a"), 0) == [Dispatch(3, 1)]


def test_x31_full_pool_ends_the_longest_idle_server_and_starts_only_when_it_is_gone():
    machine = pool("a", "b", "c", bound=2)
    connected(machine, 1, "a", 1, now=10)
    connected(machine, 2, "b", 2, now=20)
    assert machine.handle_event(CallRequested(3, "c"), 30) == [Stop(1)]
    assert machine.live == 2
    assert machine.handle_event(WaitExpired(3), 31) == []
    assert machine.handle_event(Disconnected(1), 32) == [Start(3, "c")]


def test_x32_full_pool_without_an_idle_server_refuses_after_the_wait():
    machine = pool("a", "b", bound=1)
    machine.handle_event(CallRequested(1, "a"), 0)
    machine.handle_event(Connected(1), 0)
    assert machine.handle_event(CallRequested(2, "b"), 0) == []
    assert machine.handle_event(WaitExpired(2), 5) == [Refuse(2, "b", CallRefusal.POOL_FULL)]


def test_x32_a_waiting_call_gets_the_place_when_the_busy_server_rests():
    machine = pool("a", "b", bound=1)
    machine.handle_event(CallRequested(1, "a"), 0)
    machine.handle_event(Connected(1), 0)
    machine.handle_event(CallRequested(2, "b"), 0)
    assert machine.handle_event(CallEnded(1, CallHealth.SUCCESS), 1) == [Stop(1)]
    assert machine.handle_event(Disconnected(1), 2) == [Start(2, "b")]


def test_x28_a_lost_child_is_started_anew_once_it_is_gone():
    machine = pool("a")
    machine.handle_event(CallRequested(1, "a"), 0)
    machine.handle_event(Connected(1), 0)
    assert machine.handle_event(ConnectionLost(1), 0) == []
    assert machine.handle_event(CallEnded(1, CallHealth.NEUTRAL), 0) == []
    assert machine.handle_event(CallRequested(2, "a"), 0) == []
    assert machine.handle_event(Disconnected(1), 0) == [Start(2, "a")]
    assert machine.handle_event(Connected(2), 0) == [Dispatch(2, 2)]


def test_x29_five_failed_connects_open_the_breaker_and_the_cooldown_ends_it():
    machine = pool("a")
    for number in range(1, 6):
        assert machine.handle_event(CallRequested(number, "a"), 0) == [Start(number, "a")]
        failed = machine.handle_event(ConnectFailed(number, CallHealth.FAILURE), 0)
        assert failed == [Refuse(number, "a", CallRefusal.CONNECT_FAILED)]
        assert machine.handle_event(Disconnected(number), 0) == []
        assert machine.children["a"].state is ServerState.FAILED
    assert machine.handle_event(CallRequested(6, "a"), 30_000) == [Refuse(6, "a", CallRefusal.BREAKER_OPEN)]
    assert machine.handle_event(CallRequested(7, "a"), 30_001) == [Start(6, "a")]


def test_x29_a_server_whose_calls_opened_the_breaker_is_ended():
    machine = pool("a")
    connected(machine, 1, "a", 1)
    for number in range(2, 6):
        machine.handle_event(CallRequested(number, "a"), 0)
        assert machine.handle_event(CallEnded(number, CallHealth.FAILURE), 0) == []
    machine.handle_event(CallRequested(6, "a"), 0)
    assert machine.handle_event(CallEnded(6, CallHealth.FAILURE), 0) == [Stop(1)]


def test_x30_neutral_failures_never_open_the_breaker():
    machine = pool("a")
    for number in range(1, 11):
        assert machine.handle_event(CallRequested(number, "a"), 0) == [Start(number, "a")]
        machine.handle_event(ConnectFailed(number, CallHealth.NEUTRAL), 0)
        machine.handle_event(Disconnected(number), 0)


def test_idle_servers_are_swept_by_their_terms():
    terms = {"a": IdleRules(300_000), "kept": IdleRules(None), "own": IdleRules(10)}
    machine = ServerPool(terms)
    for number, server in enumerate(terms, start=1):
        connected(machine, number, server, number)
    assert machine.handle_event(Swept(), 300_000) == [Stop(3)]
    assert machine.handle_event(Swept(), 300_001) == [Stop(1)]


def test_ephemeral_server_ends_with_its_last_call():
    machine = ServerPool({"a": IdleRules(ephemeral=True)})
    machine.handle_event(CallRequested(1, "a"), 0)
    machine.handle_event(CallRequested(2, "a"), 0)
    machine.handle_event(Connected(1), 0)
    assert machine.handle_event(CallEnded(1, CallHealth.SUCCESS), 0) == []
    assert machine.handle_event(CallEnded(2, CallHealth.SUCCESS), 0) == [Stop(1)]


def test_shut_down_stops_all_and_refuses_all():
    machine = pool("a", "b", "c", bound=2)
    connected(machine, 1, "a", 1)
    machine.handle_event(CallRequested(2, "b"), 0)
    assert machine.handle_event(ShutDown(), 0) == [Refuse(2, "b", CallRefusal.SHUT_DOWN), Stop(1), Stop(2)]
    assert machine.handle_event(CallRequested(3, "c"), 0) == [Refuse(3, "c", CallRefusal.SHUT_DOWN)]
    assert machine.handle_event(Disconnected(1), 0) + machine.handle_event(Disconnected(2), 0) == []
    assert machine.live == 0


BOUND = 2
SERVERS = ("a", "b", "c", "d")
EPHEMERAL = "d"


class Shell(RuleBasedStateMachine):
    """Carry out the instructions as the hub does, in any order it could meet, and watch the rules."""

    def __init__(self):
        super().__init__()
        terms = {name: IdleRules(1_000, ephemeral=name == EPHEMERAL) for name in SERVERS}
        self.machine = ServerPool(terms, bound=BOUND, breaker=Breaker(threshold=2, cooldown_ms=500))
        self.now = 0.0
        self.calls = 0
        self.shut = False
        self.sweeping = False
        self.waiting = {}
        self.running = {}
        self.starting = {}
        self.ready = {}
        self.ending = {}
        self.failures = dict.fromkeys(SERVERS, 0)
        self.opened = {}

    def feed(self, event):
        for instruction in self.machine.handle_event(event, self.now):
            match instruction:
                case Start(child, server):
                    assert not self.shut
                    taken = [*self.starting.values(), *self.ready.values(), *self.ending.values()]
                    assert server not in taken, "one child per server"
                    assert len(taken) < BOUND
                    self.starting[child] = server
                case Stop(child):
                    source = self.starting if child in self.starting else self.ready
                    assert self.shut or self.sweeping or self.may_end(source[child])
                    self.ending[child] = source.pop(child)
                case Dispatch(call, child):
                    server = self.waiting.pop(call)
                    assert self.ready[child] == server, "calls go out to ready children only"
                    assert not self.is_open(server)
                    self.running[call] = (server, child)
                case Refuse(call, server, why):
                    assert self.waiting.pop(call) == server
                    assert (why is CallRefusal.BREAKER_OPEN) <= self.is_open(server)
                    assert (why is CallRefusal.SHUT_DOWN) == self.shut
                    busy = {child for _, child in self.running.values()}
                    assert why is not CallRefusal.POOL_FULL or set(self.ready) <= busy

    def may_end(self, server):
        """Tell whether a ready server ends for a reason of its own, or because somebody needs its place."""
        if server == EPHEMERAL or self.is_open(server):
            return True
        homeless = set(self.waiting.values()) - set(self.starting.values()) - set(self.ready.values())
        taken = len(self.starting) + len(self.ready) + len(self.ending)
        return len(homeless) > len(self.ending) + BOUND - taken

    def is_open(self, server):
        return server in self.opened and self.now - self.opened[server] <= 500

    def judge(self, server, verdict):
        if verdict is CallHealth.SUCCESS:
            self.failures[server] = 0
            self.opened.pop(server, None)
        elif verdict is CallHealth.FAILURE:
            self.failures[server] += 1
            if self.failures[server] == 2:
                self.failures[server] = 0
                self.opened[server] = self.now

    @rule(server=st.sampled_from(SERVERS))
    def request(self, server):
        self.calls += 1
        self.waiting[self.calls] = server
        self.feed(CallRequested(self.calls, server))

    @rule(server=st.sampled_from(SERVERS))
    def request_and_connect(self, server):
        """Reach the crowded states soon; the single steps alone rarely get there."""
        self.request(server)
        for child in list(self.starting):
            self.ready[child] = self.starting.pop(child)
            self.feed(Connected(child))

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def connect(self, data):
        child = data.draw(st.sampled_from(sorted(self.starting)))
        self.ready[child] = self.starting.pop(child)
        self.feed(Connected(child))

    @precondition(lambda self: self.starting)
    @rule(data=st.data(), verdict=st.sampled_from([CallHealth.FAILURE, CallHealth.NEUTRAL]))
    def fail_to_connect(self, data, verdict):
        child = data.draw(st.sampled_from(sorted(self.starting)))
        server = self.ending[child] = self.starting.pop(child)
        self.judge(server, verdict)
        self.feed(ConnectFailed(child, verdict))
        assert server not in self.waiting.values(), "no caller is left waiting for a failed start"

    @precondition(lambda self: self.ready)
    @rule(data=st.data())
    def lose(self, data):
        child = data.draw(st.sampled_from(sorted(self.ready)))
        self.ending[child] = self.ready.pop(child)
        self.feed(ConnectionLost(child))

    @precondition(lambda self: self.ending)
    @rule(data=st.data())
    def end(self, data):
        child = data.draw(st.sampled_from(sorted(self.ending)))
        self.feed(ConnectionLost(child))
        del self.ending[child]
        self.feed(Disconnected(child))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), verdict=st.sampled_from(CallHealth))
    def finish(self, data, verdict):
        call = data.draw(st.sampled_from(sorted(self.running)))
        server, _ = self.running.pop(call)
        self.judge(server, verdict)
        self.feed(CallEnded(call, verdict))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def abandon(self, data):
        call = data.draw(st.sampled_from(sorted(self.waiting)))
        del self.waiting[call]
        self.feed(CallEnded(call, CallHealth.NEUTRAL))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def expire(self, data):
        self.feed(WaitExpired(data.draw(st.sampled_from(sorted(self.waiting)))))

    @rule(ms=st.sampled_from([1, 499, 500, 501, 1_001]))
    def let_time_pass(self, ms):
        self.now += ms

    @rule()
    def sweep(self):
        self.sweeping = True
        self.feed(Swept())
        self.sweeping = False
        idle = set(self.ready) - {child for _, child in self.running.values()}
        children = self.machine.children.values()
        assert not [c for c in children if c.number in idle and self.now - c.idle_since > 1_000]

    @precondition(lambda self: self.calls > 12)
    @rule()
    def shut_down(self):
        self.shut = True
        self.feed(ShutDown())
        assert not self.starting
        assert not self.ready

    @invariant()
    def the_machine_and_the_world_agree(self):
        live = {**self.starting, **self.ready, **self.ending}
        assert self.machine.live == len(live) <= BOUND
        assert dict(self.machine.queue) == self.waiting
        assert {s: b.failures for s, b in self.machine.breakers.items()} == self.failures
        for server in SERVERS:
            assert self.machine.breakers[server].is_open(self.now) == self.is_open(server)

    @invariant()
    def nobody_waits_without_need(self):
        taken = {**self.starting, **self.ready, **self.ending}
        busy = {child for _, child in self.running.values()}
        homeless = set(self.waiting.values()) - set(self.starting.values())
        assert not homeless & set(self.ready.values()), "a ready server gets its calls"
        assert not homeless - set(self.ending.values()) or len(taken) == BOUND, "a free place is used"
        short = len(homeless) - len(self.ending) - (BOUND - len(taken))
        assert short <= 0 or set(self.ready) <= busy, "idle servers make room"

    @invariant()
    def ephemeral_servers_do_not_rest(self):
        busy = {child for _, child in self.running.values()}
        assert not [c for c, server in self.ready.items() if server == EPHEMERAL and c not in busy]


@pytest.mark.slow
def test_every_order_of_events_keeps_the_rules():
    chosen = settings(max_examples=250, stateful_step_count=50, deadline=None)
    run_state_machine_as_test(Shell, settings=chosen)
