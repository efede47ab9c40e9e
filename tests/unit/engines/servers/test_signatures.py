"""Tools as TypeScript, for those who choose and for those who write the call."""

import pytest

from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.engines.servers.typescript import Described, describe_tool, render_signature

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
    line = render_signature(tool("t", {"properties": {"x": schema}, "required": ["x"]}))
    return line.removeprefix("github.t({ x: ").removesuffix(" })")


def test_one_line_has_what_is_required_first():
    entry = tool("list_issues", ISSUES, "List issues. Slowly.\nMore.", {"type": "array", "items": {}})
    assert render_signature(entry) == (
        'github.list_issues({ repo: string, state?: "open" | "closed", labels?: (string | null)[] }): unknown[]'
        " // List issues."
    )


def test_a_declaration_has_comments_and_defaults():
    entry = tool("list_issues", ISSUES, "List issues.\nMore.")
    assert describe_tool(entry) == Described(
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
    described = describe_tool(entry, observed)
    assert described.output == "observed"
    assert described.declaration == (
        "t(args?: Record<string, unknown>): Promise<{\n  n: number;\n}>; // output: observed"
    )
    assert describe_tool(tool("t", {}, output={"type": "object"}), observed).output == "declared"
    assert render_signature(entry, observed) == "github.t(): { n: number }"


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
    assert render_signature(tool("t", {"properties": {"a": wide, "b": {"items": wide}}})) == (
        "github.t({ a?: object, b?: unknown })"
    )
    assert render_signature(tool("t", wide)) == (
        "github.t({ property0?: string, property1?: string, property2?: string, property3?: string,"
        " property4?: string, property5?: string, property6?: string, property7?: string, /* 22 more */ })"
    )


def test_names_in_any_script_are_shown_as_they_are_unless_they_hide_something():
    names = ["名前", "\u202eevil", "a\nb"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    text = describe_tool(tool("工具", schema)).declaration
    assert [line for line in text.splitlines() if ":" in line] == [
        '"工具"(args?: {',
        '  "名前"?: string;',
        '  "\\u202eevil"?: string;',
        '  "a\\nb"?: string;',
        "}): Promise<unknown>; // output: unknown",
    ]


def test_names_that_are_no_identifiers_are_quoted():
    entry = tool('a-"b', {}, server="my server")
    assert render_signature(entry) == 'servers["my server"]["a-\\"b"]()'
    declaration = '"a-\\"b"(args?: Record<string, unknown>): Promise<unknown>; // output: unknown'
    assert describe_tool(entry).declaration == declaration


def test_a_hostile_tool_costs_little_text():
    deep = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"x": deep, "y" * 5000: {}}}
    wide = {
        "properties": {f"p{n}": {"enum": ["v" * 50] * 200, "description": "d" * 10_000} for n in range(1000)}
    }
    for schema in (deep, wide):
        entry = tool("t" * 10_000, schema, "d" * 100_000)
        assert len(render_signature(entry)) < 2_000
        assert len(describe_tool(entry).declaration) < 400_000


A = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
B = {"properties": {"b": {"type": "string"}}}
LONG = {"properties": {f"a_rather_long_name_{n}": {"enum": ["one of these", f"other {n}"]} for n in range(6)}}


