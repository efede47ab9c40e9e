"""Paddock's own directories in a workspace, as in a home: no program reads them, changes them or takes their place."""

import asyncio
import os
from pathlib import Path

import pytest

from paddock.confinement.sandbox import state_paths
from paddock.confinement.sandbox.child import partial_grants
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.gate.processes import installation_paths, own_files
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants
from paddock.model.sandbox import Tier
from paddock.policy.settings.schema import Settings

from .conftest import ROOT

TIERS: tuple[Tier, ...] = ("namespaces", "landlock")
RENAME = """perl -e 'rename $ARGV[0], "away" or exit 1'"""
"""mv(1) would copy what cannot be renamed."""


@pytest.fixture
def home(open_path: Path):
    """Return a home with a project, and state of Paddock in it; of its settings there are none yet."""
    for name in ("project", ".local/state/paddock/vault", ".local/state/other", ".cache/paddock/warm"):
        (open_path / "home" / name).mkdir(parents=True)
    for name in (
        "project/file",
        "top",
        ".local/state/paddock/vault/key",
        ".local/state/other/file",
        ".cache/paddock/warm/file",
    ):
        (open_path / "home" / name).write_text(f"{name}\n")
    (open_path / "home/link").symlink_to(".local/state/paddock/vault/key")
    return open_path / "home"


def own_of(home: Path):
    return state_paths.list_own_directories(
        home / name for name in (".config/paddock", ".local/state/paddock", ".cache/paddock")
    )


def run(
    tier: Tier,
    home: Path,
    script: str,
    *,
    own: tuple[str, ...] | None = None,
    installed: tuple[str, ...] = (),
    files: tuple[state_paths.StateFile, ...] = (),
    **grants: object,
):
    async def main():
        given = {"workspace": home, "access": "read-only", **grants}
        facts = SandboxFacts(tier=tier)
        kept = own_of(home) if own is None else own
        kept_from = {"own": kept, "installed": installed, "files": files}
        async with KernelSandbox(facts, tier, ROOT, scratch_root=home.parent, **kept_from) as sandbox:
            return await sandbox.run(["sh", "-c", script], ProcessGrants.model_validate(given))

    return asyncio.run(main())


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_beside_them_is_read_and_they_are_not(tier: Tier, home: Path):
    read = (
        "for name in project/file top .local/state/other/file; do cat $name; done; ls -A; ls -A .local/state"
    )
    done = run(tier, home, read)
    listed = ".cache\n.local\nlink\nproject\ntop\nother\npaddock\n"
    assert (done.status, done.stdout.head) == ("ok", f"project/file\ntop\n.local/state/other/file\n{listed}")
    for secret in (".local/state/paddock/vault/key", "link", "project/../link", ".cache/paddock/warm/file"):
        kept = run(tier, home, f"cat {secret}")
        assert (kept.status, kept.stdout.head) == ("failed", ""), secret


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_granted_by_itself_below_one_is_there(tier: Tier, home: Path):
    warm = home / ".cache/paddock/warm"
    done = run(
        tier, home, "cat .cache/paddock/warm/file; cat .local/state/paddock/vault/key", readable=(warm,)
    )
    assert (done.status, done.stdout.head) == ("failed", ".cache/paddock/warm/file\n")


def test_who_may_write_beside_them_neither_fills_nor_replaces_them(home: Path):
    attacks = (
        "mkdir -p .config/paddock && echo x > .config/paddock/paddock.toml",
        "echo x > .local/state/paddock/vault/key",
        "rm -r .local/state/paddock/vault",
        f"{RENAME} .config",
        f"{RENAME} .local/state",
        f"{RENAME} .local",
        f"{RENAME} .local/state/paddock",
        "ln -sfnT project .config",
    )
    done = run(
        "namespaces",
        home,
        f"echo mine > new; echo too > .local/new; {'; '.join(f'({each}) && echo done' for each in attacks)}; true",
        access="workspace-write",
    )
    assert (done.status, done.stdout.head) == ("ok", "")
    assert [(home / name).read_text() for name in ("new", ".local/new")] == ["mine\n", "too\n"]
    assert (home / ".local/state/paddock/vault/key").read_text() == ".local/state/paddock/vault/key\n"
    assert sorted(path.name for path in home.iterdir()) == [
        ".cache",
        ".config",
        ".local",
        "link",
        "new",
        "project",
        "top",
    ]
    assert [*(home / ".config").rglob("*")] == [home / ".config/paddock"]


