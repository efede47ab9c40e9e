"""What Paddock says of tools is TypeScript that the real compiler takes."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.processes import PATIENCE_S

from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.engines.servers.typescript import describe_tool

ROOT = Path(__file__).resolve().parents[4]
LISTED = json.loads((ROOT / "benchmarks/discovery/tools.json").read_text())["servers"]


@pytest.fixture(scope="session")
def compiler(npm_modules):
    """The pinned compiler."""
    return npm_modules("typescript") / ".bin" / "tsc"


def declarations(entries):
    """Return one TypeScript text that declares `servers` with the given tools, each with its observed type."""
    members = {}
    for entry, observed in entries:
        members.setdefault(entry.server, []).append(describe_tool(entry, observed).declaration)
    servers = [json.dumps(name) + ": {\n" + "\n".join(lines) + "\n};" for name, lines in members.items()]
    return "declare const servers: {\n" + "\n".join(servers) + "\n};\n"


def complaints(compiler, directory, text):
    """Return what the compiler says in strict mode."""
    (directory / "tools.ts").write_text(f"{text}export {{}};\n")
    done = subprocess.run(
        [compiler, "--noEmit", "--strict", "--types", "", "tools.ts"],
        cwd=directory, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode in (0, 1, 2), done.stderr
    return done.stdout


def test_the_tools_of_many_servers_compile_and_can_be_called(compiler, tmp_path):
    entries = [
        CatalogTool(server, ToolInfo(tool["name"], tool["description"], tool["inputSchema"], tool.get("outputSchema"), {}))
        for server, listed in LISTED.items()
        for tool in listed["tools"]
    ]  # fmt: skip
    assert len(entries) > 200
    right = "const graph = await servers.graph.whole_graph();\nconst names: string[] = graph.nodes.map((e) => e.name);\n"
    assert complaints(compiler, tmp_path, declarations((e, None) for e in entries) + right) == ""


def test_the_types_find_a_wrong_call(compiler, tmp_path):
    entry = CatalogTool("git", ToolInfo("log", "", {"properties": {"n": {"type": "integer"}}}, None, {}))
    said = complaints(
        compiler, tmp_path, declarations([(entry, None)]) + 'await servers.git.log({ n: "1" });\n'
    )
    assert "Type 'string' is not assignable to type 'number'" in said


texts = st.text(max_size=12) | st.sampled_from(
    ["*/", "`${x}`", "\u2028", "// x", "{", "constructor", "\ud800"]
)
schemas = st.recursive(
    st.booleans() | st.fixed_dictionaries({}, optional={
        "type": st.sampled_from(["string", "integer", "object", "array", "null", "odd", ["string", "null"], 7]),
        "enum": st.lists(st.none() | st.booleans() | st.integers() | st.floats() | texts | st.just({}), max_size=4),
        "const": texts | st.floats() | st.integers(),
        "description": texts, "default": texts | st.lists(texts, max_size=2), "nullable": st.booleans(),
        "required": st.lists(texts, max_size=3), "$ref": st.sampled_from(["#", "#/properties/a", "x"]),
    }),
    lambda inner: st.fixed_dictionaries({}, optional={
        "properties": st.dictionaries(texts, inner, max_size=3) | texts,
        "additionalProperties": inner, "not": inner, "description": texts,
        "items": inner | st.lists(inner, max_size=3), "prefixItems": st.lists(inner, max_size=3),
        "anyOf": st.lists(inner, max_size=3), "oneOf": st.lists(inner, max_size=3), "allOf": st.lists(inner, max_size=3),
    }),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(texts, texts, schemas), min_size=30, max_size=60))
def test_hostile_tools_compile(compiler, tmp_path_factory, tools):
    entries = [
        CatalogTool("odd", ToolInfo(f"{name}{number}", about, schema if isinstance(schema, dict) else {}, {"items": schema}, {}))
        for number, (name, about, schema) in enumerate(tools)
    ]  # fmt: skip
    assert complaints(compiler, tmp_path_factory.mktemp("ts"), declarations((e, None) for e in entries)) == ""
