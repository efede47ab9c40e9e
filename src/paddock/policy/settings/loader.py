"""Read the settings of a run from files, environment and flags. No other module knows where they are."""

import contextlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from platformdirs import user_config_path
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from paddock.foundation.files import read_bounded, strange_home
from paddock.model.base import Json, count
from paddock.model.errors import ConfigurationError, FlagError
from paddock.model.limits import KIB, MIB
from paddock.model.texts import FAULT_TEXTS, suggest
from paddock.policy.settings.keys import RENAMED_KEYS, find_item_type, leaves, list_defaults, list_settings
from paddock.policy.settings.merge import (
    FILES_ONLY_KEYS,
    OWNERS_ONLY,
    RECIPES_KEY,
    RULES_KEYS,
    LayerName,
    Merged,
    SettingsLayer,
    merge,
    place_rule,
)
from paddock.policy.settings.schema import Settings
from paddock.policy.settings.units import DURATIONS, SIZES, read_duration_ms, read_size_bytes

if TYPE_CHECKING:
    from paddock.policy.settings.recipes import Recipe

FILE_NAME = "paddock.toml"
SYSTEM_FILE = Path("/etc/paddock") / FILE_NAME
PREFIX = "PADDOCK_"
TOKEN_VARIABLE = "PADDOCK_TOKEN"  # noqa: S105 - the name of the variable, not a token
"""No setting: settings are shown to people, and a token must not be."""
SERVER_VARIABLE = "PADDOCK_SERVER"
"""No setting either: the address of the server whose sessions a command uses."""

_MAX_FILE_BYTES: Mapping[LayerName, int] = {"system": MIB, "user": MIB, "workspace": 64 * KIB}
"""Maximum size of a settings file. A workspace's file is untrusted, and the cost of a key grows with its length."""

Where = Callable[[str], str]
"""Returns the place of a key, for people."""

_DEFAULTS = list_defaults()
_VARIABLES = {
    PREFIX + key.replace(".", "_").upper(): key
    for key in (*_DEFAULTS, *RENAMED_KEYS)
    if key not in FILES_ONLY_KEYS
}
_TABLE_LISTS = {key: kind for key, field in list_settings().items() if (kind := find_item_type(field))}
"""The models of settings that are lists of tables."""
_FIELD_NAMES = {key.rpartition(".")[2] for key in _DEFAULTS} | {
    name for each in _TABLE_LISTS.values() for name in each.model_fields
}
_UNITS: dict[str, Callable[[str], int]] = {
    **{name: read_duration_ms for name in _FIELD_NAMES if name.endswith("_ms")},
    **{name: read_size_bytes for name in _FIELD_NAMES if name.endswith("_bytes")},
}
"""The parser of a duration or a size, by the last part of its key."""
_GROUPS = {key[:end] for key in _DEFAULTS for end in range(len(key)) if key[end] == "."}


def user_file() -> Path:
    """Return the path of the user's settings file, which may not exist."""
    return user_config_path("paddock") / FILE_NAME


def load(
    workspace: Path,
    *,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
    system: Path = SYSTEM_FILE,
    user: Path | None = None,
) -> Merged:
    """Return the effective settings of a workspace, with the source of each.

    `flags` are values, or strings as in `--set`, nested or by dotted key. Raises `ConfigurationError`, whose text names
    the file and line (or the variable), the key and the remedy.
    """
    user = user or user_file()
    files: list[tuple[LayerName, Path]] = [
        ("system", system),
        ("user", user),
        ("workspace", workspace / FILE_NAME),
    ]
    layers = [layer for name, path in files if (layer := _file_layer(name, path))]
    texts: dict[str, tuple[str, str]] = {}
    for name, text in environment.items():
        if not name.startswith(PREFIX) or name in (TOKEN_VARIABLE, SERVER_VARIABLE):
            continue
        if name not in _VARIABLES:
            raise ConfigurationError(f"{name}: unknown variable{suggest(name, list(_VARIABLES))}")
        texts[_VARIABLES[name]] = (text, name)
    layers.append(_text_layer("environment", texts))
    flat = dict(_flatten_groups(flags or {}))
    for key in flat:
        if key in FILES_ONLY_KEYS:
            raise FlagError(f"--set {key}: this can only be set in a settings file")
        if key not in _DEFAULTS and key not in RENAMED_KEYS:
            raise FlagError(f"--set {key}: unknown key{suggest(key, list(_DEFAULTS))}")
    try:
        layers.append(_text_layer("flags", {key: (value, f"--set {key}") for key, value in flat.items()}))
    except ConfigurationError as problem:
        raise FlagError(str(problem)) from None
    return merge(layers, owner_file=str(user))


