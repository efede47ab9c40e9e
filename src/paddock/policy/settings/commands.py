"""Commands that programs may call as functions (`[[sdk.commands]]`), and the templates of their arguments."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import PurePath
from typing import Annotated, Literal, NamedTuple, Self, cast, get_args

from pydantic import Field, model_validator

from paddock.model.base import Json, PositiveInt, Value
from paddock.model.late_pattern import compile_late
from paddock.model.limits import MIB
from paddock.model.network import Network
from paddock.model.program import ARGUMENT_BYTES, ARGUMENTS_BYTES, MAX_ARGUMENTS, STDIN_BYTES

Kind = Literal["text", "integer", "number", "boolean", "list"]

_NUMBERS = ("integer", "number")

_WORD_SYNTAX = r"[a-z][A-Za-z0-9_]{0,31}"
_PLACEHOLDER_PATTERN = compile_late(rf"({_WORD_SYNTAX})(?::([a-z]+)(:signed)?)?(\?)?")
_PARTS_PATTERN = compile_late(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox", "env"})
_RESERVED_NAMES = frozenset({"input", "then", "vars", "workspace"})
_OWN_NAMESPACES = frozenset(
    {
        *("cir", "compute", "exec", "health", "ledger", "notify", "output", "script", "sequence", "temporal"),
        *("tool", "vault", "webhook"),
    }
)
"""Namespaces that Paddock itself uses."""


class Placeholder(NamedTuple):
    """`{name}`, `{name:kind}` or `{name:kind:signed}` in an argument, each optionally followed by `?`."""

    name: str
    kind: Kind
    signed: bool
    """Whether an argument may begin with it when it is negative."""
    optional: bool


Template = tuple[str | Placeholder, ...]


def template(text: str) -> Template:
    """Return the parts of an argument; `{{` and `}}` are escaped braces. Raises ValueError."""
    parts: list[str | Placeholder] = []
    position = 0
    for found in _PARTS_PATTERN.finditer(text):
        parts.append(text[position : found.start()])
        position = found.end()
        if found[0] in ("{{", "}}"):
            parts.append(found[0][0])
            continue
        inside = _PLACEHOLDER_PATTERN.fullmatch(found[1] or "")
        if inside is None or (inside[2] or "text") not in (_NUMBERS if inside[3] else get_args(Kind)):
            kinds = ", ".join(get_args(Kind))
            raise ValueError(
                f"{found[0]} in {text!r} is not a placeholder; write {{name}} or {{name:kind}} with one of "
                f"{kinds}, `:signed` after a number that may be negative, `?` after an optional placeholder, "
                f"and {{{{ for a brace"
            )
        kind = cast("Kind", inside[2] or "text")
        parts.append(Placeholder(inside[1], kind, inside[3] is not None, inside[4] is not None))
    parts.append(text[position:])
    return tuple(part for part in parts if part)


class SdkCommand(Value):
    """One `[[sdk.commands]]`: `paddock.NAME({...})` runs a confined command of this machine and returns its output.

    Arguments are templates: `{name}` is replaced by a string; `{name:integer}`, `{name:number}` and `{name:boolean}` by
    a value of that type; `{name:list}`, which must stand alone, by several arguments. With a final `?`, the argument is
    left out if its value is missing. No shell is involved, and no value can become an option: before a `--`, an
    argument that starts with a value must not begin with `-`. `{name:integer:signed}` and `{name:number:signed}` allow
    negative numbers there.
    """

    name: Annotated[str, Field(pattern=rf"^{_WORD_SYNTAX}\.{_WORD_SYNTAX}$")]
    """Namespace and function, such as `issues.list`."""
    command: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    """Program, by path or by its name on `PATH`, followed by templates of its arguments."""
    stdin: str | None = None
    """Template of standard input."""
    output: Literal["text", "json"] = "text"
    """Whether the output is a string or JSON."""
    timeout_ms: PositiveInt = 30_000
    """Maximum time, in milliseconds; at most `sdk.call_timeout_ms`."""
    output_bytes: PositiveInt = MIB
    """Maximum output, in bytes. A command that prints more fails."""
    access: Literal["none", "read-only", "workspace-write"] = "none"
    """Access to the workspace: none, reading, or reading and writing."""
    network: Network = "none"
    """Access to the network: `none`, its own network with only `127.0.0.1` (`loopback`), also the hosts that
    `[[network.rule]]` allows (`hosts`), or all of it (`full`)."""
    readable: tuple[str, ...] = ()
    """Absolute paths that the command may read besides system files."""
    environment: tuple[str, ...] = ()
    """Environment variables of Paddock that the command gets."""
    secrets: dict[str, str] = Field(default_factory=dict)
    """Environment variables that hold a secret, with its name in the vault: `{TRACKER_TOKEN = "tracker-token"}`."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        namespace, _, function = self.name.partition(".")
        if namespace in _OWN_NAMESPACES | _RESERVED_NAMES or function == "then":
            raise ValueError(f"{self.name} is reserved for Paddock; choose another namespace")
        if any(isinstance(part, Placeholder) for part in self._templates[0]):
            raise ValueError(f"{self.name}: the program itself cannot be a placeholder")
        known: dict[str, Placeholder] = {}
        for parts in (*self._templates, self._input):
            for each in _list_placeholders(parts):
                if known.setdefault(each.name, each) != each:
                    raise ValueError(f"{self.name}: {each.name} has two different types")
                if each.kind == "list" and (parts is self._input or len(parts) > 1):
                    raise ValueError(f"{self.name}: the list {each.name} must be a separate argument")
        if PurePath(self.command[0]).name in _SHELLS and any(
            re.fullmatch(r"-[A-Za-z]*c", before) and any(_list_placeholders(parts))
            for before, parts in zip(self.command, self._templates[1:], strict=False)
        ):
            what = "would become part of a shell program"
            raise ValueError(f'{self.name}: a placeholder {what}; write "$1" there, and pass it after `--`')
        if relative := [path for path in self.readable if not PurePath(path).is_absolute()]:
            raise ValueError(f"{self.name}: readable: {relative[0]!r} is not an absolute path")
        return self

    @cached_property
    def _templates(self) -> tuple[Template, ...]:
        return tuple(map(template, self.command))

    @cached_property
    def _input(self) -> Template:
        return template(self.stdin or "")

    def fill_template(self, given: Mapping[str, Json]) -> tuple[list[str], bytes]:
        """Return arguments and standard input for the values of a call. Raises ValueError for a wrong type."""
        known = {each.name for parts in (*self._templates, self._input) for each in _list_placeholders(parts)}
        if unknown := given.keys() - known:
            names = ", ".join(sorted(known)) or "none"
            raise ValueError(f"there is no argument {min(unknown)!r} (arguments: {names})")
        argv: list[str] = []
        for parts in self._templates:
            argv += _fill_argument(parts, given, after_dashes="--" in argv)
        stdin = "".join(_fill_argument(self._input, given, after_dashes=True))
        if len(argv) > MAX_ARGUMENTS or sum(len(_encode_text(each)) for each in argv) > ARGUMENTS_BYTES:
            raise ValueError(
                f"more than {MAX_ARGUMENTS} arguments, or more than {ARGUMENTS_BYTES} bytes of them"
            )
        if len(written := _encode_text(stdin)) > STDIN_BYTES:
            raise ValueError(f"standard input has more than {STDIN_BYTES} bytes")
        return argv, written


