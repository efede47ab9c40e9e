# ruff: noqa: T201, PTH110, PTH123, PLR0911
"""An MCP server over stdio that misbehaves on request. Standard library only, so that it starts at once.

usage: odd.py [--starts FILE] [--modern] [--late] [--handshake-first] [--silent] [--stubborn] [--grandchild FILE] [--exit STATUS]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
time.sleep(30)
"""
ECHO = {"name": "echo", "description": "Say it again", "inputSchema": {"type": "object"}}
PID = {"name": "pid", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
OTHERS = (
    *("environment", "crash", "crash_once", "hang", "fail", "refuse", "is_error", "invalid"),
    *("no_object", "long", "ask_back", "close_output"),
)
TOOLS = [
    ECHO,
    PID,
    {"title": "no name"},
    *({"name": name, "inputSchema": {"type": "object"}} for name in OTHERS),
]


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def call(options, name, arguments):
    """Return the result of a tool, None for no answer; an int is an error code."""
    match name:
        case "echo":
            return text(arguments["text"])
        case "pid":
            return text(str(os.getpid()))
        case "environment":
            return {**text("see structuredContent"), "structuredContent": dict(os.environ)}
        case "crash":
            print("about to crash with", os.environ.get("SECRET"), file=sys.stderr, flush=True)
            os._exit(7)
        case "crash_once":
            if not os.path.exists(arguments["marker"]):
                open(arguments["marker"], "w").close()
                os._exit(7)
            return text("alive")
        case "hang":
            return None
        case "fail":
            return -32603
        case "refuse":
            return -32602
        case "is_error":
            said = {"content": []} if "mute" in arguments else text("it broke")
            return {**said, **arguments.get("also", {}), "isError": True}
        case "invalid":
            return {"content": "just text", "isError": "yes", "structuredContent": None}
        case "no_object":
            return "bare"
        case "long":
            sys.stdout.write("x" * arguments["bytes"])
            return "..."
        case "ask_back":
            return {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}
        case "close_output":
            os.close(1)
            return None


def answer(options, method, params):
    meta = params.get("_meta", {})
    if method == "server/discover" and options.modern:
        facts = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        return {**facts, "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    if method == "initialize" and not options.modern:
        facts = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        return {**facts, "serverInfo": {"name": "odd"}}  # no version: a small fault that many servers have
    if method.startswith("tools/") and options.modern and not any("protocolVersion" in key for key in meta):
        return -32602
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(options, params["name"], params.get("arguments", {}))
    return -32601


def main():
    parser = argparse.ArgumentParser()
    for name in ("--starts", "--grandchild", "--exit"):
        parser.add_argument(name)
    for name in ("--modern", "--late", "--handshake-first", "--silent", "--stubborn"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    if options.starts:
        with open(options.starts, "a") as log:
            log.write(f"{os.getpid()}\n")
    if options.exit:
        sys.exit(int(options.exit))
    if options.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.grandchild:
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", STUBBORN], stdout=subprocess.PIPE)
        child.stdout.readline()
        with open(options.grandchild, "w") as log:
            log.write(str(child.pid))
    print("a banner that is not JSON", flush=True)
    first = True
    for line in sys.stdin:
        message = json.loads(line)
        if first and options.handshake_first and message["method"] != "initialize":
            sys.exit(1)
        silent = options.silent and message["method"] == "server/discover"
        if "id" not in message or silent or (first and options.late):
            first = False
            continue
        first = False
        result = answer(options, message["method"], message.get("params", {}))
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if isinstance(result, int):
            reply["error"] = {"code": result, "message": f"error {result}"}
        else:
            reply["result"] = result
        if result is not None:
            print(json.dumps(reply), flush=True)
    if options.stubborn:
        time.sleep(30)


main()
