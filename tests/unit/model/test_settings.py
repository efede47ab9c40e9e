"""The settings as values."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from paddock.policy.settings.keys import assemble_settings, leaves, list_defaults
from paddock.policy.settings.profiles import LimitSettings
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import AuditSettings, Settings


def test_the_defaults_of_the_profiles() -> None:
    limits = LimitSettings()
    assert (limits.script.timeout_ms, limits.execute.timeout_ms, limits.compute.timeout_ms) == (
        300_000,
        120_000,
        1_000,
    )
    assert [limits.of(name).code_bytes for name in ("script", "execute", "compute")] == [
        51_200,
        262_144,
        1_048_576,
    ]


def test_the_ledger_is_in_the_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert Settings().audit.directory == Path("/s/paddock/audit")


def test_leaves_that_were_set() -> None:
    settings = Settings(audit=AuditSettings(sync="always"))
    assert leaves(settings, only_set=True) == {"audit.sync": "always"}


def test_what_is_built_in_is_what_settings_hold_that_nobody_sets() -> None:
    assert list_defaults() == leaves(Settings())


def test_settings_assembled_from_values_are_those_that_have_them() -> None:
    values = {**list_defaults(), "audit.sync": "always"}
    assert assemble_settings(Settings, values) == Settings(audit=AuditSettings(sync="always"))


@pytest.mark.parametrize(
    "rule",
    [
        {"effect": "deny"},
        {"effect": "deny", "tool": "no-slash"},
        {"effect": "deny", "kind": "guest", "server": "git"},
        {"effect": "permit", "server": "git"},
    ],
)
def test_rules_that_make_no_sense(rule: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Rule.model_validate(rule)
