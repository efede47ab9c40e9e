"""Write tools as TypeScript for the compiler, so that a correct program is never refused.

What models read (`engines/servers/typescript.py`) says what a tool promises. These declarations accept everything that
a call accepts at run time: a `Date` for a string, a `BigInt` for a number, a readonly array. Where a schema says more
than types can say, the type is `any`. Schemas are untrusted: names are JSON strings, and nothing else of a schema is
copied except literals.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from paddock.engines.servers.methods import list_methods
from paddock.engines.servers.result import find_wrapped
from paddock.engines.servers.typescript import RESERVED_MEMBERS
from paddock.foundation.schema.inline_refs import unfold_schema
from paddock.model.base import Json

ANY = "any"
_MAX_TYPES = 1_000
"""Maximum number of types in one declaration; further ones are `any`."""
_MAX_DEPTH = 12
_MAX_LITERALS = 200
_MAX_LISTED_TOOLS = 1_000
"""Maximum number of tools of one server whose names are declared; with more, any name is a tool."""
_UNSURE_KEYWORDS = frozenset(
    {
        "not",
        "if",
        "patternProperties",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
        "propertyNames",
    }
)
"""Keywords that say more than the type beside them."""
_NON_NAME_PATTERN = re.compile(r"[^A-Za-z0-9_]")


class DeclaredTool(NamedTuple):
    """A tool, as far as a check uses it."""

    names: tuple[str, ...]
    """Its name, and its alias if it has one."""
    arguments: Mapping[str, Json] | None = None
    """The JSON Schema of its arguments; None for any."""
    result: Mapping[str, Json] | None = None
    """The JSON Schema of its results; None for any."""


class DeclaredServer(NamedTuple):
    """A server, as far as a check uses it."""

    name: str
    tools: tuple[DeclaredTool, ...] | None
    """All its tools; None for any."""
    capabilities: frozenset[str] = frozenset()
    """What it declares besides tools, such as `resources`."""


def declare_servers(servers: Iterable[DeclaredServer], name: str) -> str:
    """Return a declaration of a function `$name` that returns `servers`.

    Names of types tell what they are of, and are in a namespace `name`: `Arguments$time$convert_time`,
    `Result$time$convert_time$target`, `Server$time`, `Servers$`.
    """
    writer = _Declarations()
    members = [f"  {json.dumps(server.name)}: {writer.declare_server(server)};" for server in servers]
    root = "\n".join(["interface Servers$ {", *members, "}"])
    body = "\n".join([*writer.lines, root])
    return f"declare namespace {name}$ {{\n{body}\n}}\ndeclare function ${name}(): {name}$.Servers$;\n"


class _Declarations:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: set[str] = set()

    def declare_server(self, server: DeclaredServer) -> str:
        if server.tools is None:
            return ANY
        members = [
            "call(tool: string, args?: any): Promise<any>;",
            "callRaw(tool: string, args?: any): Promise<any>;",
        ]
        groups = [name for name in sorted(server.capabilities) if list_methods(name)]
        for tool in server.tools:
            if tool.names[0] in groups:
                groups.remove(tool.names[0])
                members.append(f"{json.dumps(tool.names[0])}: {ANY};")  # the tool and the methods
            elif tool.names[0] not in RESERVED_MEMBERS:
                members += self._declare_tool(server.name, tool)
        members += [self._declare_methods(server.name, name) for name in groups]
        if len(server.tools) > _MAX_LISTED_TOOLS:
            members.append("[tool: string]: any;")
        return self._declare("Server", (server.name,), members)

    def _declare_methods(self, server: str, capability: str) -> str:
        """Return the member with the methods of a capability."""
        methods = [
            method.declare(name, self._declare("Result", (server, capability, name), [method.entry]))
            for name, method in list_methods(capability).items()
        ]
        return f"{json.dumps(capability)}: {self._declare('Server', (server, capability), methods)};"

    def _declare_tool(self, server: str, tool: DeclaredTool) -> list[str]:
        if tool.arguments is None and tool.result is None:
            return [f"{json.dumps(name)}: {ANY};" for name in tool.names]
        path = (server, tool.names[0])
        arguments, optional = self._write_arguments(path, tool.arguments)
        result = ANY if tool.result is None else _ResultTypes(self, path).write(_unfold_result(tool.result))
        # `map` passes an index and an array, too.
        call = f"(args{optional}: {arguments}, ...rest: any[]): Promise<{result}>;"
        return [f"{json.dumps(name)}{call}" for name in tool.names]

    def _write_arguments(self, path: tuple[str, ...], schema: Mapping[str, Json] | None) -> tuple[str, str]:
        """Return the type of a tool's arguments, and `?` if it can be called without."""
        if schema is None:
            return ANY, "?"
        unfolded = {"type": "object", **unfold_schema(schema)}
        text = _ArgumentTypes().write(unfolded)
        if text != ANY:
            name = self._choose_name("Arguments", path)
            self.lines.append(f"type {name} = {text};")
            text = name
        return text, "" if unfolded.get("required") else "?"

    def _declare(self, kind: str, path: Iterable[str], members: Iterable[str]) -> str:
        """Declare an interface and return its name."""
        name = self._choose_name(kind, path)
        self.lines.append("\n".join([f"interface {name} {{", *(f"  {member}" for member in members), "}"]))
        return name

    def _choose_name(self, kind: str, path: Iterable[str]) -> str:
        base = name = "$".join([kind, *(_NON_NAME_PATTERN.sub("_", part)[:80] for part in path)])
        number = 1
        while name in self._names:
            number += 1
            name = f"{base}${number}"
        self._names.add(name)
        return name

    def declare_result(self, path: Iterable[str], members: Iterable[str]) -> str:
        """Declare the type of an object in a result, and return its name."""
        return self._declare("Result", path, members)


