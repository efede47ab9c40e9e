# ruff: noqa: T201
"""An MCP server whose definitions differ at each start. Standard library only.

usage: restless.py FILE. FILE counts the starts. `find` has its sets in another order each time, `now` has the time zone
of the machine in its text, and `stamp` the number of the start. Every tool answers "done".
"""

import json
import os
import sys
from pathlib import Path

FILE = Path(sys.argv[1])
START = len(FILE.read_text()) if FILE.exists() else 0
FILE.write_text("x" * (START + 1))


def turn(items):
    at = START % len(items)
    return [*items[at:], *items[:at]]


def make_tool(name, description, **schema):
    return {"name": name, "description": description, "inputSchema": {"type": "object", **schema}}


FIND = {
    "query": {"type": "string"},
    "fields": {"type": "string", "default": ",".join(turn(["summary", "versions", "labels", "status"]))},
    "order": {"type": turn(["string", "null"]), "enum": turn(["asc", "desc", None])},
}
ZONE = os.environ.get("TZ", "Etc/UTC")
TOOLS = [
    make_tool("find", "Finds issues.", properties=FIND, required=turn(["query", "fields"])),
    make_tool("now", f"Tells the time. Use '{ZONE}' where no zone is given.", properties={}),
    make_tool("stamp", f"Stamps a paper. This is start {START}.", properties={}),
]

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    match message.get("method"):
        case "initialize":
            facts = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            reply["result"] = {**facts, "serverInfo": {"name": "restless", "version": "1"}}
        case "tools/list":
            reply["result"] = {"tools": TOOLS}
        case "tools/call":
            reply["result"] = {"content": [{"type": "text", "text": "done"}]}
        case _:
            reply["error"] = {"code": -32601, "message": "method not found"}
    print(json.dumps(reply), flush=True)
