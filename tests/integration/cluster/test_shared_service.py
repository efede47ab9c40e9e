"""Replicas of `paddock serve http` as one service: tokens and questions are those of all of them."""

import asyncio
import contextlib
import json
import secrets
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.support.command import PADDOCK, run_paddock
from tests.support.http_api import ApiClient, ApiPlace, ApiServer
from tests.support.leases import await_leases, execute
from tests.support.mcp_server import ERAS
from tests.support.postgres import Postgres
from tests.support.processes import PATIENCE_S
from tests.support.terminal import at_terminal

RULES = """
[[policy.rule]]
effect = "ask"
tool = "odd/echo"
reason = "echoes carry far"
"""
CALL = {"server": "odd", "tool": "echo", "arguments": {"text": "hello"}}
NUMBERS = count(1)
"""Numbers in names of users. Random names look like secrets, which are removed from records."""
LONG = {"language": "python", "code": "import time; print('begun', flush=True); time.sleep(3600)"}


class Service(NamedTuple):
    """Two replicas, and a machine of a person with access to the database."""

    url: str
    a: ApiServer
    b: ApiServer
    places: dict[str, ApiPlace]
    """By name: `a`, `b`, and `desk`."""

    @property
    def desk(self) -> ApiPlace:
        return self.places["desk"]


def make_place(root: Path, url: str, name: str, keys: Path) -> ApiPlace:
    """Return a machine with a home of its own."""
    root.mkdir(parents=True)
    place = ApiPlace(root)
    place.settings(RULES)
    place.environment |= {
        "PADDOCK_CLUSTER_URL": url,
        "PADDOCK_CLUSTER_NODE": name,
        "PADDOCK_CLUSTER_KEY_FILE": str(keys),
    }
    return place


@contextmanager
def open_service(root: Path, url: str) -> Iterator[Service]:
    keys = root / "keys"
    keys.write_text(f"{secrets.token_hex(32)}\n")
    keys.chmod(0o600)
    places = {name: make_place(root / name, url, name, keys) for name in ("desk", "a", "b")}
    run_paddock(places["desk"].workspace, "cluster", "migrate", environment=places["desk"].environment)
    with places["a"].serve() as a, places["b"].serve() as b:
        await_leases(url, 2)
        yield Service(url, a, b, places)


