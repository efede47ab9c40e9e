# ruff: noqa: T201, PTH110
"""An MCP server with resources, prompts, a tool named `resources`, and progress. Standard library only.

usage: library.py [--plain] [--lie KIND]. `--plain` declares tools only. With `--lie`, `resources/list` answers
with what KIND says: `endless` pages, `many` (--count), `hidden` names, `broken`; `resources/read` of `x:huge` has 70 MiB,
and of `x:ask` what the user answered to a question.
The tool `work` reports progress as often as its argument `times` says; with a negative one it never answers. The tool `hold` reports progress once and answers
when its argument `until` exists as a file; `held` lists the calls of `hold` in the order of their arrival.
"""

import argparse
import json
import os
import queue
import sys
import threading
import time

NOTES = {"file:///notes.md": {"mimeType": "text/markdown", "text": "# Notes"}}
NOTES["file:///dot.png"] = {"mimeType": "image/png", "blob": "iVBORw0KGgo="}
TOOLS = ("resources", "work", "hold", "held", "link")

reader = argparse.ArgumentParser()
reader.add_argument("--plain", action="store_true")
reader.add_argument("--lie", default="")
reader.add_argument("--count", type=int, default=0)
options = reader.parse_args()
lock, held, replies = threading.Lock(), [], queue.Queue()
FORM = {"message": "Shall I?", "requestedSchema": {"type": "object", "properties": {}}}


def say(message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def listed(params):
    match options.lie:
        case "endless":
            at = int(params.get("cursor", 0))
            return {"resources": [{"uri": f"x:{at}", "name": "x"}], "nextCursor": str(at + 1)}
        case "many":
            return {"resources": [{"uri": f"x:{at}", "name": "x"} for at in range(options.count)]}
        case "hidden":
            named = [{"uri": "x:\u200b1", "name": "a"}, {"uri": "x:2", "name": "b\U000e0041"}, {"name": "c"}]
            return {"resources": named}
        case "broken":
            return {"resources": ["x:1"]}
    return {
        "resources": [
            {"uri": uri, "name": uri.rpartition("/")[2], "mimeType": NOTES[uri]["mimeType"]} for uri in NOTES
        ]
    }


def call(name, arguments, token):
    def report(progress, **more):
        if token is not None:
            say(
                {
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": progress, **more},
                }
            )

    match name:
        case "resources":
            return text("the tool")
        case "work":
            while arguments["times"] < 0:
                time.sleep(1)
            for at in range(arguments["times"]):
                report(at + 1, total=arguments["times"], message=arguments.get("message", ""))
            return text(f"token: {token is not None}")
        case "hold":
            held.append(arguments["id"])
            report(1, message="held")
            while not os.path.exists(arguments["until"]):
                time.sleep(0.01)
            return text(str(arguments["id"]))
        case "held":
            return text(json.dumps(held))
        case "link":
            return {"content": [{"type": "resource_link", "uri": arguments["uri"], "name": "notes"}]}


def answer(method, params):
    match method:
        case "initialize":
            able = {"tools": {}} if options.plain else {"tools": {}, "resources": {}, "prompts": {}}
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": able,
                "serverInfo": {"name": "l", "version": "1"},
            }
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        case "tools/call":
            token = params.get("_meta", {}).get("progressToken")
            return call(params["name"], params.get("arguments", {}), token)
        case "resources/list":
            return listed(params)
        case "resources/read" if params["uri"] == "x:huge":
            return {"contents": [{"uri": "x:huge", "blob": "A" * (70 << 20)}]}
        case "resources/read" if params["uri"] == "x:ask":
            say({"id": "q1", "method": "elicitation/create", "params": FORM})
            return {"contents": [{"uri": "x:ask", "text": json.dumps(replies.get())}]}
        case "resources/read" if params["uri"] in NOTES:
            secret = os.environ.get("LIBRARY_TOKEN", "")
            return {"contents": [{"uri": params["uri"], **NOTES[params["uri"]], "_meta": {"seen": secret}}]}
        case "prompts/list":
            return {"prompts": [{"name": "greet", "description": "Greets", "arguments": [{"name": "who"}]}]}
        case "prompts/get" if params["name"] == "greet":
            block = {"type": "text", "text": f"Hello {params.get('arguments', {}).get('who')}"}
            return {"description": "A greeting", "messages": [{"role": "user", "content": block}]}
    return None


def serve(message):
    result = answer(message["method"], message.get("params", {}))
    if result is None:
        say({"id": message["id"], "error": {"code": -32602, "message": f"unknown: {message['method']}"}})
    else:
        say({"id": message["id"], "result": result})


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received and "method" in received:
        threading.Thread(target=serve, args=(received,), daemon=True).start()
    elif received.get("id") == "q1":
        replies.put(received.get("result"))
