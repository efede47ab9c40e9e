"""Jobs that write to the same workspace at the same time cannot help each other past its protected paths."""

import asyncio

import pytest

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits

from .conftest import ROOT, started

LONG = ProcessLimits(timeout_ms=60_000)


@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
def test_what_one_leaves_is_not_put_back_by_another_that_has_seen_it(tier, open_path):
    workspace = open_path / "workspace"
    workspace.mkdir()
    grants = ProcessGrants(workspace=workspace, access="workspace-write")

    async def go():
        async with KernelSandbox(SandboxFacts(tier=tier), tier, ROOT, scratch_root=open_path) as sandbox:
            first = await started(
                sandbox, "echo theirs > .mcp.json; echo; while [ ! -e seen ]; do :; done", grants, LONG
            )
            second = await started(
                sandbox, "cat .mcp.json; touch seen; while [ ! -e over ]; do :; done", grants, LONG
            )
            ended = [await first]
            assert [path.name for path in workspace.iterdir()] == ["seen"]
            (workspace / "over").touch()
            ended.append(await second)
            (workspace / ".mcp.json").write_text("mine")
            await sandbox.run(["sh", "-c", "echo theirs > .mcp.json"], grants, LONG)
            return ended, sandbox.describe_state().workspaces

    ended, known = asyncio.run(go())
    assert [(result.status, result.violations) for result in ended] == [
        ("ok", (".mcp.json",)),
        ("ok", ()),
    ]
    assert (workspace / ".mcp.json").read_text() == "mine"
    assert sorted(path.name for path in workspace.iterdir()) == [".mcp.json", "over", "seen"]
    assert known == ()
