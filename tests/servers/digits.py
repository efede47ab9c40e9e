"""An MCP server over stdio whose results repeat its arguments, digit by digit as they came: no number is ever read.

`text` answers with them as a text, `data` as structured content, `given` with what the file of its command line holds.
"""

import json
import sys

TOOLS = ("text", "data", "given")


def send(number, result):
    sys.stdout.write(f'{{"jsonrpc":"2.0","id":{number},"result":{result}}}\n')
    sys.stdout.flush()


for line in sys.stdin:
    request = json.loads(line, parse_int=str, parse_float=str)
    number, method = request.get("id"), request.get("method")
    if number is None:
        continue
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        send(
            number,
            json.dumps(
                {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "digits", "version": "1"},
                }
            ),
        )
    elif method == "tools/list":
        send(
            number,
            json.dumps({"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}),
        )
    elif method == "tools/call":
        start = line.index("{", line.index('"arguments"'))
        given = line[start : json.JSONDecoder().raw_decode(line, start)[1]]
        name = request["params"]["name"]
        if name == "given":
            with open(sys.argv[1], encoding="utf-8") as file:
                given = file.read()
        text = json.dumps({"content": [{"type": "text", "text": given}]})
        send(number, text if name != "data" else f'{text[:-1]},"structuredContent":{given}}}')
    else:
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{number},"error":{{"code":-32601,"message":"no"}}}}\n')
        sys.stdout.flush()
