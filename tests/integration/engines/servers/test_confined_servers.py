"""Confined servers: real ones work, and a hostile one reaches only what its entry grants."""

import asyncio
import json
import os
import shutil
from contextlib import asynccontextmanager

import pytest
from tests.support.network import Server, answering
from tests.support.processes import PATIENCE_S, all_end, children, list_started, watched
from tests.support.servers import FOLDER, write_servers

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.gate.open_paddock import open_paddock
from paddock.model.errors import ServerUnavailable
from paddock.model.network import NetworkRule
from paddock.model.outcome import SandboxFacts
from paddock.policy.settings.schema import AuditSettings, NetworkSettings, ServerSettings, Settings

PYTHON = "/usr/bin/python3"
TIERS = ["namespaces", "landlock"]
PREFIX = "Failed to connect to server evil: it cannot be confined as its entry says: "
DENIED = {"namespaces": FileNotFoundError, "landlock": PermissionError}


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "ws" / "data").mkdir(parents=True)
    (tmp_path / "ws" / "note.txt").write_text("note")
    (tmp_path / "outside.txt").write_text("secret")
    shutil.copy(FOLDER / "hostile.py", tmp_path / "ws" / "hostile.py")
    return tmp_path / "ws"


@asynccontextmanager
async def session(workspace, servers, tier="namespaces", **settings):
    """Open a session with these servers, whose sandbox has the tier."""
    write_servers(workspace, servers)
    home = workspace.parent
    own = {
        "audit": AuditSettings(directory=home / "audit"),
        "servers": ServerSettings(state=home / "state"),
        **settings,
    }
    async with open_paddock(Settings(**own), workspace) as opened:
        sandbox = KernelSandbox(SandboxFacts(tier=tier), tier, job_user=0, own=(str(home / "audit"),))
        opened.processes.use_sandbox(sandbox)
        yield opened


def hostile(workspace, **confine):
    arguments = ["-I", "-S", str(workspace / "hostile.py")]
    entry = {"command": PYTHON, "args": arguments, "timeoutMs": 3_600_000}
    return {"evil": {**entry, "paddock": {"confine": {"read": ["."], **confine}}}}


async def attack(opened, code):
    result = await opened.servers.call_tool("evil", "attack", {"code": code}, limit_ms=600_000)
    return result.raw["content"][0]["text"]


def run(work):
    return asyncio.run(asyncio.wait_for(work, 2 * PATIENCE_S))


def try_attacks(workspace, *codes, tier="namespaces", confine=None, **settings):
    """Return what a hostile server says of each attack."""

    async def main():
        async with session(workspace, hostile(workspace, **(confine or {})), tier, **settings) as opened:
            return [await attack(opened, code) for code in codes]

    return run(main())


async def fail_to_list(opened, name):
    with pytest.raises(ServerUnavailable) as caught:
        await opened.servers.list_tools(name)
    return str(caught.value)


@pytest.mark.parametrize("tier", TIERS)
def test_a_confined_server_reads_what_is_granted_and_nothing_else(workspace, tier):
    outside = workspace.parent / "outside.txt"
    (workspace / "link").symlink_to(outside)
    codes = [
        f"print(open({str(workspace / 'note.txt')!r}).read())",
        f"print(open({str(outside)!r}).read())",
        f"print(open({str(workspace / 'link')!r}).read())",
        f"print(open('/proc/{os.getpid()}/environ', 'rb').read())",
        f"open({str(workspace / 'note.txt')!r}, 'w')",
        f"open({str(workspace / 'new.txt')!r}, 'w')",
    ]
    note, *refused = try_attacks(workspace, *codes, tier=tier)
    assert note == "note"
    assert [text.partition(":")[0] for text in refused[:2]] == [DENIED[tier].__name__] * 2
    assert refused[2].partition(":")[0] in {"FileNotFoundError", "PermissionError"}
    assert {text.partition(":")[0] for text in refused[3:]} <= {"PermissionError", "OSError"}
    assert (workspace / "note.txt").read_text() == "note"
    assert not (workspace / "new.txt").exists()


@pytest.mark.parametrize("tier", TIERS)
def test_a_confined_server_without_grants_reads_no_workspace(open_server, tier):
    workspace, servers = open_server

    async def main():
        async with session(workspace, servers, tier) as opened:
            code = f"print(open({str(workspace / 'note.txt')!r}).read())"
            return await attack(opened, code)

    assert run(main()).partition(":")[0] == DENIED[tier].__name__


