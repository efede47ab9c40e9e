"""Show tools as TypeScript: one line to choose a tool, a whole declaration to write the call.

Schemas and descriptions are untrusted. The output is always bounded and valid TypeScript: names that are no identifiers
are quoted, comments cannot be closed from within, literals are JSON.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from paddock.engines.servers.methods import list_declarations
from paddock.engines.servers.result import CatalogTool, find_wrapped
from paddock.foundation.schema.inline_refs import unfold_schema
from paddock.model.base import Json
from paddock.model.invisible import has_invisible, spell_invisible
from paddock.model.texts import ellipsis

Output = Literal["declared", "observed", "unknown"]
"""Source of an output type: the server's schema, observed results, or none."""

_MAX_TYPES = 300
"""Maximum number of types in one declaration; further ones are `unknown`."""
_MAX_DEPTH = 8
_MAX_LITERALS = 24
_MAX_LITERAL_CHARS = 60
_MAX_NAME_CHARS = 200
_MAX_NOTE_CHARS = 240
_MAX_DESCRIPTION_CHARS = 600
_MAX_SIGNATURE_CHARS = 160
"""Maximum length of the parameters in a one-line signature, in characters; required ones are always shown."""

RESERVED_MEMBERS = frozenset({"call", "callRaw", "then", "toJSON", "toString", "valueOf"})
"""Members that `servers.NAME` itself has, or that JavaScript looks up there (bootstrap/servers.js)."""
_IDENTIFIER_PATTERN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,199}\Z")
_SPACE_PATTERN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]+")
_SENTENCE_PATTERN = re.compile(r"(.+?[.!?])(?:\s|$)")
_PLAIN_TYPES = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}
_ROUGH_TYPES = {**_PLAIN_TYPES, "array": "unknown[]", "object": "object"}


@dataclass(frozen=True, slots=True)
class Described:
    """A tool for a caller."""

    name: str
    server: str
    """How a program reaches its server: `servers.NAME`, or `servers["NAME"]` if the name is no identifier."""
    declaration: str
    """TypeScript that declares a member of `server`."""
    output: Output
    changed: bool
    """The server changed the tool after it was pinned: calls are refused until a person approves."""
    hides: bool = False
    """It was `changed` from the start: its definition contains invisible characters, which a person must accept."""
    notes: tuple[str, ...] = ()
    """A further note for callers, such as that arguments are not checked."""


