"""A workspace that holds Paddock's own files, as a home does: no program reads the vault or answers for a person."""

import pytest

from paddock import BlockingPaddock, Settings, Status
from paddock.model.rules import ApprovalSettings
from paddock.model.settings import AuditSettings, RuntimeSettings, SdkSettings, ServerSettings, VaultSettings
from paddock.store.vault import open_vault

READ = "which no program may read; work in another folder, or with access none"
CHANGE = "which no program may change; work in another folder, or with read-only access"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return settings whose places are below a home, each in a folder of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    places = {
        name: tmp_path / name / "own" for name in ("vault", "approvals", "audit", "trust", "state", "hooks")
    }
    for place in places.values():
        place.parent.mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "project").mkdir()
    return Settings(
        audit=AuditSettings(directory=places["audit"]),
        vault=VaultSettings(backend="file", directory=places["vault"]),
        approvals=ApprovalSettings(directory=places["approvals"]),
        servers=ServerSettings(trust=places["trust"], state=places["state"]),
        sdk=SdkSettings(webhooks=places["hooks"]),
        runtimes=RuntimeSettings(access="workspace-write"),
    )


def test_no_program_reads_the_vault(tmp_path, settings):
    with BlockingPaddock(tmp_path, settings=settings) as home:
        assert home.exec("shell", "echo read").program.stdout.head == "read\n"
        open_vault(settings.vault).set("global", "key", "s3cr3t-v4lue")
        outcome = home.exec("shell", "cat vault/own/*")
        assert (outcome.status, outcome.program.stdout.head) == (Status.DENIED, "")
        assert outcome.error.message == f"The program: the workspace holds the vault (vault/own), {READ}"
        assert home.exec("shell", "echo none", access="none").program.stdout.head == "none\n"
    with BlockingPaddock(tmp_path / "project", settings=settings) as project:
        assert project.exec("shell", "echo wrote", access="workspace-write").program.stdout.head == "wrote\n"


@pytest.mark.parametrize(
    ("folder", "what", "where"),
    [
        ("vault", "the vault", "own"),
        ("config", "Paddock's settings", "paddock"),
        ("approvals", "the questions that wait for a person", "own"),
        ("audit", "the ledger", "own"),
        ("trust", "the list of trusted servers", "own"),
        ("state", "what is remembered of servers", "own"),
        ("hooks", "the list of webhooks", "own"),
    ],
)
def test_no_program_changes_what_decides_on_it(tmp_path, settings, folder, what, where):
    with BlockingPaddock(tmp_path / folder, settings=settings) as opened:
        assert opened.exec("shell", "echo read").program.stdout.head == "read\n"
        outcome = opened.exec("shell", f"mkdir {where}; echo > {where}/x", access="workspace-write")
    assert outcome.status is Status.DENIED
    assert outcome.error.message == f"The program: the workspace holds {what} ({where}), {CHANGE}"
    assert not (tmp_path / folder / where / "x").exists()
