"""The configurations of HAProxy and nginx that the pages show, in front of replicas that are stopped and killed."""

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.balancers import DOCS, HOST, Balancer, PageHaProxy, PageNginx, read_block
from tests.support.http_api import TOKEN, ApiClient, Background, read_events, read_problem
from tests.support.leases import end_lease
from tests.support.replicas import ReplicaSet

from paddock.policy.settings.units import read_duration_ms

NEVER = "1d"
"""Interval of health checks that are not made during a test: what helps are the retries alone."""
SETTINGS = '[runtimes]\naccess = "workspace-write"\nmax_jobs = 8\n[serve]\nmax_jobs = 8\n'
KINDS: dict[str, Callable[[list[int]], Balancer]] = {
    "haproxy": lambda ports: PageHaProxy(ports, inter=NEVER),
    "nginx": PageNginx,
}
ENDING = "This server is ending. Send it again to another server, or later."


@contextmanager
def open_replicas(root: Path, url: str, settings: str = "", count: int = 2) -> Iterator[ReplicaSet]:
    """Run replicas that accept the host name of the pages."""
    replicas = ReplicaSet(root, url, SETTINGS + settings, count, hosts=(HOST,))
    for place in replicas.places:
        place.workspace.chmod(0o777)
    with replicas.run():
        yield replicas


def until(file: str) -> dict[str, Any]:
    """Return a program with effects that ends once a file of its workspace exists."""
    code = f"echo x >> starts; echo begun; until [ -e {file} ]; do sleep 0.02; done; echo done"
    return {"language": "shell", "code": code, "access": "workspace-write"}


def wait_for_start(replicas: ReplicaSet) -> int:
    """Return the replica on which a program of `until` has started."""
    while True:
        for index, place in enumerate(replicas.places):
            if (place.workspace / "starts").exists():
                return index


def count_starts(replicas: ReplicaSet) -> int:
    """Return how often programs of `until` have started, on all replicas."""
    files = [place.workspace / "starts" for place in replicas.places]
    return sum(len(file.read_text().splitlines()) for file in files if file.exists())


def ask(client: ApiClient) -> httpx2.Response:
    """Send a request without effects."""
    return client.post("/v1/executions", json={"language": "shell", "code": "true", "access": "none"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_balancer_keeps_connections_passes_events_on_and_retries(
    kind: str, url: str, tmp_path: Path
) -> None:
    with (
        open_replicas(tmp_path, url) as replicas,
        KINDS[kind](replicas.ports) as balancer,
        balancer.client(TOKEN) as client,
    ):
        assert {balancer.find_replica(ask(client)) for _ in range(4)} == {0, 1}
        headers = {"Accept": "text/event-stream"}
        with client.http.stream("POST", "/v1/executions", json=until("go"), headers=headers) as answer:
            events = read_events(answer.iter_lines())
            while (event := next(events))[0] != "output":
                pass
            assert event[1]["text"] == "begun\n"  # it arrives while the program waits
            index = wait_for_start(replicas)
            (replicas.places[index].workspace / "go").touch()
            *_, (name, outcome) = events
        assert (name, outcome["status"]) == ("outcome", "ok")
        replicas.servers[0].process.kill()
        replicas.servers[0].process.wait()
        answers = [ask(client) for _ in range(6)]
        assert [(each.status_code, balancer.find_replica(each)) for each in answers] == [(200, 1)] * 6


@pytest.mark.parametrize("kind", KINDS)
def test_what_runs_on_a_killed_replica_is_lost_and_never_sent_twice(
    kind: str, url: str, tmp_path: Path
) -> None:
    key = {"Idempotency-Key": "k"}
    with (
        open_replicas(tmp_path, url) as replicas,
        KINDS[kind](replicas.ports) as balancer,
        balancer.client(TOKEN) as client,
        balancer.client(TOKEN) as other,
    ):
        waiting = Background(lambda: client.post("/v1/executions", json=until("go"), headers=key))
        index = wait_for_start(replicas)
        replicas.servers[index].process.kill()
        replicas.servers[index].process.wait()
        assert waiting.result().status_code == 502
        end_lease(url, f"r{index}")
        again = other.run(headers=key, **until("go"))
        assert (again["status"], again["error"]["name"]) == ("lost", "MachineLost")
        headers = {"Accept": "text/event-stream"}
        (replicas.places[index].workspace / "starts").unlink()
        with other.http.stream("POST", "/v1/executions", json=until("go"), headers=headers) as answer:
            assert wait_for_start(replicas) == 1 - index
            replicas.servers[1 - index].process.kill()
            with pytest.raises(httpx2.RemoteProtocolError):
                answer.read()
        assert count_starts(replicas) == 1


def test_haproxy_leaves_a_replica_that_ends_while_that_one_still_takes_requests(
    url: str, tmp_path: Path
) -> None:
    with (
        open_replicas(tmp_path, url, "drain_ms = 600000\n") as replicas,
        PageHaProxy(replicas.ports, inter="100ms") as balancer,
        balancer.client(TOKEN) as client,
        replicas.servers[0].client() as direct,
    ):
        replicas.servers[0].stop()
        answers = [ask(client)]
        while balancer.is_up(0):
            answers.append(ask(client))
        assert {each.status_code for each in answers} == {200}
        after = [ask(client) for _ in range(4)]
        assert [(each.status_code, balancer.find_replica(each)) for each in after] == [(200, 1)] * 4
        assert direct.get("/readyz").status_code == 503
        assert ask(direct).status_code == 200


def test_the_times_of_the_page_follow_its_rule() -> None:
    [(inter_s, fall)] = re.findall(r" inter (\d+)s fall (\d+) ", read_block("cluster.md", "backend paddock"))
    blocks = re.findall(r"^```toml\n(.*?)^```$", (DOCS / "cluster.md").read_text(), re.MULTILINE | re.DOTALL)
    tables = [table for block in blocks if "drain_ms" in (table := tomllib.loads(block).get("serve", {}))]
    drains = [table["drain_ms"] for table in tables]
    assert [each if isinstance(each, int) else read_duration_ms(each) for each in drains] == [5000, 5000]
    assert int(inter_s) * 1000 * int(fall) == 3000


def test_behind_nginx_a_replica_that_ends_refuses_until_it_is_marked_as_down(
    url: str, tmp_path: Path
) -> None:
    grace = "[mcp]\nshutdown_grace_ms = 600000\n"
    with (
        open_replicas(tmp_path, url, grace) as replicas,
        PageNginx(replicas.ports) as unaware,
        PageNginx(replicas.ports, down=(0,)) as aware,
        unaware.client(TOKEN) as client,
        aware.client(TOKEN) as other,
        replicas.servers[0].client() as direct,
    ):
        running = Background(lambda: direct.run(**until("go")))
        assert wait_for_start(replicas) == 0
        replicas.servers[0].stop()
        answers = [ask(client)]
        while answers[-1].status_code == 200:
            answers.append(ask(client))
        assert unaware.find_replica(answers[-1]) == 0
        assert read_problem(answers[-1]) == (503, "server-ending", ENDING)
        after = [ask(other) for _ in range(4)]
        assert [(each.status_code, aware.find_replica(each)) for each in after] == [(200, 1)] * 4
        (replicas.places[0].workspace / "go").touch()
        assert running.result()["status"] == "ok"
        assert replicas.servers[0].wait() == 0
