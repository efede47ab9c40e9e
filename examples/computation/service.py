"""Computations as an HTTP service: `POST /` takes {"source", "input"} and returns {"status", "output", "error"}.

Each request has its own thread. All of them share one Paddock, which limits the number of running programs.

    python service.py [PORT]
    curl -d '{"source": "emit(read_input().toUpperCase())", "input": "hello"}' http://127.0.0.1:8080
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from paddock import BlockingPaddock

MOST_BYTES = 1 << 20
LIMIT_MS = 500


class Computations(BaseHTTPRequestHandler):
    """Handles one connection."""

    paddock: BlockingPaddock
    timeout = 10

    def do_POST(self) -> None:
        """Run a computation. A failing program is a normal answer; an invalid request is a 400."""
        try:
            length = int(self.headers["Content-Length"])
            asked = json.loads(self.rfile.read(length)) if 0 <= length <= MOST_BYTES else None
            outcome = self.paddock.compute(asked["source"], asked.get("input", ""), timeout_ms=LIMIT_MS)
        except (ValueError, TypeError, KeyError, AttributeError):
            return self.answer(400, {"error": 'send {"source": "...", "input": "..."}'})
        error = outcome.error and outcome.error.message
        return self.answer(200, {"status": outcome.status, "output": outcome.value, "error": error})

    def answer(self, code: int, told: dict[str, object]) -> None:
        """Send one JSON document."""
        body = json.dumps(told).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(port: int) -> None:
    """Serve until interrupted."""
    with BlockingPaddock(actor="example service") as paddock:
        Computations.paddock = paddock
        with ThreadingHTTPServer(("127.0.0.1", port), Computations) as server:
            print(f"http://127.0.0.1:{server.server_port}", flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print("stopped")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8080)