def _list_placeholders(parts: Template) -> Iterator[Placeholder]:
    return (part for part in parts if isinstance(part, Placeholder))


def _fill_argument(parts: Template, given: Mapping[str, Json], *, after_dashes: bool) -> list[str]:
    """Return the arguments for a template: one, none if an optional value is missing, or several for a list."""
    placeholders = list(_list_placeholders(parts))
    for each in placeholders:
        if given.get(each.name) is None:
            if each.optional:
                return []
            raise ValueError(f"{each.name} is missing")
    if len(parts) == 1 and placeholders and placeholders[0].kind == "list":
        name = placeholders[0].name
        value: Json = given[name]
        if not isinstance(value, list) or not all(
            isinstance(each, str) for each in cast("list[Json]", value)
        ):
            raise ValueError(f"{name} must be a list of texts")
        return [_check_argument(name, text, after_dashes) for text in cast("list[str]", value)]
    texts = [part if isinstance(part, str) else _format_text(part, given[part.name]) for part in parts]
    text = "".join(texts)
    if parts and isinstance(first := parts[0], Placeholder) and not first.signed:
        return [_check_argument(first.name, text, after_dashes)]
    return [_check_bounds(placeholders[0].name if placeholders else "", text)]


def _format_text(placeholder: Placeholder, value: Json) -> str:
    match placeholder.kind, value:
        case "text", str():
            return value
        case "boolean", bool():
            return "true" if value else "false"
        case "integer" | "number", bool():
            pass
        case "integer", int():
            return str(value)
        case "number", int() | float():
            return repr(value)
        case _:
            pass
    kind = placeholder.kind
    raise ValueError(f"{placeholder.name} must be {'an' if kind == 'integer' else 'a'} {kind}")


def _check_argument(name: str, text: str, after_dashes: bool) -> str:
    if text.startswith("-") and not after_dashes:
        raise ValueError(f"{name} may not begin with `-`, which would make it an option")
    return _check_bounds(name, text)


def _check_bounds(name: str, text: str) -> str:
    if "\0" in text:
        raise ValueError(f"{name} contains a NUL character")
    if len(_encode_text(text)) > ARGUMENT_BYTES:
        raise ValueError(f"{name} is over {ARGUMENT_BYTES} bytes; pass it on standard input")
    return text


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
