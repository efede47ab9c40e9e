"""Merge the layers of settings. A workspace can never extend what its user allows.

Theory of operation. The layers are system, user, workspace, environment and flags, in this order; a later layer
overrides earlier ones. Some layers bind: the system file is a ceiling for all later layers, and the user file for those
after it. The workspace (its files may be written by anyone) must also stay within the built-in defaults. Environment
and flags belong to the user: they may exceed defaults and workspace, but never a ceiling. Exceeding a ceiling is an
error, not a silent cut: the author of the value must learn that it does not apply.

The policy of a token (`narrow`) comes after all of them. Like a workspace, it can only narrow, here what is in force.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from paddock.model.errors import ConfigurationError
from paddock.model.network import NETWORKS, NetworkRule
from paddock.model.program import RUNTIMES
from paddock.model.texts import ellipsis, suggest
from paddock.policy.settings.keys import assemble_settings, leaves, list_defaults
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings

SettingValue = Any
"""The value of a setting: a number, a string, a path, a boolean, or a tuple of them."""

LayerName = Literal["system", "user", "workspace", "environment", "flags", "token"]

LAYER_ORDER: tuple[LayerName, ...] = ("system", "user", "workspace", "environment", "flags", "token")
_NARROWING_LAYERS: Mapping[LayerName, str] = {"workspace": "a workspace", "token": "a token"}
"""Layers that must stay within the value so far, whatever set it."""
TOKENS_KEY = "serve.token"
RULES_KEY = "policy.rule"
HOST_RULES_KEY = "network.rule"
RULES_KEYS = (RULES_KEY, HOST_RULES_KEY)
"""Keys of rules: those of each file are judged separately, so each rule names its file."""
RECIPES_KEY = "runtimes.recipes"
_ALLOWED_KEY = "runtimes.allowed"
JOINED_KEYS = frozenset(
    {
        *RULES_KEYS,
        "redaction.patterns",
        "mcp.repos",
        RECIPES_KEY,
        "sandbox.protected",
        "workspace.hide",
        TOKENS_KEY,
    }
)
"""Keys whose values from all files are combined; none replaces another."""
FILES_ONLY_KEYS = JOINED_KEYS | {"sdk.commands", "sandbox.unprotected"}
"""Keys that variables and flags cannot express, or may not."""
OWNERS_ONLY = frozenset(
    {
        "approvals.directory",
        "audit.directory",
        "artifacts.directory",
        "artifacts.url",
        "cluster.checkpoint_key_file",
        "cluster.key_file",
        "cluster.name",
        "cluster.node",
        "cluster.node_url",
        "cluster.record",
        "cluster.url",
        "mcp.repos",
        "packages.directory",
        RECIPES_KEY,
        "sdk.commands",
        "sdk.notify",
        "sdk.webhook_networks",
        "sdk.webhooks",
        "sdk.signals",
        "sdk.temporals",
        "servers.config",
        "servers.registry",
        "servers.registry_source",
        "servers.state",
        "servers.trust",
        "sandbox.job_user",
        "sandbox.unprotected",
        "runtimes.node.environment",
        "runtimes.python.environment",
        "runtimes.workspace_environment",
        "vault.backend",
        "vault.directory",
        "vault.key_file",
        "serve.directory",
        "serve.idle_ms",
        "serve.max_jobs",
        TOKENS_KEY,
        "workspace.show",
        "telemetry.traces",
        "telemetry.endpoint",
        "telemetry.metrics",
        "log.format",
        "log.level",
        "tools.folders",
    }
)
"""Keys that a workspace may not set: they name files and users of the machine, and buckets."""

BUILT_IN = "built in"
_MAX_NAME_CHARS = 100


class SettingsLayer(NamedTuple):
    """One source of settings: typed values by dotted key, and the place of each, for people."""

    name: LayerName
    values: Mapping[str, Any]
    where: Mapping[str, str]


_FIXED_PREFIX = "cluster."
"""Prefix of settings that a later source cannot change at all."""


class Merged(NamedTuple):
    """The effective settings and, by dotted key, the source of each value."""

    settings: Settings
    sources: Mapping[str, str]


def merge(layers: Sequence[SettingsLayer], *, owner_file: str) -> Merged:
    """Return the effective settings.

    `owner_file` is the user's settings file; an error names it as the file to change. Raises `ConfigurationError` when
    a layer exceeds what an earlier one allows.
    """
    values = list_defaults()
    return _merge_onto(values, dict.fromkeys(values, BUILT_IN), layers, owner_file)


def narrow(settings: Settings, policy: SettingsLayer) -> Settings:
    """Return the settings in force, narrowed by the policy of a token.

    Raises ConfigurationError if the policy would allow more, or sets what only an owner may.
    """
    values = leaves(settings)
    sources = dict.fromkeys(values, "the server")
    return _merge_onto(values, sources, [policy], "the server's settings").settings


def _merge_onto(
    values: dict[str, Any], sources: dict[str, str], layers: Sequence[SettingsLayer], owner_file: str
) -> Merged:
    """Return the settings of values by dotted key after all layers; changes `values` and `sources`."""
    ceilings: dict[str, tuple[Any, str]] = {}
    for layer in sorted(layers, key=lambda layer: LAYER_ORDER.index(layer.name)):
        narrowing = _NARROWING_LAYERS.get(layer.name)
        for key, value in layer.values.items():
            where = layer.where.get(key, layer.name)
            if narrowing and key in OWNERS_ONLY:
                raise ConfigurationError(f"{where}: {narrowing} may not set {key}; set it in {owner_file}")
            if key == RECIPES_KEY:
                _refuse_second_recipes(values[key], value, where, sources[key])
                values[key] = {**values[key], **value}
                sources[key] = where if sources[key] == BUILT_IN else f"{sources[key]}, {where}"
                continue
            if key in JOINED_KEYS:
                if narrowing and key == HOST_RULES_KEY:
                    _refuse_headers(value, where, narrowing)
                values[key] = (
                    *values[key],
                    *(_add_origin(value, layer.name) if key in RULES_KEYS else value),
                )
                sources[key] = where if sources[key] == BUILT_IN else f"{sources[key]}, {where}"
                continue
            bound = (values[key], sources[key]) if narrowing else ceilings.get(key)
            _refuse_widening(layer.name, key, value, where, bound=bound, owner_file=owner_file)
            values[key], sources[key] = value, where
            if layer.name in ("system", "user"):
                ceilings[key] = (value, where)
    _refuse_unknown_runtimes(layers, frozenset({"*", *RUNTIMES, *values[RECIPES_KEY]}))
    return Merged(assemble_settings(Settings, values), sources)


def _refuse_second_recipes(
    known: Mapping[str, object], added: Mapping[str, object], where: str, source: str
) -> None:
    """Refuse a language that two files define: which of them holds is not for one of them to say."""
    if both := [name for name in added if name in known]:
        key = f"{RECIPES_KEY}.{both[0]}"
        raise ConfigurationError(f"{where}: {key} is defined by {source} already; choose another name")


def _refuse_unknown_runtimes(layers: Sequence[SettingsLayer], known: Collection[str]) -> None:
    for layer in layers:
        for name in layer.values.get(_ALLOWED_KEY, ()):
            if name not in known:
                where = layer.where.get(_ALLOWED_KEY, layer.name)
                told = f"{_ALLOWED_KEY}: there is no runtime {ellipsis(name, _MAX_NAME_CHARS)}"
                raise ConfigurationError(f"{where}: {told}{suggest(name, known)}")


def narrows(key: str, bound: SettingValue, value: SettingValue) -> bool:
    """Return whether `value` allows no more than `bound`."""
    usual = _is_same if key.startswith(_FIXED_PREFIX) else _at_most
    return _NARROWS.get(key, usual)(bound, value)


def _refuse_widening(
    layer: LayerName,
    key: str,
    value: SettingValue,
    where: str,
    *,
    bound: tuple[SettingValue, str] | None,
    owner_file: str,
) -> None:
    if bound is None or narrows(key, bound[0], value):
        return
    ceiling, source = bound
    allowed_by = "the built-in default allows" if source == BUILT_IN else f"{source} allows"
    change = owner_file if source == BUILT_IN else "the policy" if layer == "token" else source
    why = f" and {_NARROWING_LAYERS[layer]} may only narrow" if layer in _NARROWING_LAYERS else ""
    relation = "differs from" if key.startswith(_FIXED_PREFIX) else "allows more than"
    raise ConfigurationError(
        f"{where}: {key} = {_format_toml(value)} {relation} {_format_toml(ceiling)}, "
        f"which is what {allowed_by}{why}; change {change} instead"
    )


def _refuse_headers(rules: Sequence[NetworkRule], where: str, layer: str) -> None:
    """Raise ConfigurationError if a workspace's file, which anyone may have written, or a token adds header fields."""
    if any(rule.header for rule in rules):
        author = "the file of a workspace" if layer == _NARROWING_LAYERS["workspace"] else layer
        raise ConfigurationError(
            f"{where}: `network.rule.header` adds secrets to requests, which {author} may not; "
            "set it in the user's paddock.toml"
        )