def render_signature(entry: CatalogTool, observed: Mapping[str, Json] | None = None) -> str:
    """Return a tool on one line: name, parameters, a short output type, the first sentence of its description."""
    parameters = _line_of_arguments(unfold_schema(entry.tool.input_schema))
    _, schema = _select_output(entry, observed)
    returns = (
        _TypePrinter(compact=True).print_type(unfold_schema(schema)) if schema is not None else "unknown"
    )
    result = f": {returns}" if returns != "unknown" and len(returns) <= _MAX_SIGNATURE_CHARS // 2 else ""
    line = _render_comment(entry.tool.description.strip().partition("\n")[0], _MAX_NOTE_CHARS)
    sentence = _SENTENCE_PATTERN.match(line)
    about = sentence[1] if sentence else line
    if len(about) > _MAX_SIGNATURE_CHARS // 2:
        about = about[: _MAX_SIGNATURE_CHARS // 2 - 3].rstrip() + "..."
    server = (
        entry.server if _IDENTIFIER_PATTERN.match(entry.server) else f"servers[{_render_key(entry.server)}]"
    )
    name = entry.alias or entry.tool.name
    tool = f".{name}" if _IDENTIFIER_PATTERN.match(name) else f"[{_render_key(name)}]"
    call = f"{tool}({parameters})"
    if entry.tool.name in RESERVED_MEMBERS:
        call = f'.call("{entry.tool.name}"{parameters and f", {parameters}"})'
    return f"{server}{call}{result}" + (f" // {about}" if about else "")


def describe_tool(
    entry: CatalogTool, observed: Mapping[str, Json] | None = None, *, unchecked: str = ""
) -> Described:
    """Return the whole declaration of a tool. `observed` is the type of its results so far.

    `unchecked` says which arguments are not checked.
    """
    kind, schema = _select_output(entry, observed)
    printer = _TypePrinter()
    input_schema = unfold_schema(entry.tool.input_schema)
    parameters = printer.print_type({"type": "object", **input_schema})
    optional = "" if _needs_arguments(input_schema) else "?"
    returns = printer.print_type(unfold_schema(schema)) if schema is not None else "unknown"
    about = _render_comment(entry.tool.description, _MAX_DESCRIPTION_CHARS)
    lines = [f"/** {about} */"] if about else []
    named = f"; tool {_render_key(entry.tool.name)}" if entry.alias else ""
    called = f"{_render_key(entry.alias or entry.tool.name)}("
    if entry.tool.name in RESERVED_MEMBERS:
        called = f'call(tool: "{entry.tool.name}", '
    lines += [f"{called}args{optional}: {parameters}): Promise<{returns}>; // output: {kind}{named}"]
    member = (
        f".{entry.server}" if _IDENTIFIER_PATTERN.match(entry.server) else f"[{_render_key(entry.server)}]"
    )
    notes = tuple(filter(None, (entry.warning, unchecked)))
    declaration = "\n".join(lines)
    return Described(entry.name, f"servers{member}", declaration, kind, entry.changed, entry.hides, notes)


def describe_methods(server: str, capability: str) -> Described:
    """Return the declarations of `servers.NAME.resources` or `servers.NAME.prompts`."""
    member = f".{server}" if _IDENTIFIER_PATTERN.match(server) else f"[{_render_key(server)}]"
    declaration = "\n".join(list_declarations(capability))
    return Described(
        f"{server}.{capability}", f"servers{member}.{capability}", declaration, "declared", changed=False
    )


class _TypePrinter:
    """Prints the types of one declaration. Parameters and output share one budget of types."""

    def __init__(self, *, compact: bool = False) -> None:
        self._compact = compact
        self._left = _MAX_TYPES

    def print_type(self, schema: Json, depth: int = 0) -> str:
        """Return a schema with inlined references as a type."""
        self._left -= 1
        if not isinstance(schema, dict) or self._left < 0 or depth > _MAX_DEPTH:
            return "unknown"
        fields = cast("dict[str, Json]", schema)
        if fields.get("not") == {}:
            return "never"
        parts = [self._print_own(fields, depth)]
        parts += [
            _join_union(self.print_type(item, depth + 1) for item in _as_list(fields.get(keyword)))
            for keyword in ("anyOf", "oneOf")
        ]
        parts += [self.print_type(item, depth + 1) for item in _as_list(fields.get("allOf"))]
        known = list(dict.fromkeys(part for part in parts if part not in ("", "unknown")))
        # A union includes its base type: `type: string` beside `enum`s in `anyOf` adds nothing.
        known = [part for part in known if len(known) == 1 or part not in _BASE_TYPES] or known[:1]
        text = (
            " & ".join(_add_parentheses(part, " | ") for part in known) if len(known) > 1 else "".join(known)
        )
        if text and fields.get("nullable") is True:
            text = _join_union([text, "null"])
        return text or "unknown"

    def _print_own(self, fields: Mapping[str, Json], depth: int) -> str:
        """Return the type from `const`, `enum` and `type`."""
        if "const" in fields:
            return _join_literals([fields["const"]])
        if isinstance(fields.get("enum"), list):
            return _join_literals(_as_list(fields["enum"]))
        kinds = fields.get("type")
        named = (
            [kinds] if isinstance(kinds, str) else [kind for kind in _as_list(kinds) if isinstance(kind, str)]
        )
        if not named:
            named = ["object"] if "properties" in fields else ["array"] if "items" in fields else []
        return _join_union(self._print_kind(kind, fields, depth) for kind in named)

    def _print_kind(self, kind: str, fields: Mapping[str, Json], depth: int) -> str:
        match kind:
            case "object":
                return self._print_object(fields, depth)
            case "array":
                return self._print_array(fields, depth)
            case _:
                return _PLAIN_TYPES.get(kind, "unknown")

    def _print_array(self, fields: Mapping[str, Json], depth: int) -> str:
        first = _as_list(fields.get("prefixItems")) or _as_list(fields.get("items"))
        if not first:
            return f"{_add_parentheses(self.print_type(fields.get('items'), depth + 1), ' ')}[]"
        items = [_add_parentheses(self.print_type(item, depth + 1), " ") for item in first[:_MAX_LITERALS]]
        return f"[{', '.join(f'{item}?' for item in items)}, ...unknown[]]"

    def _print_object(self, fields: Mapping[str, Json], depth: int) -> str:
        properties = _read_members(fields)
        further = fields.get("additionalProperties", True)
        if not properties:
            if further is False:
                return "Record<string, never>"
            value = self.print_type(further, depth + 1) if isinstance(further, dict) else "unknown"
            return f"Record<string, {value}>"
        required = _read_required(fields)
        members = [
            self._print_member(name, schema, name in required, depth) for name, schema in properties.items()
        ]
        if isinstance(further, dict):
            members.append("[name: string]: unknown;")
        if self._compact:
            return "{ " + " ".join(members).removesuffix(";") + " }"
        return "{\n" + "\n".join(f"  {line}" for member in members for line in member.splitlines()) + "\n}"

    def _print_member(self, name: str, schema: Json, required: bool, depth: int) -> str:
        text = f"{_render_key(name)}{'' if required else '?'}: {self.print_type(schema, depth + 1)};"
        if self._compact or not isinstance(schema, dict):
            return text
        fields = cast("dict[str, Json]", schema)
        about = fields.get("description")
        note = _render_comment(about, _MAX_NOTE_CHARS) if isinstance(about, str) else ""
        if "default" in fields:
            default = json.dumps(fields["default"])
            text += f" // default {_render_comment(default, _MAX_LITERAL_CHARS)}"
        return f"/** {note} */\n{text}" if note else text


_SAYS_MORE = frozenset({"anyOf", "oneOf", "const", "enum", "not"})
_BASE_TYPES = frozenset({"string", "number", "boolean", "Record<string, unknown>"})


def _select_output(
    entry: CatalogTool, observed: Mapping[str, Json] | None
) -> tuple[Output, Mapping[str, Json] | None]:
    if (declared := entry.tool.output_schema) is not None:
        return "declared", find_wrapped(declared) or declared
    return ("observed", observed) if observed is not None else ("unknown", None)


def _line_of_arguments(schema: Mapping[str, Json]) -> str:
    """Return a tool's parameters on one line, or the type that `describe` shows."""
    plain = _as_plain_object(schema)
    if plain is not None:
        return _line_of_parameters(plain)
    text = _TypePrinter(compact=True).print_type({"type": "object", **schema})
    if len(text) <= 2 * _MAX_SIGNATURE_CHARS:
        return text
    return _line_of_parameters(_loosely_merged(schema)) + " /* in combinations: see its declaration */"


def _as_plain_object(schema: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return an object merged with its `allOf` as one object with named members; None if it says more."""
    further = schema.get("additionalProperties")
    if (
        _SAYS_MORE & schema.keys()
        or isinstance(further, dict)
        or (further is True and not _read_members(schema))
    ):
        return None
    properties, required = dict(_read_members(schema)), [*_read_required(schema)]
    for each in _as_list(schema.get("allOf")):
        part = _as_plain_object(cast("dict[str, Json]", each)) if isinstance(each, dict) else None
        if part is None or part["properties"].keys() & properties.keys():
            return None
        properties |= part["properties"]
        required += part["required"]
    return {"properties": properties, "required": cast("list[Json]", required)}


def _loosely_merged(schema: Mapping[str, Json], *, alternative: bool = False) -> dict[str, Json]:
    """Return all members that a schema names at its top level; members of alternatives are optional."""
    properties = dict(_read_members(schema))
    required: list[Json] = [] if alternative else [*_read_required(schema)]
    for keyword in ("allOf", "anyOf", "oneOf"):
        for each in _as_list(schema.get(keyword)):
            if isinstance(each, dict):
                fields = cast("dict[str, Json]", each)
                part = _loosely_merged(fields, alternative=alternative or keyword != "allOf")
                properties |= part["properties"] | properties
                required += part["required"]
    return {"properties": properties, "required": required}


def _needs_arguments(schema: Json) -> bool:
    if not isinstance(schema, dict):
        return False
    fields = cast("dict[str, Json]", schema)
    either = (_as_list(fields.get(keyword)) for keyword in ("anyOf", "oneOf"))
    return (
        bool(_read_required(fields))
        or any(map(_needs_arguments, _as_list(fields.get("allOf"))))
        or any(options and all(map(_needs_arguments, options)) for options in either)
    )


def _line_of_parameters(schema: Mapping[str, Json]) -> str:
    """Return the parameters on one line: the required ones, then as many others as fit."""
    properties, required = _read_members(schema), _read_required(schema)
    order = sorted(properties, key=lambda name: name not in required)
    shown: list[str] = []
    length = 0
    for count, name in enumerate(order):
        shape = _TypePrinter(compact=True).print_type(properties[name])
        text = f"{_render_key(name)}{'' if name in required else '?'}: {shape}"
        if len(text) > _MAX_SIGNATURE_CHARS // 2:
            text = (
                f"{_render_key(name)}{'' if name in required else '?'}: {_abbreviate_type(properties[name])}"
            )
        length += len(text) + 2
        if length > _MAX_SIGNATURE_CHARS and (name not in required or length > 4 * _MAX_SIGNATURE_CHARS):
            shown.append(f"/* {len(order) - count} more */")
            break
        shown.append(text)
    return "{ " + ", ".join(shown) + " }" if shown else ""


def _abbreviate_type(schema: Json) -> str:
    """Return a short name for a type that does not fit on a line."""
    fields = cast("dict[str, Json]", schema) if isinstance(schema, dict) else {}
    kinds = fields.get("type")
    named = [*_as_list(kinds), *(["null"] if fields.get("nullable") is True else [])]
    match kinds if isinstance(kinds, str) else "":
        case "":
            words = [_ROUGH_TYPES.get(kind, "unknown") for kind in named if isinstance(kind, str)]
            return _join_union(words) if _as_list(kinds) else "unknown"
        case kind:
            return _join_union([_ROUGH_TYPES.get(kind, "unknown"), *map(str, named)])


def _read_members(schema: Mapping[str, Json]) -> dict[str, Json]:
    members = schema.get("properties")
    if not isinstance(members, dict):
        return {}
    return {
        name: value
        for name, value in cast("dict[str, Json]", members).items()
        if len(name) <= _MAX_NAME_CHARS
    }


def _read_required(schema: Mapping[str, Json]) -> frozenset[str]:
    return frozenset(name for name in _as_list(schema.get("required")) if isinstance(name, str))


def _join_literals(values: Sequence[Json]) -> str:
    """Return values as a union of literals, or of their types if they are too many or too long."""
    spelled = [json.dumps(value) for value in values[: _MAX_LITERALS + 1]]
    scalar = all(isinstance(value, str | int | None) for value in values[: _MAX_LITERALS + 1])
    if scalar and len(spelled) <= _MAX_LITERALS and all(len(text) <= _MAX_LITERAL_CHARS for text in spelled):
        return _join_union(spelled)
    return _join_union(_type_of(value) for value in values[:1000])


def _type_of(value: Json) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int() | float():
            return "number"
        case None:
            return "null"
        case _:
            return "unknown"


def _join_union(types: Iterable[str]) -> str:
    """Return the union of distinct types; `unknown` includes everything."""
    found = dict.fromkeys(text for text in types if text)
    return "unknown" if "unknown" in found else " | ".join(found)


def _add_parentheses(text: str, operator: str) -> str:
    """Return a type in parentheses if it contains an operator with a lower precedence."""
    is_one_object = text.startswith("{") and text.endswith("}") and text.count("{") == 1
    return f"({text})" if operator in text and not is_one_object else text


def _render_key(name: str) -> str:
    if _IDENTIFIER_PATTERN.match(name):
        return name
    hides = not name.isprintable() or has_invisible(name)
    return json.dumps(
        name[:_MAX_NAME_CHARS], ensure_ascii=hides
    )  # characters that hide or reverse text are escaped


def _render_comment(text: str, max_chars: int) -> str:
    """Return a text on one line that cannot end its comment."""
    line = spell_invisible(text[: max_chars * 4])
    line = _SPACE_PATTERN.sub(" ", line).strip().replace("*/", "* /")
    return ellipsis(line, max_chars).encode("utf-8", "replace").decode()


def _as_list(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else []
