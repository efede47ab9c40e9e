"""A database that answers late or not at all delays only the requests that need it.

The proxy before the database holds statements back until the test lets them pass, so that the order of events counts,
and no time.
"""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from tests.support.late_proxy import LateProxy
from tests.support.leases import execute
from tests.support.postgres import Postgres
from tests.support.tenants import TenantsRunner, make_settings

from paddock.cluster import kept, postgres_runs
from paddock.gate.cluster import open_cluster
from paddock.model.outcome import Outcome, Status
from paddock.model.request import GuestRun, RequestKey, RuntimeRun
from paddock.policy.settings.cluster import ClusterSettings
from paddock.policy.settings.schema import RuntimeSettings

if TYPE_CHECKING:
    import asyncio

    from paddock.surfaces.tenants import Tenant

TOKEN = "correct-horse-battery-staple"
PURE = GuestRun(source="emit(6 * 7)", profile="compute")
CLAIM, END, RECORD = b"insert into run ", b"update run set state = 'finished'", b"copy record "


class Replica(TenantsRunner):
    """A server with two slots, whose database is behind a proxy."""

    def __init__(self, root: Path, url: str, late: LateProxy, *, max_jobs: int = 2, **cluster: Any) -> None:
        database = f"postgresql://postgres@127.0.0.1:{late.port}/{url.rpartition('/')[2]}"
        shared = ClusterSettings(url=database, node="a", **cluster)
        programs = RuntimeSettings(access="workspace-write")
        made = make_settings(root, serve={"max_jobs": max_jobs}, cluster=shared, runtimes=programs)
        super().__init__(root, made, token=TOKEN)
        self.workspace.chmod(0o777)

    def __enter__(self) -> Self:
        self._shared = AsyncExitStack()
        opening = self._shared.enter_async_context(open_cluster(self.settings))
        self._options["cluster"] = self.cluster = self.run(opening)
        self._stack.push_async_exit(self._shared)
        entered = super().__enter__()
        self.owner: Tenant = self.identify(TOKEN)
        return entered

    def begin_effect(self, name: str, **options: Any) -> "asyncio.Task[Outcome]":
        """Start a request that adds a line to a file of the workspace; its name is its key."""
        work = RuntimeRun(runtime="shell", code=f"echo x >> {name}", access="workspace-write")
        request = self.make_request(work, key=RequestKey(name=name, digest=name.encode().ljust(32)))
        return self.begin(self.owner.execute(request, **options))

    def run_pure(self) -> None:
        """Run computations, more than there are slots."""
        for _ in range(5):
            assert self.execute(self.owner, PURE).status is Status.OK

    def count_effects(self) -> dict[str, int]:
        """Return how often each effect happened."""
        return {file.name: len(file.read_text().splitlines()) for file in self.workspace.iterdir()}


