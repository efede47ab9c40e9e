"""Parse untrusted YAML: core types of YAML 1.2, bounded in size and depth, without aliases.

PyYAML parses YAML 1.1, in which `on`, `no` and `1:30` are not strings; existing tools were written for 1.2. Aliases are
rejected: nine lines of them can mean a billion values, and no tool needs them.
"""

import re
from typing import Any, Final

import yaml

from paddock.model.base import Json

MAX_CHARS = 64 * 1024
MAX_DEPTH = 20
MAX_NODES = 5_000
"""Maximum number of values and keys: parsing takes a tenth of a millisecond for each."""
_MAX_INTEGER_CHARS = 100

_FLOAT: Final = (
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_CORE: Final = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
)  # fmt: skip
"""YAML 1.2.2, 10.3.2: tag, its pattern, and its first characters."""


class YamlError(ValueError):
    """A text that is not YAML, or exceeds a limit; the message names the line."""


class _Loader(yaml.SafeLoader):
    """Builds plain values with the types of the core schema, and rejects duplicate keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's way of being told


for _tag, _pattern, _first in _CORE:
    _Loader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"(?:{_pattern})\Z"),
        [*_first, *([""] if _tag == "null" else [])],
    )


def _read_integer(_loader: _Loader, node: yaml.ScalarNode) -> int:
    if len(node.value) > _MAX_INTEGER_CHARS:
        line = node.start_mark.line + 1
        raise YamlError(f"line {line}: a number of more than {_MAX_INTEGER_CHARS} digits")
    return int(node.value, {"0o": 8, "0x": 16}.get(node.value[:2], 10))


def _read_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise YamlError(f"line {line}: a key must be a text")
        if key.value in seen:
            raise YamlError(f"line {line}: {key.value} occurs twice")
        seen.add(key.value)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:int", _read_integer)
_Loader.add_constructor("tag:yaml.org,2002:map", _read_mapping)


def read(text: str) -> Json:
    """Return the value of a YAML text. Raises YamlError."""
    if len(text) > MAX_CHARS:
        raise YamlError(f"more than {MAX_CHARS} characters")
    try:
        _check_events(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.MarkedYAMLError as problem:
        line = f"line {problem.problem_mark.line + 1}: " if problem.problem_mark else ""
        raise YamlError(f"{line}{problem.problem or problem.context}") from None
    except YamlError:
        raise
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as problem:
        raise YamlError(str(problem).partition("\n")[0][:200]) from None
    except (LookupError, AttributeError):  # raised by PyYAML for `!!bool x`, `!!float ""` and `!!timestamp x`
        raise YamlError("a value does not fit the tag in front of it") from None


def _check_events(text: str) -> None:
    """Reject aliases, depth and too many values, based on the events: building a value is recursive."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise YamlError(f"line {line}: anchors and aliases are not supported; write the value out")
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
        if nodes > MAX_NODES:
            raise YamlError(f"line {line}: more than {MAX_NODES} values and keys")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise YamlError(f"line {line}: nested more than {MAX_DEPTH} deep")
