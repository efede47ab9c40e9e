"""Requests as metrics of Prometheus.

No label holds what somebody made up: kinds and statuses are Paddock's, servers those of the servers file.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paddock.telemetry.watched import Facts, Told, call_of

SERVERS = 64
"""Servers that have labels of their own; calls of further ones, and of those that do not exist, are `other`."""
_OTHER = "other"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Reading = tuple[str, str, float]
"""A gauge: its name, what it is, and its value now."""


class Metrics:
    """Counts requests. `readings` are taken in another thread, at each scrape."""

    def __init__(self, told: Told, readings: Callable[[], Iterable[Reading]]) -> None:
        self._told = told
        self._servers: set[str] = set()
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_Readings(readings))
        self._requests = Counter(
            "paddock_requests", "Requests that ended.", ("kind", "status"), registry=self._registry
        )
        self._running = Gauge(
            "paddock_requests_running", "Requests that run.", ("kind",), registry=self._registry
        )
        self._seconds = Histogram(
            "paddock_request_seconds",
            "Wall time of requests that ran.",
            ("kind",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._calls = Counter(
            "paddock_server_calls",
            "Calls of upstream servers that ended.",
            ("server", "status"),
            registry=self._registry,
        )
        self._begun: set[str] = set()

    def started(self, request: str, parent: str | None, facts: Facts) -> None:  # noqa: ARG002 - an observer's signature
        """Count a request that runs."""
        self._begun.add(request)
        self._running.labels(str(facts["kind"])).inc()

    def ended(self, request: str, parent: str | None, facts: Facts) -> None:  # noqa: ARG002
        """Count a request that ended."""
        kind, status = str(facts["kind"]), str(facts["status"])
        if request in self._begun:
            self._begun.remove(request)
            self._running.labels(kind).dec()
        self._requests.labels(kind, status).inc()
        if isinstance(ms := facts.get("ms"), (int, float)):
            self._seconds.labels(kind).observe(ms / 1000)
        if kind == "server":
            self._calls.labels(self._label(call_of(facts, self._told)[0]), status).inc()

    async def page(self) -> bytes:
        """Return everything in the text format of Prometheus, version 0.0.4."""
        return await asyncio.to_thread(generate_latest, self._registry)

    def _label(self, server: str) -> str:
        if server and (server in self._servers or len(self._servers) < SERVERS):
            self._servers.add(server)
            return server
        return _OTHER


class _Readings(Collector):
    """Gauges whose values are looked up when they are asked for."""

    def __init__(self, readings: Callable[[], Iterable[Reading]]) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        """Follow prometheus_client."""
        for name, about, value in self._readings():
            yield GaugeMetricFamily(name, about, value=value)

    def describe(self) -> Iterator[Metric]:
        """Register without looking anything up."""
        return iter(())
