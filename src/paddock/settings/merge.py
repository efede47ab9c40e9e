"""Merge the layers of settings, so that nothing a workspace says can widen what its user allows.

Theory of operation. Layers come in the order system, user, workspace, environment, flags, and the later one
wins. Some bind: what the system file says is a ceiling for everybody after it, what the user file says for
everybody after that. The workspace (files that anybody may have written) can in addition not go beyond the
built-in defaults. Environment and flags belong to the user: they may go beyond defaults and workspace, never
beyond a ceiling. Going beyond is an error, not a silent cut: whoever wrote the value must learn that it does
not hold.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from paddock.model.errors import ConfigurationError
from paddock.settings.keys import assembled, built_in
from paddock.settings.rules import Rule
from paddock.settings.schema import Settings

SettingValue = Any
"""What a setting holds: a number, a text, a path, true or false, or a tuple of them."""

LayerName = Literal["system", "user", "workspace", "environment", "flags"]

ORDER: tuple[LayerName, ...] = ("system", "user", "workspace", "environment", "flags")
RULES = "policy.rule"
JOINED = frozenset({RULES, "redaction.patterns", "mcp.repos"})
"""Keys whose values of all files hold together, none replacing another."""
FILES_ONLY = JOINED | {"sdk.commands"}
"""Keys that variables and flags have no form for."""
OWNERS_ONLY = frozenset(
    {
        "approvals.directory",
        "audit.directory",
        "artifacts.directory",
        "artifacts.url",
        "mcp.repos",
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
        "runtimes.python.environment",
        "runtimes.workspace_environment",
        "vault.backend",
        "vault.directory",
        "telemetry.traces",
        "telemetry.endpoint",
        "telemetry.metrics",
        "log.format",
        "log.level",
        "tools.folders",
    }
)
"""Keys that a workspace may not set at all: they name files and users of the machine, and buckets."""

BUILT_IN = "built in"


class Layer(NamedTuple):
    """One source of settings: typed values by dotted key, and where each of them stands, for people."""

    name: LayerName
    values: Mapping[str, Any]
    where: Mapping[str, str]


class Merged(NamedTuple):
    """The settings in force and, by dotted key, where each value came from."""

    settings: Settings
    sources: Mapping[str, str]


def merge(layers: Sequence[Layer], *, owner_file: str) -> Merged:
    """Return the settings in force.

    `owner_file` is the user's settings file, which an error names as the place to change. Raises
    `ConfigurationError` when a layer widens what an earlier one binds.
    """
    values = built_in()
    sources = dict.fromkeys(values, BUILT_IN)
    ceilings: dict[str, tuple[Any, str]] = {}
    for layer in sorted(layers, key=lambda layer: ORDER.index(layer.name)):
        for key, value in layer.values.items():
            where = layer.where.get(key, layer.name)
            if layer.name == "workspace" and key in OWNERS_ONLY:
                raise ConfigurationError(f"{where}: a workspace may not set {key}; set it in {owner_file}")
            if key in JOINED:
                values[key] = (*values[key], *(_signed(value, layer.name) if key == RULES else value))
                sources[key] = where if sources[key] == BUILT_IN else f"{sources[key]}, {where}"
                continue
            bound = (values[key], sources[key]) if layer.name == "workspace" else ceilings.get(key)
            _refuse_widening(layer.name, key, value, where, bound=bound, owner_file=owner_file)
            values[key], sources[key] = value, where
            if layer.name in ("system", "user"):
                ceilings[key] = (value, where)
    return Merged(assembled(Settings, values), sources)


def narrows(key: str, bound: SettingValue, value: SettingValue) -> bool:
    """Tell whether `value` allows no more than `bound` does."""
    return _NARROWS.get(key, _at_most)(bound, value)


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
    change = owner_file if source == BUILT_IN else source
    why = " and a workspace may only narrow" if layer == "workspace" else ""
    raise ConfigurationError(
        f"{where}: {key} = {_spelled(value)} is more than {_spelled(ceiling)}, "
        f"which is what {allowed_by}{why}; change {change} instead"
    )


def _signed(rules: Sequence[Rule], layer: LayerName) -> list[Rule]:
    return [rule.model_copy(update={"origin": layer}) for rule in rules]


def _spelled(value: SettingValue) -> str:
    """Return a value as a TOML file spells it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{item}"' for item in value) + "]"  # pyright: ignore[reportUnknownVariableType]
    return str(value) if isinstance(value, int) else f'"{value}"'


