"""Every setting, from the descriptions of the model's fields."""

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AwareDatetime
from pydantic.fields import FieldInfo

from paddock.model.base import Value
from paddock.policy.settings.keys import find_item_type
from paddock.policy.settings.merge import OWNERS_ONLY
from paddock.policy.settings.recipes import Recipe, RecipeVariant
from paddock.policy.settings.schema import Settings
from pages.text import described, spoken, table

HEAD = """\
# Configuration

<!-- Written by scripts/reference.py from src/paddock/model; `make check` compares. Change the field descriptions. -->

Settings come from five sources. A later source overrides an earlier one:

| source | written by |
|---|---|
| `/etc/paddock/paddock.toml` | the machine's owner; limits all sources below |
| `paddock/paddock.toml` below `~/.config` (`XDG_CONFIG_HOME`) | the user; limits all sources below |
| `paddock.toml` in the workspace | the author of the project; it can only narrow |
| `PADDOCK_...` variables of the environment | the user |
| `--set KEY=VALUE` of one command | the user |

The system file sets maximums for all users. The user file sets maximums for workspace, environment and flags.
A workspace cannot exceed the built-in defaults either. A setting that exceeds a maximum is an error that
names both sources. Paddock never reduces a value silently. An unknown key or variable is an error with the
most similar name.

`paddock config show` prints every setting in force and its source. In variables and flags, separate the items
of a list with commas: `PADDOCK_GRANTS_SERVERS=git,time`.

A setting that ends in `_ms` is a number of milliseconds, or a string with a unit: `500ms`, `2.5s`, `5m`,
`2h`, `1d`. A setting that ends in `_bytes` is a number of bytes, or a string with a unit: `500kB` (1,000
bytes each), `64MiB` (1,048,576 bytes each) or `2GiB`.

An example `paddock.toml`:

```toml
[limits.script]
timeout_ms = 30_000

[grants]
servers = ["git", "time"]

[[policy.rule]]
effect = "deny"
tool = "*/delete_*"
reason = "nothing is deleted from here"
```
"""


NAMED_TABLES = {
    "runtimes.recipes": (
        ("[runtimes.recipes.NAME]", Recipe),
        ("[[runtimes.recipes.NAME.variant]]", RecipeVariant),
    )
}
"""The models of settings that are tables by name."""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *sections(Settings, "")])


def sections(group: type[Value], prefix: str) -> Iterator[str]:
    """Yield a heading and a table for the settings of a group, then the groups below it."""
    texts = described(group)
    fields = {prefix + name: field for name, field in group.model_fields.items()}
    groups = {key: kind for key, field in fields.items() if (kind := group_of(field)) is not None}
    listed = {key: items for key, field in fields.items() if (items := find_item_type(field)) is not None}
    plain = {key: field for key, field in fields.items() if key not in groups and key not in listed}
    if plain:
        yield f"## `[{prefix.rstrip('.')}]`\n"
        yield summary(group)
        yield table(
            ("setting", "type", "default", "what it is"),
            [row(key, field, texts[key.removeprefix(prefix)]) for key, field in plain.items()],
        )
    for heading, kind in [each for key in plain for each in NAMED_TABLES.get(key, ())]:
        yield f"## `{heading}`\n"
        yield summary(kind)
        told = described(kind)
        own = {
            field.alias or name: (field, told[name])
            for name, field in kind.model_fields.items()
            if name != "name"
        }
        yield table(
            ("key", "type", "default", "what it is"), [row(name, *each) for name, each in own.items()]
        )
    for key, kind in groups.items():
        yield from sections(kind, f"{key}.")
    for key, kind in listed.items():
        yield f"## `[[{key}]]`\n"
        yield summary(kind) + f"\n{texts[key.removeprefix(prefix)]}\n"
        told = described(kind)
        rows = [row(name, field, told[name]) for name, field in kind.model_fields.items() if name != "origin"]
        yield table(("key", "type", "default", "what it is"), rows)


def row(key: str, field: FieldInfo, description: str) -> tuple[str, str, str, str]:
    """Return the cells of one setting."""
    text = spoken(description)
    if key in OWNERS_ONLY:
        text += " A workspace may not set it."
    return f"`{key.rpartition('.')[2]}`", kind_of(field.annotation), default_of(field), text


def default_of(field: FieldInfo) -> str:
    """Return the built-in value as TOML spells it; empty when there is none or when it depends on the machine."""
    if field.is_required():
        return "required"
    if field.default_factory is not None or field.default is None:
        return ""
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    return f"`{json.dumps(value)}`"


def kind_of(annotation: Any) -> str:  # noqa: ANN401 - annotations have no common type
    """Return a type in the words of people."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(kind_of(argument) for argument in arguments if argument is not NoneType)
    if origin is Literal:
        return " or ".join(f"`{json.dumps(argument)}`" for argument in arguments)
    pairs = origin is tuple and get_origin(arguments[0]) is tuple  # names and values
    if origin is tuple and not pairs:
        return f"list of {kind_of(arguments[0])}s"
    if origin is dict or pairs:
        return "table of texts"
    if origin is Mapping:
        return "table"
    if inspect.isclass(annotation) and issubclass(annotation, Value):
        return "table"
    return {
        bool: "true or false",
        int: "whole number",
        str: "text",
        Path: "path",
        AwareDatetime: "date and time",
    }[annotation]


def group_of(field: FieldInfo) -> type[Value] | None:
    """Return the model of a setting that is a table."""
    kind = field.annotation
    return kind if inspect.isclass(kind) and issubclass(kind, Value) else None


def summary(group: type[Value]) -> str:
    """Return what the docstring of a group says, without the name of its table."""
    text = spoken(group.__doc__ or "")
    head, colon, rest = text.partition(": ")
    text = rest if colon and head.startswith("`[") else text
    return text[:1].upper() + text[1:] + "\n"
