"""What `paddock doctor` says of the files that Paddock keeps, and that looking changes none of them."""

import os
from pathlib import Path

import pytest

from paddock.foundation.own_files import take_repairs
from paddock.gate import state_check
from paddock.gate.state_check import check_places
from paddock.policy.settings.schema import Settings


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings whose places are all below one folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(state_check.parse_cache, "find_directory", lambda: tmp_path / "cache/paddock/intake")
    return Settings()


def states(settings: Settings) -> dict[str, str]:
    return {place.name: place.state for place in check_places(settings)}


def told(settings: Settings, name: str) -> tuple[str, str, str]:
    [place] = [place for place in check_places(settings) if place.name == name]
    return place.state, place.detail, place.fix


def private(path: Path, content: bytes = b"{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.chmod(0o700)
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def files(settings: Settings, folder: Path) -> dict[str, Path]:
    """Return a file of each place that is looked into."""
    return {
        "ledger": settings.audit.directory / "head",
        "vault": settings.vault.directory / "key",
        "approvals": settings.approvals.directory / "a.question",
        "logins to the page": settings.ui.directory / "a.login",
        "users of the server": settings.serve.directory / "tokens.json",
        "parsed programs": folder / "cache/paddock/intake/a",
        "vectors of tools": folder / "cache/paddock/vectors/tools.bin",
        "pins and logins": settings.servers.state / "a" / "pins.json",
        "signals": settings.sdk.signals,
        "webhooks": settings.sdk.webhooks,
    }


def test_what_is_not_there_is_absent(places: Settings) -> None:
    assert set(states(places).values()) == {"absent"}


def test_every_directory_and_file_of_ours_is_private(places: Settings, tmp_path: Path) -> None:
    for file in files(places, tmp_path).values():
        private(file)
    for directory in (places.artifacts.directory, places.sdk.temporals, tmp_path / "cache/paddock/programs"):
        directory.mkdir(parents=True, mode=0o700)
    private(places.servers.trust)
    private(places.servers.registry)
    assert set(states(places).values()) == {"private"}


def test_a_directory_in_the_place_of_a_file_is_told(places: Settings, tmp_path: Path) -> None:
    for name in ("ledger", "approvals", "pins and logins"):
        file = files(places, tmp_path)[name]
        private(file).unlink()
        file.mkdir()
        assert told(places, name) == (
            "refused",
            f"{file}: it is a directory, not a regular file",
            f"move {file} away",
        )


def test_what_others_may_read_is_told_and_stays(places: Settings, tmp_path: Path) -> None:
    for name, file in files(places, tmp_path).items():
        private(file)
        file.chmod(0o644)
        assert told(places, name) == (
            "open",
            f"{file}: it can be read by others (mode 0644)",
            f"run: chmod 600 {file}",
        )
        assert file.stat().st_mode & 0o777 == 0o644
    assert take_repairs() == []


def test_what_is_refused_is_told_before_what_can_be_repaired(places: Settings, tmp_path: Path) -> None:
    for name, file in files(places, tmp_path).items():
        if name in {"signals", "webhooks"}:
            continue
        private(file).chmod(0o644)
        pipe = file.with_name("z")
        os.mkfifo(pipe)
        assert told(places, name) == (
            "refused",
            f"{pipe}: it is a pipe, not a regular file",
            f"move {pipe} away",
        )


def test_a_directory_that_others_may_write_to_is_refused(places: Settings) -> None:
    directory = places.vault.directory
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    assert told(places, "vault") == (
        "refused",
        f"{directory}: it can be written to by others (mode 0777), who may have put files there",
        f"check what it contains, then run: chmod 700 {directory}",
    )


def test_what_everybody_may_write_to_is_not_obeyed(places: Settings, tmp_path: Path) -> None:
    file = private(tmp_path / "elsewhere", b"[]")
    places.servers.trust.parent.mkdir(parents=True)
    places.servers.trust.symlink_to(file)
    assert told(places, "trusted servers")[0] == "private"
    file.chmod(0o666)
    trust = places.servers.trust
    assert told(places, "trusted servers") == (
        "refused",
        f"{trust}: it can be written to by every user",
        f"check what it contains, then run: chmod o-w {trust}",
    )