def _add_origin(rules: Sequence[Rule | NetworkRule], layer: LayerName) -> list[Rule | NetworkRule]:
    return [rule.model_copy(update={"origin": layer}) for rule in rules]


def _format_toml(value: SettingValue) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{item}"' for item in value) + "]"  # pyright: ignore[reportUnknownVariableType]
    return str(value) if isinstance(value, int) else f'"{value}"'


def _at_most(bound: int, value: int) -> bool:
    return value <= bound


def _only_off(bound: bool, value: bool) -> bool:  # both settings are booleans
    return bound or not value


def _only_on(bound: bool, value: bool) -> bool:
    return value or not bound


def _is_subset(bound: tuple[str, ...], value: tuple[str, ...]) -> bool:
    return "*" in bound or set(value) <= set(bound)


def _is_superset(bound: tuple[str, ...], value: tuple[str, ...]) -> bool:
    return set(value) >= set(bound)


def _is_earlier(bound: str, value: str) -> bool:
    """Compare dates of which an empty one is no bound; the common beginning of two notations decides."""
    length = min(len(bound), len(value))
    return not bound or (bool(value) and value[:length] <= bound[:length])


def _is_among(bound: tuple[object, ...], value: tuple[object, ...]) -> bool:
    return all(each in bound for each in value)


