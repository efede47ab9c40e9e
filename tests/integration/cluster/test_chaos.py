"""Replicas and the database die under load: each request with effects starts at most once, and each is answered.

The long form has ten thousand requests: PADDOCK_CLUSTER_REQUESTS=10000.
"""

import asyncio
import os
from pathlib import Path

from tests.support.chaos import MAX_AT_ONCE, Load, choose, judge, list_started, report
from tests.support.postgres import Postgres
from tests.support.replicas import ReplicaSet, make_token_settings

REQUESTS = int(os.environ.get("PADDOCK_CLUSTER_REQUESTS", "300"))
KILLS = max(6, REQUESTS // 100)
DATABASE_KILLS = 3 if REQUESTS < 10_000 else 20
SETTINGS = '[runtimes]\naccess = "workspace-write"\nmax_wait_ms = 120000\nmax_waiting = 64\n'


def make_replicas(root: Path, url: str) -> tuple[ReplicaSet, str]:
    """Return three replicas, and the token of a caller."""
    tokens, by_name = make_token_settings("alice")
    replicas = ReplicaSet(root, url, SETTINGS + tokens)
    for place in replicas.places:
        place.workspace.chmod(0o777)
    return replicas, by_name["alice"]


def test_no_request_starts_twice_while_replicas_die(url: str, tmp_path: Path) -> None:
    replicas, token = make_replicas(tmp_path, url)
    choose_replica = choose(1, 3)
    with replicas.run():
        load = Load(replicas.balancer.url, token, REQUESTS)

        async def kill_one() -> None:
            number = choose_replica()
            replicas.servers[number].process.kill()
            replicas.servers[number].process.wait()
            replicas.servers[number] = await asyncio.to_thread(replicas.start, number)

        for kill in range(KILLS):
            load.after((kill + 1) * REQUESTS // (KILLS + 1), kill_one)
        asyncio.run(load.run())
    truth = judge(load, replicas.places)
    report(f"{KILLS} kills of replicas", truth)
    assert truth.statuses.total() == REQUESTS
    assert truth.most_starts == 1
    assert truth.unavailable_with_start == 0
    assert truth.wrong == []
    assert set(truth.statuses) <= {"ok", "lost", "unavailable"}


def test_nothing_starts_without_the_database_and_nothing_twice(tmp_path: Path) -> None:
    with Postgres() as postgres:
        replicas, token = make_replicas(tmp_path, postgres.url)
        with replicas.run():
            count = max(150, REQUESTS // 10)
            load = Load(replicas.balancer.url, token, count)
            without_database: list[set[int]] = []

            async def kill_database() -> None:
                await asyncio.to_thread(postgres.kill)
                sent_before = {*load.sent}
                await load.wait_for_more("unavailable", MAX_AT_ONCE)
                without_database.append(list_started(replicas.places) - sent_before)
                await asyncio.to_thread(postgres.start)
                await load.wait_for_more("ok", 20)

            for kill in range(DATABASE_KILLS):
                load.after((kill + 1) * count // (DATABASE_KILLS + 1), kill_database)
            asyncio.run(load.run())
    truth = judge(load, replicas.places)
    report(f"{DATABASE_KILLS} kills of the database", truth)
    assert truth.statuses.total() == count
    assert truth.most_starts == 1
    assert truth.unavailable_with_start == 0
    assert truth.wrong == []
    assert without_database == [set()] * DATABASE_KILLS