def test_the_weaker_tier_refuses_to_let_a_program_write_beside_them(home: Path):
    done = run("landlock", home, "true", access="workspace-write")
    told = (
        f"a program that may write there could change {home}/.cache/paddock, where Paddock keeps its own files; "
        "work in a directory that does not contain them, make the tier namespaces available (paddock doctor says "
        "how), or grant the "
        "workspace read-only"
    )
    assert (done.status, done.reason) == ("invalid", told)
    below = run("landlock", home, "echo x > new", workspace=home / "project", access="workspace-write")
    assert (below.status, (home / "project/new").read_text()) == ("ok", "x\n")


@pytest.mark.parametrize("tier", TIERS)
def test_a_link_on_the_way_to_one_could_be_replaced(tier: Tier, home: Path):
    (home.parent / "settings").mkdir()
    (home / ".config").symlink_to("../settings")
    done = run(
        tier,
        home,
        "true",
        own=state_paths.list_own_directories([home / ".config/paddock"]),
        access="workspace-write",
    )
    told = (
        f"a program that may write there could replace the link {home}/.config, which leads to a directory where "
        "Paddock keeps its own files; work in a directory that does not contain them, or grant the workspace "
        "read-only"
    )
    assert (done.status, done.reason) == ("invalid", told)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("place", [".local/state/paddock", ".local/state/paddock/vault"])
def test_nobody_works_in_one(tier: Tier, place: str, home: Path):
    told = f"{home}/{place} is in {home}/.local/state/paddock, where Paddock keeps its own files; work in another directory"
    for grants in ({"workspace": home / place}, {"cwd": home / place}, {"writable": (home / place,)}):
        done = run(tier, home, "ls", **grants)
        assert (done.status, done.reason) == ("invalid", told)


