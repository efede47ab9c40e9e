"""A database that was restored from a backup: each replica notices, nothing runs twice, and an operator accepts it."""

import asyncio
import json
import secrets
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import run_paddock
from tests.support.http_api import read_problem
from tests.support.leases import execute
from tests.support.postgres import Postgres
from tests.support.processes import PATIENCE_S
from tests.support.replicas import ReplicaSet, write_keys

from paddock.cluster import generation, lease
from paddock.cluster.database import Database
from paddock.cluster.generation import hash_token_entry
from paddock.cluster.restore import RestorePlan, accept_restore, await_reports, read_plan
from paddock.cluster.runs import Claim, Lost, Started, StoredEnd
from paddock.cluster.seals import Seals, read_keys
from paddock.gate.cluster import Cluster, open_cluster
from paddock.model.errors import ConfigurationError, StoreUnavailable
from paddock.model.ids import new_id
from paddock.policy.settings.cluster import ClusterSettings
from paddock.policy.settings.schema import AuditSettings, Settings
from paddock.record.ledger.writer import Ledger

SETTINGS = '[runtimes]\naccess = "workspace-write"\n[telemetry]\nmetrics = true\n'
PURE: dict[str, Any] = {"language": "shell", "code": "echo pure", "access": "none"}
CURE = "Nothing with effects starts until an operator runs: paddock cluster accept-restore"


def explain(why: str) -> str:
    return f"The database of cluster.url was restored from a backup: {why}. {CURE}"


def write_program(name: str) -> dict[str, Any]:
    return {"language": "shell", "code": f"echo x >> starts-{name}", "access": "workspace-write"}


def list_starts(replicas: ReplicaSet) -> dict[str, str]:
    """Return what programs wrote, by name: one line for each start."""
    return {
        file.name: file.read_text() for place in replicas.places for file in place.workspace.glob("starts-*")
    }


def test_a_dump_that_is_restored_while_replicas_run(postgres: Postgres, tmp_path: Path) -> None:
    """The exercise of docs/backup.md."""
    name = f"d{secrets.token_hex(8)}"
    replicas = ReplicaSet(tmp_path, postgres.make_database(name), SETTINGS, 2)
    place = replicas.places[0]
    for each in replicas.places:
        each.workspace.chmod(0o777)
    with replicas.run() as running, ExitStack() as stack:
        bob, eve = place.make_token("bob"), place.make_token("eve")
        clients = [stack.enter_context(each.client(bob)) for each in running.servers]

        def send(number: int, key: str) -> Any:
            return clients[number].run(headers={"Idempotency-Key": key}, **write_program(key))

        def ask(token: str) -> tuple[int, str]:
            with running.servers[0].client(token) as client:
                answer = client.get("/v1/executions")
                return answer.status_code, "" if answer.status_code == 200 else read_problem(answer)[2]

        assert ask(eve) == (200, "")
        before = send(0, "before")
        postgres.dump(name)
        after = [send(0, "after-0"), send(1, "after-1")]
        assert {each["status"] for each in after} == {"ok"}
        assert place.paddock("serve", "token", "revoke", "eve", "--json") == {"name": "eve", "revoked": True}
        zoe = place.make_token("zoe")
        assert ask(zoe) == (200, "")
        while ask(eve)[0] != 401:
            pass
        for each in replicas.places:
            while not each.paddock("audit", "tail", "--event", "revoked", "--json"):
                pass

        postgres.restore(name)
        why = explain("it is a copy that was made in another place")
        for number in (0, 1):
            # The replica that ran a key still has the outcome in memory; the other one asks the database. It may
            # find there what the first one has reported before its own next renewal finds the restore.
            while (refused := send(number, f"after-{1 - number}"))["error"]["message"] != why:
                reported = refused["status"] == "lost" and refused["id"] == after[1 - number]["id"]
                assert reported or refused["status"] == "unavailable", refused
            assert refused["error"]["hint"] == "nothing was started: send it again later, with the same key"
            ready = clients[number].get("/readyz")
            assert (ready.status_code, ready.text) == (200, f"safe mode: {why}\n")
            pure = clients[number].run(**PURE)
            assert (pure["status"], pure["program"]["stdout"]["head"]) == ("ok", "pure\n")
        while ask(zoe)[0] == 200:  # until the tokens are read again
            pass
        assert [ask(token) for token in (bob, eve, zoe)] == [(200, ""), (503, why), (503, why)]
        with running.servers[0].client() as owner:
            lines = owner.get("/metrics").text.splitlines()
        assert {"paddock_cluster_safe_mode 1.0", "paddock_cluster_generation 1.0"} < {*lines}

        plan = {
            "generation": 1,
            "next": 2,
            "why": "it is a copy that was made in another place",
            "reported": ["r0", "r1"],
            "silent": [],
            "keys": 2,
            "running": 0,
            "tokens": ["bob"],
            "removed_tokens": ["eve"],
            "damaged_tokens": [],
        }

        def accept(*options: str) -> tuple[bool, dict[str, Any]]:
            found = place.paddock("cluster", "accept-restore", "--json", *options)
            return found.pop("accepted"), {key: value for key, value in found.items() if key in plan}

        while (listed := accept("--dry-run"))[1]["reported"] != ["r0", "r1"]:
            pass
        assert listed == (False, plan)
        assert accept() == (True, plan)

        for number in (0, 1):
            while (lost := send(number, f"after-{1 - number}"))["status"] == "unavailable":
                pass
            assert (lost["status"], lost["id"]) == ("lost", after[1 - number]["id"])
            assert send(number, "before") == before
            assert clients[number].get("/readyz").text == "ok\n"
            assert send(number, f"new-{number}")["status"] == "ok"
        while ask(zoe)[0] == 503:
            pass
        assert [ask(token)[0] for token in (bob, eve, zoe)] == [200, 401, 401]
        running.stop(0)
        log = running.servers[0].process.stderr
        assert log is not None
        causes = [line.rstrip().partition(" paddock.")[2] for line in log if "restored from a backup" in line]
        assert causes == [f"cluster: safe mode: {why}"]
    assert list_starts(replicas) == dict.fromkeys(
        ("starts-before", "starts-after-0", "starts-after-1", "starts-new-0", "starts-new-1"), "x\n"
    )


