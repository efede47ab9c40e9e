"""Set up the observers of a session that its settings require."""

import logging
from typing import TYPE_CHECKING

from paddock.model.errors import ConfigurationError
from paddock.model.texts import install_command
from paddock.policy.settings.schema import Settings, TelemetrySettings
from paddock.record.ledger.sink import AuditSink
from paddock.record.telemetry.observed_sink import ObservedSink, Observer, Sources

if TYPE_CHECKING:
    from paddock.record.telemetry.metrics import Metrics


class Instrumentation:
    """Telemetry of a session."""

    def __init__(self, settings: Settings, sources: Sources, metrics: "Metrics | None" = None) -> None:
        """Count in `metrics`, which several sessions may share. Raises ConfigurationError if a package is missing."""
        self.metrics = metrics
        """The metrics, if they are configured."""
        self._observers: list[Observer] = []
        self._traces = None
        self._counting = None
        if logging.getLogger("paddock.requests").isEnabledFor(logging.INFO):
            from paddock.record.telemetry.logs import RequestLog

            self._observers.append(RequestLog())
        try:
            if settings.telemetry.traces != "none":
                from paddock.record.telemetry.traces import Traces, make_exporter

                self._traces = Traces(make_exporter(settings.telemetry), sources.find_labels)
                self._observers.append(self._traces)
            if settings.telemetry.metrics:
                from paddock.record.telemetry.metrics import Metrics

                self.metrics = self.metrics or Metrics()
                self._counting = self.metrics.count_session(sources)
                self._observers.append(self._counting)
        except ModuleNotFoundError as missing:
            raise _explain_missing(missing) from None

    def wrap_sink(self, sink: AuditSink) -> AuditSink:
        """Return a sink with the observers around it, if there are any."""
        return ObservedSink(sink, self._observers) if self._observers else sink

    async def close(self) -> None:
        """Send the remaining spans, within a time limit, and remove the session's gauges from the metrics."""
        if self.metrics is not None and self._counting is not None:
            self.metrics.end_session(self._counting)
        if self._traces is not None:
            await self._traces.close()


def open_metrics(settings: TelemetrySettings) -> "Metrics | None":
    """Return metrics that several sessions may share; None if they are off. Raises ConfigurationError."""
    if not settings.metrics:
        return None
    try:
        from paddock.record.telemetry.metrics import Metrics
    except ModuleNotFoundError as missing:
        raise _explain_missing(missing) from None
    return Metrics()


def _explain_missing(missing: ModuleNotFoundError) -> ConfigurationError:
    return ConfigurationError(
        f"[telemetry] is configured, but the package {(missing.name or '').partition('.')[0]}, which it needs, "
        f"is not installed. Run: {install_command('telemetry')}"
    )
