"""Settings by dotted key, such as `limits.script.timeout_ms`, as files, variables and flags name them."""

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic.fields import FieldInfo

from paddock.model.base import Value
from paddock.model.request import PROFILES
from paddock.policy.settings.schema import Settings

Group = TypeVar("Group", bound=Value)

RENAMED_KEYS: Mapping[str, str] = {
    **{f"limits.{profile}.wall_ms": f"limits.{profile}.timeout_ms" for profile in PROFILES},
    **{f"limits.{profile}.wall_ceiling_ms": f"limits.{profile}.max_timeout_ms" for profile in PROFILES},
    "limits.compute.output_ceiling_bytes": "limits.compute.max_output_bytes",
    "runtimes.max_duration_ms": "runtimes.timeout_ms",
    "runtimes.max_memory_bytes": "runtimes.memory_bytes",
    "runtimes.max_stdout_bytes": "runtimes.stdout_bytes",
    "runtimes.max_stderr_bytes": "runtimes.stderr_bytes",
    "tools.max_memory_bytes": "tools.memory_bytes",
    "tools.max_output_bytes": "tools.output_bytes",
}
"""Deprecated keys of settings, each with the key that replaces it."""


def leaves(value: Value, *, only_set: bool = False, prefix: str = "") -> dict[str, Any]:
    """Return the settings below `value` by dotted key; with `only_set`, only those given explicitly."""
    found: dict[str, Any] = {}
    for name in value.model_fields_set if only_set else type(value).model_fields:
        child = getattr(value, name)
        if isinstance(child, Value):
            found |= leaves(child, only_set=only_set, prefix=f"{prefix}{name}.")
        else:
            found[prefix + name] = child
    return found


def list_settings(kind: type[Value] = Settings, prefix: str = "") -> dict[str, FieldInfo]:
    """Return the fields of all settings by dotted key."""
    found: dict[str, FieldInfo] = {}
    for name, field in kind.model_fields.items():
        if section := _as_model(field.annotation):
            found |= list_settings(section, f"{prefix}{name}.")
        else:
            found[prefix + name] = field
    return found


def find_item_type(field: FieldInfo) -> type[Value] | None:
    """Return the model of the tables of a setting that is a list of tables."""
    items = get_args(field.annotation)
    return _as_model(items[0]) if items else None


def list_defaults() -> dict[str, Any]:
    """Return all defaults by dotted key; builds no validator, unlike `Settings()`."""
    return {key: field.get_default(call_default_factory=True) for key, field in list_settings().items()}


def assemble_settings(kind: type[Group], values: Mapping[str, Any], prefix: str = "") -> Group:
    """Return settings from all of their values by dotted key; each value is a default or has been validated."""
    parts = {
        name: assemble_settings(section, values, f"{prefix}{name}.")
        if (section := _as_model(field.annotation))
        else values[prefix + name]
        for name, field in kind.model_fields.items()
    }
    return kind.model_construct(_fields_set=None, **parts)


def _as_model(kind: object) -> type[Value] | None:
    return kind if isinstance(kind, type) and issubclass(kind, Value) else None