def test_recovery_to_a_point_in_time_while_the_replica_is_away(tmp_path: Path) -> None:
    """The same server and the same files: only what the replica remembers shows that the database is behind."""
    with Postgres(archives=True) as server:
        replicas = ReplicaSet(tmp_path, server.url, SETTINGS, 1)
        replicas.places[0].workspace.chmod(0o777)
        with replicas.run() as running:
            server.back_up()
            server.query("select pg_create_restore_point('before')")
            with running.servers[0].client() as owner:
                assert owner.run(headers={"Idempotency-Key": "k"}, **write_program("k"))["status"] == "ok"
            running.servers[0].process.send_signal(signal.SIGKILL)
            running.servers[0].wait()
            server.recover("before")
            assert server.query("select count(*) from run") == ["0"]

            again = replicas.start(0)
            with again.client() as owner:
                refused = owner.run(headers={"Idempotency-Key": "k"}, **write_program("k"))
                assert (refused["status"], refused["error"]["message"]) in [
                    ("unavailable", explain("it lacks records that were shipped")),
                    ("unavailable", explain("it lacks requests that were started")),
                ]
                place = replicas.places[0]
                done = run_paddock(
                    place.workspace, "cluster", "accept-restore", environment=place.environment
                )
                assert (done.returncode, done.stdout.splitlines()[-1]) == (
                    0,
                    "accepted: the database has generation 2",
                )
                while (lost := owner.run(headers={"Idempotency-Key": "k"}, **write_program("k")))[
                    "status"
                ] == "unavailable":
                    pass
                assert lost["status"] == "lost"
    assert list_starts(replicas) == {"starts-k": "x\n"}


