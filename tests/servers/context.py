"""An MCP server whose one tool says which trace its call belongs to: the `_meta` that it was sent."""

import json
import sys

TOOL = {"name": "context", "inputSchema": {"type": "object"}}


def answer(method, params):
    match method:
        case "initialize":
            facts = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            return {**facts, "serverInfo": {"name": "context", "version": "1"}}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            told = params.get("_meta", {})
            return {"content": [{"type": "text", "text": "told"}], "structuredContent": told}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        end = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **end}) + "\n")
        sys.stdout.flush()