def _is_same(bound: SettingValue, value: SettingValue) -> bool:
    return bound == value


def _fewer_names(bound: tuple[str, ...], value: tuple[str, ...]) -> bool:
    """Compare lists of which an empty one means everything."""
    return not bound or (bool(value) and set(value) <= set(bound))


def _accept_anything(_bound: SettingValue, _value: SettingValue) -> bool:
    return True


def _is_stricter(*weakest_first: str) -> Callable[[str, str], bool]:
    return lambda bound, value: weakest_first.index(value) >= weakest_first.index(bound)


_NARROWS: Mapping[str, Callable[[Any, Any], bool]] = {
    "limits.timeout_policy": _is_stricter("clamp", "deny"),
    "grants.jit": _only_off,
    "grants.servers": _is_subset,
    "grants.calls": _is_stricter("run", "read_only", "dry_run"),
    "sandbox.minimum_tier": _is_stricter("unconfined", "landlock", "namespaces"),
    "sandbox.require": _is_superset,
    "sandbox.job_user": _is_same,
    "sandbox.protected_paths": _is_stricter("restore", "refuse"),
    "sandbox.unprotected": _is_among,
    "runtimes.enabled": _only_off,
    "runtimes.allowed": _is_subset,
    "runtimes.executables": _fewer_names,
    "runtimes.environment": _is_subset,
    "runtimes.access": _is_stricter("workspace-write", "read-only", "none"),
    "runtimes.network": _is_stricter(*reversed(NETWORKS)),
    "runtimes.node.environment": _accept_anything,
    "runtimes.python.environment": _accept_anything,
    "runtimes.workspace_environment": _only_off,
    "packages.enabled": _is_stricter("on", "auto", "ask", "off"),
    "packages.allowed": _is_subset,
    "packages.denied": _is_superset,
    "packages.network": _is_stricter("full", "hosts", "none"),
    "packages.registries": _fewer_names,
    "packages.exclude_newer": _is_earlier,
    "packages.builds": _only_off,
    "packages.directory": _is_same,
    "tools.enabled": _only_off,
    "tools.folders": _accept_anything,
    "tools.strict_nulls": _only_on,
    "tools.environment": _is_subset,
    "tools.access": _is_stricter("workspace-write", "read-only", "none"),
    "tools.network": _is_stricter(*reversed(NETWORKS)),
    "approvals.directory": _is_same,
    "audit.directory": _is_same,
    "audit.required": _is_stricter("effects", "all"),
    "audit.sync": _is_stricter("batch", "always"),
    "artifacts.enabled": _only_off,
    "artifacts.directory": _is_same,
    "artifacts.url": _is_same,
    "artifacts.cross_workspace": _only_off,
    "redaction.enabled": _only_on,
    "redaction.include_defaults": _only_on,
    "sessions.background": _only_off,
    "sessions.enabled": _only_off,
    "servers.config": _accept_anything,
    "sdk.commands": _is_among,
    "sdk.notify": _accept_anything,
    "sdk.webhook_networks": _is_among,
    "sdk.webhooks": _is_same,
    "sdk.script": _is_subset,
    "sdk.signals": _is_same,
    "sdk.temporals": _is_same,
    "sdk.execute": _is_subset,
    "vault.backend": _is_same,
    "vault.directory": _is_same,
    "vault.key_file": _is_same,
    "telemetry.traces": _accept_anything,
    "telemetry.endpoint": _accept_anything,
    "telemetry.metrics": _accept_anything,
    "log.format": _accept_anything,
    "log.level": _accept_anything,
    "servers.questions": _is_subset,
    "servers.registry": _is_same,
    "servers.registry_source": _is_same,
    "servers.semantic_search": _is_stricter("on", "auto", "off"),
    "servers.state": _is_same,
    "servers.trust": _is_same,
    "serve.directory": _is_same,
    "workspace.show": _is_among,
}
"""How a key narrows. A key that is not listed is a number, and a smaller one is narrower."""
