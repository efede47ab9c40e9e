# ruff: noqa: T201, PTH123
"""An MCP server over stdio that says the strings of a JSON file wherever a server may say something. Standard library only.

usage: words.py FILE [--changed]

Every string is the description of a tool, the name and the title of another one, and stands in schemas. `echo` returns
its text, `fail` fails with it. With `--changed`, the descriptions differ from those that were pinned.
"""

import json
import sys

with open(sys.argv[1]) as file:
    WORDS = json.load(file)
CHANGED = "--changed" in sys.argv
OBJECT = {"type": "object"}


def describe(number, word):
    """Return a tool with a plain name whose other texts are all one string."""
    schema = {
        "type": "object",
        "title": word,
        "description": word,
        "properties": {
            word: {"type": "string", "description": word, "default": word},
            "choice": {"enum": [word, "plain"], "title": word, "examples": [word]},
            "text": {"type": "string", "pattern": word, "format": word},
        },
    }
    return {
        "name": f"tool{number}",
        "title": word,
        "description": word + (" (changed)" if CHANGED else ""),
        "inputSchema": schema,
        "outputSchema": {"type": "object", "properties": {word: {"description": word}}},
        "annotations": {"title": word},
    }


TOOLS = [
    {"name": "echo", "inputSchema": OBJECT},
    {"name": "fail", "inputSchema": OBJECT},
    {"name": "ask", "inputSchema": OBJECT},
    *(describe(number, word) for number, word in enumerate(WORDS)),
    *({"name": word, "description": "A tool with such a name", "inputSchema": OBJECT} for word in WORDS),
]


def answer(message):
    match message["method"]:
        case "initialize":
            facts = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            word = WORDS[0]
            server = {"name": word, "title": word, "version": word, "websiteUrl": word}
            return {"result": {**facts, "serverInfo": server, "instructions": "\n".join(WORDS)}}
        case "tools/list":
            return {"result": {"tools": TOOLS}}
        case "tools/call":
            text = message["params"].get("arguments", {}).get("text", "")
            if message["params"]["name"] == "fail":
                return {"error": {"code": -32603, "message": text, "data": text}}
            return {"result": {"content": [{"type": "text", "text": text}], "isError": not text}}
        case _:
            return {"error": {"code": -32601, "message": WORDS[0]}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)