@pytest.mark.parametrize(
    ("schema", "line", "declared"),
    [
        ({"allOf": [A, B]}, "{ a: string, b?: string }", "args: {\n  a: string;\n} & {\n  b?: string;\n}"),
        (
            {"anyOf": [A, B]},
            "{ a: string } | { b?: string }",
            "args?: {\n  a: string;\n} | {\n  b?: string;\n}",
        ),
        ({"oneOf": [A, A]}, "{ a: string }", "args: {\n  a: string;\n}"),
        (
            {**B, "oneOf": [A, {"properties": {"c": {}}, "required": ["c"]}]},
            "{ b?: string } & ({ a: string } | { c: unknown })",
            "args: {\n  b?: string;\n} & ({\n  a: string;\n} | {\n  c: unknown;\n})",
        ),
        (
            {"additionalProperties": {"type": "integer"}},
            "Record<string, number>",
            "args?: Record<string, number>",
        ),
        ({"additionalProperties": True}, "Record<string, unknown>", "args?: Record<string, unknown>"),
        (
            {**A, "additionalProperties": {"type": "integer"}},
            "{ a: string; [name: string]: unknown }",
            "args: {\n  a: string;\n  [name: string]: unknown;\n}",
        ),
        ({"$ref": "#/$defs/A", "$defs": {"A": A}}, "{ a: string }", "args: {\n  a: string;\n}"),
        (
            {"type": "object", "allOf": [{"$ref": "#A"}, B], "$defs": {"A": {**A, "$anchor": "A"}}},
            "{ a: string, b?: string }",
            "args: {\n  a: string;\n} & {\n  b?: string;\n}",
        ),
        (
            {"properties": {"x": {"$ref": "#foo"}}, "definitions": {"A": {"$id": "#foo", "type": "integer"}}},
            "{ x?: number }",
            "args?: {\n  x?: number;\n}",
        ),
        ({"type": "object", "properties": {}}, "", "args?: Record<string, unknown>"),
    ],
)
def test_one_line_shows_what_the_declaration_does(schema, line, declared):
    entry = tool("t", schema)
    assert render_signature(entry) == f"github.t({line})"
    assert describe_tool(entry).declaration == f"t({declared}): Promise<unknown>; // output: unknown"


def test_combinations_that_fit_on_no_line_show_their_members():
    line = render_signature(tool("t", {**A, "anyOf": [LONG, {**B, "required": ["b"]}]}))
    assert line.startswith('github.t({ a: string, a_rather_long_name_0?: "one of these" | "other 0", ')
    assert line.endswith(" more */ } /* in combinations: see its declaration */)")


@pytest.mark.parametrize(
    ("schema", "rough"),
    [
        ({"type": "object", "nullable": True, **LONG}, "object | null"),
        ({"type": ["object", "null"], **LONG}, "object | null"),
        ({"anyOf": [LONG]}, "unknown"),
    ],
)
def test_null_is_told_where_a_type_fits_on_no_line(schema, rough):
    assert parameters(schema) == rough


def test_an_alias_is_declared_in_the_place_of_a_name_that_is_no_identifier():
    entry = CatalogTool("github", ToolInfo("get-sum", "Add.", A, None, {}), alias="get_sum")
    assert render_signature(entry) == "github.get_sum({ a: string }) // Add."
    assert describe_tool(entry).declaration == (
        '/** Add. */\nget_sum(args: {\n  a: string;\n}): Promise<unknown>; // output: unknown; tool "get-sum"'
    )


def test_what_is_not_seen_is_spelled_out_wherever_a_schema_says_it():
    hidden = "a\u202eb\U000e0041"
    spelled = r"a\u{202e}b\u{e0041}"
    schema = {"properties": {hidden: {"description": hidden, "enum": [hidden], "default": hidden}}}
    entry = CatalogTool("github", ToolInfo("t", hidden, schema, None, {}))
    escaped = r'"a\u202eb\udb40\udc41"'
    assert render_signature(entry) == f"github.t({{ {escaped}?: {escaped} }}) // {spelled}"
    assert describe_tool(entry).declaration == (
        f"/** {spelled} */\nt(args?: {{\n  /** {spelled} */\n  {escaped}?: {escaped}; // default {escaped}\n"
        "}): Promise<unknown>; // output: unknown"
    )
    assert describe_tool(entry).notes == (
        "github.t has invisible characters in its definition; they are spelled out",
    )


@pytest.mark.parametrize("name", ["then", "call", "callRaw", "toJSON", "toString", "valueOf"])
def test_names_that_are_taken_are_declared_as_they_can_be_called(name):
    entry = tool(name, {"properties": {"a": {"type": "string"}}, "required": ["a"]}, "Does it.")
    assert render_signature(entry) == f'github.call("{name}", {{ a: string }}) // Does it.'
    assert describe_tool(entry).declaration == (
        f'/** Does it. */\ncall(tool: "{name}", args: {{\n  a: string;\n}}): Promise<unknown>; // output: unknown'
    )
    assert render_signature(tool(name, {}, server="a-b")) == f'servers["a-b"].call("{name}")'