def read_policy(policy: Mapping[str, Any], place: str) -> SettingsLayer:
    """Return the policy of a token as a layer for `narrow`: values, or strings as in `--set`, nested or by dotted key.

    Raises ConfigurationError, whose text begins with `place`.
    """
    flat = dict(_flatten_groups(policy))
    for key in flat:
        if key in OWNERS_ONLY:
            raise ConfigurationError(f"{place}: a token may not set {key}")
        if key not in _DEFAULTS and key not in RENAMED_KEYS:
            raise ConfigurationError(f"{place}: unknown key `{key}`{suggest(key, list(_DEFAULTS))}")
    return _text_layer("token", {key: (value, place) for key, value in flat.items()})


def _file_layer(name: LayerName, path: Path) -> SettingsLayer | None:
    try:
        text = read_bounded(path, _MAX_FILE_BYTES[name]).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():  # its settings would silently not apply
            raise ConfigurationError(
                f"{path}: cannot read this settings file: it is a link to a missing file; restore or remove it"
            ) from None
        return None
    except (OSError, UnicodeDecodeError) as problem:
        why = "it is not UTF-8 text"
        if isinstance(problem, OSError):
            why = f"{problem.strerror}{strange_home(path, problem)}"
        raise ConfigurationError(f"{path}: cannot read this settings file: {why}") from None
    import tomllib  # most runs have no settings file

    try:
        tree = tomllib.loads(text)
    except ValueError as problem:
        raise ConfigurationError(f"{path}: this is not TOML: {problem}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: nested too deeply") from None

    def place_of(key: str) -> str:
        line = _line_of(key, text)
        return f"{path}, line {line}" if line else str(path)

    for key in RULES_KEYS:
        *tables, last = key.split(".")
        rules: Any = (_find_table(tree, tables) or {}).get(last)
        for rule in cast("list[Any]", rules) if isinstance(rules, list) else []:
            if isinstance(rule, dict) and "origin" in rule:
                raise ConfigurationError(f"{place_of(key)}: unknown key `{key}.origin`; remove it")
    table, _, last = RECIPES_KEY.rpartition(".")
    recipes: dict[str, Json] = {}
    if isinstance(given := tree.get(table), dict) and last in given:
        rest = dict(cast("dict[str, Any]", given))
        recipes[RECIPES_KEY] = rest.pop(last)
        tree = {**tree, table: rest}
    values, where = _validate_layer(tree, place_of, path.parent)
    # Anybody may have written those of a workspace: they are refused before their patterns are looked at.
    values |= recipes if name == "workspace" else _read_recipes(recipes, place_of)
    places = {key: where(key) for key in values}
    for key in RULES_KEYS:
        if lines := _list_table_lines(key, text, len(values.get(key, ()))):
            places |= {place_rule(key, at): f"{path}, line {line}" for at, line in enumerate(lines, 1)}
    return SettingsLayer(name, values, places)


def _read_recipes(given: Mapping[str, Json], place_of: Where) -> "dict[str, Mapping[str, Recipe]]":
    if RECIPES_KEY not in given:
        return {}
    from paddock.policy.settings.recipes import read_recipe  # most settings add no language

    entries = given[RECIPES_KEY]
    if not isinstance(entries, dict):
        told = f"{RECIPES_KEY} must be a table, not {_describe_value(entries)}"
        raise ConfigurationError(f"{place_of(RECIPES_KEY)}: {told}")
    found: dict[str, Recipe] = {}
    lines: list[str] = []
    for name, entry in cast("dict[str, Json]", entries).items():
        key = f"{RECIPES_KEY}.{name}"
        try:
            found[name] = read_recipe(name, entry)
        except ValidationError as problem:
            for error in problem.errors(include_url=False):
                if not _is_consequence(error):
                    placed: Any = {**error, "loc": (*key.split(".", 2), *error["loc"])}
                    lines.append(_explain_errors(placed, place_of))
        except (ValueError, RecursionError) as problem:
            lines.append(f"{place_of(key)}: {key}: {problem}")
    if lines:
        raise ConfigurationError("\n".join(lines))
    return {RECIPES_KEY: found}


def _is_consequence(error: ErrorDetails) -> bool:
    """Tell whether a list counts as too short for the one reason that its items are wrong."""
    given, least = error["input"], error.get("ctx", {}).get("min_length", 0)
    return (
        error["type"] == "too_short" and isinstance(given, list) and len(cast("list[Json]", given)) >= least
    )


