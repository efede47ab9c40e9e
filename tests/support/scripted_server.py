"""A server that answers requests as a test says, with whatever bytes: what a client must expect of any address."""

import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

Answer = bytes | Iterable[bytes]
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
STARTED = b'event: started\ndata: {"id":"01TESTEXECUTION"}\n\n'


class Request(NamedTuple):
    """One request, as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]

    @property
    def method(self) -> str:
        return self.line.split(" ")[0]


class ScriptedServer:
    """A server on a free port of this machine; each connection carries one request."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self.requests: list[Request] = []
        recorded, lock = self.requests, threading.Lock()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                request = _read_request(self)
                if request is None:
                    return
                with lock:
                    recorded.append(request)
                    pieces = answer(request)
                try:
                    for piece in [pieces] if isinstance(pieces, bytes) else pieces:
                        self.wfile.write(piece)
                except OSError:  # the client has had enough
                    return

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _read_request(handler: socketserver.StreamRequestHandler) -> Request | None:
    line = handler.rfile.readline().decode().strip()
    if not line:
        return None
    headers: dict[str, str] = {}
    while text := handler.rfile.readline().decode().strip():
        name, _, value = text.partition(": ")
        headers[name.lower()] = value
    return Request(line, headers, handler.rfile.read(int(headers.get("content-length", "0"))))


@contextmanager
def serve_script(answer: Callable[[Request], Answer] | Iterable[Answer]) -> Iterator[ScriptedServer]:
    """Serve a function of the request, or answers in their order; the last of them is repeated."""
    if callable(answer):
        server = ScriptedServer(answer)
    else:
        left = list(answer)
        server = ScriptedServer(lambda _: left.pop(0) if len(left) > 1 else left[0])
    server.start()
    try:
        yield server
    finally:
        server.stop()


def answer_events(*events: tuple[str, bytes]) -> bytes:
    """Return an answer of server-sent events, after `started`."""
    return (
        EVENTS
        + STARTED
        + b"".join(b"event: %s\ndata: %s\n\n" % (name.encode(), data) for name, data in events)
    )


def answer_plain(status: int, body: bytes, *headers: str, media_type: str = "application/json") -> bytes:
    """Return an answer with a body."""
    lines = [
        f"HTTP/1.1 {status} Some Text",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answer_problem(status: int, name: str, detail: str, *headers: str) -> bytes:
    """Return a problem document (RFC 9457)."""
    import json

    document = {"type": f"urn:paddock:problem:{name}", "title": "t", "status": status, "detail": detail}
    return answer_plain(
        status, json.dumps(document).encode(), *headers, media_type="application/problem+json"
    )
