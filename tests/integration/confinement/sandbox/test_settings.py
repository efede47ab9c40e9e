"""What `[sandbox]` says reaches the sandbox of a session, which is there at the first use and not before."""

import asyncio
import os
import pwd
import re

import pytest

from paddock.confinement.sandbox import spec
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.gate.processes import Processes
from paddock.model.errors import ConfigurationError, EngineError
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants
from paddock.policy.settings.schema import SandboxSettings, Settings

from .conftest import ROOT


def run(sandbox, grants, argv=("true",)):
    async def go():
        async with sandbox:
            return await sandbox.run(argv, grants)

    return asyncio.run(go())


def refusing(tier):
    return KernelSandbox(SandboxFacts(tier=tier), tier, ROOT, protected_paths="refuse")


def test_refuse_runs_nothing_with_a_writable_workspace_where_no_mounts_protect_it(tmp_path):
    result = run(refusing("landlock"), ProcessGrants(workspace=tmp_path, access="workspace-write"))
    assert (result.status, result.limit) == ("denied", "protected")
    assert result.reason == (
        "sandbox.protected_paths is refuse, and the tier landlock can only restore protected paths of a writable "
        "workspace after the run; make the tier namespaces available (paddock doctor says how), or grant the "
        "workspace read-only"
    )
    reading = run(refusing("landlock"), ProcessGrants(workspace=tmp_path, access="read-only"))
    assert reading.status == "ok"


def test_refuse_runs_where_mounts_protect_what_is_there_and_not_where_it_is_a_link(tmp_path):
    (tmp_path / ".vscode").mkdir()
    grants = ProcessGrants(workspace=tmp_path, access="workspace-write")
    assert run(refusing("namespaces"), grants).status == "ok"
    (tmp_path / ".idea").symlink_to(".vscode")
    result = run(refusing("namespaces"), grants)
    assert (result.status, result.limit) == ("denied", "protected")
    assert result.reason == (
        "sandbox.protected_paths is refuse, and .idea of the workspace is a link or behind one, which no mount can "
        "protect; replace the link with its target, or grant the workspace read-only"
    )


def test_a_job_user_is_a_name_or_a_number():
    assert spec.read_configured_user("") is None
    assert spec.read_configured_user("4711") == 4711
    assert spec.read_configured_user("root") == ROOT
    assert spec.read_configured_user("nobody") == pwd.getpwnam("nobody").pw_uid


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "no-such-user",
            "there is no user no-such-user on this machine; name another, or make it: useradd -r no-such-user",
        ),
    ],
)
def test_a_job_user_that_cannot_be_is_refused(name, reason):
    with pytest.raises(ConfigurationError) as caught:
        spec.read_configured_user(name)
    assert str(caught.value) == f"sandbox.job_user: {reason}"


def test_a_session_proves_one_sandbox_at_its_first_use():
    settings = SandboxSettings(
        minimum_tier="namespaces", job_user="54321", spares=1, protected_paths="refuse"
    )

    async def go():
        processes = Processes(Settings(sandbox=settings), ())
        first, second = await asyncio.gather(processes.open_sandbox(), processes.open_sandbox())
        assert first is second
        result = await first.run(["id", "-u"])
        await processes.close()
        return first, result

    sandbox, result = asyncio.run(go())
    assert (sandbox.tier, sandbox.job_user, sandbox.spares) == ("namespaces", 54321, 1)
    assert sandbox.protected_paths == "refuse"
    assert result.stdout.head == ("54321\n" if os.geteuid() == 0 else f"{os.geteuid()}\n")
    assert result.sandbox == sandbox.facts


def test_a_session_without_processes_chooses_no_tier(monkeypatch):
    monkeypatch.setattr("paddock.confinement.sandbox.child.landlock.read_abi_version", lambda: 0)
    monkeypatch.setattr("paddock.confinement.sandbox.child.namespaces.BUBBLEWRAP", "/usr/bin/no-bwrap")
    processes = Processes(Settings(sandbox=SandboxSettings(minimum_tier="landlock")), ())
    asyncio.run(processes.close())
    with pytest.raises(EngineError, match="this kernel offers no Landlock"):
        asyncio.run(processes.open_sandbox())


@pytest.fixture
def closed(open_path, as_root):
    """A program and a workspace that are there, below a folder that is closed to others: to users of programs, too."""
    folder = open_path / "home"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "tool").write_text("#!/bin/sh\n")
    (folder / "bin" / "tool").chmod(0o755)
    folder.chmod(0o700)
    return folder


