"""Requests that `paddock serve http` refuses: each is counted, and leaves a line in the log and a record."""

import json
import subprocess
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.command import PADDOCK
from tests.support.http_api import ApiClient, ApiPlace

SETTINGS = '[telemetry]\nmetrics = true\n[log]\nformat = "json"\n'


def read_counts(owner: ApiClient, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(owner.get("/metrics").text)
        for sample in family.samples
        if sample.name == name
    }


def read_records(place: ApiPlace) -> list[dict[str, Any]]:
    shown = subprocess.run(
        [PADDOCK, "audit", "tail", "--json", "--event", "refused"],
        cwd=place.workspace, env=place.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(shown.stdout)


def test_each_cause_is_counted_logged_and_recorded(place: ApiPlace) -> None:
    place.settings(SETTINGS)
    bob = place.make_token("bob", "--rate", "1/min")
    with place.serve() as server:
        with server.client(None) as nobody, server.client("wrong") as stranger, server.client(bob) as limited:
            for _ in range(3):
                assert nobody.problem("GET", "/v1/server")[:2] == (401, "unauthorized")
                assert stranger.problem("GET", "/v1/server")[:2] == (401, "unauthorized")
            assert stranger.problem("GET", "/v1/server", headers={"Host": "evil.example"})[1] == "wrong-host"
            limited.get("/v1/server")
            assert limited.problem("GET", "/v1/server")[:2] == (429, "too-many-requests")
        with server.client() as owner:
            counts = read_counts(owner, "paddock_refusals_total")
            answers = read_counts(owner, "http_server_request_duration_seconds_count")
        server.stop()
        lines = [json.loads(line) for line in (server.process.stderr or []) if line.startswith("{")]
    assert counts == {("unauthorized", ""): 6, ("wrong-host", ""): 1, ("too-many-requests", ""): 1}
    assert answers == {
        ("GET", "401", ""): 6,
        ("GET", "421", ""): 1,
        ("GET", "429", ""): 1,
        ("GET", "200", "/v1/server"): 1,
        ("GET", "200", "/metrics"): 1,
    }
    logged = [line for line in lines if line["logger"] == "paddock.refusals"]
    assert {line["reason"] for line in logged} == {"unauthorized", "wrong-host", "too-many-requests"}
    assert sum(line["count"] for line in logged) == 8
    assert [line["actors"] for line in logged if "actors" in line] == [["token:bob"]]
    assert all(line["ts"] and line["level"] == "warning" for line in logged)
    records = read_records(place)
    assert sum(each["fields"]["count"] for each in records) == 8


def test_a_program_without_a_slot_is_counted_with_its_language(place: ApiPlace) -> None:
    place.settings(f"{SETTINGS}[serve]\nmax_jobs = 1\n[runtimes]\nmax_wait_ms = 10\n")
    alice, bob = place.make_token("alice"), place.make_token("bob")
    with place.serve() as server, server.client() as owner:
        with server.client(alice) as first, server.client(bob) as second:
            running = first.begin(language="javascript", code="while (true) {}")
            first.wait_for(running, lambda state: state["state"] == "running")
            while not read_counts(owner, "paddock_requests_running").get(("guest",)):
                pass
            refused = second.problem("POST", "/v1/executions", json={"language": "python", "code": "1"})
            first.delete(f"/v1/executions/{running}")
        counts = read_counts(owner, "paddock_refusals_total")
        waits = read_counts(owner, "paddock_wait_seconds_count")
    assert refused == (
        503,
        "unavailable",
        "no slot became free within 10 ms. Nothing started; it is safe to retry.",
    )
    assert counts == {("no-slot", "python"): 1}
    assert waits[("slot",)] >= 1  # on a busy machine, taking a free slot may also need a counted millisecond


@pytest.mark.parametrize("path", ["/v1/server", "/mcp", "/v1/executions", "/v1/artifacts/x"])
def test_a_token_for_metrics_reads_metrics_and_nothing_else(place: ApiPlace, path: str) -> None:
    place.settings(SETTINGS)
    token = place.make_token("prometheus", "--metrics-only")
    with place.serve() as server, server.client(token) as client:
        page = client.get("/metrics")
        refused = client.problem("POST", path, json={"language": "javascript", "code": "return 1"})
    assert page.status_code == 200
    assert refused == (403, "not-permitted", "This token reads metrics, and nothing else.")
