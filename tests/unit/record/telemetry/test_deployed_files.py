"""Alert rules and dashboard in `deploy`: they are valid, and name only metrics that a server has."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.record.telemetry.metrics import Metrics
from paddock.record.telemetry.observed_sink import Reading, Sources

ROOT = Path(__file__).resolve().parents[4]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "paddock.json"
ROWS = re.findall(r"^\| `(\w+)` \| ", (ROOT / "docs" / "telemetry.md").read_text(), re.MULTILINE)
"""Metrics of the page."""
OF_REPLICAS = {name for name in ROWS if name.startswith("paddock_cluster_")}
"""A test of replicas compares them with what a replica has."""
WHEN_READ = {"paddock_workers", "paddock_servers", "paddock_waiting", "paddock_artifacts_bytes"}
"""Gauges that are read when the page is rendered."""
OF_PROMETHEUS = {"up"}


def list_panels() -> list[dict[str, Any]]:
    return json.loads(DASHBOARD.read_text())["panels"]


def list_alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def list_queries() -> list[str]:
    return [
        *(rule["expr"] for rule in list_alerts()),
        *(target["expr"] for panel in list_panels() for target in panel["targets"]),
    ]


def list_metrics() -> set[str]:
    found = WHEN_READ | OF_REPLICAS | OF_PROMETHEUS
    for family in Metrics().registry.collect():
        ends = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(family.type, ("",))
        found |= {f"{family.name}{end}" for end in ends}
    return found


def test_every_metric_of_a_query_exists() -> None:
    named = {
        name
        for query in list_queries()
        for name in re.findall(r"\b((?:paddock|http_server|process)_[a-z_]+|up)\{", query)
    }
    assert named - list_metrics() == set()
    assert {name.partition("_")[0] for name in named} == {"paddock", "http", "process", "up"}
    assert OF_REPLICAS - named == set()


def test_the_page_has_every_metric_and_no_other() -> None:
    own = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in Metrics().registry.collect()
        if not family.name.startswith("process_")
    }
    assert sorted(ROWS) == sorted(own | WHEN_READ | OF_REPLICAS)


def test_the_gauges_of_the_page_are_named_right() -> None:
    class Nowhere:
        settings = type("Settings", (), {"url": None, "directory": "/nowhere"})

        def size(self) -> int:
            return 0

    metrics = Metrics()
    metrics.count_session(Sources(lambda *_: ("", ""), int, int, int, Nowhere))  # pyright: ignore[reportArgumentType]
    gauges = {family.name for family in metrics.registry.collect() if family.name.startswith("paddock_")}
    assert gauges >= WHEN_READ


def test_readings_are_gauges_or_counters_with_or_without_a_label() -> None:
    metrics = Metrics()
    metrics.watch(
        lambda: [
            Reading("paddock_x_total", "Of x.", {"a": 1, "b": 2}, "result"),
            Reading("paddock_y", "Of y.", float("inf")),
        ]
    )
    found = {
        (family.type, sample.name, *sample.labels.items()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith(("paddock_x", "paddock_y"))
    }
    assert found == {
        ("counter", "paddock_x_total", ("result", "a")): 1,
        ("counter", "paddock_x_total", ("result", "b")): 2,
        ("gauge", "paddock_y"): float("inf"),
    }


def run_promtool(*arguments: str | Path) -> str:
    """Return what promtool prints, which must accept its files."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    rules = []
    for number, query in enumerate(list_queries()):
        plain = query.replace("$__rate_interval", "5m").replace("$instance", ".*")
        rules.append({"record": f"query:{number}", "expr": plain})
    written = tmp_path / "queries.yaml"
    written.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert run_promtool("check", "rules", ALERTS, written).count("SUCCESS") == 2


