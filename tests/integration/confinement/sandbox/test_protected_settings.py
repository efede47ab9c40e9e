"""What settings and git's configuration protect in a workspace, in sandboxes that run programs."""

import asyncio

import pytest

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.gate.processes import Processes
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants
from paddock.policy.settings.schema import SandboxSettings, Settings

from .conftest import ROOT

tiers = pytest.mark.parametrize("tier", ["landlock", "namespaces"])
MOVED_HOOKS = "[core]\n\thooksPath = .githooks\n"


def run(tier, workspace, script, **settings):
    """Run a script with write access, in a session with these settings."""

    async def go():
        made = SandboxSettings(minimum_tier=tier, job_user="root", spares=0, **settings)
        processes = Processes(Settings(sandbox=made), ())
        sandbox = await processes.open_sandbox()
        try:
            return await sandbox.run(
                ["sh", "-c", script], ProcessGrants(workspace=workspace, access="workspace-write")
            )
        finally:
            await processes.close()

    return asyncio.run(go())


def test_settings_add_and_take_away(tmp_path):
    script = "mkdir ci .vscode .idea pkg; touch ci/x .vscode/x .idea/x pkg/Makefile pkg/.mcp.json"
    added, removed = ("ci/**", "**/Makefile"), (".vscode", "**/.mcp.json")
    result = run("landlock", tmp_path, script, protected=added, unprotected=removed)
    assert (result.status, sorted(result.violations)) == ("ok", [".idea", "ci", "pkg/Makefile"])
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        ".vscode",
        ".vscode/x",
        "pkg",
        "pkg/.mcp.json",
    ]


def test_the_configuration_of_the_user_of_paddock_counts(tmp_path, monkeypatch):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "gitconfig").write_text(MOVED_HOOKS)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    result = run("landlock", workspace, "mkdir .githooks; echo attack > .githooks/pre-commit")
    assert (result.status, result.violations) == ("ok", (".githooks",))
    assert [*workspace.iterdir()] == []


def with_moved_hooks(workspace):
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text(MOVED_HOOKS)
    (workspace / ".githooks").mkdir()
    (workspace / ".githooks" / "pre-commit").write_text("mine")
    return workspace


def in_tier(tier, workspace, script, **more):
    async def go():
        async with KernelSandbox(SandboxFacts(tier=tier), tier, ROOT, **more) as sandbox:
            grants = ProcessGrants(workspace=workspace, access="workspace-write")
            return await sandbox.run(["sh", "-c", script], grants)

    return asyncio.run(go())


@tiers
def test_hooks_elsewhere_are_mounted_read_only_or_restored(tier, tmp_path):
    workspace = with_moved_hooks(tmp_path)
    result = in_tier(tier, workspace, "echo attack > .githooks/pre-commit")
    expected = {"landlock": ("ok", (".githooks",)), "namespaces": ("failed", ())}
    assert (result.status, result.violations) == expected[tier]
    assert (workspace / ".githooks" / "pre-commit").read_text() == "mine"


def test_refuse_runs_with_what_git_names_and_not_with_what_only_a_pattern_finds_in_a_folder(tmp_path):
    workspace = with_moved_hooks(tmp_path)
    assert in_tier("namespaces", workspace, "true", protected_paths="refuse").status == "ok"
    (workspace / "pkg").mkdir()
    (workspace / "pkg" / ".mcp.json").write_text("{}")
    result = in_tier("namespaces", workspace, "true", protected_paths="refuse")
    assert (result.status, result.limit, result.reason) == (
        "denied",
        "protected",
        "sandbox.protected_paths is refuse, and pkg/.mcp.json can only be restored after the run, because only a "
        "pattern with **/ names it; take the pattern away with sandbox.unprotected, or grant the workspace read-only",
    )


def test_a_configuration_that_cannot_be_followed_is_refused(tmp_path):
    workspace = with_moved_hooks(tmp_path)
    (workspace / ".git" / "config").write_text("[core]\n\thooksPath = .\n")
    result = in_tier("landlock", workspace, "touch ran")
    assert (result.status, result.limit, result.reason) == (
        "denied",
        "protected",
        "the protected paths of the workspace cannot be found: core.hookspath of git's configuration is the workspace "
        "itself; request read-only access, or change that configuration",
    )
    refused = in_tier("namespaces", workspace, "touch ran", protected_paths="refuse")
    assert refused.reason == (
        "sandbox.protected_paths is refuse, and core.hookspath of git's configuration is the workspace itself; grant "
        "the workspace read-only"
    )
    assert not (workspace / "ran").exists()
