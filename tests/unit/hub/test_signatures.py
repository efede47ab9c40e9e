"""Tools as TypeScript, for those who choose and for those who write the call."""

import pytest

from paddock.hub.result import ToolInfo
from paddock.hub.search import CatalogTool
from paddock.hub.signatures import Described, describe, signature

ISSUES = {
    "type": "object",
    "properties": {
        "state": {"enum": ["open", "closed"], "default": "open", "description": "Which ones"},
        "repo": {"type": "string", "description": "Ends */ nothing\nhere"},
        "labels": {"type": "array", "items": {"type": ["string", "null"]}},
    },
    "required": ["repo"],
}


def tool(name, schema, description="", output=None, server="github"):
    return CatalogTool(server, ToolInfo(name, description, schema, output, {}))


def parameters(schema):
    """Return the type of the parameter `x` with a schema, as the one-line signature has it."""
    line = signature(tool("t", {"properties": {"x": schema}, "required": ["x"]}))
    return line.removeprefix("github.t({ x: ").removesuffix(" })")


def test_one_line_has_what_is_required_first():
    entry = tool("list_issues", ISSUES, "List issues. Slowly.\nMore.", {"type": "array", "items": {}})
    assert signature(entry) == (
        'github.list_issues({ repo: string, state?: "open" | "closed", labels?: (string | null)[] }): unknown[]'
        " // List issues."
    )


def test_a_declaration_has_comments_and_defaults():
    entry = tool("list_issues", ISSUES, "List issues.\nMore.")
    assert describe(entry) == Described(
        name="github.list_issues",
        server="servers.github",
        declaration="""\
/** List issues. More. */
list_issues(args: {
  /** Which ones */
  state?: "open" | "closed"; // default "open"
  /** Ends * / nothing here */
  repo: string;
  labels?: (string | null)[];
}): Promise<unknown>; // output: unknown""",
        output="unknown",
        changed=False,
    )


def test_output_is_declared_before_it_is_observed():
    observed = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    entry = tool("t", {})
    described = describe(entry, observed)
    assert described.output == "observed"
    assert described.declaration == (
        "t(args?: Record<string, unknown>): Promise<{\n  n: number;\n}>; // output: observed"
    )
    assert describe(tool("t", {}, output={"type": "object"}), observed).output == "declared"
    assert signature(entry, observed) == "github.t(): { n: number }"


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "unknown"),
        (True, "unknown"),
        (False, "never"),
        ({"type": "integer"}, "number"),
        ({"type": "string", "nullable": True}, "string | null"),
        ({"const": 'a"b'}, '"a\\"b"'),
        ({"enum": [1, None, True]}, "1 | null | true"),
        ({"enum": list(range(100))}, "number"),
        ({"enum": [1.5, "a"]}, "number | string"),
        ({"enum": [float("nan")]}, "number"),
        ({"const": "x" * 100}, "string"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]}, "string | number[]"),
        ({"oneOf": [{"type": "string"}, {}]}, "unknown"),
        ({"type": "object", "additionalProperties": False}, "Record<string, never>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "Record<string, number>"),
        ({"prefixItems": [{"type": "string"}, {"type": ["null", "number"]}], "type": "array"}, "[string?, (null | number)?, ...unknown[]]"),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, "{ a?: unknown } & { b?: unknown }"),
        ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "Record<string, unknown>"),
        ({"properties": {"a-b": {}, "__proto__": {}, "x\ny": {}}}, '{ "a-b"?: unknown; __proto__?: unknown; "x\\ny"?: unknown }'),
        ({"type": 7, "properties": [], "items": "no"}, "Record<string, unknown>"),
    ],
)  # fmt: skip
def test_types(schema, text):
    assert parameters(schema) == text


def test_long_parameters_give_way_to_short_ones():
    wide = {"type": "object", "properties": {f"property{n}": {"type": "string"} for n in range(30)}}
    assert signature(tool("t", {"properties": {"a": wide, "b": {"items": wide}}})) == (
        "github.t({ a?: object, b?: unknown })"
    )
    assert signature(tool("t", wide)) == (
        "github.t({ property0?: string, property1?: string, property2?: string, property3?: string,"
        " property4?: string, property5?: string, property6?: string, property7?: string, /* 22 more */ })"
    )


def test_names_in_any_script_are_shown_as_they_are_unless_they_hide_something():
    names = ["名前", "\u202eevil", "a\nb"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    text = describe(tool("工具", schema)).declaration
    assert [line for line in text.splitlines() if ":" in line] == [
        '"工具"(args?: {',
        '  "名前"?: string;',
        '  "\\u202eevil"?: string;',
        '  "a\\nb"?: string;',
        "}): Promise<unknown>; // output: unknown",
    ]


def test_names_that_are_no_identifiers_are_quoted():
    entry = tool('a-"b', {}, server="my server")
    assert signature(entry) == 'servers["my server"]["a-\\"b"]()'
    declaration = '"a-\\"b"(args?: Record<string, unknown>): Promise<unknown>; // output: unknown'
    assert describe(entry).declaration == declaration


def test_a_hostile_tool_costs_little_text():
    deep = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"x": deep, "y" * 5000: {}}}
    wide = {
        "properties": {f"p{n}": {"enum": ["v" * 50] * 200, "description": "d" * 10_000} for n in range(1000)}
    }
    for schema in (deep, wide):
        entry = tool("t" * 10_000, schema, "d" * 100_000)
        assert len(signature(entry)) < 2_000
        assert len(describe(entry).declaration) < 400_000


@pytest.mark.parametrize("name", ["then", "call", "callRaw", "toJSON", "toString", "valueOf"])
def test_names_that_are_taken_are_declared_as_they_can_be_called(name):
    entry = tool(name, {"properties": {"a": {"type": "string"}}, "required": ["a"]}, "Does it.")
    assert signature(entry) == f'github.call("{name}", {{ a: string }}) // Does it.'
    assert describe(entry).declaration == (
        f'/** Does it. */\ncall(tool: "{name}", args: {{\n  a: string;\n}}): Promise<unknown>; // output: unknown'
    )
    assert signature(tool(name, {}, server="a-b")) == f'servers["a-b"].call("{name}")'