@pytest.fixture
def open_server(workspace):
    """A server whose program is an argument, so that it needs no file."""
    text = (workspace / "hostile.py").read_text()
    entry = {"command": PYTHON, "args": ["-I", "-S", "-c", text], "timeoutMs": 3_600_000}
    return workspace, {"evil": {**entry, "paddock": {"confine": {}}}}


@pytest.mark.parametrize("tier", TIERS)
def test_a_confined_server_writes_to_one_directory(workspace, tier):
    (workspace / "data" / ".git" / "hooks").mkdir(parents=True)
    codes = [
        f"print(open({str(workspace / 'data' / 'new.txt')!r}, 'w').write('kept'))",
        f"open({str(workspace / 'note.txt')!r}, 'w')",
        f"open({str(workspace / '.mcp.json')!r}, 'w')",
    ]
    written, *refused = try_attacks(workspace, *codes, tier=tier, confine={"write": ["data"]})
    assert written == "4"
    assert {text.partition(":")[0] for text in refused} <= {"PermissionError", "OSError"}
    assert (workspace / "data" / "new.txt").read_text() == "kept"


@pytest.mark.parametrize("tier", TIERS)
def test_a_server_that_may_write_to_the_workspace_leaves_no_other_servers(workspace, tier):
    """What a later start would run as the user stays as it was."""
    before = hostile(workspace, write=["."])
    code = (
        f"open({str(workspace / '.mcp.json')!r}, 'w').write('{{}}')\n"
        f"import os; os.makedirs({str(workspace / '.paddock')!r}, exist_ok=True)\n"
        f"open({str(workspace / '.paddock' / 'servers.json')!r}, 'w').write('{{}}')"
    )
    try_attacks(workspace, code, code.partition("\n")[2], tier=tier, confine={"write": ["."]})
    assert json.loads((workspace / ".mcp.json").read_text()) == {"mcpServers": before}
    assert not (workspace / ".paddock" / "servers.json").exists()


@pytest.mark.parametrize("tier", TIERS)
def test_a_confined_server_has_no_network_without_a_grant(workspace, tier):
    with Server(answering(b"")) as server:
        codes = [
            f"import socket; socket.create_connection(('127.0.0.1', {server.port}), 5)",
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
            "import socket; socket.socket(socket.AF_UNIX).connect('/run/docker.sock')",
        ]
        said = try_attacks(workspace, *codes, tier=tier)
        assert {text.partition(":")[0] for text in said} <= {"PermissionError", "OSError"}
        assert not server.accepted.acquire(blocking=False)


def test_a_confined_server_reaches_the_hosts_of_its_entry_and_each_connection_is_recorded(workspace):
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    fetch = (
        "import urllib.request, urllib.error\n"
        "try:\n    print(urllib.request.urlopen({!r}).read().decode())\n"
        "except urllib.error.HTTPError as error:\n    print(error.code, error.read().decode())"
    )

    async def main():
        with Server(answering(response)) as server:
            rule = NetworkRule(host="127.0.0.1", effect="allow", ports=(server.port,), origin="user")
            network = NetworkSettings(rule=(rule,))
            entry = hostile(workspace, network=["127.0.0.1", "api.example.com"])
            async with session(workspace, entry, network=network) as opened:
                said = [
                    await attack(opened, fetch.format(f"http://127.0.0.1:{server.port}/")),
                    await attack(opened, fetch.format("http://other.example/")),
                    await attack(opened, fetch.format("http://api.example.com/")),
                    await attack(
                        opened,
                        f"import socket; socket.create_connection(('127.0.0.1', {server.port}), 5)",
                    ),
                ]
                await opened.servers.close()
                records = list(opened.gate.audit.query(event="connected", newest_first=False))
            return server.port, said, records

    port, said, records = run(main())
    unlisted = 'other.example:80 is not granted to server evil; add "other.example" to the list `network` of its `confine`'
    no_port = (
        "api.example.com:80 is not granted to server evil; "
        'add a [[network.rule]] with host = "api.example.com", effect = "allow" and ports = [80] to the user\'s paddock.toml'
    )
    assert said == [
        "ok",
        f"403 Paddock: {unlisted}",
        f"403 Paddock: {no_port}",
        "ConnectionRefusedError: [Errno 111] Connection refused",
    ]
    names = ("server", "host", "port", "verdict", "rule", "reason")
    facts = [tuple(record.fields.get(name) for name in names) for record in records]
    rule = "confine of server evil"
    assert sorted(facts, key=str) == sorted(
        [
            ("evil", "127.0.0.1", port, "allowed", rule, None),
            ("evil", "other.example", 80, "refused", rule, unlisted),
            ("evil", "api.example.com", 80, "refused", rule, no_port),
        ],
        key=str,
    )
    assert {record.parent for record in records} == {None}


