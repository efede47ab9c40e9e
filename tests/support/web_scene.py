"""A state directory as people have it after a day: what the pages show in pictures, and in tests of every page.

runs        programs in several languages, calls of MCP servers, a refusal, a failure, a time limit, recordings
changes     a change set that waits, and one that was accepted
server      `paddock serve http`: a program that runs on, an open session, and a question of another user
page        `paddock ui`, for the owner
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, Protocol

from tests.support.command import run_paddock
from tests.support.http_api import TOKEN, ApiClient
from tests.support.servers import write_servers
from tests.support.web import WebPlace, WebServer

SETTINGS = """\
[record]
payloads = "kept"

[runtimes]
access = "overlay"
network = "loopback"
timeout_ms = 600_000

[[policy.rule]]
effect = "ask"
tool = "files/write_file"
reason = "files there are published at once"

[[policy.rule]]
effect = "deny"
tool = "memory/delete_*"
reason = "what the team remembers stays"

[[flow.label]]
tool = "files/read_*"
source = "private"

[[flow.label]]
tool = "files/write_file"
sink = "external"

[[flow.rule]]
source = "private"
sink = "external"
effect = "ask"
"""
FILES = {
    "sales.csv": "city,month,sales\nOslo,2026-09,1210\nOslo,2026-10,1345\nRome,2026-09,980\nRome,2026-10,1002\n",
    "report.py": "import csv\n\n\ndef f(rows):\n    return sum(int(row['sales']) for row in rows)\n",
    "notes.md": "# Notes\n\n* Rome grows more slowly than Oslo.\n",
}
REPORT = """\
const zones = ["Europe/Oslo", "Europe/Rome", "America/Lima"];
const [text, ...times] = await Promise.all([
  servers.files.read_text_file({ path: "sales.csv" }),
  ...zones.map((timezone) => servers.time.get_current_time({ timezone })),
]);
const content = typeof text === "string" ? text : text.content;
const rows = content.trim().split("\\n").slice(1).map((line) => line.split(","));
const totals: Record<string, number> = {};
for (const [city, , sales] of rows) totals[city] = (totals[city] ?? 0) + Number(sales);
console.log("cities:", Object.keys(totals).join(", "));
for (const [city, sales] of Object.entries(totals)) console.log(city.padEnd(8), sales);
await servers.memory.create_entities({
  entities: Object.entries(totals).map(([name, sales]) => ({ name, entityType: "city", observations: [`sold ${sales}`] })),
});
return { totals, times: times.length };
"""
FAILING = """\
const { entities } = await servers.memory.read_graph({});
const oldest = entities.filter((entity) => entity.entityType === "city");
console.warn("entities to forget:", oldest.length);
const first = oldest.find((entity) => entity.name === "Paris");
return first.observations.length;
"""
FORGETTING = """\
const graph = await servers.memory.read_graph({});
await servers.memory.delete_entities({ entityNames: graph.entities.map((entity) => entity.name) });
"""
ENDLESS = "console.log('searching'); for (;;) await sleep(10);\n"
PLOT = """\
import struct, zlib
width, height, sales = 320, 120, [1210, 1345, 980, 1002, 1120, 1460, 1520, 1390]
rows = bytearray()
for y in range(height):
    rows.append(0)
    for x in range(width):
        column = x * len(sales) // width
        inside = x % 40 > 6 and height - y < sales[column] * (height - 10) / max(sales)
        rows += bytes((11, 110, 99) if inside else (240, 243, 244))
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
with open("sales.png", "wb") as file:
    file.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(rows))) + chunk(b"IEND", b""))
print("sales.png:", width, "by", height)
"""
REFACTOR = """\
import pathlib
file = pathlib.Path("report.py")
file.write_text(file.read_text().replace("def f(rows)", "def total_sales(rows)"))
pathlib.Path("CHANGES.md").write_text("# Changes\\n\\n* `f` is now `total_sales`.\\n")
"""
ACCEPTED = "import pathlib; pathlib.Path('LICENSE.txt').write_text('All rights reserved.\\n')"
LONG = """\
import time
for step in range(1, 100_000):
    print(f"step {step}: {step * 37 % 101} rows checked", flush=True)
    time.sleep(0.5)
