# ruff: noqa: T201
"""An MCP server over stdio that sends more than anybody asked for, by tool. Standard library only."""

import json
import os
import sys

TOOLS = (
    "pings",
    "progress",
    "logs",
    "changes",
    "answers",
    "noise",
    "stderr",
    "values",
    "text_values",
    "deep",
)
FLOODS = {
    "pings": '{"jsonrpc":"2.0","id":%d,"method":"ping"}\n',
    "progress": '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}\n',
    "logs": '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d"}}\n',
    "changes": '{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"n":%d}}\n',
    "answers": '{"jsonrpc":"2.0","id":"other %d","result":{}}\n',
    "noise": "log line %d\n",
}


def flood(name):
    """Write without end; the end comes from outside."""
    number = 0
    while True:
        number += 100
        sys.stdout.write("".join(FLOODS[name] % each for each in range(number, number + 100)))


def call(name, arguments):
    many = "[" + ",".join(["[]"] * arguments.get("count", 0)) + "]"
    match name:
        case "values":
            return '{"content":[],"structuredContent":{"a":' + many + "}}"
        case "text_values":
            return json.dumps({"content": [{"type": "text", "text": many}]})
        case "deep":
            levels = arguments["levels"]
            text = "x" * arguments.get("beside", 0)
            return (
                '{"content":[],"structuredContent":{"a":' + "[" * levels + "]" * levels + f',"b":"{text}"}}}}'
            )
        case "stderr":
            while True:
                os.write(2, b"x" * 65536)
        case _:
            return flood(name)


for line in sys.stdin:
    message = json.loads(line)
    number, method = message.get("id"), message.get("method")
    if number is None or method is None:
        continue
    if method == "initialize":
        facts = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        result = json.dumps({**facts, "serverInfo": {"name": "flood", "version": "1"}})
    elif method == "tools/list":
        result = json.dumps({"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]})
    elif method == "tools/call":
        result = call(message["params"]["name"], message["params"].get("arguments", {}))
    else:
        print(
            json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}),
            flush=True,
        )
        continue
    print('{"jsonrpc":"2.0","id":%d,"result":%s}' % (number, result), flush=True)  # noqa: UP031
