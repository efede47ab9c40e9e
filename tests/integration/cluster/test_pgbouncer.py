"""A cluster whose database is behind PgBouncer, which gives each transaction another connection.

`TEST_CLUSTER_POOLER=1` runs the tests of this folder through PgBouncer, except those with the fixture `direct`.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.chaos import count_starts
from tests.support.command import run_paddock
from tests.support.http_api import Background
from tests.support.leases import execute
from tests.support.postgres import PgBouncer, Postgres
from tests.support.processes import PATIENCE_S
from tests.support.replicas import ReplicaSet, make_token_settings

from paddock.cluster import listener as listener_module
from paddock.cluster.database import Database
from paddock.cluster.listener import Listener

CONNECTIONS = 4
ASKS = '[runtimes]\naccess = "workspace-write"\n[[policy.rule]]\neffect = "ask"\ntool = "odd/echo"\nreason = "echoes carry far"\n'


@pytest.fixture
def pooler(postgres: Postgres) -> Iterator[PgBouncer]:
    with PgBouncer(postgres.port, connections=CONNECTIONS) as pooler:
        yield pooler


def test_three_replicas_share_a_few_connections(
    postgres: Postgres, pooler: PgBouncer, url: str, tmp_path: Path
) -> None:
    database = url.rpartition("/")[2]
    tokens, by_name = make_token_settings("alice", "boss", approve="boss")
    replicas = ReplicaSet(tmp_path, pooler.find_url(database), ASKS + tokens)
    for place in replicas.places:
        place.workspace.chmod(0o777)
    with replicas.run(), replicas.servers[2].client(by_name["boss"]) as boss, ExitStack() as stack:
        clients = [stack.enter_context(server.client(by_name["alice"])) for server in replicas.servers]

        def send(number: int) -> str:
            key = number // 3
            body = {"language": "shell", "code": f"echo x >> starts-{key}; echo {key}"}
            outcome = clients[number % 3].run(
                headers={"Idempotency-Key": f"k{key}"}, access="workspace-write", **body
            )
            return f"{outcome['status']} {outcome['program']['stdout']['head']}"

        with ThreadPoolExecutor(12) as pool:
            answers = [*pool.map(send, range(90))]
        # Another replica answers, and no notification arrives: the replica that asks looks once a second.
        call = {"server": "odd", "tool": "echo", "arguments": {"text": "hello"}}
        asked = Background(lambda: clients[0].run(**call))
        while not (waiting := boss.get("/v1/approvals").json()["approvals"]):
            pass
        answer = boss.post(f"/v1/approvals/{waiting[0]['question']['id']}", json={"verdict": "once"})
        assert answer.status_code == 200, answer.text
        assert asked.result()["status"] == "ok"
        made = replicas.places[1].make_token("carol")
        with replicas.servers[0].client(made) as carol:
            assert carol.get("/v1/server").json()["actor"] == "token:carol"
        listed = replicas.places[0].paddock("cluster", "status", "--json")
        used = execute(
            postgres.find_url("postgres"),
            "select count(*) from pg_stat_activity where datname = %s",
            database,
        )
        for place in replicas.places:
            shown = run_paddock(
                place.workspace, "audit", "tail", "--cluster", "-n", "1", environment=place.environment
            )
            assert shown.returncode == 0, shown.stderr
    assert answers == [f"ok {number // 3}\n" for number in range(90)]
    assert [count_starts(replicas.places, number) for number in range(30)] == [1] * 30
    assert [node["state"] for node in listed["nodes"]] == ["serving"] * 3
    assert used[0][0] <= CONNECTIONS


def test_an_announcement_that_comes_with_a_statement_does_not_count_as_heard(
    pooler: PgBouncer, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The pooler passes it to the next user of the connection to the database, which may be a renewal."""
    monkeypatch.setattr(listener_module, "_HEARING_S", 0.2)
    behind = pooler.find_url(url.rpartition("/")[2])

    async def work() -> None:
        async with Listener(behind) as listener, Database(behind) as database, asyncio.timeout(PATIENCE_S):
            await database.fetch("select 1")
            for _ in range(3):
                testing = asyncio.create_task(listener.test_hearing(database))
                while not testing.done():
                    await listener.fetch("select pg_sleep(0.2)")
                    await listener.wait(0.001)
                assert not listener.hears
            assert caplog.messages == []
            testing = asyncio.create_task(listener.test_hearing(database))
            while not testing.done():
                await listener.wait(0.01)
            assert not listener.hears

    asyncio.run(work())
    assert [text.partition(",")[0] for text in caplog.messages] == [
        "the database announces nothing to this server"
    ]
