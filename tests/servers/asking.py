"""A server whose tools ask their user for something: `asking.py modern|legacy`, standard library alone.

`can` tells whether we said that we take forms. `together` asks once two calls of it are there. Every other tool asks its
question once, and tells what it was answered.
"""

import json
import sys

MODERN = sys.argv[1] == "modern"
FIELDS = {
    "name": {"type": "string", "default": "Ada"},
    "times": {"type": "integer", "default": 3},
    "sure": {"type": "boolean"},
}
FORM = {"mode": "form", "message": "Shall I?", "requestedSchema": {"type": "object", "properties": FIELDS}}
TYPED = {**FORM, "requestedSchema": {"type": "object", "properties": FIELDS, "required": ["sure"]}}
URL = {"mode": "url", "message": "Please log in", "url": "http://127.0.0.1:9/phish", "elicitationId": "1"}
QUESTIONS = {
    "confirm": ("elicitation/create", FORM),
    "type": ("elicitation/create", TYPED),
    "open": ("elicitation/create", URL),
    "odd": ("elicitation/create", {"message": 5}),
    "sample": ("sampling/createMessage", {"messages": [], "maxTokens": 5}),
    "roots": ("roots/list", {}),
    "endless": ("elicitation/create", FORM),
}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def called(params, able):
    tool = params["name"]
    if tool == "can":
        return told(able.get("elicitation", "no"))
    method, question = QUESTIONS[tool]
    if not MODERN:
        send({"id": "q1", "method": method, "params": question})
        answer = json.loads(sys.stdin.readline())
        return told(answer.get("result", "refused"))
    if "inputResponses" in params and tool != "endless":
        assert params["requestState"] == f"state of {tool}"
        return told(params["inputResponses"]["it"])
    asked = {"it": {"method": method, "params": question}}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": f"state of {tool}"}


def told(value):
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": json.dumps(value, sort_keys=True)}],
    }


able, held = {}, []
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    reply, params = {"id": message["id"]}, message.get("params") or {}
    match message["method"]:
        case "server/discover" if MODERN:
            reply["result"] = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        case "initialize" if not MODERN:
            able = params["capabilities"]
            facts = {"capabilities": {"tools": {}}, "serverInfo": {"name": "asking", "version": "1"}}
            reply["result"] = {"protocolVersion": "2025-11-25", **facts}
        case "tools/list":
            tools = [
                {"name": name, "inputSchema": {"type": "object"}} for name in ("can", "together", *QUESTIONS)
            ]
            reply["result"] = {"tools": tools}
        case "tools/call" if params["name"] == "together":
            held.append(message["id"])
            if len(held) == 2:
                answer = called({"name": "confirm"}, able)
                for number in held:
                    send({"id": number, "result": answer})
            continue
        case "tools/call":
            meta = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities", {})
            reply["result"] = called(params, meta if MODERN else able)
        case _:
            reply["error"] = {"code": -32601, "message": "no such method"}
    send(reply)
