"""Which files of a workspace no program can read (`workspace.hide`), in sandboxes that run programs."""

import os

import pytest

from paddock.confinement.sandbox.child.hiding import HidingRules
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits

from .conftest import ROOT, patiently

tiers = pytest.mark.parametrize("tier", ["landlock", "namespaces"])
KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----\n"
SECRETS = {
    ".env": "SECRET",
    ".ENV.production": "SECRET",
    "api/.env.local": "SECRET",
    "api/config/tls.pem": KEY,
    "api/config/tls.key": KEY,
    ".ssh/config": "SECRET",
    ".aws/credentials": "SECRET",
    ".npmrc": "//registry.example.com/:_authToken=SECRET\n",
}
VISIBLE = {
    ".env.example": "PUBLIC",
    "api/main.py": "PUBLIC",
    "api/config/ca.pem": CERTIFICATE,
    ".aws/config": "PUBLIC",
    "web/.npmrc": "//registry.example.com/:_authToken=${NPM_TOKEN}\n",
    "node_modules/dotenv/.env": "PUBLIC",
    "lib/site-packages/certifi/cacert.pem": CERTIFICATE,
}


def fill(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def make_sandbox(tier, **more):
    return KernelSandbox(SandboxFacts(tier=tier), tier, ROOT, **more)


def run(tier, workspace, script, access="read-only", grants=None, **more):
    """Run a script of the shell in a workspace; return the result."""

    async def go():
        async with make_sandbox(tier, **more) as sandbox:
            given = grants or ProcessGrants(workspace=workspace, access=access)
            return await sandbox.run(["sh", "-c", script], given)

    return patiently(go())


def read_each(names):
    """Return a script that prints the names that it can read."""
    return "; ".join(f"cat '{name}' >/dev/null 2>&1 && echo '{name}'" for name in names) + "; true"


@tiers
@pytest.mark.parametrize("access", ["read-only", "workspace-write"])
def test_secrets_are_hidden_and_their_neighbours_are_not(tier, access, tmp_path):
    workspace = fill(tmp_path, {**SECRETS, **VISIBLE})
    result = run(tier, workspace, read_each([*SECRETS, *VISIBLE]), access)
    assert (result.status, result.stdout.head.split()) == (Status.OK, [*VISIBLE])
    assert sorted(result.hidden) == sorted(
        {*map(os.path.basename, SECRETS)} - {"config"} - {"credentials"} - {".ssh"} | {".ssh", "credentials"}
    )


@tiers
def test_a_hidden_file_is_neither_removed_nor_replaced_nor_moved(tier, tmp_path):
    workspace = fill(tmp_path, SECRETS)
    script = """
    rm -f .env; mv .env moved; echo new > .env; mv api other; mv api node_modules; mv .aws aws; rm -rf .ssh api
    chmod 777 .env; ln .env linked; ln -s .env link; cat link; cp .env copy; cat moved linked copy 2>/dev/null
    """
    result = run(tier, workspace, script, "workspace-write")
    assert (result.stdout.head, {name: (workspace / name).read_text() for name in SECRETS}) == ("", SECRETS)


@tiers
def test_a_later_program_does_not_find_under_another_name_what_an_earlier_one_could_not_read(tier, tmp_path):
    workspace = fill(tmp_path, SECRETS)
    run(
        tier,
        workspace,
        "mkdir node_modules; for i in .* *; do mv $i node_modules; mv $i x$i; done",
        "workspace-write",
    )
    result = run(tier, workspace, "grep -rls -e SECRET -e KEY . ; true")
    assert result.stdout.head == ""


@tiers
def test_links_and_other_names_of_a_hidden_file_are_hidden(tier, tmp_path):
    workspace = fill(tmp_path, {"kept/real": "SECRET", "kept/other": "PUBLIC"})
    (workspace / ".env").symlink_to("kept/real")
    (workspace / "link").symlink_to(".env")
    (workspace / "kept" / "second").hardlink_to(workspace / "kept" / "real")
    names = [".env", "link", "kept/real", "kept/second", "kept/other"]
    result = run(tier, workspace, read_each(names))
    assert result.stdout.head.split() == ["kept/other"]


@tiers
def test_a_file_that_a_grant_names_is_not_hidden(tier, tmp_path):
    workspace = fill(tmp_path, {".env": "A", "api/.env": "B"})
    grants = ProcessGrants(workspace=workspace, access="read-only", readable=(workspace / ".env",))
    assert run(tier, workspace, "cat .env api/.env 2>/dev/null", grants=grants).stdout.head == "A"


@tiers
def test_rules_show_files_and_folders(tier, tmp_path):
    workspace = fill(tmp_path, {".env": "A", "api/.env": "B", "data/x/.env": "C", "plan.txt": "D"})
    rules = HidingRules((".env", "plan.txt"), ("/.env", "data/"))
    result = run(tier, workspace, read_each([".env", "api/.env", "data/x/.env", "plan.txt"]), hiding=rules)
    assert result.stdout.head.split() == [".env", "data/x/.env"]


@tiers
@pytest.mark.parametrize("change", ["made", "removed"])
def test_a_slot_that_was_prepared_before_a_file_was_made_or_removed_does_not_miss_that(
    tier, change, tmp_path
):
    workspace = fill(tmp_path, {"a/main.py": "PUBLIC"} | ({} if change == "made" else {"a/.env": "SECRET"}))
    grants, limits = ProcessGrants(workspace=workspace, access="read-only"), ProcessLimits()

    async def go():
        async with make_sandbox(tier, spares=1) as sandbox:
            await sandbox.prepare(grants, limits, 1)
            slot = await sandbox.take_slot(grants, limits)
            if change == "made":
                fill(workspace, {"a/.env": "SECRET"})
            else:
                (workspace / "a/.env").unlink()
                fill(workspace, {"a/new": "PUBLIC"})
            try:
                return await sandbox.run(["sh", "-c", "cat a/*; cat a/.env"], grants, limits, slot=slot)
            finally:
                slot.release()

    result = patiently(go())
    assert result.stdout.head == ("PUBLIC" if change == "made" else "PUBLICPUBLIC")
    assert result.hidden == ((".env",) if change == "made" else ())
    assert (
        f"cat: a/.env: {'Permission denied' if change == 'made' else 'No such file or directory'}\n"
        == result.stderr.head
    )


@tiers
def test_a_workspace_with_too_many_files_is_refused(tier, tmp_path):
    workspace = fill(tmp_path, {f"{number}/.env": "SECRET" for number in range(4097)})
    result = run(tier, workspace, "cat 0/.env")
    assert (result.status, result.limit, result.stdout.head, result.reason) == (
        Status.DENIED,
        "protected",
        "",
        f"the files that workspace.hide names cannot be found in {workspace}: there are more than 4,096 of them; work "
        "in a smaller folder, or name folders that need not be searched in workspace.show of the user's settings",
    )
