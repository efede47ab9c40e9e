"""An MCP server whose results repeat its arguments, digit by digit as they came: no number is ever read.

The tools may be those of a second file. `text` answers with them as a text, `data` as structured content, `given` with what the file of its command line holds.
Over stdio, or with the flag `--json` or `--events` over HTTP, whose port it prints; then with answers of that kind.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOLS = ("text", "data", "given")


def result(line, request):
    """Return the result for a request as JSON; None for a method that is not known."""
    method = request["method"]
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        info = {"name": "digits", "version": "1"}
        return json.dumps({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
    if method == "tools/list":
        listed = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
        if sys.argv[2:] and not sys.argv[2].startswith("--"):
            with open(sys.argv[2], encoding="utf-8") as file:  # noqa: PTH123
                listed = json.load(file)
        return json.dumps({"tools": listed})
    if method != "tools/call":
        return None
    start = line.index("{", line.index('"arguments"'))
    given = line[start : json.JSONDecoder().raw_decode(line, start)[1]]
    name = request["params"]["name"]
    if name == "given":
        with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123
            given = file.read()
    text = json.dumps({"content": [{"type": "text", "text": given}]})
    return text if name != "data" else f'{text[:-1]},"structuredContent":{given}}}'


def answer(line):
    """Return the answer to a message; None where it wants none."""
    request = json.loads(line, parse_int=str, parse_float=str)
    number = request.get("id")
    if number is None:
        return None
    found = result(line, request)
    said = '"error":{"code":-32601,"message":"no"}' if found is None else f'"result":{found}'
    return f'{{"jsonrpc":"2.0","id":{number},{said}}}'


class Handler(BaseHTTPRequestHandler):
    """The same over HTTP."""

    def log_message(self, *_):
        """Say nothing."""

    def do_POST(self):
        """Answer a message."""
        said = answer(self.rfile.read(int(self.headers["content-length"])).decode())
        self.send_response(202 if said is None else 200)
        events = "--events" in sys.argv
        body = "" if said is None else f"event: message\ndata: {said}\n\n" if events else said
        self.send_header("content-type", "text/event-stream" if events else "application/json")
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        """Have no stream."""
        self.send_error(405)


if sys.argv[2:] in (["--json"], ["--events"]):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)  # noqa: T201
    server.serve_forever()
for line in sys.stdin:
    if (said := answer(line)) is not None:
        print(said, flush=True)  # noqa: T201