def test_what_has_gone_since_or_is_a_link_by_now_is_not_granted(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Others are at work in a home, while what is in it is looked at."""
    look = partial_grants.pieces

    def late(folders: list[str], hidden: list[str]):
        pieces = look(folders, hidden)
        return pieces._replace(
            found=(*pieces.found, *(f"{home}/{name}" for name in ("gone", "link"))) if hidden else ()
        )

    monkeypatch.setattr(partial_grants, "pieces", late)
    done = run("landlock", home, "cat top link")
    assert (done.status, done.stdout.head) == ("failed", "top\n")
    assert done.stderr.head == "cat: link: Permission denied\n"


@pytest.mark.parametrize("tier", TIERS)
def test_a_file_that_says_whom_paddock_trusts_is_read_and_not_changed(tier: Tier, home: Path):
    (home / "project/link").symlink_to("../top")
    told = (
        "a program that may write there could change {path}, Paddock's own file (servers.trust); move it to where "
        "no program has a grant, or grant the workspace read-only"
    )
    project = home / "project"
    for name in ("file", "link", "not/there/yet"):
        path = str(project / name)
        files = (state_paths.StateFile("servers.trust", path, readable=True),)
        done = run(tier, home, "true", files=files, workspace=project, access="workspace-write")
        assert (done.status, done.reason) == ("invalid", told.format(path=path))
        assert run(tier, home, "cat file", files=files, workspace=project).stdout.head == "project/file\n"
    beside = (state_paths.StateFile("servers.trust", str(home / "top"), readable=True),)
    assert run(tier, home, "true", files=beside, workspace=project, access="workspace-write").status == "ok"


@pytest.mark.parametrize("tier", TIERS)
def test_a_file_that_is_protected_in_a_workspace_is_protected_for_paddock(tier: Tier, home: Path):
    project = home / "project"
    (project / ".vscode").mkdir()
    (project / ".vscode/mcp.json").write_text("{}")
    (project / "link").symlink_to(".vscode/mcp.json")
    write = "echo x > .vscode/mcp.json; true"
    by_name = (state_paths.StateFile("servers.config", f"{project}/.vscode/mcp.json", readable=True),)
    done = run(tier, home, write, files=by_name, workspace=project, access="workspace-write")
    assert (done.status, (project / ".vscode/mcp.json").read_text()) == ("ok", "{}")
    by_link = (state_paths.StateFile("servers.config", f"{project}/link", readable=True),)
    assert (
        run(tier, home, write, files=by_link, workspace=project, access="workspace-write").status == "invalid"
    )


@pytest.mark.parametrize("access", ["read-only", "workspace-write"])
@pytest.mark.parametrize("tier", TIERS)
def test_a_file_of_paddocks_state_is_not_even_read(tier: Tier, access: str, home: Path):
    files = (state_paths.StateFile("sdk.webhooks", f"{home}/project/file"),)
    told = (
        f"a program with these grants could read {home}/project/file, Paddock's own file (sdk.webhooks); move it to "
        "where no program has a grant"
    )
    done = run(tier, home, "true", files=files, workspace=home / "project", access=access)
    assert (done.status, done.reason) == ("invalid", told)
    beside = {"workspace": home / ".local/state/other", "access": access}
    assert run(tier, home, "true", files=files, **beside).status == "ok"
    named = {**beside, "readable": (home / "project/file",)}
    assert run(tier, home, "true", files=files, **named).reason == told
    assert run(tier, home, "true", files=files, workspace=home / "project", access="none").status == "ok"


def test_files_that_settings_place_elsewhere_are_paddocks_own(tmp_path: Path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state/trust").symlink_to("../trust")
    settings = Settings.model_validate(
        {
            "audit": {"directory": tmp_path / "state"},
            "sdk": {"webhooks": tmp_path / "hooks", "signals": tmp_path / "state/signals"},
            "servers": {
                "trust": tmp_path / "state/trust",
                "config": tmp_path / "servers",
                "registry_source": f"{tmp_path}/offers",
            },
        }
    )
    assert own_files(settings) == (
        state_paths.StateFile("sdk.webhooks", str(tmp_path / "hooks")),
        state_paths.StateFile("servers.trust", str(tmp_path / "state/trust"), readable=True),
        state_paths.StateFile("servers.config", str(tmp_path / "servers"), readable=True),
        state_paths.StateFile("servers.registry_source", f"{tmp_path}/offers", readable=True),
    )
    at_home = Settings.model_validate({"servers": {"registry_source": "~/offers"}})
    assert own_files(at_home) == (
        state_paths.StateFile("servers.registry_source", os.path.expanduser("~/offers"), readable=True),  # noqa: PTH111
    )
    elsewhere = Settings.model_validate(
        {"servers": {"registry_source": "https://registry.example/v0/servers"}}
    )
    assert own_files(elsewhere) == own_files(Settings()) == ()


SPOIL = """
cat .venv/lib/site.py; echo evil > .venv/lib/site.py; echo evil > .venv/new; perl -e 'rename ".venv", "away"; rename ".venv/lib", "away"'; rm -r .venv; echo made > made
"""


def test_no_program_changes_what_paddock_imports(home: Path):
    (home / ".venv/lib").mkdir(parents=True)
    (home / ".venv/lib/site.py").write_text("own\n")
    installed = state_paths.list_own_directories([home / ".venv"])
    done = run("namespaces", home, SPOIL, own=(), installed=installed, access="workspace-write")
    assert (done.status, done.stdout.head) == ("ok", "own\n")
    assert sorted(path.name for path in home.iterdir() if path.name[:2] != ".l") == sorted(
        [".cache", ".venv", "link", "made", "project", "top"]
    )
    assert [(path.name, path.read_text()) for path in (home / ".venv").rglob("*.py")] == [
        ("site.py", "own\n")
    ]
    refused = run("landlock", home, SPOIL, own=(), installed=installed, access="workspace-write")
    assert (refused.status, refused.reason) == (
        "invalid",
        f"a program that may write there could change {home}/.venv, where Paddock keeps its own files; work in a "
        "directory that does not contain them, make the tier namespaces available (paddock doctor says how), or "
        "grant the workspace "
        "read-only",
    )


@pytest.mark.parametrize("tier", TIERS)
def test_what_paddock_imports_may_be_read_and_be_beside_a_workspace(tier: Tier, home: Path):
    (home / ".venv/lib").mkdir(parents=True)
    (home / ".venv/lib/site.py").write_text("own\n")
    installed = state_paths.list_own_directories([home / ".venv"])
    assert run(tier, home, "cat .venv/lib/site.py", own=(), installed=installed).stdout.head == "own\n"
    beside = {"workspace": home / "project", "readable": (home / ".venv/lib",), "access": "workspace-write"}
    done = run(tier, home, "cat ../.venv/lib/site.py; echo x > y", own=(), installed=installed, **beside)
    assert (done.status, done.stdout.head) == ("ok", "own\n")


def test_where_paddock_is_are_its_package_and_its_environment():
    where = state_paths.list_own_directories(installation_paths())
    assert all(
        any(state_paths.is_below(each.__file__, place) for place in where) for each in (state_paths, pytest)
    )
