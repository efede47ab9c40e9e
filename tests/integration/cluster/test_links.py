"""Links between replicas that hang: all connections stay open, and no byte comes."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.integration.cluster.test_forwarding import initialize, message
from tests.integration.cluster.test_owner_ends import WAIT, open_interpreter
from tests.support.command import run_paddock
from tests.support.http_api import TOKEN, ApiClient, Background, read_problem
from tests.support.late_proxy import LateProxy
from tests.support.replicas import ReplicaSet

SETTINGS = "[serve]\nmax_jobs = 8\n[runtimes]\nmax_jobs = 8\ntimeout_ms = 600000\n"
LONG = bool(os.environ.get("PADDOCK_CLUSTER_LONG"))
"""Whether to wait until a stream of events is given up, too, which takes more than half a minute."""
UNKNOWN = "The replica that handles this does not answer. Whether and how far it was done is not known. "
ABSENT = "The replica that has this cannot be reached. Nothing was started. Send it again later."


class Pair(NamedTuple):
    """A replica, and another one that it reaches through a link which can hang."""

    replicas: ReplicaSet
    link: LateProxy
    near: ApiClient
    far: ApiClient


@pytest.fixture
def pair(url: str, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        links: list[LateProxy] = []

        def reach(port: int) -> int:
            links.append(stack.enter_context(LateProxy(port)))
            return links[-1].port

        replicas = stack.enter_context(ReplicaSet(tmp_path, url, SETTINGS, 2, reach=reach).run())
        near, far = (stack.enter_context(each.client()) for each in replicas.servers)
        yield Pair(replicas, links[1], near, far)


def find_running(api: ApiClient) -> str:
    """Return the id of the one execution that runs, as soon as there is one."""
    while not (found := [each for each in list_executions(api) if each["state"] == "running"]):
        pass
    [running] = found
    return running["id"]


def list_executions(api: ApiClient) -> list[dict[str, str]]:
    return api.get("/v1/executions").json()["executions"]


def test_what_a_silent_replica_does_is_not_known(pair: Pair) -> None:
    near, far = pair.near, pair.far
    first, second, third = (f"/v1/sessions/{open_interpreter(far)}" for _ in range(3))
    session, key = initialize(far), {"Idempotency-Key": "behind-a-link"}
    waiting = Background(lambda: near.post(f"{first}/executions", json={"code": WAIT}))
    id_ = find_running(far)
    while not pair.link.count_answered(id_):  # the near replica has asked for it
        pass
    with near.events(f"{third}/executions", code=WAIT) as events:
        assert [next(events)[0], next(events)[0]] == ["started", "output"]
        pair.link.hang()
        asked = {
            "keyed": Background(
                lambda: near.post(f"{second}/executions", json={"code": "6 * 7"}, headers=key)
            ),
            "put": Background(lambda: near.put(f"{second}/files/a", content=b"a")),
            "mcp": Background(lambda: near.post("/mcp", json=message("tools/list", {}), headers=session)),
            "look up": Background(lambda: near.get(second)),
            "delete": Background(lambda: near.delete(third)),
        }
        for member, path in (("sessions", "/v1/sessions"), ("executions", "/v1/executions")):
            assert near.get(path).json() == {member: [], "partial": ["r1"]}
        listed = run_paddock(
            pair.replicas.places[0].workspace,
            *("sessions", "list", "--json", "--server", pair.replicas.servers[0].url),
            environment={**pair.replicas.places[0].environment, "PADDOCK_TOKEN": TOKEN},
        )
        told = "the list is partial: r1 did not answer; list the sessions again later\n"
        assert listed == (1, "[]\n", told)
        found = {what: read_problem(each.result()) for what, each in {**asked, "waiting": waiting}.items()}
        assert found == {
            "waiting": (504, "outcome-unknown", f"{UNKNOWN}Ask again: GET /v1/executions/{id_}."),
            "keyed": (
                504,
                "outcome-unknown",
                f"{UNKNOWN}Send it again with the same Idempotency-Key: it starts at most once.",
            ),
            "put": (504, "outcome-unknown", f"{UNKNOWN}GET /v1/executions lists what was started."),
            "mcp": (
                504,
                "outcome-unknown",
                f"{UNKNOWN}A call with a `paddock/key` can be sent again: it starts at most once.",
            ),
            "look up": (503, "unavailable", ABSENT),
            "delete": (503, "unavailable", ABSENT),
        }
        assert waiting.result().json()["execution"] == id_
        assert asked["look up"].result().headers["retry-after"] == "3"
        assert near.problem("GET", f"/v1/executions/{id_}") == (
            503,
            "unavailable",
            "1 of the other replicas, which could have it, cannot be reached. Ask again later.",
        )
        if LONG:
            *_, (name, problem) = events
            assert (name, problem["type"], problem["detail"]) == (
                "problem",
                "urn:paddock:problem:outcome-unknown",
                f"{UNKNOWN}GET /v1/executions lists what was started.",
            )
        pair.link.go_on()
    while near.get(f"/v1/executions/{id_}").status_code == 503:
        pass
    # The near replica has ended the connection: to the far one, its client has disconnected.
    assert near.wait_for_end(id_)["outcome"]["status"] == "cancelled"
    outcome = near.run(f"{second}/executions", headers=key, code="6 * 7")
    assert outcome["results"][0]["data"]["text/plain"] == "42"
    assert far.run(f"{second}/executions", headers=key, code="6 * 7") == outcome
    again = far.run(f"{second}/executions", code="1")
    assert again["session"]["number"] <= 3 + 1
    while near.get("/v1/sessions").json()["partial"]:
        pass