STATUSES = 'http_server_request_duration_seconds_count{{job="paddock", instance="a", http_response_status_code="{}"}}'
FIRING: Mapping[str, Mapping[str, str]] = {
    "PaddockDown": {'up{job="paddock", instance="a"}': "0x60"},
    "PaddockErrors": {'paddock_requests_total{job="paddock", instance="a", status="lost"}': "0+60x60"},
    "PaddockBadTokens": {
        'paddock_refusals_total{job="paddock", instance="a", error_type="unauthorized"}': "0+120x60"
    },
    "PaddockRefusesForLoad": {
        'paddock_refusals_total{job="paddock", instance="a", error_type="no-slot"}': "0+60x60"
    },
    "PaddockSlowToStart": {
        f'paddock_wait_seconds_bucket{{job="paddock", instance="a", stage="claim", le="{le}"}}': values
        for le, values in {"10": "0+1x60", "60": "0+60x60", "+Inf": "0+60x60"}.items()
    },
    "PaddockServerErrors": {STATUSES.format(503): "0+6x60", STATUSES.format(200): "0+60x60"},
    "PaddockOpenFiles": {
        'process_open_fds{job="paddock", instance="a"}': "900x60",
        'process_max_fds{job="paddock", instance="a"}': "1000x60",
    },
    "PaddockLeaseOld": {'paddock_cluster_lease_age_seconds{job="paddock", instance="a"}': "8x60"},
    "PaddockClaimsFail": {
        'paddock_cluster_claims_total{job="paddock", instance="a", result="unavailable"}': "0+60x60"
    },
    "PaddockEndsPending": {'paddock_cluster_pending_ends{job="paddock", instance="a"}': "1x60"},
    "PaddockRecordBehind": {'paddock_cluster_ship_lag_seconds{job="paddock", instance="a"}': "0+60x60"},
    "PaddockRequestsLost": {'paddock_cluster_lost_total{job="paddock", instance="a"}': "0x20 1x40"},
    "PaddockDatabaseRestored": {'paddock_cluster_safe_mode{job="paddock", instance="a"}': "0x20 1x40"},
    "PaddockClockWrong": {'paddock_cluster_clock_skew_seconds{job="paddock", instance="a"}': "-8x60"},
    "PaddockForwardsFail": {
        'paddock_cluster_forwards_total{job="paddock", instance="a", result="lost"}': "0+60x60"
    },
}
"""For each alert, series of an hour with a value per minute with which it fires, in promtool's notation."""
QUIET = {
    'up{job="paddock", instance="a"}': "1x60",
    'paddock_requests_total{job="paddock", instance="a", status="failed"}': "0+60x60",
    'paddock_refusals_total{job="paddock", instance="a", error_type="unauthorized"}': "0+1x60",
    STATUSES.format(503): "0+1x60",
    STATUSES.format(200): "0+60x60",
    'paddock_cluster_lease_age_seconds{job="paddock", instance="a"}': "1x60",
    'paddock_cluster_claims_total{job="paddock", instance="a", result="lost"}': "0+60x60",
    'paddock_cluster_pending_ends{job="paddock", instance="a"}': "0x60",
    'paddock_cluster_ship_lag_seconds{job="paddock", instance="a"}': "1x60",
    'paddock_cluster_lost_total{job="paddock", instance="a"}': "1x60",
    'paddock_cluster_safe_mode{job="paddock", instance="a"}': "0x60",
    'paddock_cluster_clock_skew_seconds{job="paddock", instance="a"}': "1x60",
    'paddock_cluster_forwards_total{job="paddock", instance="a", result="answered"}': "0+60x60",
}


def make_case(series: Mapping[str, str], expected: list[str]) -> dict[str, Any]:
    """Return a test of promtool: with these series, only the `expected` alerts fire after 30 minutes."""
    names = [rule["alert"] for rule in list_alerts()]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        # A query for the alerts, because promtool compares labels and texts of those that it is asked for.
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}})',
                "eval_time": "30m",
                "exp_samples": [{"labels": "{}", "value": 1}] if name in expected else [],
            }
            for name in names
        ],
    }


def test_each_alert_fires_for_its_cause_alone(tmp_path: Path) -> None:
    assert sorted(FIRING) == sorted(rule["alert"] for rule in list_alerts())
    cases = [make_case(series, [name]) for name, series in FIRING.items()]
    cases.append(make_case(QUIET, []))
    written = tmp_path / "tests.yaml"
    written.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": cases}))
    assert "SUCCESS" in run_promtool("test", "rules", written)


@pytest.mark.parametrize("panel", list_panels(), ids=lambda panel: panel["title"])
def test_a_panel_has_a_title_a_source_and_queries(panel: dict[str, Any]) -> None:
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert [set(target) for target in panel["targets"]] == [{"refId", "expr", "legendFormat"}] * len(
        panel["targets"]
    )
    assert panel["targets"]
