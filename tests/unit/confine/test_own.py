"""Paddock's own places are granted to nobody, wherever the workspace is."""

from pathlib import Path

import pytest

from paddock.confine.own import OwnPlace, check_own
from paddock.confine.plan import GrantError
from paddock.model.process import ProcessGrants
from paddock.model.program import Access

READ = "which no program may read; work in another folder, or with access none"
CHANGE = "which no program may change; work in another folder, or with read-only access"


@pytest.fixture
def places(tmp_path: Path) -> tuple[OwnPlace, ...]:
    """Return a vault and a ledger in a home; of the two only the vault is there."""
    (tmp_path / "home" / "state" / "vault").mkdir(parents=True)
    (tmp_path / "home" / "project").mkdir()
    (tmp_path / "home" / "state2").mkdir()
    (tmp_path / "link").symlink_to("home")
    home = tmp_path / "link"
    return OwnPlace("the vault", home / "state" / "vault", secret=True), OwnPlace(
        "the ledger", home / "audit"
    )


def refusal(workspace: Path, access: Access, places: tuple[OwnPlace, ...]) -> str:
    """Return why a workspace is not granted, or nothing."""
    try:
        check_own(ProcessGrants(workspace=workspace, access=access), places)
    except GrantError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("workspace", "access", "told"),
    [
        ("home", "none", ""),
        ("home", "read-only", f"the workspace holds the vault (state/vault), {READ}"),
        ("link", "read-only", f"the workspace holds the vault (state/vault), {READ}"),
        ("home", "workspace-write", f"the workspace holds the vault (state/vault), {READ}"),
        ("home/state/vault", "read-only", f"the workspace holds the vault (.), {READ}"),
        ("home/project", "workspace-write", ""),
        ("home/state2", "workspace-write", ""),
        ("home/audit/deep", "workspace-write", f"the workspace holds the ledger (..), {CHANGE}"),
        ("home/audit/deep", "read-only", ""),
    ],
)
def test_a_workspace_with_a_place_of_its_own(
    tmp_path: Path, places: tuple[OwnPlace, ...], workspace: str, access: Access, told: str
) -> None:
    assert refusal(tmp_path / workspace, access, places) == told


def test_what_is_not_there_yet_may_be_read_and_not_made(tmp_path: Path, places: tuple[OwnPlace, ...]) -> None:
    (tmp_path / "home" / "state" / "vault").rmdir()
    assert refusal(tmp_path / "home", "read-only", places) == ""
    assert refusal(tmp_path / "home", "workspace-write", places) == (
        f"the workspace holds the vault (state/vault), {CHANGE}"
    )
    assert refusal(tmp_path / "home", "workspace-write", places[1:]) == (
        f"the workspace holds the ledger (audit), {CHANGE}"
    )
    (tmp_path / "home" / "audit").mkdir()
    assert refusal(tmp_path / "home", "read-only", places) == ""