@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
@pytest.mark.parametrize("by_name", [True, False])
def test_a_program_out_of_reach_of_its_user_is_explained(closed, tier, by_name):
    program = "tool" if by_name else f"{closed}/bin/tool"
    grants = ProcessGrants(environment={"PATH": f"{closed}/bin"})
    result = run(KernelSandbox(SandboxFacts(tier=tier), tier, job_user=54321), grants, [program])
    assert result.status == "failed"
    assert result.reason.partition("; ")[2] == (
        f"{closed}/bin/tool exists, but programs run as user 54321, which may not enter {closed}: "
        "install it where every user may enter, or set sandbox.job_user to a user that may"
    )


def test_a_workspace_out_of_reach_of_its_user_is_explained(closed):
    grants = ProcessGrants(workspace=closed, access="read-only")
    result = run(KernelSandbox(SandboxFacts(tier="landlock"), "landlock", job_user=54321), grants)
    assert result.status == "invalid"
    assert result.reason == (
        f"{closed} is out of reach: programs run as user 54321, which may not enter {closed}; "
        f"let others through (chmod o+x {closed}), move it, or change sandbox.job_user"
    )
    own = run(KernelSandbox(SandboxFacts(tier="landlock"), "landlock", ROOT), grants)
    assert own.status == "ok"
    by_default = run(KernelSandbox(SandboxFacts(tier="landlock"), "landlock"), grants)
    assert by_default.status == "invalid"
    assert by_default.reason == (
        f"{closed} is out of reach: programs run as user 65531, which may not enter {closed}; let others through "
        f"(chmod o+x {closed}), move it, make the tier namespaces available (paddock doctor says how), or set "
        'job_user = "root" under [sandbox] in the settings of root; where calls are not supervised (paddock doctor), '
        "programs with a workspace can then change the mode, times and attributes of every file that root owns"
    )


@pytest.mark.parametrize(
    ("owner", "remedy"),
    [
        (
            0,
            'set job_user = "root" under [sandbox] in the settings of root; where calls are not supervised (paddock '
            "doctor), programs with a workspace can then change the mode, times and attributes of every file that "
            "root owns",
        ),
        (54321, 'set job_user = "54321" under [sandbox]'),
    ],
)
@pytest.mark.usefixtures("as_root")
def test_who_owns_a_workspace_that_is_to_be_written_to_in_the_weaker_tier(open_path, owner, remedy):
    workspace = open_path / "workspace"
    workspace.mkdir()
    os.chown(workspace, owner, owner)
    grants = ProcessGrants(workspace=workspace, access="workspace-write")
    command = ["sh", "-c", "id -u; touch made && rm made"]

    def tried(tier, job_user=None):
        result = run(KernelSandbox(SandboxFacts(tier=tier), tier, job_user), grants, command)
        return result.status, result.reason, result.stdout.head

    assert tried("landlock") == (
        "invalid",
        f"{workspace} cannot be granted for writing: it belongs to user {owner}, and programs run as user 65531, "
        "because Paddock is root, and in the tier landlock its programs run as a user that owns no other file; make "
        "the tier namespaces available (paddock doctor says how), give that user the workspace "
        f"(chown -R 65531:65531 {workspace}), or {remedy}",
        "",
    )
    assert tried("landlock", owner) == ("ok", "", f"{owner}\n")
    assert tried("namespaces", owner) == ("ok", "", f"{owner}\n")
    os.chown(workspace, 65531, 65531)
    assert tried("landlock") == ("ok", "", "65531\n")


@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
def test_a_workspace_of_somebody_else_is_out_of_reach_of_root_without_its_powers(closed, tier):
    os.chown(closed, 54321, 54321)
    grants = ProcessGrants(workspace=closed, access="read-only")
    result = run(KernelSandbox(SandboxFacts(tier=tier), tier, ROOT), grants)
    assert result.status == "invalid"
    assert result.reason == (
        f"{closed} is out of reach: programs run as root without its powers, and only its owner may enter {closed}; "
        f'set job_user = "54321" under [sandbox], or let others through (chmod o+x {closed})'
    )
    assert run(KernelSandbox(SandboxFacts(tier=tier), tier, job_user=54321), grants).status == "ok"


@pytest.mark.usefixtures("as_root")
def test_no_job_finds_the_scratch_of_another_which_has_the_same_user():
    """Their names cannot be guessed, and no job can list or watch the folders that they are in."""
    script = 'echo "$TMPDIR"; stat -c "%u %a" "$TMPDIR/../.."'

    async def go():
        async with KernelSandbox(SandboxFacts(tier="landlock"), "landlock") as sandbox:
            return [await sandbox.run(["sh", "-c", script]) for _ in range(2)]

    seen = [result.stdout.head.splitlines() for result in asyncio.run(go())]
    assert [facts for _, facts in seen] == ["0 711", "0 711"]
    names = [re.fullmatch(r".*/paddock-[0-9a-f]{16}/([0-9a-f]{16})/tmp", place)[1] for place, _ in seen]
    assert len(set(names)) == 2
