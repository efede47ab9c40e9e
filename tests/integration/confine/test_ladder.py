"""Tiers are chosen by proof, and never silently degraded."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from paddock.confine import ladder, namespaces
from paddock.confine.process import Sandbox
from paddock.model.errors import EngineError
from paddock.model.outcome import SandboxFacts
from paddock.surfaces.cli import command


def test_both_tiers_are_proved_by_every_attempt_of_the_canary():
    for tier in ("namespaces", "landlock"):
        report = asyncio.run(ladder.prove(tier))
        assert (report.proved, report.why) == (True, "")
        assert len(report.attempts) == 17
        assert all(report.attempts.values())
        assert report.facts.tier == tier


def test_the_canary_succeeds_where_nothing_confines():
    """The control: what is refused in a tier is refused by it."""

    async def go(folder):
        return await ladder._attack(folder, Sandbox(SandboxFacts(tier="unconfined"), "unconfined"))

    with tempfile.TemporaryDirectory() as folder:
        attempts = asyncio.run(go(Path(folder)))
    worked = {name for name, refused in attempts.items() if not refused}
    assert worked >= {
        "read a file outside",
        "write a file outside",
        "make a file outside",
        "open an internet socket",
        "open a unix socket",
        "open a netlink socket",
        "use kernel keys",
    }


def test_without_bubblewrap_the_next_tier_is_used_only_where_allowed(monkeypatch):
    monkeypatch.setattr(namespaces, "BUBBLEWRAP", "/usr/bin/no-bwrap")
    assert asyncio.run(ladder.choose("landlock")).tier == "landlock"
    with pytest.raises(EngineError) as caught:
        asyncio.run(ladder.choose("namespaces"))
    assert str(caught.value) == (
        "programs need at least the tier namespaces, which this machine does not give: "
        "namespaces: /usr/bin/no-bwrap is not there (fix: apt install bubblewrap)"
    )


def test_a_tier_without_landlock_is_refused_not_weakened(monkeypatch):
    monkeypatch.setattr(ladder.landlock, "abi", lambda: 0)
    with pytest.raises(EngineError, match="this kernel offers no Landlock"):
        asyncio.run(ladder.choose("landlock"))
    assert asyncio.run(ladder.choose("unconfined")).tier == "unconfined"


def test_doctor_says_what_is_proved(tmp_path):
    done = CliRunner().invoke(command, ["doctor", "--json", "--workspace", str(tmp_path)])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["sufficient"]
    assert found["effective"]["tier"] == "namespaces"
    assert [(tier["tier"], tier["proved"]) for tier in found["tiers"]] == [
        ("namespaces", True),
        ("landlock", True),
        ("unconfined", False),
    ]


def test_doctor_exits_with_1_below_the_minimum_and_names_the_fix(tmp_path, monkeypatch):
    monkeypatch.setattr(namespaces, "BUBBLEWRAP", "/usr/bin/no-bwrap")
    arguments = ["doctor", "--workspace", str(tmp_path), "--set", "sandbox.minimum_tier=namespaces"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 1
    assert (
        "layer bubblewrap\tmissing\t/usr/bin/no-bwrap is not there\tapt install bubblewrap\n" in done.stdout
    )
    assert "tier in force: landlock; the least allowed is namespaces\n" in done.stdout
