"""Show tools as TypeScript: a line each for those who choose, a declaration for those who write the call.

Schemas and descriptions are a stranger's words. Whatever they hold, what comes out is bounded and is valid
TypeScript: names that are no identifiers are quoted, comments cannot be ended from within, literals are JSON.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from paddock.hub.catalog_tool import CatalogTool
from paddock.model.base import Json
from paddock.model.invisible import has_invisible, spell_invisible
from paddock.schema.inline_refs import unfold_schema
from paddock.texts import ellipsis

Output = Literal["declared", "observed", "unknown"]
"""Where an output type comes from: the server's word, results seen so far, or nowhere."""

_MAX_TYPES = 300
"""Types in one declaration; further ones are `unknown`."""
_MAX_DEPTH = 8
_MAX_LITERALS = 24
_MAX_LITERAL_CHARS = 60
_MAX_NAME_CHARS = 200
_MAX_NOTE_CHARS = 240
_MAX_DESCRIPTION_CHARS = 600
_MAX_SIGNATURE_CHARS = 160
"""Characters for the parameters of a one-line signature; what is required stays."""

_RESERVED_MEMBERS = frozenset({"call", "callRaw", "then", "toJSON", "toString", "valueOf"})
"""Members that `servers.NAME` has of its own, or that JavaScript looks up there (glue/servers.js)."""
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
    """A tool for somebody who is about to call it."""

    name: str
    server: str
    """Where a program finds its server: `servers.NAME`, or `servers["NAME"]` for a name that is no identifier."""
    declaration: str
    """TypeScript, to be read as a member of `server`."""
    output: Output
    changed: bool
    """The server changed the tool after it was pinned: calls are refused until a person approves."""
    hides: bool = False
    """It was `changed` from the start: its definition holds invisible characters, which a person has to accept."""
    notes: tuple[str, ...] = ()
    """What else to know before a call, such as that its arguments are not checked."""


def render_signature(entry: CatalogTool, observed: Mapping[str, Json] | None = None) -> str:
    """Return a tool on one line: name, parameters, a short output type, the first sentence of what it does."""
    parameters = _line_of_arguments(unfold_schema(entry.tool.input_schema))
    _, schema = _select_output(entry, observed)
    returns = _Printer(compact=True).print_type(unfold_schema(schema)) if schema is not None else "unknown"
    result = f": {returns}" if returns != "unknown" and len(returns) <= _MAX_SIGNATURE_CHARS // 2 else ""
    about = _first_sentence(entry.tool.description)
    server = (
        entry.server if _IDENTIFIER_PATTERN.match(entry.server) else f"servers[{_render_key(entry.server)}]"
    )
    name = entry.alias or entry.tool.name
    tool = f".{name}" if _IDENTIFIER_PATTERN.match(name) else f"[{_render_key(name)}]"
    call = f"{tool}({parameters})"
    if entry.tool.name in _RESERVED_MEMBERS:
        call = f'.call("{entry.tool.name}"{parameters and f", {parameters}"})'
    return f"{server}{call}{result}" + (f" // {about}" if about else "")


def describe_tool(
    entry: CatalogTool, observed: Mapping[str, Json] | None = None, *, unchecked: str = ""
) -> Described:
    """Return the whole declaration of a tool. `observed` is the type that its results had so far.

    `unchecked` says what of its arguments is not checked.
    """
    kind, schema = _select_output(entry, observed)
    printer = _Printer()
    input_schema = unfold_schema(entry.tool.input_schema)
    parameters = printer.print_type({"type": "object", **input_schema})
    optional = "" if _needs_arguments(input_schema) else "?"
    returns = printer.print_type(unfold_schema(schema)) if schema is not None else "unknown"
    about = _render_comment(entry.tool.description, _MAX_DESCRIPTION_CHARS)
    lines = [f"/** {about} */"] if about else []
    named = f"; tool {_render_key(entry.tool.name)}" if entry.alias else ""
    called = f"{_render_key(entry.alias or entry.tool.name)}("
    if entry.tool.name in _RESERVED_MEMBERS:
        called = f'call(tool: "{entry.tool.name}", '
    lines += [f"{called}args{optional}: {parameters}): Promise<{returns}>; // output: {kind}{named}"]
    member = (
        f".{entry.server}" if _IDENTIFIER_PATTERN.match(entry.server) else f"[{_render_key(entry.server)}]"
    )
    notes = tuple(filter(None, (entry.warning, unchecked)))
    declaration = "\n".join(lines)
    return Described(entry.name, f"servers{member}", declaration, kind, entry.changed, entry.hides, notes)