@pytest.fixture(scope="module")
def service(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two replicas that all tests of this file use, each with users of its own."""
    url = postgres.make_database(f"s{secrets.token_hex(8)}")
    with open_service(tmp_path_factory.mktemp("service"), url) as opened:
        yield opened


class Users(NamedTuple):
    """Clients of both replicas, by user."""

    name: str
    """Of the first one."""
    token: str
    alice_a: ApiClient
    alice_b: ApiClient
    boss_a: ApiClient
    boss_b: ApiClient


@pytest.fixture
def users(service: Service) -> Iterator[Users]:
    name = f"alice{next(NUMBERS)}"
    token = service.desk.make_token(name)
    boss = service.desk.make_token(f"boss{next(NUMBERS)}", "--approve")
    with ExitStack() as stack:
        clients = [
            stack.enter_context(server.client(each))
            for each in (token, boss)
            for server in (service.a, service.b)
        ]
        yield Users(name, token, *clients)


@contextmanager
def asking(client: ApiClient, **body: Any) -> Iterator[tuple[str, Any, Iterator[tuple[str, Any]]]]:
    """Run something that asks; yield the execution, the question and the further events."""
    with client.events(**body) as events:
        (_, started), (name, question) = next(events), next(events)
        assert name == "question", (name, question)
        yield started["id"], question, events


def list_questions(client: ApiClient) -> dict[str, bool]:
    """Return whether a caller may answer, by question."""
    return {
        each["question"]["id"]: each["may_answer"] for each in client.get("/v1/approvals").json()["approvals"]
    }


def test_asked_on_one_replica_and_answered_on_the_other(users: Users) -> None:
    with asking(users.alice_a, **CALL) as (_, question, events):
        id_ = question["id"]
        assert list_questions(users.boss_b)[id_] is True
        assert list_questions(users.alice_b)[id_] is False
        refused = users.alice_b.problem("POST", f"/v1/approvals/{id_}", json={"verdict": "once"})
        assert refused[:2] == (403, "not-permitted")
        given = users.boss_b.post(f"/v1/approvals/{id_}", json={"verdict": "once"})
        assert (given.status_code, given.json()["verdict"]) == (200, "once"), given.text
        late = users.boss_a.problem("POST", f"/v1/approvals/{id_}", json={"verdict": "denied"})
        assert late[:2] in {(409, "already-answered"), (404, "not-found")}
        *_, (_, outcome) = events
    assert (outcome["status"], outcome["value"]) == ("ok", "hello")
    assert id_ not in list_questions(users.boss_a)


def test_nobody_answers_their_own_question_through_another_replica(users: Users) -> None:
    with asking(users.boss_a, **CALL) as (execution, question, _):
        refused = users.boss_b.problem("POST", f"/v1/approvals/{question['id']}", json={"verdict": "once"})
        assert refused[:2] == (403, "not-permitted")
        assert list_questions(users.boss_b)[question["id"]] is False
        users.boss_a.delete(f"/v1/executions/{execution}")


def test_an_answer_that_a_stranger_writes_into_the_row_allows_nothing(users: Users, service: Service) -> None:
    with asking(users.alice_a, **CALL) as (_, question, events):
        execute(service.url, "update question set verdict = 'once', by = 'eve' where id = %s", question["id"])
        *_, (_, outcome) = events
    assert (outcome["status"], outcome["error"]["name"]) == ("denied", "ApprovalUnavailable")


def test_a_person_answers_at_another_machine(users: Users, service: Service) -> None:
    desk = service.desk
    with asking(users.alice_a, **CALL) as (_, question, events):
        listed = desk.paddock("approve", "--json")
        assert [each["actor"] for each in listed if each["id"] == question["id"]] == [f"token:{users.name}"]
        without = run_paddock(desk.workspace, "approve", question["id"], environment=desk.environment)
        assert (without.returncode, without.stderr) == (
            1,
            "only a person can approve: run this on a terminal; `--deny` works without one\n",
        )
        shown, code = at_terminal(
            [PADDOCK, "approve", question["id"]], desk.workspace, desk.environment, "y\n"
        )
        assert code == 0, shown
        *_, (_, outcome) = events
    assert outcome["status"] == "ok"
    records = service.places["a"].paddock("audit", "tail", "-n", "100", "--event", "answered", "--json")
    [answered] = [each for each in records if each["fields"]["question"] == question["id"]]
    assert answered["fields"]["answered_by"].endswith("@desk (paddock approve)")


@pytest.mark.parametrize("mode", ERAS)
def test_asked_over_mcp_and_answered_on_the_other_replica(users: Users, service: Service, mode: str) -> None:
    async def main() -> object:
        headers = {"Authorization": f"Bearer {users.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(f"{service.a.url}/mcp", http_client=http), mode=mode) as client,
        ):
            code = "return await servers.odd.echo({text: 'over mcp'})"
            waiting = (await client.call_tool("execute_code", {"code": code})).structured_content
            assert waiting is not None
            assert waiting["status"] == "waiting"
            id_ = waiting["command"].removeprefix("paddock approve ")
            assert list_questions(users.boss_b)[id_] is True
            given = users.boss_b.post(f"/v1/approvals/{id_}", json={"verdict": "once"})
            assert given.status_code == 200, given.text
            found = await client.call_tool("query_output", {"artifact_handle": waiting["run"]})
            assert found.structured_content is not None
            return found.structured_content["result"]["value"]

    assert asyncio.run(main()) == "over mcp"


def test_the_question_of_a_replica_that_was_killed_is_gone(users: Users, service: Service) -> None:
    place = make_place(
        service.desk.home.parent.parent / f"c{next(NUMBERS)}",
        service.url,
        "c",
        Path(service.desk.environment["PADDOCK_CLUSTER_KEY_FILE"]),
    )
    with (
        place.serve() as c,
        c.client(users.token) as alice,
        contextlib.suppress(httpx2.HTTPError),
        asking(alice, **CALL) as (_, question, _),
    ):
        assert list_questions(users.boss_b)[question["id"]] is True
        c.process.send_signal(signal.SIGKILL)
        c.wait()
        # Ten seconds later the lease is over; the test does not wait.
        execute(service.url, "update node set seen = now() - interval '11 seconds' where id = 'c'")
        assert question["id"] not in list_questions(users.boss_b)
        for boss in (users.boss_a, users.boss_b):
            late = boss.problem("POST", f"/v1/approvals/{question['id']}", json={"verdict": "once"})
            assert late[:2] == (410, "execution-lost")


def test_a_revoked_token_ends_what_runs_on_all_replicas(service: Service) -> None:
    name = f"eve{next(NUMBERS)}"
    token = service.desk.make_token(name)
    with service.a.client(token) as a, service.b.client(token) as b, ExitStack() as running:
        streams = [running.enter_context(client.events(**LONG)) for client in (a, b)]
        for events in streams:
            assert [next(events)[0] for _ in range(2)] == ["started", "output"]
        revoked = service.desk.paddock("serve", "token", "revoke", name, "--json")
        assert revoked == {"name": name, "revoked": True}
        ended = [[kind for kind, _ in events] for events in streams]
        assert ended == [["problem"]] * 2
        assert [client.get("/v1/approvals").status_code for client in (a, b)] == [401, 401]


def test_a_token_works_everywhere_at_once_and_a_row_that_widens_its_policy_nowhere(service: Service) -> None:
    name = f"ann{next(NUMBERS)}"
    token = service.desk.make_token(name, "--policy", "runtimes.network=none")
    listed = service.desk.paddock("serve", "token", "list", "--json")
    assert [each["state"] for each in listed if each["name"] == name] == ["valid"]
    with service.a.client(token) as a, service.b.client(token) as b:
        assert [client.get("/v1/approvals").status_code for client in (a, b)] == [200, 200]
        [(body,)] = execute(service.url, "select body from kept where kind = 'token' and name = %s", name)
        wider = {**body, "token": body["token"].replace('"none"', '"all"')}
        assert wider != body
        execute(
            service.url,
            "update kept set body = %s::jsonb where kind = 'token' and name = %s",
            *(json.dumps(wider), name),
        )
        for client in (a, b):
            while client.get("/v1/approvals").status_code != 401:
                pass


def test_a_rate_counts_requests_to_all_replicas(service: Service) -> None:
    token = service.desk.make_token(f"rate{next(NUMBERS)}", "--rate", "4/min")
    with service.a.client(token) as a, service.b.client(token) as b:
        assert [a.get("/v1/approvals").status_code for _ in range(4)] == [200] * 4
        answers = []
        while not answers or answers[-1] != 429:
            answers.append(b.get("/v1/approvals").status_code)
        assert answers.count(200) <= 4
