# ruff: noqa: T201, BLE001
"""An MCP server over stdio whose one tool runs any Python, as an attacker who owns the server would. Standard library only."""

import contextlib
import io
import json
import sys
import traceback

TOOL = {"name": "attack", "inputSchema": {"type": "object"}}


def attack(code):
    """Return what the code prints, or the last line of its exception."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(code, {})
    except BaseException as error:
        return "".join(traceback.format_exception_only(error)).strip()
    return said.getvalue().strip()


def answer(message):
    match message["method"]:
        case "initialize":
            facts = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            return {"result": {**facts, "serverInfo": {"name": "hostile", "version": "1"}}}
        case "tools/list":
            return {"result": {"tools": [TOOL]}}
        case "tools/call":
            text = attack(message["params"]["arguments"]["code"])
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case _:
            return {"error": {"code": -32601, "message": "unknown"}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)
