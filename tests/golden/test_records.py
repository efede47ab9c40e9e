"""The facts that the ledger has of each kind of work, and the hashes of decisions."""

import asyncio
from pathlib import Path
from typing import Any

from tests.support.command import run_paddock
from tests.support.golden import check_golden, replace_volatile
from tests.support.servers import make_entry, write_servers

from paddock import Paddock
from paddock.gate.audit_facts import identity_facts
from paddock.gate.work import KINDS
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.policy.decisions.decision import Policy
from paddock.policy.settings.schema import Settings

WORKS: dict[str, Any] = {
    "guest": GuestRun(source="return 1"),
    "script": GuestRun(source="return 1", profile="script", vars={"A": "b"}),
    "computation": GuestRun(source="emit(1)", profile="compute", input='{"a": 1}'),
    "program": RuntimeRun(runtime="python", code="print(1)"),
    "arguments": RuntimeRun(runtime="shell", code="true", args=("a",), stdin=b"b", env={"C": "d"}),
    "network": RuntimeRun(runtime="python", code="print(1)", network="full"),
    "session": RuntimeRun(runtime="python", code="x = 1", session="new"),
    "packages": RuntimeRun(runtime="python", code="import six", packages=("six==1.17.0",)),
    "server": ServerCall(server="odd", tool="echo", arguments={"a": 1}),
    "sdk": SdkCall(method="vault.get", arguments=("name",)),
    "tool": ToolRun(tool="greet", inputs={"name": "ada"}),
}


def test_the_identity_of_work_and_the_hash_of_its_decision() -> None:
    policy, found = Policy(Settings(), KINDS), {}
    for name, work in WORKS.items():
        request = ExecutionRequest(
            id="01JD3W0ZV6N4YQ1R2X5T7B8C9D",
            actor="ada",
            surface="mcp",
            workspace=Path("/workspace"),
            work=work,
        )
        found[name] = identity_facts(request, policy.decide(request))
    check_golden("identities.json", found)


def test_the_facts_of_requests_of_each_kind(tmp_path: Path) -> None:
    async def run() -> list[Any]:
        async with Paddock(workspace, overrides={"audit.directory": str(tmp_path / "audit")}) as p:
            await p.execute("console.log(1); return await servers.odd.echo({ a: 1 })")
            await p.execute("null.x")
            await p.execute("return paddock.vault.get('none')")
            await p.compute("emit(read_input())", '{"a": 1}')
            await p.exec("python", "print(1)", files={"a.txt": b"a"}, outputs=["*.txt"])
            await p.exec("python", "import sys; sys.exit(3)")
            await p.exec("shell", "cat", stdin=b"1", env={"A": "b"}, args=["c"])
            await p.exec(
                "shell", "sleep 60", timeout_ms=2000
            )  # a loop could be `unavailable` on a busy machine
            opened = await p.exec("python", "x = 1", session="new")
            await p.exec("python", "x", session=opened.session.id if opened.session else "")
            await p.exec("python", "1", network="full")
            await p.exec("python", "1", access="workspace-write")
            await p.tool("greet", {"text": "a b"})
            records = await p.find_records(limit=None)
            return [
                {
                    "event": each.event,
                    **{name: value for name, value in each.fields.items() if name != "queue_ms"},
                }
                for each in reversed(records)
            ]  # a busy machine can take a millisecond to give a free slot

    workspace = tmp_path / "workspace"
    workspace.mkdir()
    write_servers(workspace, {"odd": make_entry("odd")})
    assert run_paddock(workspace, "tool", "new", "greet").returncode == 0
    check_golden("records.json", replace_volatile(asyncio.run(run()), {str(workspace): "<workspace>"}))