def _unfold_result(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    return unfold_schema(find_wrapped(schema) or schema)


class _Types:
    """Writes the types of one schema."""

    def __init__(self) -> None:
        self._left = _MAX_TYPES

    def write(self, schema: Json, depth: int = 0) -> str:
        """Return a schema with inlined references as a type."""
        self._left -= 1
        if not isinstance(schema, dict) or self._left < 0 or depth > _MAX_DEPTH:
            return ANY
        fields = cast("dict[str, Json]", schema)
        if fields.keys() & _UNSURE_KEYWORDS:
            return ANY
        combined = [_as_list(fields[keyword]) for keyword in ("anyOf", "oneOf", "allOf") if keyword in fields]
        if combined:
            # Beside an alternative, other keywords only narrow it, except members, which it would leave out.
            if len(combined) > 1 or "properties" in fields or ("allOf" in fields and len(combined[0]) != 1):
                return ANY
            return _join_union(self.write(each, depth + 1) for each in combined[0])
        if "const" in fields:
            return self._write_literals([fields["const"]])
        if "enum" in fields:
            return self._write_literals(_as_list(fields["enum"]))
        kinds = fields.get("type")
        named = (
            [kinds] if isinstance(kinds, str) else [kind for kind in _as_list(kinds) if isinstance(kind, str)]
        )
        if not named:
            named = ["object"] if "properties" in fields else []
        return _join_union(self._write_kind(kind, fields, depth) for kind in named)

    def _write_literals(self, values: list[Json]) -> str:
        if len(values) > _MAX_LITERALS or not all(isinstance(value, str | int | None) for value in values):
            return ANY
        return _join_union(json.dumps(value) for value in values)

    def _write_kind(self, kind: str, fields: Mapping[str, Json], depth: int) -> str:
        match kind:
            case "string":
                return self.write_string(fields)
            case "number" | "integer":
                return self.number
            case "boolean" | "null":
                return kind
            case "array":
                items = fields.get("items")
                inner = (
                    self.write(items, depth + 1)
                    if isinstance(items, dict) and "prefixItems" not in fields
                    else ANY
                )
                return f"{self.array}<{inner}>"
            case "object":
                return self._write_object(fields, depth)
            case _:
                return ANY

    def _write_object(self, fields: Mapping[str, Json], depth: int) -> str:
        properties, further = fields.get("properties"), fields.get("additionalProperties")
        if not isinstance(properties, dict) or not properties:
            return "{}" if further is False and self.sends else ANY
        required = {name for name in _as_list(fields.get("required")) if isinstance(name, str)}
        members = [
            # A result that lacks a member is read as `undefined`, which has every type without strict null checks.
            f"{json.dumps(name)}{'' if name in required or not self.sends else '?'}: "
            f"{self.write_member(name, each, depth)};"
            for name, each in cast("dict[str, Json]", properties).items()
        ]
        if isinstance(further, dict) or further is True:
            members.append("[name: string]: any;")
        return self.write_members(members)

    sends = False
    number = "number"
    array = "Array"

    def write_string(self, fields: Mapping[str, Json]) -> str:
        """Return the type of a string."""
        del fields
        return "string"

    def write_member(self, name: str, schema: Json, depth: int) -> str:
        """Return the type of a member of an object."""
        del name
        return self.write(schema, depth + 1)

    def write_members(self, members: list[str]) -> str:
        """Return an object with such members as a type."""
        return f"{{ {' '.join(members)} }}"


class _ArgumentTypes(_Types):
    """The types of what a program sends. JSON makes a text of a `Date`, and a number of a `BigInt`."""

    sends = True
    number = "number | bigint"
    array = "ReadonlyArray"

    def write_string(self, fields: Mapping[str, Json]) -> str:
        is_bytes = fields.get("contentEncoding") == "base64" or fields.get("format") == "byte"
        return ANY if is_bytes else "string | Date"  # bytes are sent as base64


class _ResultTypes(_Types):
    """The types of what a program receives. Each object has a name, which the compiler's messages show."""

    def __init__(self, declarations: _Declarations, path: tuple[str, ...]) -> None:
        super().__init__()
        self._declarations = declarations
        self._path = path

    def write_member(self, name: str, schema: Json, depth: int) -> str:
        outer, self._path = self._path, (*self._path, name)
        try:
            return self.write(schema, depth + 1)
        finally:
            self._path = outer

    def write_members(self, members: list[str]) -> str:
        return self._declarations.declare_result(self._path, members)


def _join_union(types: Iterable[str]) -> str:
    """Return the union of types; `any` includes everything, and so does no type at all."""
    found = dict.fromkeys(types)
    return ANY if not found or ANY in found else " | ".join(found)


def _as_list(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else []