@pytest.fixture
def late(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[LateProxy]:
    """A proxy before a database for which statements wait as long as the test wants."""
    monkeypatch.setattr(postgres_runs, "STATEMENT_S", 3600)
    with LateProxy(postgres.port) as proxy:
        yield proxy
        proxy.release()


def read_ends(outcomes: list[Outcome]) -> set[tuple[Status, str]]:
    return {(each.status, each.error.message if each.error else "") for each in outcomes}


def test_pure_requests_pass_while_claims_and_ends_wait_for_the_database(
    tables_url: str, tmp_path: Path, late: LateProxy
) -> None:
    names = ["one", "two"]  # as many as there are slots, and connections
    with Replica(tmp_path, tables_url, late) as replica:
        late.hold(CLAIM)
        effects = [replica.begin_effect(name) for name in names]
        replica.wait_until(lambda: late.count(CLAIM.decode()) == len(names))
        replica.run_pure()
        assert ([task.done() for task in effects], replica.count_effects()) == ([False] * 2, {})
        assert replica.tenants.running == 0
        late.release()
        late.hold(END)
        replica.wait_until(lambda: late.count(END.decode()) == len(names))
        assert execute(tables_url, "select count(*) from run where state = 'started'") == [(2,)]
        replica.run_pure()
        assert ([task.done() for task in effects], replica.tenants.running) == ([False] * 2, 0)
        late.release()
        ends = [replica.run(task) for task in effects]
        assert read_ends(ends) == {(Status.OK, "")}
        assert replica.count_effects() == dict.fromkeys(names, 1)
    assert execute(tables_url, "select state, status from run") == [("finished", "ok")] * 2


def test_pure_requests_pass_while_the_database_hangs_and_effects_are_refused(
    tables_url: str, tmp_path: Path, late: LateProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_runs, "STATEMENT_S", 1)
    with Replica(tmp_path, tables_url, late) as replica:
        late.hold()
        effects = [replica.begin_effect(name) for name in "abcdef"]
        replica.run_pure()
        assert replica.count_effects() == {}
        ends = [replica.run(task) for task in effects]
        assert {end.status for end in ends} == {Status.UNAVAILABLE}
        replica.run_pure()
        assert replica.count_effects() == {}
        late.release()

        def runs() -> bool:
            return replica.run(replica.begin_effect("a")).status is Status.OK

        while not runs():  # until there is a lease again
            pass
        assert replica.count_effects() == {"a": 1}
    assert execute(tables_url, "select count(*) from run where state = 'started'") == [(0,)]


def test_a_token_of_the_settings_needs_no_database(
    tables_url: str, tmp_path: Path, late: LateProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "STATEMENT_S", 3600)
    late.hold(b"from kept ")
    with Replica(tmp_path, tables_url, late) as replica:
        replica.run_pure()
        late.release()


def test_a_key_whose_request_got_no_slot_in_time_starts_when_it_is_sent_again(
    tables_url: str, tmp_path: Path, late: LateProxy
) -> None:
    with Replica(tmp_path, tables_url, late, max_jobs=1) as replica:
        late.hold(CLAIM)
        waiting = replica.begin_effect("k", max_wait_ms=1)
        replica.wait_until(lambda: late.count(CLAIM.decode()) == 1)
        held = AsyncExitStack()
        replica.run(held.enter_async_context(replica.owner.admit()))
        late.release()
        assert read_ends([replica.run(waiting)]) == {
            (Status.UNAVAILABLE, "It waited 1 ms for a slot after the database had answered late.")
        }
        replica.run(held.aclose())
        assert replica.count_effects() == {}
        assert replica.run(replica.begin_effect("k")).status is Status.OK
        assert replica.run(replica.begin_effect("k")).status is Status.OK  # the same outcome
        assert replica.count_effects() == {"k": 1}
    rows = execute(tables_url, "select attempt, state, status from run order by attempt")
    assert rows == [(1, "fenced", None), (2, "finished", "ok")]


def test_a_request_whose_claim_a_restore_forgot_while_it_waited_for_its_slot_does_not_start(
    tables_url: str, tmp_path: Path, late: LateProxy
) -> None:
    """Its key is new in the restored database, and another replica may have started it."""
    with Replica(tmp_path, tables_url, late, max_jobs=1) as replica:
        late.hold(CLAIM)
        waiting = replica.begin_effect("k")
        replica.wait_until(lambda: late.count(CLAIM.decode()) == 1)
        held = AsyncExitStack()
        replica.run(held.enter_async_context(replica.owner.admit()))
        late.release()
        while execute(tables_url, "select state from run") != [("started",)]:
            pass
        execute(tables_url, "delete from run")
        execute(tables_url, "update generation set number = 2, id = 'next'")
        known = replica.cluster.generation
        replica.wait_until(lambda: (known.id, known.restored) == ("next", ""))
        replica.run(held.aclose())
        assert read_ends([replica.run(waiting)]) == {
            (Status.UNAVAILABLE, "The database was restored after the request was claimed.")
        }
        assert replica.count_effects() == {}


def test_requests_that_wait_for_their_records_keep_no_slot(
    tables_url: str, tmp_path: Path, late: LateProxy
) -> None:
    """With `record = "all"` each request waits for the database before it runs, and before it is answered."""
    with Replica(tmp_path, tables_url, late, record="all") as replica:
        late.hold(RECORD)
        before = late.count(RECORD.decode())
        work = RuntimeRun(runtime="shell", code="echo x >> done", access="workspace-write")
        waiting = [replica.begin(replica.owner.execute(replica.make_request(work))) for _ in range(3)]
        replica.wait_until(lambda: late.count(RECORD.decode()) > before and replica.tenants.running == 0)
        held = AsyncExitStack()
        for _ in range(2):
            replica.run(held.enter_async_context(replica.owner.admit()))
        assert ([task.done() for task in waiting], replica.count_effects()) == ([False] * 3, {})
        late.release()
        replica.run(held.aclose())
        assert read_ends([replica.run(task) for task in waiting]) == {(Status.OK, "")}
        assert replica.count_effects() == {"done": 3}
