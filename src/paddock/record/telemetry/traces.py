"""Export requests as spans of OpenTelemetry.

The provider is our own, not the process's, because libraries would write payloads into their own spans. Libraries still
propagate contexts, so that the client's span is the parent of ours, and a server gets ours.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Sequence
from contextvars import Token
from typing import NamedTuple, cast

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.trace import SpanKind, StatusCode

from paddock._version import __version__
from paddock.policy.settings.schema import TelemetrySettings
from paddock.record.ledger.sink import Facts, Field
from paddock.record.telemetry.observed_sink import LabelFinder, call_of

FLUSH_S = 2.0
"""Maximum time that the end of a session waits for the export of spans, in seconds."""
_DELAY_MS = 1000

_PLAIN_FACTS = (
    *(
        "kind",
        "surface",
        "status",
        "profile",
        "jit",
        "tier",
        "phase",
        "exit_code",
        "signal",
        "limit",
        "cached",
    ),
    *("queue_ms", "claim_ms", "compile_ms", "ms", "cpu_ms", "peak_bytes", "bytes_in", "bytes_out", "calls"),
)
"""Facts that become attributes unchanged: numbers, and Paddock's own names."""
_NAMED_KINDS = {"tool": "tool", "sdk": "method", "runtime": "runtime"}
"""Kinds of work with a name that Paddock knows, and the attribute for that name."""

_log = logging.getLogger("paddock.record.telemetry")


class _Open(NamedTuple):
    span: trace.Span
    token: Token[Context]


class Traces:
    """Makes a span for each request, which is the current span while the request runs."""

    def __init__(self, exporter: SpanExporter, find_labels: LabelFinder) -> None:
        resource = Resource.create({"service.name": "paddock", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        processor = BatchSpanProcessor(_LossWarning(exporter), schedule_delay_millis=_DELAY_MS)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("paddock", __version__)
        self._find_labels = find_labels
        self._open: dict[str, _Open] = {}

    def on_start(self, request: str, parent: str | None, facts: Facts) -> None:
        """Open the span of a request, as a child of its parent's span or of the current one."""
        span = self._start_span(parent, facts)
        self._open[request] = _Open(span, context.attach(trace.set_span_in_context(span)))

    def on_end(self, request: str, parent: str | None, facts: Facts) -> None:
        """Close the span of a request."""
        opened = self._open.pop(request, None)
        span = opened.span if opened else self._start_span(parent, facts)
        if opened and trace.get_current_span() is span:
            context.detach(opened.token)
        kind, status = str(facts["kind"]), str(facts["status"])
        names = self._list_name_fields(kind, status, facts)
        span.update_name(" ".join([kind, *map(str, names.values())]))
        span.set_attribute("paddock.request", request)
        known = {name: facts[name] for name in _PLAIN_FACTS if facts.get(name) is not None}
        for name, value in {**known, **names}.items():
            span.set_attribute(f"paddock.{name}", cast("str | int | float | bool", value))
        if status not in ("ok", "planned"):
            span.set_status(StatusCode.ERROR, status)
        span.end()

    def on_answer(self, request: str, parent: str | None, facts: Facts) -> None:
        """Make a span for the wait for an answer, as a sibling of the request's span, which has not begun."""
        now, waited = time.time_ns(), round(float(cast("float", facts["ms"])) * 1_000_000)
        span = self._tracer.start_span(
            "approval", context=self._find_parent_context(parent), start_time=now - waited
        )
        about = {"request": request, "answer": facts["answer"], "ms": facts["ms"]}
        for name, value in about.items():
            span.set_attribute(f"paddock.{name}", cast("str | float", value))
        span.end(now)

    async def close(self) -> None:
        """Send the remaining spans, for at most `FLUSH_S`."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, FLUSH_S)
        if sending.is_alive():
            _log.warning("the last spans were not exported within %g s, so they are lost", FLUSH_S)

    def _start_span(self, parent: str | None, facts: Facts) -> trace.Span:
        kind = str(facts["kind"])
        return self._tracer.start_span(
            kind,
            context=self._find_parent_context(parent),
            kind=SpanKind.CLIENT if kind == "server" else SpanKind.INTERNAL,
            start_time=time.time_ns(),
        )

    def _find_parent_context(self, parent: str | None) -> Context | None:
        """Return the context of a request's parent span; None means the current context."""
        above = self._open.get(parent or "")
        return trace.set_span_in_context(above.span) if above else None

    def _list_name_fields(self, kind: str, status: str, facts: Facts) -> dict[str, Field]:
        if kind == "server":
            server, tool = call_of(facts, self._find_labels)
            return {name: value for name, value in (("server", server), ("tool", tool)) if value}
        # The name in a rejected request may be made up by a program.
        if kind not in _NAMED_KINDS or status in ("denied", "invalid"):
            return {}
        return {_NAMED_KINDS[kind]: facts["name"]}


class _LossWarning(SpanExporter):
    """Warns once that spans are lost; the exporter itself would log too much."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._reported = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Pass on spans."""
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS and not self._reported:
            self._reported = True
            _log.warning("%d spans were not exported and are lost; later losses are not logged", len(spans))
        return result

    def shutdown(self) -> None:
        """End the exporter."""
        self._exporter.shutdown()


def make_exporter(settings: TelemetrySettings) -> SpanExporter:
    """Return the exporter of spans: to a collector, or to standard error with one line of JSON for each."""
    if settings.traces == "console":
        return ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.to_json(indent=None) + "\n")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # takes 0.1 s

    logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.CRITICAL)
    return OTLPSpanExporter(f"{settings.endpoint.rstrip('/')}/v1/traces" if settings.endpoint else None)