def test_rules_of_the_user_deny_what_an_entry_grants(workspace):
    rules = (
        NetworkRule(host="denied.example", effect="deny", reason="nothing goes there", origin="workspace"),
        NetworkRule(host="asked.example", effect="ask", origin="user"),
    )
    code = (
        "import urllib.request, urllib.error\n"
        "for host in ('denied.example:443', 'asked.example:443'):\n"
        "    try:\n        urllib.request.urlopen(f'http://{host}/')\n"
        "    except urllib.error.HTTPError as error:\n        print(error.read().decode().strip())"
    )
    confine = {"network": ["denied.example", "asked.example"]}
    [said] = try_attacks(workspace, code, confine=confine, network=NetworkSettings(rule=rules))
    assert said.splitlines() == [
        "Paddock: nothing goes there",
        "Paddock: a rule asks a person about asked.example, and connections of a server belong to no request that "
        "could be asked about",
    ]


def test_nothing_of_a_confined_server_outlives_its_session(workspace):
    """Processes in their own sessions, which ignore the end, are killed."""
    code = (
        "import os, signal, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)\n"
        "print('forked')"
    )

    async def main():
        others = children(os.getpid())  # what earlier tests keep for the next one
        async with session(workspace, hostile(workspace)) as opened:
            assert await attack(opened, code) == "forked"
            return watched(list_started(others))

    handles = run(main())
    assert len(handles) >= 4  # the server and its three
    assert all_end(handles)


@pytest.mark.parametrize("tier", TIERS)
def test_a_confined_server_signals_no_process_outside(workspace, tier):
    [said] = try_attacks(workspace, f"import os; os.kill({os.getpid()}, 0)", tier=tier)
    assert said.partition(":")[0] in {"ProcessLookupError", "PermissionError"}


def test_a_confined_server_that_takes_too_much_memory_is_ended(workspace):
    async def main():
        async with session(workspace, hostile(workspace)) as opened:
            code = "kept = []\nfor _ in range(64): kept.append(b'x' * (64 << 20))"
            with pytest.raises(ServerUnavailable) as caught:
                await attack(opened, f"import os\nfor _ in range(2): os.fork()\n{code}")
            again = await attack(opened, "print('alive')")
            return str(caught.value), again

    said, again = run(main())
    assert said == (
        "Server evil was killed by signal 9 without an answer. It exceeded its limit of memory in the sandbox."
    )
    assert again == "alive"


@pytest.mark.parametrize(
    ("confine", "why"),
    [
        (
            {"network": "loopback"},
            "network loopback needs the tier namespaces, which gives each program its own network",
        ),
        (
            {"network": ["api.example.com"]},
            "network hosts needs the tier namespaces, which gives each program its own network",
        ),
    ],
)
def test_what_the_tier_cannot_do_is_refused(workspace, confine, why):
    async def main():
        async with session(workspace, hostile(workspace, **confine), "landlock") as opened:
            return await fail_to_list(opened, "evil")

    beginning = PREFIX + why
    assert run(main())[: len(beginning)] == beginning


def test_a_server_is_not_confined_by_the_tier_that_confines_nothing(workspace):
    async def main():
        async with session(workspace, hostile(workspace), "unconfined") as opened:
            return await fail_to_list(opened, "evil")

    assert run(main()) == f"{PREFIX}the tier unconfined confines nothing; raise sandbox.minimum_tier."


def test_grants_that_leave_the_workspace_are_refused(workspace):
    (workspace / "out").symlink_to(workspace.parent)
    (workspace / ".git").mkdir()
    (workspace / "inner").symlink_to(workspace / ".git")
    audit = workspace.parent / "audit"

    async def main(confine):
        async with session(workspace, hostile(workspace, **confine)) as opened:
            text = await fail_to_list(opened, "evil")
            return text.removeprefix(PREFIX)

    assert [
        run(main(confine))
        for confine in (
            {"read": ["out"]},
            {"write": ["out"]},
            {"write": ["inner"]},
            {"read": ["none"]},
            {"read": [str(audit)]},
        )
    ] == [
        "out leads out of the workspace through a link; grant the target in `read`.",
        "out leads out of the workspace through a link; grant a directory inside.",
        "inner leads to .git, in which programs of the user read settings; grant another directory.",
        "none does not exist in the workspace; correct `confine`.",
        f"{audit} is in {audit}, where Paddock keeps its own files; grant another path.",
    ]


