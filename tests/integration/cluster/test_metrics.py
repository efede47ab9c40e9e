"""Metrics of replicas: claims, leases, shipping, and requests that one passes on to another."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.integration.cluster.test_claims import PURE, write_program
from tests.integration.cluster.test_owner_ends import open_interpreter
from tests.support.http_api import ApiServer
from tests.support.leases import end_lease, execute
from tests.support.postgres import Postgres
from tests.support.replicas import ReplicaSet

SETTINGS = '[telemetry]\nmetrics = true\n[runtimes]\naccess = "workspace-write"\n'
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "telemetry.md").read_text()
NO_CLAIMS = dict.fromkeys(
    ("fenced", "finished", "key_reused", "lost", "started", "stopped", "unavailable"), 0
)
NO_FORWARDS = dict.fromkeys(("answered", "broken_off", "lost", "unknown", "unreachable"), 0)


def make_replicas(root: Path, url: str, count: int) -> ReplicaSet:
    """Return replicas whose programs may write into their workspaces."""
    replicas = ReplicaSet(root, url, SETTINGS, count)
    for place in replicas.places:
        place.workspace.chmod(0o777)
    return replicas


def read_metrics(server: ApiServer) -> dict[str, dict[str, float]]:
    """Return the metrics of a replica as such, without the prefix of their names, by the label `result`."""
    with server.client() as owner:
        answer = owner.get("/metrics")
    assert answer.status_code == 200, answer.text
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(answer.text):
        if family.name.startswith("paddock_cluster_"):
            name = family.samples[0].name.removeprefix("paddock_cluster_")
            found[name] = {each.labels.get("result", ""): each.value for each in family.samples}
    return found


def read_ages(server: ApiServer) -> list[float]:
    """Return the ages of the lease and of the oldest record that the database may lack, in seconds."""
    found = read_metrics(server)
    return [found[name][""] for name in ("lease_age_seconds", "ship_lag_seconds")]


def test_a_replica_has_the_metrics_of_the_page(url: str, tmp_path: Path) -> None:
    replicas = make_replicas(tmp_path, url, 2)
    key = {"Idempotency-Key": "k"}
    with replicas.run(), replicas.servers[0].client() as first, replicas.servers[1].client() as second:
        before, others = (read_metrics(server) for server in replicas.servers)
        rows = re.findall(r"^\| `paddock_cluster_(\w+)` \| ", PAGE, re.MULTILINE)
        assert sorted(before) == sorted(others) == sorted(rows)
        assert (before["claims_total"], before["forwards_total"]) == (NO_CLAIMS, NO_FORWARDS)
        assert before["lost_total"] == before["pending_ends"] == {"": 0}
        first.run(headers=key, **write_program(1))
        second.run(headers=key, **write_program(1))
        assert read_metrics(replicas.servers[0])["claims_total"] == {**NO_CLAIMS, "started": 1}
        session = open_interpreter(first)
        second.run(f"/v1/sessions/{session}/executions", code="6 * 7")
        after = read_metrics(replicas.servers[1])
        assert after["claims_total"] == {**NO_CLAIMS, "finished": 1}
        assert after["forwards_total"] == {**NO_FORWARDS, "answered": 1}


def test_a_dead_replica_shows_in_the_metrics_of_the_others(url: str, tmp_path: Path) -> None:
    replicas = make_replicas(tmp_path, url, 2)
    with replicas.run(), replicas.servers[0].client() as dying, replicas.servers[1].client() as other:
        session = open_interpreter(dying)
        program = {"language": "shell", "code": "touch began; sleep 3600", "access": "workspace-write"}
        dying.begin(**program)
        while not (replicas.places[0].workspace / "began").exists():
            pass
        assert other.get(f"/v1/sessions/{session}").status_code == 200
        replicas.servers[0].process.kill()
        replicas.servers[0].process.wait()
        # Its lease lasts until the test ends it: on a busy machine, it could be over too early.
        execute(url, "update node set seen = now() + interval '1 hour' where id = 'r0'")
        assert other.problem("GET", f"/v1/sessions/{session}")[:2] == (503, "unavailable")
        forwards = read_metrics(replicas.servers[1])["forwards_total"]
        assert forwards == {**NO_FORWARDS, "answered": 1, "unreachable": 1}
        end_lease(url, "r0")
        while read_metrics(replicas.servers[1])["lost_total"] == {"": 0}:
            pass
        assert read_metrics(replicas.servers[1])["lost_total"] == {"": 1}


def test_without_the_database_the_lease_and_the_record_grow_old(tmp_path: Path) -> None:
    with Postgres() as postgres:
        replicas = make_replicas(tmp_path, postgres.url, 1)
        with replicas.run():
            [server] = replicas.servers
            while max(read_ages(server)) > 3:
                pass
            postgres.kill()
            with server.client() as client:
                assert client.run(**PURE)["status"] == "ok"  # otherwise there is no record to ship
            while min(read_ages(server)) < 4:
                pass
            postgres.start()
            while max(read_ages(server)) > 3:
                pass
