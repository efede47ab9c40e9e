"""Export requests as metrics of Prometheus.

No label has a name that a caller or program made up: kinds and statuses are Paddock's, servers those of the servers
file.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paddock.model.errors import ArtifactError
from paddock.record.ledger.sink import Facts
from paddock.record.telemetry.observed_sink import WAITS, Reading, Sources, call_of, find_language

if TYPE_CHECKING:
    from paddock.record.output.artifacts import Artifacts

MAX_SERVERS = 64
"""Maximum number of servers with their own label; others, and servers that do not exist, have the label `other`."""
_OTHER_SERVER = "other"
_SIZE_AGE_S = 60.0
_ANSWER_SECONDS = (0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

_HTTP_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Buckets of `http.server.request.duration` in the semantic conventions of OpenTelemetry."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"})
_OTHER_METHOD = "_OTHER"


class Metrics:
    """Counts the requests of all sessions of a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.watch(self._read_gauges)
        self.requests = Counter(
            "paddock_requests", "Requests that ended.", ("kind", "language", "status"), registry=self.registry
        )
        self.running = Gauge(
            "paddock_requests_running", "Requests that run.", ("kind",), registry=self.registry
        )
        self.seconds = Histogram(
            "paddock_request_seconds",
            "Wall time of requests that ran.",
            ("kind",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.calls = Counter(
            "paddock_server_calls",
            "Calls of upstream servers that ended.",
            ("server", "status"),
            registry=self.registry,
        )
        self.approvals = Histogram(
            "paddock_approval_seconds",
            "Time until a person answered a question, or the wait ended.",
            ("answer",),
            buckets=_ANSWER_SECONDS,
            registry=self.registry,
        )
        self.refusals = Counter(
            "paddock_refusals",
            "Requests that the server refused before policy saw them.",
            ("error_type", "language"),
            registry=self.registry,
        )
        self.waits = Histogram(
            "paddock_wait_seconds",
            "Time that requests waited before they ran, from 1 ms on.",
            ("stage",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.answers = Histogram(
            "http_server_request_duration_seconds",
            "Time from the head of a request to the end of its answer.",
            ("http_request_method", "http_route", "http_response_status_code"),
            buckets=_HTTP_SECONDS,
            registry=self.registry,
        )
        self._servers: set[str] = set()
        self._sessions: list[RequestMetrics] = []
        self._sizes: dict[str, tuple[float, int]] = {}

    def count_session(self, sources: Sources) -> "RequestMetrics":
        """Add a session, until `end_session`."""
        counting = RequestMetrics(self, sources)
        self._sessions.append(counting)
        return counting

    def end_session(self, counting: "RequestMetrics") -> None:
        """Remove a session; its counts stay."""
        self._sessions.remove(counting)

    def watch(self, read: Callable[[], Iterable[Reading]]) -> None:
        """Add what `read` returns to each page from now on. It is called in a separate thread."""
        self.registry.register(_Readings(read))

    def observe_answer(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer over HTTP. `route` is that of a table, and empty for a path that has none."""
        known = method if method in _METHODS else _OTHER_METHOD
        self.answers.labels(known, route, str(status)).observe(seconds)

    async def render_page(self) -> bytes:
        """Return everything in the text format of Prometheus, version 0.0.4."""
        return await asyncio.to_thread(generate_latest, self.registry)

    def label_server(self, server: str) -> str:
        """Return the label for calls of a server; "" means a server that must not be named."""
        if server and (server in self._servers or len(self._servers) < MAX_SERVERS):
            self._servers.add(server)
            return server
        return _OTHER_SERVER

    def _read_gauges(self) -> Iterator[Reading]:
        """Yield the gauges, summed over all sessions; called in a separate thread."""
        sources = [session.sources for session in tuple(self._sessions)]
        about = "Programs that wait for a slot."
        yield Reading("paddock_waiting", about, sum(source.waiting() for source in sources))
        about = "Live JavaScript workers, including spares."
        yield Reading("paddock_workers", about, sum(source.workers() for source in sources))
        yield Reading(
            "paddock_servers", "Live upstream servers.", sum(source.servers() for source in sources)
        )
        stored = {
            str(where.settings.url or where.settings.directory): where
            for where in map(_find_artifacts, sources)
        }
        sizes = [
            size for name, where in stored.items() if (size := self._measure_store(name, where)) is not None
        ]
        if sizes:
            yield Reading("paddock_artifacts_bytes", "Bytes of stored output.", sum(sizes))

    def _measure_store(self, name: str, where: "Artifacts") -> int | None:
        """Return the size of all stored output, at most a minute old, because a bucket must be listed for it."""
        now = time.monotonic()
        if name not in self._sizes or now - self._sizes[name][0] >= _SIZE_AGE_S:
            try:
                self._sizes[name] = (now, where.size())
            except ArtifactError:
                return None
        return self._sizes[name][1]


class RequestMetrics:
    """Counts the requests of one session."""

    def __init__(self, metrics: Metrics, sources: Sources) -> None:
        self.sources = sources
        self._metrics = metrics
        self._begun: set[str] = set()

    def on_start(self, request: str, parent: str | None, facts: Facts) -> None:
        """Count a request that runs."""
        self._begun.add(request)
        self._metrics.running.labels(str(facts["kind"])).inc()

    def on_end(self, request: str, parent: str | None, facts: Facts) -> None:
        """Count a request that ended."""
        metrics, kind, status = self._metrics, str(facts["kind"]), str(facts["status"])
        if request in self._begun:
            self._begun.remove(request)
            metrics.running.labels(kind).dec()
        metrics.requests.labels(kind, find_language(facts), status).inc()
        for stage in WAITS:
            if isinstance(waited := facts.get(f"{stage}_ms"), (int, float)):
                metrics.waits.labels(stage).observe(waited / 1000)
        if isinstance(ms := facts.get("ms"), (int, float)):
            metrics.seconds.labels(kind).observe(ms / 1000)
        if kind == "server":
            metrics.calls.labels(
                metrics.label_server(call_of(facts, self.sources.find_labels)[0]), status
            ).inc()

    def on_answer(self, request: str, parent: str | None, facts: Facts) -> None:
        """Count an answer and its time."""
        self._metrics.approvals.labels(str(facts["answer"])).observe(cast("float", facts["ms"]) / 1000)


def _find_artifacts(sources: Sources) -> "Artifacts":
    return sources.artifacts()


class _Readings(Collector):
    """Numbers that are read when the page is rendered."""

    def __init__(self, readings: Callable[[], Iterable[Reading]]) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        for name, about, value, label in self._readings():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(name, about, labels=[label] if label else [])
            for of, each in value.items() if isinstance(value, Mapping) else [("", value)]:
                family.add_metric([of] if label else [], each)
            yield family

    def describe(self) -> Iterator[Metric]:
        """Register without reading any value."""
        return iter(())
