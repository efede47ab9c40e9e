"""A program that harms what cannot be put back: its result says so."""

import asyncio
import socket

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.model.program import CapturedStream

from .conftest import ROOT


def run(workspace, script):
    async def go():
        async with KernelSandbox(SandboxFacts(tier="landlock"), "landlock", ROOT) as sandbox:
            grants = ProcessGrants(workspace=workspace, access="workspace-write")
            return await sandbox.run(["sh", "-c", script], grants, ProcessLimits())

    return asyncio.run(go())


def test_what_could_not_be_put_back_is_in_the_result_with_all_else(tmp_path):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text("mine")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / ".claude" / "ipc"))
    result = run(tmp_path, "rm .claude/*; echo theirs > .envrc; echo out; exit 3")
    assert (result.status, result.limit, result.exit_code) == ("error", "protected", 3)
    assert result.reason == (
        "paths of the workspace could not be restored: .claude (devices and sockets cannot be restored)"
    )
    assert (result.violations, result.survivors) == ((".claude", ".envrc"), 0)
    assert result.stdout == CapturedStream(head="out\n", total_bytes=4)
    assert [path.name for path in tmp_path.rglob("*")] == [".claude", "settings.json"]


def test_what_cannot_be_watched_is_not_written_to(tmp_path):
    (tmp_path / ".mcp.json").touch()
    with (tmp_path / ".mcp.json").open("r+b") as file:
        file.truncate((64 << 20) + 1)
    result = run(tmp_path, "touch ran")
    assert (result.status, result.limit) == ("denied", "protected")
    assert result.reason == (
        "the protected paths of the workspace are too large to watch: they hold more than 64 MiB; "
        "request read-only access, make them smaller, or name what need not be watched in sandbox.unprotected of the "
        "user's settings"
    )
    assert not (tmp_path / "ran").exists()
