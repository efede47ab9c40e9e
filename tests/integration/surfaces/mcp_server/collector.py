"""A collector of OpenTelemetry on loopback: takes spans as protobuf over HTTP and keeps them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.processes import PATIENCE_S


class Collector:
    """Spans that came, and all bytes of them; while `held` is set nobody gets an answer."""

    def __init__(self, *, holds: bool) -> None:
        self.spans: list[Any] = []
        self._taken = threading.Condition()
        self.bytes = b""
        self.asked = threading.Event()
        self.free = threading.Event()
        if not holds:
            self.free.set()
        self.url = ""

    def take(self, path: str, body: bytes) -> None:
        """Take one request."""
        assert path == "/v1/traces"
        self.asked.set()
        self.free.wait()
        with self._taken:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.spans += scope.spans
            self.bytes += body
            self._taken.notify_all()

    def wait_for(self, number: int) -> None:
        """Wait until so many spans have come."""
        with self._taken:
            assert self._taken.wait_for(lambda: len(self.spans) >= number, PATIENCE_S), self.spans

    def named(self) -> dict[str, Any]:
        """Return the spans by name; no two may have the same."""
        found = {span.name: span for span in self.spans}
        assert len(found) == len(self.spans)
        return found


def attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a span."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@contextmanager
def collecting(*, holds: bool = False) -> Iterator[Collector]:
    """Listen on loopback."""
    collector = Collector(holds=holds)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        collector.url = f"http://127.0.0.1:{server.server_port}"
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield collector
        finally:
            collector.free.set()
            server.shutdown()
            serving.join()