def test_a_script_of_the_workspace_grants_no_interpreter_outside(workspace):
    """A program that may write the script chooses its first line."""
    chosen = workspace.parent / "chosen"
    chosen.write_text(f"#!/bin/sh\necho started > {workspace}/data/started\n")
    script = workspace / "server"
    script.write_text(f"#!{chosen}\n")
    for path in (chosen, script):
        path.chmod(0o755)
    entry = {"command": str(script), "paddock": {"confine": {"read": ["."], "write": ["data"]}}}

    async def main():
        async with session(workspace, {"evil": entry}) as opened:
            return await fail_to_list(opened, "evil")

    assert "without an answer" in run(main())
    assert not (workspace / "data" / "started").exists()


def test_a_server_in_the_workspace_runs_from_node_modules(workspace):
    """As npx starts a package that is installed there: a script with `#!/usr/bin/env node`."""
    package = workspace / "node_modules" / "hello-server"
    package.mkdir(parents=True)
    (package / "index.js").write_text(
        "#!/usr/bin/env node\n"
        "const tools = [{name: 'hello', inputSchema: {type: 'object'}}];\n"
        "const answers = {\n"
        "  'initialize': {protocolVersion: '2025-11-25', capabilities: {tools: {}}, "
        "serverInfo: {name: 'h', version: '1'}},\n"
        "  'tools/list': {tools}, 'tools/call': {content: [{type: 'text', text: process.cwd()}]},\n"
        "};\n"
        "require('readline').createInterface({input: process.stdin}).on('line', (line) => {\n"
        "  const {id, method} = JSON.parse(line);\n"
        "  const found = answers[method] ? {result: answers[method]} : {error: {code: -32601, message: 'no'}};\n"
        "  if (id !== undefined) console.log(JSON.stringify({jsonrpc: '2.0', id, ...found}));\n"
        "});\n"
    )
    (package / "index.js").chmod(0o755)
    (workspace / "node_modules" / ".bin").mkdir()
    command = workspace / "node_modules" / ".bin" / "hello-server"
    command.symlink_to("../hello-server/index.js")
    confine = {"paddock": {"confine": {"read": ["."]}}, "timeoutMs": 3_600_000}

    async def main():
        servers = {
            "direct": {"command": str(command), **confine},
            "npx": {"command": "npx", "args": ["--no-install", "hello-server"], **confine},
        }
        async with session(workspace, servers) as opened:
            results = [
                await opened.servers.call_tool(name, "hello", {}, limit_ms=600_000) for name in servers
            ]
            return [result.raw["content"][0]["text"] for result in results]

    assert run(main()) == [str(workspace)] * 2


def test_real_servers_run_confined(workspace, real_servers):
    everything, *arguments = real_servers.everything
    clock, *rest = real_servers.time
    folders = [str(path) for path in {find_root(everything, arguments), find_root(clock, rest)}]
    confine = {"paddock": {"confine": {"read": [".", *folders]}}, "timeoutMs": 3_600_000}

    async def main():
        servers = {
            "all": {"command": everything, "args": arguments, **confine},
            "time": {"command": clock, "args": rest, **confine},
        }
        async with session(workspace, servers) as opened:
            echo = await opened.servers.call_tool("all", "echo", {"message": "hi"}, limit_ms=600_000)
            now = await opened.servers.call_tool(
                "time", "get_current_time", {"timezone": "UTC"}, limit_ms=600_000
            )
            return echo.raw["content"], json.loads(now.raw["content"][0]["text"])["timezone"]

    assert run(main()) == ([{"type": "text", "text": "Echo: hi"}], "UTC")


def find_root(command, arguments):
    """Return the directory of an installed server: below `npm` or `python` of the cache."""
    path = next(text for text in (*arguments, command) if "paddock-tests" in text)
    folder = path.partition("paddock-tests/")
    return f"{folder[0]}{folder[1]}{folder[2].partition('/')[0]}"