def _at_most(bound: int, value: int) -> bool:
    return value <= bound


def _only_off(bound: bool, value: bool) -> bool:  # the two compared settings are booleans
    return bound or not value


def _only_on(bound: bool, value: bool) -> bool:
    return value or not bound


def _subset(bound: tuple[str, ...], value: tuple[str, ...]) -> bool:
    return "*" in bound or set(value) <= set(bound)


def _among(bound: tuple[object, ...], value: tuple[object, ...]) -> bool:
    return all(each in bound for each in value)


def _same(bound: SettingValue, value: SettingValue) -> bool:
    return bound == value


def _fewer_names(bound: tuple[str, ...], value: tuple[str, ...]) -> bool:
    """Compare lists whose emptiness means everything."""
    return not bound or (bool(value) and set(value) <= set(bound))


def _anything(_bound: SettingValue, _value: SettingValue) -> bool:
    return True


def _stricter(*weakest_first: str) -> Callable[[str, str], bool]:
    return lambda bound, value: weakest_first.index(value) >= weakest_first.index(bound)


_NARROWS: Mapping[str, Callable[[Any, Any], bool]] = {
    "limits.timeout_policy": _stricter("clamp", "deny"),
    "grants.jit": _only_off,
    "grants.servers": _subset,
    "grants.calls": _stricter("run", "read_only", "dry_run"),
    "sandbox.minimum_tier": _stricter("unconfined", "landlock", "namespaces"),
    "sandbox.job_user": _same,
    "sandbox.protected_paths": _stricter("restore", "refuse"),
    "runtimes.enabled": _only_off,
    "runtimes.allowed": _subset,
    "runtimes.executables": _fewer_names,
    "runtimes.environment": _subset,
    "runtimes.access": _stricter("workspace-write", "read-only", "none"),
    "runtimes.network": _stricter("full", "none"),
    "runtimes.python.environment": _anything,
    "runtimes.workspace_environment": _only_off,
    "tools.enabled": _only_off,
    "tools.folders": _anything,
    "tools.strict_nulls": _only_on,
    "tools.environment": _subset,
    "tools.access": _stricter("workspace-write", "read-only", "none"),
    "tools.network": _stricter("full", "none"),
    "approvals.directory": _same,
    "audit.directory": _same,
    "audit.required": _stricter("effects", "all"),
    "audit.sync": _stricter("batch", "always"),
    "artifacts.enabled": _only_off,
    "artifacts.directory": _same,
    "artifacts.url": _same,
    "artifacts.cross_workspace": _only_off,
    "redaction.enabled": _only_on,
    "redaction.include_defaults": _only_on,
    "servers.config": _anything,
    "sdk.commands": _among,
    "sdk.notify": _anything,
    "sdk.webhook_networks": _among,
    "sdk.webhooks": _same,
    "sdk.script": _subset,
    "sdk.signals": _same,
    "sdk.temporals": _same,
    "sdk.execute": _subset,
    "vault.backend": _same,
    "vault.directory": _same,
    "telemetry.traces": _anything,
    "telemetry.endpoint": _anything,
    "telemetry.metrics": _anything,
    "log.format": _anything,
    "log.level": _anything,
    "servers.questions": _subset,
    "servers.registry": _same,
    "servers.registry_source": _same,
    "servers.semantic_search": _stricter("on", "auto", "off"),
    "servers.state": _same,
    "servers.trust": _same,
}
"""How a key narrows. A key that is not here is a number, and smaller is narrower."""
