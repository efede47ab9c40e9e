"""A servers file names commands that run as the user: what a program writes there for the time of its run starts none."""

import json

import pytest

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.errors import NO_SERVERS
from paddock.model.outcome import SandboxFacts
from paddock.policy.settings.schema import RuntimeSettings

WRITES = """
import os
os.makedirs(os.path.dirname({file!r}) or ".", exist_ok=True)
with open({file!r}, "w") as file: file.write({servers!r})
while not os.path.exists("go"): os.stat(".")
"""
PROGRAM = """
const writes = paddock.exec("python", {code}, {{access: "workspace-write"}});
let seen;
do seen = await paddock.exec("shell", "test -e {file} && grep -q evil {file}"); while (!seen.ok);
const told = [Object.keys(servers)];
try {{ await servers.evil.go({{}}); }} catch (error) {{ told.push(error.message); }}
await paddock.exec("shell", "touch go", {{access: "workspace-write"}});
export default [...told, (await writes).ok];
"""


def evil(desk, file):
    """Return a program that has a server started which it names itself, and where that leaves its mark."""
    marker = desk.place / "marker"
    servers = {"mcpServers": {"evil": {"command": "/bin/sh", "args": ["-c", f"touch {marker}"]}}}
    code = WRITES.format(servers=json.dumps(servers), file=file)
    return PROGRAM.format(code=json.dumps(code), file=file), marker


@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
@pytest.mark.parametrize("before", [None, '{"mcpServers": {}}'])
@pytest.mark.parametrize("name", [".mcp.json", ".paddock/servers.json"])
def test_a_program_names_no_server_that_is_started(desk, tier, before, name):
    file = desk.workspace / name
    if before is not None:
        file.parent.mkdir(exist_ok=True)
        file.write_text(before)
    desk.open(runtimes=RuntimeSettings(access="workspace-write"))
    desk.session.processes.use_sandbox(KernelSandbox(SandboxFacts(tier=tier), tier, job_user=0))
    source, marker = evil(desk, name)
    if before is not None and tier == "namespaces":  # nobody can write there at all
        source = source.replace("do seen", "if (false) seen").replace("while (!seen.ok);", "")
    outcome = desk.run(source)
    assert outcome.error is None, outcome.error
    assert outcome.value[:2] == [[], f"Unknown server: evil; {NO_SERVERS}"]
    assert not marker.exists()
    assert (file.read_text() if file.exists() else None) == before


def test_servers_that_were_there_before_the_first_program_are_known_after_it(desk):
    entry = {"command": "/bin/sh", "args": ["-c", "exit"]}
    (desk.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"own": entry}}))
    desk.open()
    source = 'await paddock.exec("shell", "true"); export default Object.keys(servers);'
    assert desk.run(source).value == ["own"]
