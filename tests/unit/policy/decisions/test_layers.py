"""Precedence and narrowing of the layers of settings."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.base import PositiveInt, Value
from paddock.model.directories import GrantedDirectory
from paddock.model.errors import ConfigurationError
from paddock.model.limits import SMALLER, Maximum
from paddock.policy.decisions.flow import FlowPolicy
from paddock.policy.settings.commands import SdkCommand
from paddock.policy.settings.flow import FlowLabel, FlowRule
from paddock.policy.settings.keys import leaves
from paddock.policy.settings.merge import (
    JOINED_KEYS,
    LAYER_ORDER,
    LayerName,
    SettingsLayer,
    find_narrowing,
    merge,
    narrows,
)
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import RedactionPattern, Repository, Settings

OWNER = "/home/u/.config/paddock/paddock.toml"
DEFAULTS = leaves(Settings())
TRACKER, NOTES = (SdkCommand(name=name, command=("tool",)) for name in ("tracker.list", "notes.list"))
CHOICES = {
    "limits.timeout_policy": ["clamp", "deny"],
    "sandbox.minimum_tier": ["unconfined", "landlock", "namespaces"],
    "sandbox.require": [(), ("landlock",)],
    "sandbox.job_user": ["", "nobody"],
    "sandbox.protected_paths": ["restore", "refuse"],
    "workspace.show": [(".env", "data/"), (".env",), ()],
    "workspace.directory": [
        (
            GrantedDirectory(path=Path("/data"), access="workspace-write"),
            GrantedDirectory(path=Path("/other")),
        ),
        (GrantedDirectory(path=Path("/data/sub")),),
        (),
    ],
    "workspace.repository": [True, False],
    "sandbox.unprotected": [(".vscode", ".idea"), (".idea",), ()],
    "runtimes.enabled": [True, False],
    "runtimes.allowed": [("python", "node"), ("python",), ()],
    "runtimes.executables": [(), ("bash", "sh"), ("bash",)],
    "runtimes.environment": [("A", "B"), ("A",), ()],
    "runtimes.access": ["workspace-write", "overlay", "read-only", "none"],
    "runtimes.network": ["full", "hosts", "loopback", "none"],
    "packages.enabled": ["on", "auto", "ask", "off"],
    "packages.allowed": [("*",), ("numpy", "six"), ("six",), ()],
    "packages.denied": [(), ("six",), ("six", "num*")],
    "packages.network": ["full", "hosts", "none"],
    "packages.registries": [(), ("https://a.example", "default"), ("default",)],
    "packages.exclude_newer": ["", "2026-01-31", "2025-12-31T00:00:00Z"],
    "packages.builds": [True, False],
    "packages.directory": [Path("/a"), Path("/b")],
    "tools.enabled": [True, False],
    "tools.folders": [("a",), ("b",)],
    "tools.strict_nulls": [False, True],
    "tools.environment": [("A", "B"), ("A",), ()],
    "tools.access": ["workspace-write", "overlay", "read-only", "none"],
    "tools.network": ["full", "hosts", "loopback", "none"],
    "guest.check_javascript": ["types", "warn", "off"],
    "guest.check_typescript": ["types", "warn", "off"],
    "approvals.directory": [Path("/a"), Path("/b")],
    "approvals.notify": [(), ("desktop",)],
    "audit.required": ["effects", "all"],
    "audit.sync": ["batch", "always"],
    "audit.directory": [Path("/a"), Path("/b")],
    "servers.config": [Path("/a.json"), Path("/b.json")],
    "servers.questions": [("a", "b"), ("a",), ()],
    "servers.semantic_search": ["on", "auto", "off"],
    "servers.registry_source": ["https://a.example", "https://b.example"],
    "servers.registry": [Path("/a"), Path("/b")],
    "servers.state": [Path("/a"), Path("/b")],
    "servers.trust": [Path("/a"), Path("/b")],
    "serve.directory": [Path("/a"), Path("/b")],
    "ui.directory": [Path("/a"), Path("/b")],
    "grants.servers": [("*",), ("a", "b"), ("a",), ()],
    "grants.jit": [True, False],
    "grants.calls": ["run", "read_only", "dry_run"],
    "sessions.background": [True, False],
    "sessions.enabled": [True, False],
    "artifacts.enabled": [True, False],
    "artifacts.directory": [Path("/a"), Path("/b")],
    "artifacts.url": ["s3://a", "s3://b"],
    "artifacts.cross_workspace": [True, False],
    "record.payloads": ["kept", "asked", "off"],
    "overlay.directory": [Path("/a"), Path("/b")],
    "record.directory": [Path("/a"), Path("/b")],
    "redaction.enabled": [True, False],
    "redaction.include_defaults": [True, False],
    "sdk.commands": [(TRACKER, NOTES), (TRACKER,), ()],
    "sdk.notify": [("desktop",), ("webhook",)],
    "sdk.webhook_networks": [("10.0.0.0/8", "127.0.0.0/8"), ("10.0.0.0/8",), ()],
    "sdk.webhooks": [DEFAULTS["sdk.webhooks"], Path("/else/webhooks")],
    "sdk.script": [("*",), ("vault.*", "exec"), ("exec",)],
    "sdk.execute": [("*",), ("exec",), ()],
    "sdk.signals": [DEFAULTS["sdk.signals"], Path("/else/signals.db")],
    "sdk.temporals": [DEFAULTS["sdk.temporals"], Path("/else/temporals")],
    "cluster.checkpoint_key_file": [None, Path("/else/keys")],
    "cluster.key_file": [None, Path("/else/keys")],
    "cluster.listen_url": [None, "postgresql://127.0.0.1:6432/paddock"],
    "cluster.name": [DEFAULTS["cluster.name"], "other"],
    "cluster.node": [DEFAULTS["cluster.node"], "other"],
    "cluster.node_url": [None, "http://127.0.0.1:8700"],
    "cluster.record": ["ship", "all"],
    "cluster.url": [None, "postgresql://127.0.0.1/paddock"],
    "vault.backend": ["auto", "keyring", "file", "cluster"],
    "vault.directory": [DEFAULTS["vault.directory"], Path("/else/vault")],
    "vault.key_file": [None, Path("/else/keys")],
    "runtimes.node.environment": [None, Path("/else/packages")],
    "runtimes.python.environment": [None, Path("/else/venv")],
    "runtimes.workspace_environment": [True, False],
    "telemetry.traces": ["none", "otlp", "console"],
    "telemetry.endpoint": ["", "http://127.0.0.1:4318"],
    "telemetry.metrics": [False, True],
    "log.format": ["text", "json"],
    "log.level": ["warning", "debug"],
}
BOUNDS = {
    "runtimes.timeout_ms": (100, 600_000),
    "runtimes.max_jobs": (1, 1024),
}
NUMBERS = sorted(key for key, value in DEFAULTS.items() if type(value) is int)


def layer(name: LayerName, **values: object) -> SettingsLayer:
    dotted = {key.replace("__", "."): value for key, value in values.items()}
    return SettingsLayer(name, dotted, dict.fromkeys(dotted, f"{name} file"))


def settings_values() -> st.SearchStrategy[dict[str, object]]:
    choices = {key: st.sampled_from(options) for key, options in CHOICES.items()}
    numbers = {key: st.integers(*BOUNDS.get(key, (1024, 10**6))) for key in NUMBERS}
    return st.fixed_dictionaries({}, optional={**choices, **numbers})


def layers_of(names: tuple[LayerName, ...] = LAYER_ORDER) -> st.SearchStrategy[list[SettingsLayer]]:
    return st.fixed_dictionaries({name: settings_values() for name in names}).map(
        lambda found: [
            SettingsLayer(name, values, dict.fromkeys(values, name)) for name, values in found.items()
        ]
    )


def as_narrow_as(upper: Settings, lower: Settings) -> bool:
    above, below = leaves(upper), leaves(lower)
    return all(narrows(key, above[key], below[key]) for key in above if key not in JOINED_KEYS)


def test_every_setting_has_a_way_to_narrow() -> None:
    assert set(DEFAULTS) == {*CHOICES, *NUMBERS, *JOINED_KEYS}
    assert get_args(LayerName) == LAYER_ORDER


def test_a_setting_that_does_not_say_what_narrows_it_is_an_error() -> None:
    class Section(Value):
        workers: PositiveInt = 1
        spares: Maximum = 1

    assert find_narrowing("guest.spares", Section.model_fields["spares"]) is SMALLER
    with pytest.raises(TypeError, match=r"^guest\.workers: annotate this setting with what narrows it \("):
        find_narrowing("guest.workers", Section.model_fields["workers"])


def test_the_later_layer_wins() -> None:
    merged = merge(
        [
            layer("flags", limits__script__sleep_ms=5),
            layer("environment", limits__script__sleep_ms=10, limits__execute__sleep_ms=10),
            layer("workspace", limits__script__sleep_ms=20, limits__compute__sleep_ms=20),
        ],
        owner_file=OWNER,
    )
    assert merged.settings.limits.script.sleep_ms == 5
    assert merged.settings.limits.execute.sleep_ms == 10
    assert merged.settings.limits.compute.sleep_ms == 20
    assert merged.settings.limits.script.timeout_ms == 300_000
    assert merged.sources["limits.script.sleep_ms"] == "flags file"
    assert merged.sources["limits.script.timeout_ms"] == "built in"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"limits__script__timeout_ms": 400_000},
            "workspace file: limits.script.timeout_ms = 400000 allows more than 300000, which is what the built-in default "
            f"allows and a workspace may only narrow; change {OWNER} instead",
        ),
        (
            {"limits__script__sleep_ms": 200},
            "workspace file: limits.script.sleep_ms = 200 allows more than 100, which is what user file allows and a "
            "workspace may only narrow; change user file instead",
        ),
        (
            {"grants__jit": True},
            "workspace file: grants.jit = true allows more than false, which is what the built-in default allows and a "
            f"workspace may only narrow; change {OWNER} instead",
        ),
        (
            {"grants__servers": ("git", "time")},
            'workspace file: grants.servers = ["git", "time"] allows more than ["git"], which is what user file allows '
            "and a workspace may only narrow; change user file instead",
        ),
        (
            {"sandbox__minimum_tier": "unconfined"},
            'workspace file: sandbox.minimum_tier = "unconfined" allows more than "landlock", which is what the '
            f"built-in default allows and a workspace may only narrow; change {OWNER} instead",
        ),
        (
            {"audit__directory": Path("/tmp/x")},
            f"workspace file: a workspace may not set audit.directory; set it in {OWNER}",
        ),
        (
            {"servers__config": Path("/tmp/x")},
            f"workspace file: a workspace may not set servers.config; set it in {OWNER}",
        ),
        (
            {"sdk__commands": (TRACKER,)},
            f"workspace file: a workspace may not set sdk.commands; set it in {OWNER}",
        ),
        (
            {"mcp__repos": (Repository(repo_id="etc", root_path=Path("/etc")),)},
            f"workspace file: a workspace may not set mcp.repos; set it in {OWNER}",
        ),
        (
            {"workspace__directory": (GrantedDirectory(path=Path("/etc")),)},
            f"workspace file: a workspace may not set workspace.directory; set it in {OWNER}",
        ),
    ],
)
def test_a_workspace_that_widens_is_an_error(values: dict[str, object], text: str) -> None:
    user = layer("user", limits__script__sleep_ms=100, grants__servers=("git",))
    with pytest.raises(ConfigurationError) as caught:
        merge([user, layer("workspace", **values)], owner_file=OWNER)
    assert str(caught.value) == text


def test_environment_goes_beyond_default_and_workspace_but_not_beyond_a_ceiling() -> None:
    workspace = layer("workspace", limits__script__sleep_ms=100)
    environment = layer("environment", limits__script__sleep_ms=60_000)
    assert merge([workspace, environment], owner_file=OWNER).settings.limits.script.sleep_ms == 60_000
    with pytest.raises(ConfigurationError) as caught:
        merge([layer("system", limits__script__sleep_ms=50_000), environment], owner_file=OWNER)
    assert str(caught.value) == (
        "environment file: limits.script.sleep_ms = 60000 allows more than 50000, which is what system file allows; "
        "change system file instead"
    )


def test_a_setting_of_the_cluster_cannot_be_changed_by_the_environment() -> None:
    layers = [layer("user", cluster__node="a"), layer("environment", cluster__node="b")]
    with pytest.raises(ConfigurationError) as caught:
        merge(layers, owner_file=OWNER)
    assert str(caught.value) == (
        'environment file: cluster.node = "b" differs from "a", which is what user file allows; change user file instead'
    )


def test_a_directory_of_the_system_cannot_be_changed_by_the_user() -> None:
    layers = [
        layer("system", audit__directory=Path("/var/audit")),
        layer("user", audit__directory=Path("/home/u/audit")),
    ]
    with pytest.raises(ConfigurationError) as caught:
        merge(layers, owner_file=OWNER)
    assert str(caught.value) == (
        'user file: audit.directory = "/home/u/audit" differs from "/var/audit", which is what system file allows; '
        "change system file instead"
    )


def test_patterns_of_all_files_add_up() -> None:
    layers = [
        SettingsLayer(name, {"redaction.patterns": (RedactionPattern(pattern=name),)}, {})
        for name in ("system", "user", "workspace")
    ]
    patterns = merge(layers, owner_file=OWNER).settings.redaction.patterns
    assert [pattern.pattern for pattern in patterns] == ["system", "user", "workspace"]


def test_repositories_of_system_and_user_add_up() -> None:
    layers = [
        SettingsLayer(name, {"mcp.repos": (Repository(repo_id=name, root_path=Path("/a")),)}, {})
        for name in ("system", "user")
    ]
    assert [each.repo_id for each in merge(layers, owner_file=OWNER).settings.mcp.repos] == ["system", "user"]


def test_a_workspace_cannot_turn_redaction_off_or_read_what_others_left() -> None:
    for key, told in (
        ("redaction.enabled", "false allows more than true"),
        ("artifacts.cross_workspace", "true allows more than false"),
    ):
        value = told.startswith("true")
        with pytest.raises(ConfigurationError, match=f"{key} = {told}"):
            merge([SettingsLayer("workspace", {key: value}, {})], owner_file=OWNER)


def test_rules_of_all_files_add_up_and_know_their_file() -> None:
    rule = Rule(effect="deny", tool="git/*")
    merged = merge(
        [
            SettingsLayer(name, {"policy.rule": (rule,)}, {"policy.rule": name})
            for name in ("system", "user", "workspace")
        ],
        owner_file=OWNER,
    )
    assert [rule.origin for rule in merged.settings.policy.rule] == ["system", "user", "workspace"]
    assert merged.sources["policy.rule"] == "system, user, workspace"


def test_a_workspace_can_only_add_labels_and_rules_about_flows() -> None:
    own = FlowRule(source=("private",), sink="external", effect="deny")
    labels = {
        "user": FlowLabel(tool="mail/*", source=("private",)),
        "workspace": FlowLabel(tool="web/*", sink="external"),
    }
    rules = {"user": own, "workspace": own.replace(effect="mark")}
    layers = [
        SettingsLayer(name, {"flow.label": (labels[name],), "flow.rule": (rules[name],)}, {})
        for name in ("user", "workspace")
    ]
    flow = merge(layers, owner_file=OWNER).settings.flow
    assert flow.label == (*labels.values(),)
    assert [(rule.effect, rule.origin) for rule in flow.rule] == [("deny", "user"), ("mark", "workspace")]
    found = FlowPolicy(Settings(flow=flow), {}).find_rule({"private"}, {"external"})
    assert found is not None
    assert found.name == "user flow rule 1"


@given(layers_of(("system", "user", "workspace")))
def test_a_workspace_never_ends_up_with_more_than_its_user(layers: list[SettingsLayer]) -> None:
    try:
        without = merge([layer for layer in layers if layer.name != "workspace"], owner_file=OWNER).settings
        merged = merge(layers, owner_file=OWNER).settings
    except ConfigurationError:
        return
    assert as_narrow_as(without, merged)


@pytest.mark.slow
@given(layers_of())
def test_nothing_ends_up_beyond_a_ceiling(layers: list[SettingsLayer]) -> None:
    try:
        merged = leaves(merge(layers, owner_file=OWNER).settings)
    except ConfigurationError:
        return
    for binding in (layer for layer in layers if layer.name in ("system", "user")):
        assert all(narrows(key, ceiling, merged[key]) for key, ceiling in binding.values.items())


@pytest.mark.slow
@given(settings_values(), settings_values(), settings_values())
def test_the_source_of_a_value_is_the_last_layer_that_gives_it(
    workspace: dict[str, object], environment: dict[str, object], flags: dict[str, object]
) -> None:
    values = {"workspace": workspace, "environment": environment, "flags": flags}
    layers = [SettingsLayer(name, found, dict.fromkeys(found, name)) for name, found in values.items()]
    try:
        merged = merge(layers, owner_file=OWNER)
    except ConfigurationError:
        return
    for key, value in leaves(merged.settings).items():
        givers = [name for name in values if key in values[name]]
        assert merged.sources[key] == (givers[-1] if givers else "built in")
        assert value == (values[givers[-1]][key] if givers else DEFAULTS[key])


@given(st.sampled_from(sorted(CHOICES)), st.data())
def test_narrowing_is_a_partial_order(key: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(st.sampled_from(CHOICES[key])) for _ in range(3))
    assert narrows(key, a, a)
    if narrows(key, a, b) and narrows(key, b, c):
        assert narrows(key, a, c)


def test_names_that_were_not_allowed_widen_also_where_some_are_named() -> None:
    """No names at all mean every one."""
    asked = (("a",), ("a", "b"), ("c",), ())
    assert [narrows("runtimes.executables", ("a", "b"), value) for value in asked] == [
        True,
        True,
        False,
        False,
    ]
    assert [narrows("runtimes.executables", (), value) for value in asked] == [True, True, True, True]