class Fleet:
    """Replicas in this process, with ledgers of their own, and one database."""

    def __init__(self, url: str, root: Path) -> None:
        self.url = url
        self._root = root
        self.keys = write_keys(root)
        self.seals = Seals(read_keys(self.keys))

    def settings(self, name: str) -> Settings:
        return Settings(
            cluster=ClusterSettings(url=self.url, node=name, key_file=self.keys),
            audit=AuditSettings(directory=self._root / name),
        )

    @asynccontextmanager
    async def open(self, name: str) -> AsyncGenerator[Cluster]:
        async with open_cluster(self.settings(name)) as cluster:
            assert cluster is not None
            yield cluster

    async def start(self, cluster: Cluster, key: str, *, ship: bool = True) -> object:
        """Claim a key, and record its start and its end as the gate does."""
        claim = Claim("t", key, new_id(), b"d" * 32)
        cluster.generation.check()
        taken = await cluster.runs.take(claim, None)
        if isinstance(taken, Started):
            with Ledger(self._root / cluster.node.id) as ledger:
                ledger.claim(claim.request, {"actor": "t", "claim_sha256": claim.sha256})
            await cluster.runs.end(taken, StoredEnd("ok", b"{}"))
            if ship:
                await cluster.shipper.flush()
        return taken

    def save(self) -> None:
        """Keep a copy of all rows."""
        for table in ("node", "run", "kept", "chain", "record", "generation"):
            execute(self.url, f"create table saved_{table} as select * from {table}")

    def put_back(self) -> None:
        """Restore the rows alone, as an operator may: tables and connections stay."""
        tables = ("node", "run", "kept", "chain", "record", "generation")
        statements = [
            f"delete from {table}; insert into {table} select * from saved_{table};" for table in tables
        ]
        lock = f"lock table {', '.join(tables)} in access exclusive mode;"
        execute(self.url, f"do $$ begin {lock} {' '.join(statements)} end $$")

    async def accept(self, without: tuple[str, ...] = ()) -> RestorePlan:
        async with Database(self.url) as database:
            return await accept_restore(database, self.seals, await self.plan(database), without)

    async def plan(self, database: Database) -> RestorePlan:
        """Wait for the mark and the reports, and return the plan."""
        async with asyncio.timeout(PATIENCE_S):
            while (await read_plan(database, self.seals)).fence is None:
                pass
        await await_reports(database, PATIENCE_S)
        return await read_plan(database, self.seals)


