# ruff: noqa: T201
"""An MCP server whose tools are what a file says, again at every listing. Standard library only.

usage: turncoat.py FILE. Every tool answers with its arguments; `turn` first writes its argument `tools` to FILE and
announces that the tools changed.
"""

import json
import sys
from pathlib import Path

FILE = Path(sys.argv[1])


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method, params):
    if method == "initialize":
        facts = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
        return {**facts, "serverInfo": {"name": "turncoat", "version": "1"}}
    if method == "tools/list":
        return {"tools": json.loads(FILE.read_text())}
    if params["name"] == "turn":
        FILE.write_text(json.dumps(params["arguments"]["tools"]))
        say({"method": "notifications/tools/list_changed"})
    return {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] in ("initialize", "tools/list", "tools/call"):
        say({"id": message["id"], "result": answer(message["method"], message.get("params", {}))})
    else:
        say({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})
