"""Requests with effects over HTTP and MCP: one start for each key on all replicas, and none without the database."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.support.chaos import list_started
from tests.support.http_api import ApiServer, read_problem
from tests.support.late_proxy import LateProxy
from tests.support.leases import execute
from tests.support.mcp_server import ERAS
from tests.support.postgres import Postgres
from tests.support.processes import PATIENCE_S
from tests.support.replicas import ReplicaSet, make_token_settings

SETTINGS = '[runtimes]\naccess = "workspace-write"\nmax_wait_ms = 120000\nmax_waiting = 64\n'
PURE = {"language": "shell", "code": "echo $((6 * 7))", "access": "none"}


def make_replicas(root: Path, url: str, count: int = 3) -> tuple[ReplicaSet, str]:
    tokens, by_name = make_token_settings("alice")
    replicas = ReplicaSet(root, url, SETTINGS + tokens, count)
    for place in replicas.places:
        place.workspace.chmod(0o777)
    return replicas, by_name["alice"]


def write_program(number: int) -> dict[str, Any]:
    code = f"echo x >> starts-{number}; sleep 0.2; echo $RANDOM"
    return {"language": "shell", "code": code, "access": "workspace-write"}


def test_one_key_a_hundred_times_at_once_on_three_replicas_starts_once(url: str, tmp_path: Path) -> None:
    replicas, token = make_replicas(tmp_path, url)
    key = {"Idempotency-Key": "once"}
    with replicas.run(), ThreadPoolExecutor(100) as pool:
        clients = [
            httpx2.Client(
                base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S
            )
            for server in replicas.servers
        ]

        def send(number: int) -> bytes:
            answer = clients[number % 3].post("/v1/executions", json=write_program(1), headers=key)
            assert answer.status_code == 200, answer.text
            return answer.content

        answers = [*pool.map(send, range(100))]
        other = clients[2].post("/v1/executions", json=write_program(2), headers=key)
        listed = replicas.places[0].paddock("cluster", "runs", "--json")
        for client in clients:
            client.close()
    assert len({*answers}) == 1
    starts = [file.read_text() for place in replicas.places for file in place.workspace.glob("starts-*")]
    assert starts == ["x\n"]
    assert read_problem(other)[:2] == (422, "idempotency-key-reused")
    assert [(run["key"], run["state"], run["status"], run["tenant"]) for run in listed] == [
        ("once", "finished", "ok", "token:alice")
    ]


def test_a_repeated_request_says_so_on_every_replica_and_in_the_record(url: str, tmp_path: Path) -> None:
    replicas, token = make_replicas(tmp_path, url, 2)
    key = {"Idempotency-Key": "k"}
    with replicas.run():
        answers: list[httpx2.Response] = []
        for server in [*replicas.servers, replicas.servers[1]]:
            with server.client(token) as client:
                answers.append(client.post("/v1/executions", json=write_program(1), headers=key))
        records = replicas.places[1].paddock("audit", "tail", "-n", "100", "--event", "decided", "--json")
    assert [each.headers.get("Idempotent-Replayed") for each in answers] == [None, "true", "true"]
    assert len({each.content for each in answers}) == 1
    told = [(each["fields"]["status"], each["fields"]["replays"]) for each in records]
    assert told == [("replayed", answers[0].json()["id"])]


def test_requests_without_effects_do_not_use_the_database(tmp_path: Path) -> None:
    with Postgres() as postgres, LateProxy(postgres.port) as late:
        replicas, token = make_replicas(tmp_path, f"postgresql://postgres@127.0.0.1:{late.port}/postgres", 1)
        with replicas.run(), replicas.servers[0].client(token) as client:
            client.run(**write_program(1))
            assert late.count("insert into run ") == 1
            late.delay_s = 0.5  # a renewal of the lease has 2.5 s
            for number in range(50):
                outcome = client.run(headers={"Idempotency-Key": f"pure-{number}"}, **PURE)
                assert (outcome["status"], outcome["program"]["stdout"]["head"]) == ("ok", "42\n")
            assert late.count("insert into run ") == 1
            # A late database delays a request with effects, and no more.
            assert client.run(**write_program(2))["status"] == "ok"
            assert late.count("insert into run ") == 2


def test_without_the_database_nothing_with_effects_starts(tmp_path: Path) -> None:
    with Postgres() as postgres:
        replicas, token = make_replicas(tmp_path, postgres.url, 1)
        with replicas.run(), replicas.servers[0].client(token) as client:
            assert client.run(**write_program(1))["status"] == "ok"
            postgres.kill()
            refused = client.run(headers={"Idempotency-Key": "k"}, **write_program(2))
            assert (refused["status"], refused["error"]["name"]) == ("unavailable", "StoreUnavailable")
            assert refused["error"]["hint"] == ("nothing was started: send it again later, with the same key")
            assert client.run(**PURE)["status"] == "ok"
            assert list_started(replicas.places) == {1}
            postgres.start()
            while (again := client.run(headers={"Idempotency-Key": "k"}, **write_program(2)))[
                "status"
            ] == "unavailable":
                pass
            assert again["status"] == "ok"
            assert list_started(replicas.places) == {1, 2}


def test_work_goes_on_while_the_database_is_away_for_a_moment(
    postgres: Postgres, url: str, tmp_path: Path
) -> None:
    """It breaks all connections and accepts none, which takes milliseconds; a new start may outlast the lease."""
    replicas, token = make_replicas(tmp_path, url, 1)
    name = url.rpartition("/")[2]
    waiting = {
        "language": "shell",
        "code": "echo x >> starts-1; until [ -e go ]; do sleep 0.02; done; echo done",
        "access": "workspace-write",
    }
    with replicas.run(), replicas.servers[0].client(token) as client:
        id_ = client.begin(**waiting)
        while not list_started(replicas.places):
            pass
        execute(postgres.url, f"alter database {name} with allow_connections false")
        execute(
            postgres.url, "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", name
        )
        (replicas.places[0].workspace / "go").touch()
        execute(postgres.url, f"alter database {name} with allow_connections true")
        outcome = client.wait_for_end(id_)["outcome"]
        assert (outcome["status"], outcome["program"]["stdout"]["head"]) == ("ok", "done\n")
        while postgres.query("select state, status from run", name) != ["finished|ok"]:
            pass


def test_work_is_ended_when_the_database_stays_away(tmp_path: Path) -> None:
    with Postgres() as postgres:
        replicas, token = make_replicas(tmp_path, postgres.url, 1)
        endless = {
            "language": "shell",
            "code": "echo x >> starts-1; while true; do sleep 1; done",
            "access": "workspace-write",
        }
        with replicas.run(), replicas.servers[0].client(token) as client:
            id_ = client.begin(**endless)
            while not list_started(replicas.places):
                pass
            postgres.kill()
            outcome = client.wait_for_end(id_)["outcome"]
            assert (outcome["status"], outcome["error"]["name"]) == ("lost", "LeaseLost")
            assert replicas.servers[0].process.poll() is None
            postgres.start()
            while postgres.query("select state, status from run") not in (["lost|"], ["finished|lost"]):
                pass
            while client.run(**write_program(2))["status"] != "ok":
                pass


def test_keys_of_mcp_calls_are_those_of_all_replicas(url: str, tmp_path: Path) -> None:
    replicas, token = make_replicas(tmp_path, url, 2)
    arguments = write_program(1)
    with replicas.run():
        answers = [
            asyncio.run(call_with_key(server, token, mode, arguments))
            for server, mode in zip(replicas.servers, ERAS, strict=True)
        ]
    assert answers[0] == answers[1]
    assert list_started(replicas.places) == {1}
    starts = [file.read_text() for place in replicas.places for file in place.workspace.glob("starts-*")]
    assert starts == ["x\n"]


async def call_with_key(server: ApiServer, token: str, mode: str, arguments: dict[str, Any]) -> object:
    """Return what `run_program` answers to a call with a key."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        result = await client.call_tool("run_program", arguments, meta={"paddock/key": "k"})
        return result.content, result.structured_content
