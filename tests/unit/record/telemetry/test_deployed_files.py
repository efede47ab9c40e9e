"""Alert rules and dashboard in `deploy`: they are valid, and name only metrics that a server has."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.record.telemetry.metrics import Metrics
from paddock.record.telemetry.observed_sink import Sources

DEPLOY = Path(__file__).resolve().parents[4] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "paddock.json"
ON_PAGE = {"paddock_workers", "paddock_servers", "paddock_waiting", "paddock_artifacts_bytes", "up"}
"""Gauges that are read when the page is rendered, and the one that Prometheus itself makes."""


def list_panels() -> list[dict[str, Any]]:
    return json.loads(DASHBOARD.read_text())["panels"]


def list_queries() -> list[str]:
    alerts = [
        rule["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]
    return alerts + [target["expr"] for panel in list_panels() for target in panel["targets"]]


def list_metrics() -> set[str]:
    found = set(ON_PAGE)
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


def test_the_gauges_of_the_page_are_named_right() -> None:
    class Nowhere:
        settings = type("Settings", (), {"url": None, "directory": "/nowhere"})

        def size(self) -> int:
            return 0

    metrics = Metrics()
    metrics.count_session(Sources(lambda *_: ("", ""), int, int, int, Nowhere))  # pyright: ignore[reportArgumentType]
    gauges = {family.name for family in metrics.registry.collect() if family.name.startswith("paddock_")}
    assert gauges >= ON_PAGE - {"up"}


def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    rules = []
    for number, query in enumerate(list_queries()):
        plain = query.replace("$__rate_interval", "5m").replace("$instance", ".*")
        rules.append({"record": f"query:{number}", "expr": plain})
    written = tmp_path / "queries.yaml"
    written.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", ALERTS, written], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.count("SUCCESS") == 2


@pytest.mark.parametrize("panel", list_panels(), ids=lambda panel: panel["title"])
def test_a_panel_has_a_title_a_source_and_queries(panel: dict[str, Any]) -> None:
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert [set(target) for target in panel["targets"]] == [{"refId", "expr", "legendFormat"}] * len(
        panel["targets"]
    )
    assert panel["targets"]
