"""A workspace that holds Paddock's own directories, as a home does: no program reads the vault or answers for a person."""

import pytest

from paddock import BlockingPaddock, Settings, Status
from paddock.engines.secrets.vault import open_vault
from paddock.policy.settings.rules import ApprovalSettings
from paddock.policy.settings.schema import (
    AuditSettings,
    RuntimeSettings,
    SdkSettings,
    ServerSettings,
    VaultSettings,
)


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return settings whose places are below a home, each in a folder of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    places = {name: tmp_path / name / "own" for name in ("vault", "approvals", "audit", "state", "temporals")}
    for place in places.values():
        place.parent.mkdir()
    (tmp_path / "config").mkdir()
    return Settings(
        audit=AuditSettings(directory=places["audit"]),
        vault=VaultSettings(backend="file", directory=places["vault"]),
        approvals=ApprovalSettings(directory=places["approvals"]),
        servers=ServerSettings(state=places["state"]),
        sdk=SdkSettings(temporals=places["temporals"]),
        runtimes=RuntimeSettings(access="workspace-write"),
    )


def test_no_program_reads_the_vault(tmp_path, settings):
    with BlockingPaddock(tmp_path, settings=settings) as home:
        assert home.exec("shell", "ls vault").program.stdout.head == ""
        open_vault(settings.vault).set("global", "key", "s3cr3t-v4lue")
        outcome = home.exec("shell", "ls vault; ls vault/own; cat vault/own/*")
        assert (outcome.status, outcome.program.stdout.head) == (Status.FAILED, "own\n")


@pytest.mark.parametrize(
    ("folder", "where"),
    [
        ("vault", "own"),
        ("config", "paddock"),
        ("approvals", "own"),
        ("audit", "own"),
        ("state", "own"),
        ("temporals", "own"),
    ],
)
def test_no_program_changes_what_decides_on_it(tmp_path, settings, folder, where):
    with BlockingPaddock(tmp_path / folder, settings=settings) as opened:
        script = f"echo > beside; mkdir -p {where}; echo > {where}/x"
        outcome = opened.exec("shell", script, access="workspace-write")
    assert (outcome.status, outcome.program.exit_code) == (Status.FAILED, 1)
    assert (tmp_path / folder / "beside").exists()
    assert not (tmp_path / folder / where / "x").exists()
