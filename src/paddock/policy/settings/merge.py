"""Merge the layers of settings. A workspace can never extend what its user allows.

Theory of operation. The layers are system, user, workspace, environment and flags, in this order; a later layer
overrides earlier ones. Some layers bind: the system file is a ceiling for all later layers, and the user file for those
after it. The workspace (its files may be written by anyone) must also stay within the built-in defaults. Environment
and flags belong to the user: they may exceed defaults and workspace, but never a ceiling. Exceeding a ceiling is an
error, not a silent cut: the author of the value must learn that it does not apply.

The policy of a token (`narrow`) comes after all of them. Like a workspace, it can only narrow, here what is in force.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic.fields import FieldInfo

from paddock.model.errors import ConfigurationError
from paddock.model.limits import Narrows
from paddock.model.network import NetworkRule
from paddock.model.program import RUNTIMES
from paddock.model.texts import ellipsis, suggest
from paddock.policy.settings.keys import assemble_settings, leaves, list_defaults, list_settings
from paddock.policy.settings.narrowing import Mark
from paddock.policy.settings.schema import Settings

SettingValue = Any
"""The value of a setting: a number, a string, a path, a boolean, or a tuple of them."""

LayerName = Literal["system", "user", "workspace", "environment", "flags", "token"]

LAYER_ORDER: tuple[LayerName, ...] = ("system", "user", "workspace", "environment", "flags", "token")
_NARROWING_LAYERS: Mapping[LayerName, str] = {"workspace": "a workspace", "token": "a token"}
"""Layers that must stay within the value so far, whatever set it."""
RULES_KEY = "policy.rule"
HOST_RULES_KEY = "network.rule"
FLOW_RULES_KEY = "flow.rule"
RULES_KEYS = (RULES_KEY, HOST_RULES_KEY, FLOW_RULES_KEY)
"""Keys of rules that name their file: their reasons do, and those of some are judged for each file separately."""
_RULE_WORDS = {RULES_KEY: "rule", HOST_RULES_KEY: "network rule", FLOW_RULES_KEY: "flow rule"}
RECIPES_KEY = "runtimes.recipes"
_ALLOWED_KEY = "runtimes.allowed"
_FIELDS = list_settings()


def _list_marked(mark: Mark) -> frozenset[str]:
    return frozenset(key for key, field in _FIELDS.items() if mark in field.metadata)


def find_narrowing(key: str, field: FieldInfo) -> Narrows:
    """Return what narrows a setting. Raises TypeError for a field that does not say it."""
    for annotation in field.metadata:
        if isinstance(annotation, Narrows):
            return annotation
    raise TypeError(f"{key}: annotate this setting with what narrows it (paddock.policy.settings.narrowing)")


def name_rule(key: str, origin: str, number: int) -> str:
    """Return the name of a rule in decisions and reasons, such as `user network rule 2`: its number in its file."""
    return f"{origin or 'policy'} {_RULE_WORDS[key]} {number}"


def name_rules(key: str, origin: str) -> str:
    """Return the name of all rules of a file together, such as `user network rules`."""
    return f"{origin or 'policy'} {_RULE_WORDS[key]}s"


def place_rule(key: str, number: int) -> str:
    """Return the key, among the places of a `SettingsLayer`, of one rule of its file."""
    return f"{key}[{number}]"


JOINED_KEYS = _list_marked(Mark.JOINED)
FILES_ONLY_KEYS = JOINED_KEYS | _list_marked(Mark.FILES_ONLY)
OWNERS_ONLY = _list_marked(Mark.OWNERS_ONLY)
_NARROWS = {key: find_narrowing(key, field) for key, field in _FIELDS.items() if key not in JOINED_KEYS}

BUILT_IN = "built in"
_MAX_NAME_CHARS = 100


class SettingsLayer(NamedTuple):
    """One source of settings: typed values by dotted key, and the place of each, for people."""

    name: LayerName
    values: Mapping[str, Any]
    where: Mapping[str, str]


class Merged(NamedTuple):
    """The effective settings and, by dotted key, the source of each value.

    Rules also have their places by their names, such as `user rule 2`, and those of one file together by `user rules`.
    """

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
                # Which of two files holds is not for one of them to say.
                if both := [name for name in value if name in values[key]]:
                    told = f"{key}.{both[0]} is defined by {sources[key]} already; choose another name"
                    raise ConfigurationError(f"{where}: {told}")
                values[key] = {**values[key], **value}
                sources[key] = where if sources[key] == BUILT_IN else f"{sources[key]}, {where}"
                continue
            if key in JOINED_KEYS:
                if narrowing and key == HOST_RULES_KEY:
                    _refuse_headers(value, where, narrowing)
                origin = {"origin": layer.name}
                added = [rule.model_copy(update=origin) for rule in value] if key in RULES_KEYS else value
                if key in RULES_KEYS:
                    sources[name_rules(key, layer.name)] = where
                    for number in range(1, len(added) + 1):
                        place = layer.where.get(place_rule(key, number), where)
                        sources[name_rule(key, layer.name, number)] = place
                values[key] = (*values[key], *added)
                sources[key] = where if sources[key] == BUILT_IN else f"{sources[key]}, {where}"
                continue
            bound = (values[key], sources[key]) if narrowing else ceilings.get(key)
            _refuse_widening(layer.name, key, value, where, bound=bound, owner_file=owner_file)
            values[key], sources[key] = value, where
            if layer.name in ("system", "user"):
                ceilings[key] = (value, where)
    _refuse_unknown_runtimes(layers, frozenset({"*", *RUNTIMES, *values[RECIPES_KEY]}))
    return Merged(assemble_settings(Settings, values), sources)


def _refuse_unknown_runtimes(layers: Sequence[SettingsLayer], known: Collection[str]) -> None:
    for layer in layers:
        for name in layer.values.get(_ALLOWED_KEY, ()):
            if name not in known:
                where = layer.where.get(_ALLOWED_KEY, layer.name)
                told = f"{_ALLOWED_KEY}: there is no runtime {ellipsis(name, _MAX_NAME_CHARS)}"
                raise ConfigurationError(f"{where}: {told}{suggest(name, known)}")


def narrows(key: str, bound: SettingValue, value: SettingValue) -> bool:
    """Return whether `value` allows no more than `bound`."""
    return _NARROWS[key].narrows(bound, value)


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
    raise ConfigurationError(
        f"{where}: {key} = {_format_toml(value)} {_NARROWS[key].relation} {_format_toml(ceiling)}, "
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


def _format_toml(value: SettingValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{item}"' for item in value) + "]"  # pyright: ignore[reportUnknownVariableType]
    return str(value) if isinstance(value, int) else f'"{value}"'