@pytest.fixture
def fleet(tables_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr(generation, "_KEEP_S", 0.0)
    return Fleet(tables_url, tmp_path)


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - replicas set no event
            await asyncio.sleep(0.02)


async def await_generation(number: int, *clusters: Cluster) -> None:
    """Wait until replicas use a generation."""
    await wait_until(
        lambda: all(each.generation.number == number and not each.generation.restored for each in clusters)
    )


def run(work: Awaitable[None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(2 * PATIENCE_S):
            await work

    asyncio.run(main())


def test_rows_that_are_restored_while_connections_stay(fleet: Fleet) -> None:
    async def work() -> None:
        async with fleet.open("a") as a, fleet.open("b") as b:
            await fleet.start(a, "before")
            fleet.save()
            for each in (a, b):
                await each.lease.renew_once()
            assert isinstance(await fleet.start(a, "k"), Started)
            fleet.put_back()
            # The claim itself is refused, before any renewal has found that.
            with pytest.raises(StoreUnavailable):
                await b.runs.take(Claim("t", "k", new_id(), b"d" * 32), None)
            await wait_until(lambda: bool(a.generation.restored and b.generation.restored))
            for each in (a, b):
                with pytest.raises(StoreUnavailable) as refused:
                    each.generation.check()
                assert str(refused.value) == explain("it lacks renewals of leases")
            plan = await fleet.accept()
            assert (plan.reported, plan.silent, plan.keys) == (("a", "b"), (), 1)
            await await_generation(2, a, b)
            assert isinstance(await fleet.start(b, "k"), Lost)
            assert isinstance(await fleet.start(b, "new"), Started)

    run(work())


@pytest.mark.usefixtures(
    "direct"
)  # a pooler keeps the connections of its clients, and the next renewal finds out
def test_another_process_of_the_database_is_compared_before_anything_is_claimed(
    fleet: Fleet, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby that takes over may lack what came after the last renewals. Those alone would show nothing."""
    monkeypatch.setattr(lease, "RENEW_S", 3600.0)  # the test renews

    async def work() -> None:
        async with fleet.open("a") as a, fleet.open("b") as b:
            # Each renews its lease twice when it starts. A renewal after the copy would show what is missing by itself.
            await wait_until(lambda: max(a.generation.beat, b.generation.beat) == 4)
            fleet.save()
            assert isinstance(await fleet.start(a, "k"), Started)
            fleet.put_back()
            postgres.restart()
            # Broken connections let both renew their leases, and b finds nothing that it lacks.
            while not a.generation.restored:
                with pytest.raises(StoreUnavailable):
                    await b.runs.take(Claim("t", "k", new_id(), b"d" * 32), None)
            assert a.generation.restored in (
                explain("it lacks requests that were started"),
                explain("it lacks records that were shipped"),
            )

    run(work())


@pytest.mark.parametrize("ship", [True, False])
def test_a_replica_that_starts_again_remembers(fleet: Fleet, *, ship: bool) -> None:
    async def work() -> None:
        async with fleet.open("a") as a:
            await fleet.start(a, "before")
            fleet.save()
            await fleet.start(a, "k", ship=ship)
        if not ship:  # as if it was killed before its ledger was shipped
            execute(fleet.url, "update saved_chain set seq = (select seq from chain)")
            execute(
                fleet.url, "insert into saved_record select * from record except select * from saved_record"
            )
            (directory := fleet.settings("a").audit.directory / "generation").write_text(
                json.dumps({**json.loads(directory.read_text()), **find_first_head(fleet.url)})
            )
        fleet.put_back()
        async with fleet.open("a") as a:
            why = "it lacks records that were shipped" if ship else "it lacks requests that were started"
            assert a.generation.restored == explain(why)
            await fleet.accept()
            await await_generation(2, a)
            assert isinstance(await fleet.start(a, "k"), Lost)

    run(work())


def find_first_head(url: str) -> dict[str, object]:
    [(chain, seq, line)] = execute(url, "select chain, seq, line from record where seq = 1")
    assert isinstance(line, bytes)
    return {"chain": chain, "seq": seq, "hash": line[-66:-2].decode()}


def test_a_replica_that_was_away_at_the_restore_comes_back_later(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with fleet.open("a") as a:
            async with fleet.open("b") as b:
                fleet.save()
                await fleet.start(b, "k")
                first = await fleet.start(b, "twice")
                await a.lease.renew_once()
            fleet.put_back()
            execute(fleet.url, "update node set seen = now() - interval '1 minute' where id = 'b'")
            await wait_until(lambda: bool(a.generation.restored))
            with pytest.raises(ConfigurationError) as refused:
                await fleet.accept()
            assert str(refused.value) == (
                "these replicas have not reported what they ran since the backup: b; start them and run this again, or "
                "name each one that will not come back with --without: keys that it ran could then start again"
            )
            plan = await fleet.accept(("b",))
            assert (plan.reported, plan.silent, plan.keys) == (("a",), ("b",), 0)
            await await_generation(2, a)
            second = await fleet.start(a, "twice")
            async with fleet.open("b") as b:
                await await_generation(2, b)
                assert isinstance(first, Started)
                assert isinstance(second, Started)
                assert (
                    f"one key ran twice: as {first.claim.request} before the restore of the database, and as "
                    f"{second.claim.request} after it was accepted without this replica"
                ) in caplog.messages
                assert isinstance(await fleet.start(a, "k"), Lost)
                assert isinstance(await fleet.start(b, "new"), Started)

    run(work())


def test_two_operators_at_once_and_a_restore_in_between(fleet: Fleet) -> None:
    """What was planned is done once, and never in another database than the one that was looked at."""

    def explain_conflict(number: int) -> str:
        return (
            f"the database is not in the state that was found before: it has generation {number} now, because another "
            "operator accepted it, or it was restored again; look at it with: paddock cluster accept-restore --dry-run"
        )

    async def work() -> None:
        async with fleet.open("a") as a, Database(fleet.url) as database:
            fleet.save()
            await a.lease.renew_once()
            fleet.put_back()
            await wait_until(lambda: bool(a.generation.restored))
            plan = await fleet.plan(database)
            ends = await asyncio.gather(
                *(accept_restore(database, fleet.seals, plan) for _ in range(2)), return_exceptions=True
            )
            assert sorted(str(end) for end in ends if isinstance(end, ConfigurationError)) == [
                explain_conflict(2)
            ]
            await await_generation(2, a)

            # The backup has generation 1 again: the next one must be none that a replica has seen.
            fleet.put_back()
            await wait_until(lambda: bool(a.generation.restored))
            assert a.generation.restored == explain(
                "it has generation 1, and this server has seen another generation 2"
            )
            second = await fleet.plan(database)
            assert second.next == 3
            fleet.put_back()
            with pytest.raises(ConfigurationError) as refused:
                await accept_restore(database, fleet.seals, second)
            assert str(refused.value) == explain_conflict(1)
            assert (await fleet.accept()).next == 3
            await await_generation(3, a)

    run(work())


def test_a_stranger_who_can_write_to_the_database_accepts_nothing(fleet: Fleet) -> None:
    async def work() -> None:
        async with fleet.open("a") as a:
            execute(fleet.url, "update generation set number = 2, id = 'made up', seal = '00'")
            await wait_until(lambda: bool(a.generation.restored))
            assert a.generation.restored == explain("no key of cluster.key_file sealed its generation 2")
            await fleet.accept()
            await await_generation(3, a)

    run(work())


def test_a_new_replica_takes_no_restored_database_for_sound(fleet: Fleet) -> None:
    """It remembers nothing; the mark that another one left is in the database."""

    async def work() -> None:
        async with fleet.open("a") as a:
            fleet.save()
            await a.lease.renew_once()
            fleet.put_back()
            await wait_until(lambda: bool(a.generation.restored))
            await wait_until(lambda: execute(fleet.url, "select fence is null from generation") == [(False,)])
        async with fleet.open("new") as new:
            assert new.generation.restored == explain("it lacks renewals of leases")

    run(work())


def test_requests_that_run_in_the_backup_become_lost(fleet: Fleet) -> None:
    async def work() -> None:
        async with fleet.open("a") as a:
            claim = Claim("t", "k", new_id(), b"d" * 32)
            taken = await a.runs.take(claim, None)
            assert isinstance(taken, Started)
            fleet.save()
            await a.runs.end(taken, StoredEnd("ok", b"{}"))
            await a.lease.renew_once()
            fleet.put_back()
            await wait_until(lambda: bool(a.generation.restored))
            assert (await fleet.accept()).running == 1
            await await_generation(2, a)
            assert await a.runs.take(claim, None) == Lost(claim.request, "a")

    run(work())


def test_the_hash_of_a_token_does_not_depend_on_the_order_of_its_members() -> None:
    assert hash_token_entry('{"a": 1, "b": [2]}') == hash_token_entry('{"b":[2],"a":1}')
    assert hash_token_entry('{"a": 1}') != hash_token_entry('{"a": 2}')
    assert len(hash_token_entry("no JSON")) == 64


def test_a_database_that_nobody_found_restored_is_accepted_only_on_request(
    fleet: Fleet, tmp_path: Path
) -> None:
    from tests.support.command import make_environment

    environment = {
        **make_environment(tmp_path),
        "PADDOCK_CLUSTER_URL": fleet.url,
        "PADDOCK_CLUSTER_KEY_FILE": str(fleet.keys),
    }
    refused = run_paddock(tmp_path, "cluster", "accept-restore", "--dry-run", environment=environment)
    assert (refused.returncode, refused.stdout, refused.stderr) == (
        1,
        "",
        "no replica has found that the database was restored: it has generation 1; if you restored it, start the "
        "replicas and run this again; if none of them kept its ledger, run: paddock cluster accept-restore "
        "--unnoticed\n",
    )
    done = run_paddock(tmp_path, "cluster", "accept-restore", "--unnoticed", environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "generation: 1, then 2\nrestored: an operator said so\nreported: none\nsilent: none\ntokens: none\n"
        "tokens that were revoked, and are removed: none\ntokens without a valid seal: none\n"
        "keys that ran since the backup: 0\nrequests that become lost: 0\n"
        "accepted: the database has generation 2\n",
        "",
    )
