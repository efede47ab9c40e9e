"""Tokens in a running server: who gets in, with which settings, how much at a time, and until when."""

import asyncio
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support.processes import all_end, children, descendants, list_started, watched
from tests.support.tenants import TenantsRunner, make_settings

from paddock.model.errors import ConfigurationError
from paddock.model.request import RuntimeRun
from paddock.policy.settings.flow import FlowLabel, FlowRule, FlowSettings
from paddock.policy.settings.schema import RuntimeSettings
from paddock.policy.settings.serve import ServeToken
from paddock.record.ledger.verify import verify
from paddock.surfaces.tenants import RateExceeded, Tenant, TenantBusy, Tenants, UnknownToken
from paddock.surfaces.tenants.tokens import hash_token, make_token

UNKNOWN = "this token is not valid: it is unknown, was revoked or has expired; ask the owner of the server for a new one"
COUNT = RuntimeRun(runtime="python", code="print(6 * 7)")
SLEEP = RuntimeRun(runtime="python", code="print('begun', flush=True)\nimport time\ntime.sleep(600)")


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[TenantsRunner]:
    with TenantsRunner(tmp_path, make_settings(tmp_path, serve={"max_jobs": 2})) as opened:
        yield opened


def begin(runner: TenantsRunner, tenant: Tenant, work: Any = SLEEP) -> "asyncio.Task[Any]":
    """Start a program and return once it prints."""
    started = asyncio.Event()
    task = runner.begin(tenant.execute(runner.make_request(work), on_output=lambda *_: started.set()))
    runner.wait_until(lambda: started.is_set() or task.done())
    assert not task.done(), task
    return task


def identify_error(runner: TenantsRunner, token: str) -> str:
    with pytest.raises(UnknownToken) as refused:
        runner.identify(token)
    return str(refused.value)


def test_a_request_runs_as_the_actor_of_its_token(runner: TenantsRunner) -> None:
    alice = runner.enter("alice-laptop", actor="alice")
    forged = runner.make_request(COUNT, actor="root")
    outcome = runner.run(alice.execute(forged))
    assert outcome.program is not None
    assert outcome.program.stdout.text == "42\n"
    records = runner.run(alice.find_records())
    assert [(each.event, each.request, each.fields["actor"]) for each in records] == [
        ("finished", outcome.id, "token:alice"),
        ("started", outcome.id, "token:alice"),
    ]


@pytest.mark.parametrize("text", ["", "pdk_", "x" * 10_000, "\ud800", "é", "pdk_\0", "Bearer"])
def test_what_is_no_token_of_the_server_gets_nobody_in(runner: TenantsRunner, text: str) -> None:
    assert identify_error(runner, text) == UNKNOWN
    assert identify_error(runner, make_token()) == UNKNOWN


def test_neither_a_hash_nor_a_name_is_a_token(runner: TenantsRunner) -> None:
    token = runner.add("alice")
    for text in ("alice", hash_token(token), token[:-1], token + " ", token.swapcase()):
        assert identify_error(runner, text) == UNKNOWN


def test_one_tenant_serves_all_requests_of_a_token(runner: TenantsRunner) -> None:
    token = runner.add("alice")
    assert runner.identify(token) is runner.identify(token)


def test_a_question_of_another_replica_opens_no_session(runner: TenantsRunner) -> None:
    token = runner.add("alice")
    asked = runner.run(runner.tenants.identify(token, counts=False, opens=False))
    assert not asked.is_open
    assert runner.identify(token) is asked
    assert asked.is_open


def test_a_token_that_is_made_later_gets_in_at_once(runner: TenantsRunner) -> None:
    assert runner.enter("alice") is not runner.enter("bob")


def test_a_policy_holds(runner: TenantsRunner) -> None:
    narrow = runner.enter("narrow", policy={"runtimes": {"network": "none", "allowed": ["python"]}})
    wide = runner.enter("wide")
    for work in (COUNT.replace(network="loopback"), RuntimeRun(runtime="shell", code="echo 42")):
        refused, allowed = runner.execute(narrow, work), runner.execute(wide, work)
        assert (refused.status, allowed.status) == ("denied", "ok")


