"""A table and a picture from a CSV file, in three calls of one Python session, through a real `paddock serve mcp`.

A script replaces the model, so that the example runs anywhere. Everything else is real. The second and the third call
use what the first one left in the session. The session needs no package: the CSV module reads the file, and the picture
is written as PNG with zlib.

    python sessions.py [DIRECTORY]
"""

import asyncio
import base64
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

DATA = Path(__file__).with_name("visits.csv")
READ = """
import csv
rows = list(csv.DictReader(open("visits.csv")))
print(len(rows), "rows with", ", ".join(rows[0]))
"""
SUM = """
totals = {}
for row in rows:
    totals[row["city"]] = totals.get(row["city"], 0) + int(row["visits"])

class Table(dict):
    def __repr__(self):
        return "\\n".join(f"{city:<6}{total:>6}" for city, total in self.items())

Table(sorted(totals.items(), key=lambda item: -item[1]))
"""
DRAW = """
import struct, zlib

def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

def draw_bars(values, width=300, bar=30):
    dark, light = b"\\x1f\\x4e\\x79", b"\\xff\\xff\\xff"
    lines = []
    for value in values:
        filled = width * value // max(values)
        lines += [b"\\0" + dark * filled + light * (width - filled)] * bar + [b"\\0" + light * width] * 10
    head = struct.pack(">IIBBBBB", width, len(lines), 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(lines))
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")

with open("visits.png", "wb") as file:
    file.write(draw_bars([*totals.values()]))
"""


async def main(target: Path) -> None:
    """Run the three programs and write the picture to a directory."""
    paddock = Path(sys.executable).with_name("paddock")
    with tempfile.TemporaryDirectory() as workspace:
        server = StdioServerParameters(
            command=str(paddock), args=["serve", "mcp", "--workspace", workspace], env=dict(os.environ)
        )
        async with stdio_client(server) as streams, ClientSession(*streams) as client:
            await client.initialize()
            handle = "new"
            for number, program in enumerate((READ, SUM, DRAW), 1):
                files = [{"path": DATA.name, "text": DATA.read_text()}] if number == 1 else []
                answer = await run_program(client, program, handle, files)
                handle = answer["session"]["id"]
                print(f"-> {answer['stdoutSummary']}")
                for image in answer["images"]:
                    (target / "visits.png").write_bytes(image)
                    print(f"-> an image of {len(image)} bytes: {target / 'visits.png'}")


async def run_program(
    client: ClientSession, program: str, session: str, files: list[dict[str, str]]
) -> dict[str, Any]:
    """Run a program in the session and return what the model sees of it. Raises RuntimeError if it failed."""
    arguments = {"language": "python", "code": program, "session": session, "files": files}
    result = await client.call_tool("run_program", arguments)
    if result.is_error:
        raise RuntimeError(result.content[0].text)
    images = [base64.b64decode(block.data) for block in result.content if block.type == "image"]
    return {**result.structured_content, "images": images}


if __name__ == "__main__":
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(directory))