"""
WRITING = {
    "server": "files",
    "tool": "write_file",
    "arguments": {"path": "index.html", "content": "<h1>Sales</h1>"},
}
"""A call that waits for a person."""
PROGRAMS = {
    "python": "import csv; rows = list(csv.DictReader(open('sales.csv'))); print(len(rows), 'rows')",
    "bash": "sort -t, -k3 -n sales.csv | head -n 3",
    "ruby": "puts File.readlines('sales.csv').drop(1).sum { |line| line.split(',')[2].to_i }",
    "php": "<?php echo count(file('sales.csv')), PHP_EOL;",
    "go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello from go") }\n',
}
"""Programs of the owner by language."""


def list_servers(place: WebPlace, real: "RealServers") -> dict[str, Any]:
    """Return the entries of the servers of a scene: installed ones, with the workspace and a memory in the home."""
    memory = {"MEMORY_FILE_PATH": str(place.home / "memory.jsonl")}
    return {
        "files": _make_entry(*real.filesystem, str(place.workspace)),
        "memory": _make_entry(*real.memory, env=memory),
        "time": _make_entry(*real.time, "--local-timezone", "UTC"),
    }


def _make_entry(command: str, *arguments: str, **fields: Any) -> dict[str, Any]:
    return {"command": command, "args": list(arguments), **fields}


class RealServers(Protocol):
    """Commands of the servers that `scripts/install_servers.py` installs."""

    @property
    def filesystem(self) -> tuple[str, ...]: ...
    @property
    def memory(self) -> tuple[str, ...]: ...
    @property
    def time(self) -> tuple[str, ...]: ...


class Scene(NamedTuple):
    """What runs while pages are looked at."""

    place: WebPlace
    server: WebServer
    runs: Mapping[str, str]
    """Ids of runs, by what they show: `report`, `failed`, `denied`, `plot`, `changes`, `running`, `waiting`."""
    session: str


@contextmanager
def open_scene(
    place: WebPlace, servers: Mapping[str, Any], languages: Mapping[str, str] = PROGRAMS
) -> Iterator[Scene]:
    """Make the state, and keep the server running. `servers` has entries for `files`, `memory` and `time`.

    `languages` are programs that the owner runs, one after the other.
    """
    write_servers(place.workspace, servers)
    place.settings(SETTINGS)
    for name, text in FILES.items():
        (place.workspace / name).write_text(text)
    runs = run_commands(place, languages)
    alice = place.make_token("alice")
    with ExitStack() as stack:
        api = stack.enter_context(place.serve())
        owner, user = (stack.enter_context(api.client(token)) for token in (TOKEN, alice))
        runs |= run_requests(user, {"report": REPORT})
        runs |= run_requests(user, {"timeout": ENDLESS}, timeout_ms=5_000)
        runs |= run_requests(owner, {"failed": FAILING, "denied": FORGETTING})
        session = open_session(owner)
        runs["running"] = owner.begin(language="python", code=LONG, timeout_ms=600_000)
        owner.wait_for(runs["running"], lambda state: state["state"] == "running")
        runs["waiting"] = user.begin(**WRITING)
        user.wait_for(runs["waiting"], lambda state: state.get("question"))
        yield Scene(place, stack.enter_context(place.serve_page()), runs, session)


def run_commands(place: WebPlace, languages: Mapping[str, str]) -> dict[str, str]:
    """Run what the owner runs on the command line, and return the ids of the runs."""

    def run(language: str, code: str, *options: str) -> str:
        done = run_paddock(
            place.workspace, "exec", *options, language, "-c", code, environment=place.environment
        )
        assert done.returncode == 0, done
        [record] = place.paddock("audit", "tail", "-n", "1", "--json")
        return record["request"]

    runs = {language: run(language, code) for language, code in languages.items()}
    runs["plot"] = run("python", PLOT, "--output", "*.png")
    overlay = "--access", "overlay"
    runs["accepted"] = run("python", ACCEPTED, *overlay)
    [change_set] = place.paddock("changes", "list", "--json")
    place.paddock("changes", "accept", change_set["id"], "--json")
    runs["changes"] = run("python", REFACTOR, *overlay)
    return runs


def run_requests(
    client: ApiClient, programs: Mapping[str, str], *, timeout_ms: int = 600_000
) -> dict[str, str]:
    """Run what an agent sends to the server, and return the ids of the runs."""
    body = {"language": "typescript", "timeout_ms": timeout_ms}
    return {name: client.run(code=code, **body)["id"] for name, code in programs.items()}


def open_session(client: ApiClient) -> str:
    """Open a session with a table, a text and a picture among its files, and return its handle."""
    opened = client.post("/v1/sessions", json={"language": "python"})
    assert opened.status_code == 201, opened.text
    handle = opened.json()["id"]
    for name, text in FILES.items():
        put = client.put(f"/v1/sessions/{handle}/files/{name}", content=text.encode())
        assert put.is_success, put.text
    client.run(f"/v1/sessions/{handle}/executions", code=PLOT)
    return handle
