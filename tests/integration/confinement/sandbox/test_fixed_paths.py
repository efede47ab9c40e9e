"""Granted paths beside which others may write: where one leads through a link by now, nothing starts."""

import asyncio
import os

import pytest

from paddock.confinement.sandbox import spec
from paddock.confinement.sandbox.child import landlock
from paddock.confinement.sandbox.child.messages import StartError
from paddock.confinement.sandbox.child.namespaces import MountRoot, MountRootCache
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits

REFUSED = {
    ("landlock", True): "hidden files: [Errno 40] Too many levels of symbolic links: '{path}'",
    ("landlock", False): "Landlock rules: [Errno 40] Too many levels of symbolic links: '{path}'",
    ("namespaces", True): "[Errno 40] Too many levels of symbolic links: '{path}'",
    ("namespaces", False): "[Errno 40] Too many levels of symbolic links: '{path}'",
}
"""By tier, and by whether the path is the workspace, which is searched for hidden files first."""


@pytest.fixture
def tool(open_path):
    """Return a directory to be granted, beside which there is a secret."""
    for name in ("tools/mine", "secret"):
        (open_path / name).mkdir(parents=True)
        (open_path / name / "file").write_text(name)
    return open_path / "tools" / "mine"


def swap(path, target):
    path.rename(path.with_name("away"))
    path.symlink_to(target)


def run(tier, root, path, *, as_workspace):
    granted = {"workspace": path, "access": "read-only"} if as_workspace else {"readable": (path,)}
    grants = ProcessGrants(**granted, fixed=(path,))

    async def main():
        async with KernelSandbox(SandboxFacts(tier=tier), tier, scratch_root=root) as sandbox:
            return await sandbox.run(["cat", f"{path}/file"], grants)

    return asyncio.run(main())


@pytest.mark.parametrize("as_workspace", [True, False])
@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
def test_a_path_that_is_itself_is_granted(tier, as_workspace, tool, open_path):
    result = run(tier, open_path, tool, as_workspace=as_workspace)
    assert (result.status, result.stdout.head, result.stderr.head) == ("ok", "tools/mine", "")


@pytest.mark.parametrize("as_workspace", [True, False])
@pytest.mark.parametrize("level", ["itself", "above"])
@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
def test_a_path_that_became_a_link_is_not(tier, level, as_workspace, tool, open_path):
    if level == "itself":
        swap(tool, open_path / "secret")
    else:
        (open_path / "secret").rename(open_path / "mine")
        swap(tool.parent, open_path)
    result = run(tier, open_path, tool, as_workspace=as_workspace)
    assert (result.status, result.stdout.head) == ("unavailable", "")
    assert result.reason == REFUSED[tier, as_workspace].format(path=tool)


def test_what_was_swapped_while_a_jail_was_built_is_found(tool, open_path):
    grants, limits = ProcessGrants(readable=(tool,), fixed=(tool,)), ProcessLimits()
    scratch = open_path / "jobs" / "1"
    scratch.parent.mkdir()
    room = spec.build_jail_spec(
        grants,
        limits,
        tier="namespaces",
        abi=landlock.read_abi_version(),
        scratch=scratch,
        job_user=None,
        group="",
    )
    bound = f"--ro-bind\0{tool}\0{tool}"
    assert bound in room.jail
    other = room.jail.replace(bound, f"--ro-bind\0{open_path / 'secret'}\0{tool}")
    MountRoot(room, None).close()
    told = f"namespaces: [Errno 116] it was replaced while the jail was built: '{tool}'"
    with pytest.raises(StartError) as refused:
        MountRoot(room._replace(jail=other), None)
    assert str(refused.value) == told


def test_a_root_of_paths_that_nobody_verified_serves_no_job_that_wants_them_verified(tool, open_path):
    scratch = open_path / "jobs" / "1"
    scratch.parent.mkdir()
    fixed = spec.build_jail_spec(
        ProcessGrants(readable=(tool,), fixed=(tool,)),
        ProcessLimits(),
        tier="namespaces",
        abi=landlock.read_abi_version(),
        scratch=scratch,
        job_user=None,
        group="",
    )
    roots = MountRootCache(None)
    try:
        plain = roots.get_root(fixed._replace(fixed=()))
        verified = roots.get_root(fixed)
        assert verified is not plain
        assert roots.get_root(fixed) is verified
    finally:
        for root in roots._roots.values():
            root.close()
            os.waitpid(root.pid, 0)