def test_a_policy_that_came_to_widen_gets_nobody_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The token was made under settings that allowed more than those of the server that reads it."""
    settings = make_settings(tmp_path, runtimes={"timeout_ms": 10_000})
    with TenantsRunner(tmp_path, settings) as runner, caplog.at_level(logging.ERROR):
        token = runner.add("alice", policy={"runtimes": {"timeout_ms": 20_000}})
        assert identify_error(runner, token) == UNKNOWN
        assert identify_error(runner, token) == UNKNOWN
        assert runner.execute(runner.enter("bob"), COUNT).status == "ok"
    assert [record.getMessage() for record in caplog.records] == [
        "the token alice is refused: token alice: runtimes.timeout_ms = 20000 allows more than 10000, which is what the "
        "server allows and a token may only narrow; change the policy instead"
    ]


def test_tokens_of_the_settings_get_in(tmp_path: Path) -> None:
    token = make_token()
    entry = ServeToken(name="alice", sha256=hash_token(token), rate=1)
    with TenantsRunner(tmp_path, make_settings(tmp_path, serve={"token": (entry,)})) as runner:
        assert runner.identify(token).actor == "token:alice"
        with pytest.raises(RateExceeded):
            runner.identify(token)


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        (
            [{"name": "a", "sha256": "a"}, {"name": "a", "sha256": "b"}],
            'two tokens have name = "a"; change one of them',
        ),
        (
            [{"name": "a", "sha256": "a"}, {"name": "b", "sha256": "a"}],
            "two tokens have one sha256; change one of them",
        ),
        (
            [{"name": "a", "sha256": "a", "policy": {"runtimes": {"network": "full"}}}],
            'token a: runtimes.network = "full" allows more than "loopback", which is what the server allows and a token '
            "may only narrow; change the policy instead",
        ),
    ],
)
def test_a_server_does_not_start_with_tokens_it_cannot_use(
    tmp_path: Path, tokens: list[Any], why: str
) -> None:
    entries = tuple(ServeToken(**{**each, "sha256": each["sha256"] * 64}) for each in tokens)
    with pytest.raises(ConfigurationError) as refused:
        Tenants(make_settings(tmp_path, serve={"token": entries}), tmp_path)
    assert str(refused.value) == why


def test_the_token_of_whoever_starts_a_server_has_an_actor_of_its_own(tmp_path: Path) -> None:
    own = "correct-horse-battery-staple"
    with TenantsRunner(tmp_path, make_settings(tmp_path), token=own) as runner:
        assert (runner.identify(own).actor, runner.enter("http").actor) == ("http", "token:http")


def test_a_revoked_token_ends_what_runs_under_it_and_nothing_else(runner: TenantsRunner) -> None:
    token = runner.add("alice")
    alice, bob = runner.identify(token), runner.enter("bob")
    session = runner.execute(alice, RuntimeRun(runtime="python", code="1", session="new")).session
    assert session is not None
    before = {*descendants(os.getpid())}
    running, others = begin(runner, alice), begin(runner, bob)
    own = [*{*descendants(os.getpid())} - before]
    assert own
    runner.file.remove("alice")
    with pytest.raises(UnknownToken) as ended:
        runner.run(running)
    assert str(ended.value) == UNKNOWN
    assert identify_error(runner, token) == UNKNOWN
    assert alice.revoked.is_set()
    for use in (alice.open(), alice.execute(runner.make_request(COUNT))):
        with pytest.raises(UnknownToken):
            runner.run(use)
    assert not others.done()
    assert runner.tenants.running == 1
    events = [(each.event, each.fields.get("status")) for each in runner.run(alice.find_records(limit=2))]
    assert events == [("finished", "cancelled"), ("started", None)]


def test_what_waits_for_a_slot_ends_with_its_token(runner: TenantsRunner) -> None:
    alice, bob = runner.enter("alice", max_jobs=1), runner.enter("bob")
    begin(runner, alice)
    others = begin(runner, bob)
    waiting = runner.begin(alice.execute(runner.make_request(COUNT)))
    runner.wait_until(lambda: alice.waiting == 1)
    runner.file.remove("alice")
    with pytest.raises(UnknownToken):
        runner.run(waiting)
    runner.wait_until(lambda: runner.tenants.running == 1)
    assert (alice.waiting, others.done()) == (0, False)


def test_a_new_token_of_the_same_name_is_another_one(runner: TenantsRunner) -> None:
    old = runner.add("alice")
    tenant = runner.identify(old)
    runner.file.remove("alice")
    new = runner.add("alice")
    assert identify_error(runner, old) == UNKNOWN
    assert runner.identify(new) is not tenant


def test_changed_limits_hold_from_the_next_request_on(runner: TenantsRunner) -> None:
    token = runner.add("alice")
    before = runner.identify(token)
    content = runner.file.path.read_text().replace('"name": "alice"', '"name": "alice", "max_jobs": 1')
    runner.file.path.write_text(content)
    after = runner.identify(token)
    assert (after is before, after.settings.runtimes.max_jobs) == (False, 1)
    runner.wait_until(before.revoked.is_set)


def test_an_expired_token_ends(tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    times = [now]
    with TenantsRunner(tmp_path, make_settings(tmp_path), clock=lambda: times[0]) as runner:
        token = runner.add("alice", expires=datetime(2026, 1, 31, tzinfo=UTC))
        running = begin(runner, runner.identify(token))
        times[0] += 30 * 86_400
        with pytest.raises(UnknownToken):
            runner.run(running)
        assert identify_error(runner, token) == UNKNOWN


def test_with_a_damaged_file_nobody_gets_in_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    fixed = make_token()
    entry = ServeToken(name="fixed", sha256=hash_token(fixed))
    with TenantsRunner(tmp_path, make_settings(tmp_path, serve={"token": (entry,)})) as runner:
        token = runner.add("alice")
        alice = runner.identify(token)
        content = runner.file.path.read_bytes()
        runner.file.path.write_bytes(content[: len(content) // 2])
        for each in (token, fixed, make_token()):
            with pytest.raises(ConfigurationError) as refused:
                runner.identify(each)
            assert str(refused.value).startswith(f"{runner.file.path}: cannot be read: ")
            assert str(refused.value).endswith(
                "; no token is accepted until it is repaired: restore it from a backup, or remove it and make new tokens "
                "with `paddock serve token new`"
            )
            assert each not in str(refused.value)
        runner.file.path.write_bytes(content)
        assert runner.identify(token) is alice
        runner.file.path.unlink()
        assert identify_error(runner, token) == UNKNOWN
        assert runner.identify(fixed).actor == "token:fixed"


def test_rates_are_counted_for_each_token(runner: TenantsRunner) -> None:
    tokens = [runner.add(name, rate=2) for name in ("alice", "bob")]
    for token in tokens:
        runner.identify(token)
        runner.identify(token)
    for token in tokens:
        with pytest.raises(RateExceeded) as refused:
            runner.identify(token)
        assert 0 < refused.value.retry_after_s <= 60


def test_jobs_are_bounded_for_a_token_and_for_all(runner: TenantsRunner) -> None:
    alice, bob = runner.enter("alice", max_jobs=1), runner.enter("bob")
    running = begin(runner, alice)
    waiting = runner.begin(alice.execute(runner.make_request(COUNT)))
    runner.wait_until(lambda: alice.waiting == 1)
    others = begin(runner, bob)
    assert (alice.running, bob.running, runner.tenants.running, runner.tenants.waiting) == (1, 1, 2, 1)
    with pytest.raises(TenantBusy) as busy:
        runner.run(bob.execute(runner.make_request(COUNT), max_wait_ms=10))
    assert str(busy.value) == "no slot became free within 10 ms. Nothing started; it is safe to retry."
    running.cancel()
    assert runner.run(waiting).status == "ok"
    others.cancel()
    runner.wait_until(others.done)
    assert runner.tenants.running == 0


def test_a_request_too_many_of_a_token_is_refused(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, serve={"max_jobs": 1}, runtimes=RuntimeSettings(max_waiting=0))
    with TenantsRunner(tmp_path, settings) as runner:
        alice = runner.enter("alice")
        begin(runner, alice)
        with pytest.raises(TenantBusy) as busy:
            runner.run(alice.execute(runner.make_request(COUNT)))
        assert str(busy.value) == (
            "too many requests of this token wait already (runtimes.max_waiting = 0). Nothing started; it is safe to "
            "retry."
        )


def test_a_program_waits_once_and_keeps_no_slot_of_the_server_meanwhile(tmp_path: Path) -> None:
    """Its wait for a slot of its kind is in the record."""
    settings = make_settings(tmp_path, serve={"max_jobs": 2}, runtimes=RuntimeSettings(max_jobs=1))
    with TenantsRunner(tmp_path, settings) as runner:
        alice, bob = runner.enter("alice"), runner.enter("bob")
        running = begin(runner, alice)
        waiting = runner.begin(alice.execute(runner.make_request(COUNT)))
        runner.wait_until(lambda: alice.waiting == 1)
        assert (runner.tenants.running, alice.opened.programs.waiting) == (1, 1)
        assert runner.run(bob.execute(runner.make_request(COUNT))).status == "ok"
        running.cancel()
        outcome = runner.run(waiting)
        assert outcome.status == "ok"
        records = runner.run(alice.find_records(name=outcome.id, event="finished"))
        assert [each.fields["queue_ms"] >= 1 for each in records] == [True]
        assert runner.tenants.running == 0


def test_a_user_with_many_jobs_does_not_starve_another(runner: TenantsRunner) -> None:
    alice, bob = runner.enter("alice"), runner.enter("bob")
    order: list[str] = []

    async def one(tenant: Tenant, begun: asyncio.Event) -> None:
        async with tenant.admit():
            order.append(tenant.actor)
            await begun.wait()

    async def all_of_them() -> None:
        begun = asyncio.Event()
        tasks = [asyncio.create_task(one(alice, begun)) for _ in range(30)]
        await asyncio.wait(tasks, timeout=0)
        assert (alice.running, alice.waiting) == (2, 28)
        tasks.append(asyncio.create_task(one(bob, begun)))
        await asyncio.wait(tasks, timeout=0)
        begun.set()
        await asyncio.gather(*tasks)

    runner.run(all_of_them())
    assert order.index("token:bob") == 3  # two ran already, and one had the next turn


def test_sessions_of_a_token_are_bounded(runner: TenantsRunner) -> None:
    alice = runner.enter("alice", max_sessions=1)
    opening = RuntimeRun(runtime="python", code="1", session="new")
    first, second = (runner.execute(alice, opening).session for _ in range(2))
    assert first is not None
    assert second is not None
    assert [each.id for each in alice.opened.programs.list_sessions(alice.actor)] == [second.id]


def test_an_idle_session_is_closed_and_opened_again(tmp_path: Path) -> None:
    with TenantsRunner(tmp_path, make_settings(tmp_path, serve={"idle_ms": 1})) as runner:
        token = runner.add("alice")
        alice = runner.identify(token)
        with alice.in_use():
            runner.run(runner.tenants.close_idle())
            assert alice.is_open
        opened = runner.execute(alice, RuntimeRun(runtime="python", code="kept = 42", session="new")).session
        assert opened is not None
        runner.run(runner.tenants.close_idle())
        assert alice.is_open  # an interpreter is open
        runner.run(alice.opened.programs.sessions.close_session(alice.actor, opened.id))
        runner.wait_until(lambda: not alice.is_open)
        assert runner.execute(alice, COUNT).status == "ok"
        assert runner.identify(token) is alice


def test_what_a_client_has_read_outlives_an_idle_paddock(tmp_path: Path) -> None:
    """Its connection stays open, and its model has seen the results."""
    flow = FlowSettings(
        label=(
            FlowLabel(runtime="python", source=("private",)),
            FlowLabel(runtime="shell", sink="external"),
        ),
        rule=(FlowRule(source=("private",), sink="external", effect="deny"),),
    )
    with TenantsRunner(tmp_path, make_settings(tmp_path, flow=flow)) as runner:
        alice = runner.enter("alice")

        def call(runtime: Literal["python", "shell"], client: str) -> str:
            request = runner.make_request(RuntimeRun(runtime=runtime, code=""), actor=alice.actor)
            return runner.run(alice.opened.gate.execute(request, client=client)).status

        assert call("python", "session 1") == "ok"
        runner.run(alice.close())
        runner.run(alice.open())
        assert [call("shell", client) for client in ("session 1", "session 2")] == ["denied", "ok"]


def test_what_a_client_has_read_outlives_a_changed_and_a_replaced_token(tmp_path: Path) -> None:
    """A client without sessions is known by its user alone."""
    flow = FlowSettings(
        label=(
            FlowLabel(runtime="python", source=("private",)),
            FlowLabel(runtime="shell", sink="external"),
        ),
        rule=(FlowRule(source=("private",), sink="external", effect="deny"),),
    )
    with TenantsRunner(tmp_path, make_settings(tmp_path, flow=flow)) as runner:

        def call(tenant: Tenant, runtime: Literal["python", "shell"]) -> str:
            request = runner.make_request(RuntimeRun(runtime=runtime, code=""), actor=tenant.actor)
            return runner.run(tenant.opened.gate.execute(request, client=f"actor {tenant.actor}")).status

        first, phone = runner.enter("laptop", actor="alice"), runner.enter("phone", actor="alice")
        assert call(first, "python") == "ok"
        assert call(phone, "shell") == "denied"
        runner.file.remove("laptop")
        runner.run(runner.tenants.refresh())
        second = runner.enter("laptop", actor="alice", max_jobs=1)
        assert second is not first
        assert [call(second, "shell"), call(runner.enter("bob"), "shell")] == ["denied", "ok"]


def test_tokens_of_one_user_share_stored_output_and_no_interpreter(runner: TenantsRunner) -> None:
    laptop, phone = runner.enter("laptop", actor="alice"), runner.enter("phone", actor="alice")
    printed = runner.execute(laptop, COUNT)
    assert printed.program is not None
    assert printed.program.artifact is not None
    assert phone.opened.output.artifacts().read(printed.program.artifact, runner.workspace) == b"42\n"
    opened = runner.execute(laptop, RuntimeRun(runtime="python", code="1", session="new")).session
    assert opened is not None
    assert phone.opened.programs.list_sessions(phone.actor) == ()


def test_all_users_have_one_ledger_whose_chain_is_whole(runner: TenantsRunner) -> None:
    tenants = [runner.enter(name) for name in ("alice", "bob", "carol")]
    outcomes = [runner.execute(tenant, COUNT) for tenant in tenants]
    for tenant, outcome in zip(tenants, outcomes, strict=True):
        assert {each.request for each in runner.run(tenant.find_records())} == {outcome.id}
    report = verify(runner.settings.audit.directory)
    assert report.ok, report


def test_nothing_is_left_of_a_server_that_ends(tmp_path: Path) -> None:
    before = children(os.getpid())
    with TenantsRunner(tmp_path, make_settings(tmp_path, serve={"max_jobs": 4})) as runner:
        for name in ("alice", "bob"):
            tenant = runner.enter(name)
            runner.execute(tenant, RuntimeRun(runtime="python", code="1", session="new"))
            begin(runner, tenant)
        own = watched(list_started(before))
        assert own
    assert all_end(own)


def test_directories_are_their_owners_alone(runner: TenantsRunner) -> None:
    runner.execute(runner.enter("alice"), COUNT)
    for root in (runner.settings.serve.directory, runner.settings.artifacts.directory):
        for folder in (root, *(each for each in root.rglob("*") if each.is_dir())):
            assert (folder, folder.stat().st_mode & 0o077) == (folder, 0)