class _Printer:
    """Prints the types of one declaration. Its budget of types is shared between parameters and output."""

    def __init__(self, *, compact: bool = False) -> None:
        self._compact = compact
        self._left = _MAX_TYPES

    def print_type(self, schema: Json, depth: int = 0) -> str:
        """Return a schema of `unfold` as a type."""
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
        # A union says all that its base says: `type: string` beside `enum`s in `anyOf` adds nothing.
        known = [part for part in known if len(known) == 1 or part not in _BASE_TYPES] or known[:1]
        text = (
            " & ".join(_add_parentheses(part, " | ") for part in known) if len(known) > 1 else "".join(known)
        )
        if text and fields.get("nullable") is True:
            text = _join_union([text, "null"])
        return text or "unknown"

    def _print_own(self, fields: Mapping[str, Json], depth: int) -> str:
        """Return what `const`, `enum` and `type` say."""
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
        return "{\n" + "\n".join(_indent_lines(member, 2) for member in members) + "\n}"

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
    if entry.tool.output_schema is not None:
        return "declared", entry.tool.output_schema
    return ("observed", observed) if observed is not None else ("unknown", None)


def _line_of_arguments(schema: Mapping[str, Json]) -> str:
    """Return what a tool takes, on one line: its parameters, or else the type that `describe` has."""
    plain = _as_plain_object(schema)
    if plain is not None:
        return _line_of_parameters(plain)
    text = _Printer(compact=True).print_type({"type": "object", **schema})
    if len(text) <= 2 * _MAX_SIGNATURE_CHARS:
        return text
    return _line_of_parameters(_loosely_merged(schema)) + " /* in combinations: see its declaration */"


def _as_plain_object(schema: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return an object and what `allOf` adds to it as one object with named members; None where it says more."""
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
    """Return all members that a schema names anywhere at its top; those of alternatives are not required."""
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
    """Return whether a tool cannot be called without arguments."""
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
    """Return the parameters on one line: those that are required, then as many others as fit."""
    properties, required = _read_members(schema), _read_required(schema)
    order = sorted(properties, key=lambda name: name not in required)
    shown: list[str] = []
    length = 0
    for count, name in enumerate(order):
        shape = _Printer(compact=True).print_type(properties[name])
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
    """Return a short word for a type that does not fit on a line."""
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
    """Return values as a union of literals; too many or too long ones as the union of their types."""
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
    """Return the union of types, each once; `unknown` takes in everything."""
    found = dict.fromkeys(text for text in types if text)
    return "unknown" if "unknown" in found else " | ".join(found)


def _add_parentheses(text: str, operator: str) -> str:
    """Return a type in parentheses when it holds an operator that would bind otherwise."""
    return f"({text})" if operator in text and not _is_closed(text) else text


def _is_closed(text: str) -> bool:
    """Return whether a type is one pair of braces, so that what is within needs no parentheses."""
    if not text.startswith("{"):
        return False
    return text.endswith("}") and text.count("{") == 1


def _render_key(name: str) -> str:
    if _IDENTIFIER_PATTERN.match(name):
        return name
    hides = not name.isprintable() or has_invisible(name)
    return json.dumps(name[:_MAX_NAME_CHARS], ensure_ascii=hides)  # what hides or turns text is spelled out


def _render_comment(text: str, max_chars: int) -> str:
    """Return a text on one line that cannot end the comment it stands in."""
    line = spell_invisible(text[: max_chars * 4])
    line = _SPACE_PATTERN.sub(" ", line).strip().replace("*/", "* /")
    return ellipsis(line, max_chars).encode("utf-8", "replace").decode()


def _first_sentence(text: str) -> str:
    line = _render_comment(text.strip().partition("\n")[0], _MAX_NOTE_CHARS)
    found = _SENTENCE_PATTERN.match(line)
    sentence = found[1] if found else line
    return (
        sentence
        if len(sentence) <= _MAX_SIGNATURE_CHARS // 2
        else sentence[: _MAX_SIGNATURE_CHARS // 2 - 3].rstrip() + "..."
    )


def _indent_lines(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def _as_list(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else []
