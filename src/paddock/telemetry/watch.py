"""What watches a session: the observers that its settings ask for, and what they look at."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from paddock.model.errors import ArtifactError, ConfigurationError
from paddock.model.settings import Settings
from paddock.store.audit import AuditSink
from paddock.telemetry.watched import Observer, Told, Watched

if TYPE_CHECKING:
    from paddock.store.artifacts import Artifacts
    from paddock.telemetry.traces import Traces

_SIZE_AGE_S = 60.0


class Sources(NamedTuple):
    """Where the readings of a session come from."""

    told: Told
    waiting: Callable[[], int]
    workers: Callable[[], int]
    servers: Callable[[], int]
    artifacts: "Callable[[], Artifacts]"


class Watch:
    """Telemetry of a session."""

    def __init__(self, settings: Settings, sources: Sources) -> None:
        """Raise ConfigurationError where the packages that it takes are missing."""
        self.metrics: Callable[[], Awaitable[bytes]] | None = None
        """Returns the metrics of this moment, where they are wanted."""
        self._observers: list[Observer] = []
        self._traces: Traces | None = None
        self._sources = sources
        self._size = (float("-inf"), 0)
        if logging.getLogger("paddock.requests").isEnabledFor(logging.INFO):
            from paddock.telemetry.logs import Lines  # noqa: PLC0415

            self._observers.append(Lines())
        try:
            self._load(settings)
        except ModuleNotFoundError as missing:
            raise ConfigurationError(
                f"[telemetry] is configured, and the package {(missing.name or '').partition('.')[0]} that it takes is "
                "not installed. Run: pip install 'paddock[telemetry]'"
            ) from None

    def around(self, sink: AuditSink) -> AuditSink:
        """Return a sink, watched where there is somebody to watch it."""
        return Watched(sink, self._observers) if self._observers else sink

    async def close(self) -> None:
        """Send what has not been sent, within a bound."""
        if self._traces is not None:
            await self._traces.close()

    def _load(self, settings: Settings) -> None:
        if settings.telemetry.traces != "none":
            from paddock.telemetry.traces import Traces, exporter  # noqa: PLC0415 - only who wants them pays

            self._traces = Traces(exporter(settings.telemetry), self._sources.told)
            self._observers.append(self._traces)
        if settings.telemetry.metrics:
            from paddock.telemetry.metrics import Metrics  # noqa: PLC0415 - only who wants them pays

            metrics = Metrics(self._sources.told, self._readings)
            self._observers.append(metrics)
            self.metrics = metrics.page

    def _readings(self) -> Iterator[tuple[str, str, float]]:
        sources = self._sources
        yield "paddock_waiting", "Programs that wait for a place.", sources.waiting()
        yield "paddock_workers", "Live workers of the guest, spares included.", sources.workers()
        yield "paddock_servers", "Live upstream servers.", sources.servers()
        if (size := self._stored()) is not None:
            yield "paddock_artifacts_bytes", "Bytes of stored output.", size

    def _stored(self) -> int | None:
        """Return the size of what is stored, a minute old at most: a bucket has to be listed for that."""
        now = time.monotonic()
        if now - self._size[0] >= _SIZE_AGE_S:
            try:
                self._size = (now, self._sources.artifacts().size())
            except ArtifactError:
                return None
        return self._size[1]