def _text_layer(name: LayerName, given: Mapping[str, tuple[Any, str]]) -> SettingsLayer:
    """Return the layer of strings or values by key, each with its name for people (`PADDOCK_...`, `--set ...`)."""
    tree: dict[str, Any] = {}
    for key, (value, label) in given.items():
        *groups, last = key.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
        node[last] = _parse_text(key, value, label) if isinstance(value, str) else value
    names = {key: label for key, (_, label) in given.items()}
    values, where = _validate_layer(tree, lambda key: names.get(key, name), None)
    return SettingsLayer(name, values, {key: where(key) for key in values})


def _flatten_groups(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested groups by dotted key; a value may itself be a mapping."""
    for name, value in tree.items():
        key = ".".join([*path, name])
        if isinstance(value, Mapping) and key not in _DEFAULTS and key not in FILES_ONLY_KEYS:
            yield from _flatten_groups(cast("Mapping[str, Any]", value), (*path, name))
        else:
            yield key, value


def _parse_text(key: str, text: str, label: str) -> Json:
    """Return a string as a JSON value of the key's type; validation rejects what does not fit."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{label}: this is not UTF-8 text") from None
    match _DEFAULTS[RENAMED_KEYS.get(key, key)]:
        case bool():
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
        case int():
            return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text
        case tuple() if text.lstrip().startswith("["):  # as in a settings file
            with contextlib.suppress(ValueError, RecursionError):
                return json.loads(text)
            return text
        case tuple():
            return [item.strip() for item in text.split(",") if item.strip()]
        case _:
            return text


def _validate_layer(tree: Mapping[str, Any], where: Where, base: Path | None) -> tuple[dict[str, Any], Where]:
    """Return the typed settings of one source by dotted key, and a function that returns the place of each.

    Relative paths start at `base`, or at the current directory.
    """
    if not tree:
        return {}, where
    tree, where = _replace_renamed(tree, where)
    try:
        # JSON mode is strict, but accepts a string for a path and a list for a tuple.
        given = Settings.model_validate_json(json.dumps(_without_units(tree), default=str), strict=True)
    except ValidationError as problem:
        lines = [_explain_errors(error, where) for error in problem.errors(include_url=False)]
        raise ConfigurationError("\n".join(lines)) from None
    except (
        ValueError,
        RecursionError,
    ):  # a number with thousands of digits, or deeply nested tables
        raise ConfigurationError(
            f"{where('')}: a number is too long, or tables are nested too deeply"
        ) from None
    values = leaves(given, only_set=True)
    for key, value in values.items():
        if isinstance(value, Path):
            values[key] = _resolve_path(value, base, f"{where(key)}: {key}")
    return values, where


def _replace_renamed(tree: Mapping[str, Any], where: Where) -> tuple[Mapping[str, Any], Where]:
    """Return the settings under their current keys, with a warning for each deprecated one.

    Raises ConfigurationError if a setting is given under both of its keys.
    """
    replaced: dict[str, str] = {}
    for old, new in RENAMED_KEYS.items():
        groups, old_name, new_name = old.split(".")[:-1], old.rpartition(".")[2], new.rpartition(".")[2]
        node = _find_table(tree, groups)
        if node is None or old_name not in node:
            continue
        if new_name in node:
            raise ConfigurationError(
                f"{where(old)}: `{old}` is the deprecated name of `{new}`, which is also set; remove `{old}`"
            )
        warnings.warn(f"{where(old)}: `{old}` is deprecated; write `{new}`", FutureWarning, stacklevel=6)
        tree = _rename_key(tree, groups, old_name, new_name)
        replaced[new] = old
    return tree, lambda key: where(replaced.get(key, key))


def _find_table(tree: Mapping[str, Any], groups: Sequence[str]) -> Mapping[str, Any] | None:
    node: Any = tree
    for group in groups:
        node = cast("Mapping[str, Any]", node).get(group) if isinstance(node, Mapping) else None
    return cast("Mapping[str, Any]", node) if isinstance(node, Mapping) else None


def _rename_key(tree: Mapping[str, Any], groups: Sequence[str], old: str, new: str) -> dict[str, Any]:
    """Return a copy of nested tables with one key of the table at `groups` renamed."""
    if groups:
        return {**tree, groups[0]: _rename_key(tree[groups[0]], groups[1:], old, new)}
    return {new if name == old else name: value for name, value in tree.items()}


def _without_units(tree: Any) -> Any:  # noqa: ANN401 - any TOML value
    """Return settings with durations and sizes converted to numbers; other values stay unchanged."""
    if isinstance(tree, list):
        return [_without_units(each) for each in cast("list[Any]", tree)]
    if not isinstance(tree, Mapping):
        return tree
    read: dict[str, Any] = {}
    for name, value in cast("Mapping[str, Any]", tree).items():
        read[name] = _without_units(value)
        if isinstance(value, str) and name in _UNITS:
            with contextlib.suppress(ValueError):
                read[name] = _UNITS[name](value)
    return read


def _resolve_path(path: Path, base: Path | None, what: str) -> Path:
    if "\0" in str(path):
        raise ConfigurationError(f"{what} must be a path, but contains a NUL character")
    try:
        return base / path.expanduser() if base else path.expanduser().absolute()
    except FileNotFoundError:
        raise ConfigurationError(f"{what}: the current directory was removed; go to another one") from None
    except RuntimeError:
        problem = f"{path.parts[0]} is not the home of a user on this machine; name another folder"
        raise ConfigurationError(f"{what}: {problem}") from None


def _list_known_keys(path: Sequence[str], *, is_table: bool) -> list[str]:
    """Return the keys that a key that is unknown may be meant for."""
    key = ".".join(path)
    if key.startswith(f"{RECIPES_KEY}."):
        from paddock.policy.settings.recipes import list_fields

        return [".".join((*path[:-1], name)) for name in list_fields(path[3:-1])]
    known = sorted(_GROUPS) if is_table else list(_DEFAULTS)
    for listed, kind in _TABLE_LISTS.items():
        if key.startswith(listed):
            known = [f"{listed}.{name}" for name in kind.model_fields if name != "origin"]
    return known


def _explain_errors(error: ErrorDetails, where: Where) -> str:
    path = [str(part) for part in error["loc"] if isinstance(part, str)]
    key = ".".join(path)
    place = where(key)
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            known = _list_known_keys(path, is_table=isinstance(error["input"], dict))
            return f"{place}: unknown key `{key}`{suggest(key, known)}"
        case "missing":
            return f"{where('.'.join(path[:-1]))}: `{key}` is missing"
        case "value_error":
            return f"{place}: {key}: {context['error']}"
        case "too_short":
            return f"{place}: {key} needs at least {count(context['min_length'], 'item')}"
        case "literal_error":
            told = "must be " + str(context["expected"]).replace("'", '"')
        case "greater_than" | "greater_than_equal":
            bound = context.get("gt", context.get("ge"))
            told = f"must be a whole number {'above' if 'gt' in context else 'from'} {bound}"
        case "less_than_equal":
            told = f"must be a whole number up to {context['le']}"
        case kind:
            told = _MESSAGES[kind].format_map(context) if kind in _MESSAGES else f"must be {error['msg']}"
            if kind == "int_type" and path and path[-1] in _UNITS:
                is_duration = _UNITS[path[-1]] is read_duration_ms
                unit, example = ("milliseconds", DURATIONS) if is_duration else ("bytes", SIZES)
                told = f"must be a whole number of {unit}, or a text such as {example}"
    return f"{place}: {key} {told}, not {_describe_value(error['input'])}"


_MESSAGES = {
    **FAULT_TEXTS,
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "must be a table"),
    "path_type": "must be a path",
    "string_pattern_mismatch": "must be a text that matches {pattern}",
    "string_too_short": "must be a text of one character or more",
}


def _describe_value(value: Json) -> str:
    match value:
        case dict():
            return "a table"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case str():
            return f'the text "{value}"'
        case _:
            return str(value)


def _line_of(key: str, text: str) -> int | None:
    """Return the line of a TOML text that sets `key`, a part of it, or the inline table that holds it; or None."""
    names: list[tuple[int, int, str]] = []
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([\w.\-]+)\s*\]", line):
            table = header[1] + "."
            names.append((len(header[1]), number, header[1]))
        elif assignment := re.match(r"\s*([\w.\-]+)\s*=", line):
            name = table + assignment[1]
            names.append((len(name), number, name))
    while key:
        if found := [each for each in names if each[2] == key or each[2].startswith(key + ".")]:
            return min(found)[1]
        key = key.rpartition(".")[0]
    return None


def _list_table_lines(key: str, text: str, tables: int) -> list[int]:
    """Return the lines of the headers `[[key]]` of a TOML text; none unless they are as many as its tables."""
    if not tables:
        return []
    header = re.compile(rf"\s*\[\[\s*{re.escape(key)}\s*\]\]")
    found = [number for number, line in enumerate(text.splitlines(), 1) if header.match(line)]
    return found if len(found) == tables else []
