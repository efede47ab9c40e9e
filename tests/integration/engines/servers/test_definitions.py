"""What servers say of their tools and of failed calls, as programs and people meet it: checked, named and said."""

import getpass
import json
import os
from pathlib import Path

import pytest
from tests.support.command import make_environment, run_paddock
from tests.support.servers import make_entry, write_servers

HIDDEN = "Adds numbers.\u200b\u202e\U000e0069"
SPELLED = r"Adds numbers.\u{200b}\u{202e}\u{e0069}"
TOKEN = "tok-0123456789abcdef"


def tool(name, schema=None, description="", **further):
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", **(schema or {})},
        **further,
    }


LOOKAHEAD = tool("lookahead", {"properties": {"x": {"type": "string", "pattern": "^(?!foo).*$"}}})
NULLABLE = tool(
    "nullable",
    {
        "properties": {
            "state": {"type": "string", "enum": ["open"], "nullable": True},
            "parent": {"$ref": "#/$defs/P", "nullable": True},
        },
        "$defs": {"P": {"type": "object", "properties": {"id": {"type": "integer"}}}},
    },
)
SUM = tool("get-sum", {"properties": {"a": {"type": "number"}}}, "Add.", annotations={"readOnlyHint": True})
CODED = tool(
    "coded",
    **{"x-error": {"code": -32050, "message": "try later", "data": {"retry": True, "seen": "$TOKEN"}}},
)
UNCHECKED = 'arguments are not checked against `properties.x.pattern` "^(?!foo).*$"'


class Workspace:
    def __init__(self, directory):
        self.directory = directory

    def says(self, *tools, page=None):
        """Have the server `g` list these tools; `off` is disabled and `bad` is not understood."""
        file = self.directory / "tools.json"
        file.write_text(json.dumps(tools))
        entry = make_entry("turncoat", file, *([] if page is None else [page]), env={"TOKEN": TOKEN})
        servers = {"g": entry, "off": {**entry, "disabled": True}, "bad": {"command": 5}}
        write_servers(self.directory, servers)

    def paddock(self, *args, stdin=""):
        places = {
            "XDG_STATE_HOME": str(self.directory / "state"),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "PADDOCK_SERVERS_SEMANTIC_SEARCH": "off",
        }
        where = make_environment(self.directory / "home", **places)
        done = run_paddock(self.directory, *args, stdin=stdin, environment=where)
        bad = '`command`: must be a text: write it between "quotes"; skipped.\n'
        lines = [line for line in done.stderr.splitlines(keepends=True) if not line.endswith(bad)]
        return done.returncode, done.stdout, "".join(lines)

    def recorded(self):
        """Return event, name and status of the calls on the record."""
        _, lines, _ = self.paddock("audit", "tail", "--json")
        facts = [(each["event"], each["fields"]) for each in json.loads(lines)]
        return [
            (event, fields["name"], fields.get("status"))
            for event, fields in facts
            if fields.get("kind", "server") == "server" and str(fields.get("name", "")).startswith("g/")
        ]

    def run(self, source, *flags):
        """Return status, value or error, and console of a program."""
        _, output, _ = self.paddock("run", "-", "--json", *flags, stdin=source)
        outcome = json.loads(output)
        console = [(line["level"], line["text"]) for line in outcome["console"]]
        return outcome["status"], outcome["error"] or outcome["value"], console


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def test_null_is_sent_where_a_schema_says_nullable(workspace):
    workspace.says(NULLABLE)
    program = """
        const told = [];
        for (const args of [{state: null}, {parent: null}, {parent: {id: 1}}, {parent: {id: "a"}}])
            told.push(await servers.g.nullable(args).catch((error) => error.message));
        return told;
    """
    assert workspace.run(program) == (
        "ok",
        [
            {"state": None},
            {"parent": None},
            {"parent": {"id": 1}},
            'g.nullable was not called: `parent.id` must be a whole number, not the text "a". Its signature:'
            ' g.nullable({ state?: "open" | null, parent?: { id?: number } | null })',
        ],
        [],
    )


def test_arguments_that_are_not_checked_are_said_to_be_once(workspace):
    workspace.says(LOOKAHEAD)
    program = """
        await servers.g.lookahead({x: "a"});
        await servers.g.lookahead({x: "foo"});
        return await servers.g.lookahead({x: 5}).catch((error) => error.message);
    """
    assert workspace.run(program) == (
        "ok",
        "g.lookahead was not called: `x` must be a text, not 5. Its signature: g.lookahead({ x?: string })",
        [("warn", f"g.lookahead: {UNCHECKED}")],
    )
    assert workspace.paddock("servers", "call", "g", "lookahead", '{"x": "a"}') == (
        0,
        '{\n  "x": "a"\n}\n',
        f"warning: g.lookahead: {UNCHECKED}\n",
    )
    code, output, errors = workspace.paddock("servers", "call", "g", "lookahead", '{"x": "a"}', "--json")
    assert (code, json.loads(output)["console"], errors) == (
        0,
        [{"level": "warn", "text": f"g.lookahead: {UNCHECKED}"}],
        "",
    )
    sequences = workspace.directory / ".paddock" / "sequences"
    sequences.mkdir(parents=True)
    (sequences / "it.toml").write_text(
        '[[step]]\nname = "look"\nserver = "g/lookahead"\narguments = {x = "a"}\n'
    )
    code, _, errors = workspace.paddock("sequence", "run", "it")
    assert (code, errors.splitlines()[0]) == (0, f"[warn] g.lookahead: {UNCHECKED}")
    assert workspace.paddock("servers", "tools", "g") == (
        0,
        "g\tlookahead\t\n",
        f"warning: g.lookahead: {UNCHECKED}\n",
    )
    assert workspace.paddock("servers", "describe", "g.lookahead") == (
        0,
        "// g.lookahead\nlookahead(args?: {\n  x?: string;\n}): Promise<{\n  x: string;\n}>; // output: observed\n"
        f"// {UNCHECKED}\n",
        "",
    )


def test_the_seeds_programs_hear_no_warning(workspace):
    workspace.says(LOOKAHEAD)
    (workspace.directory / ".mentu" / "scripts").mkdir(parents=True)
    script = workspace.directory / ".mentu" / "scripts" / "it.js"
    script.write_text('await servers.g.call("lookahead", {x: "a"}); return "done";')
    assert workspace.paddock("run", "it") == (0, "done\n", "")


def test_a_tool_has_an_alias_that_is_an_identifier(workspace):
    workspace.says(SUM)
    program = 'return [await servers.g.get_sum({a: 1}), await servers.g["get-sum"]({a: 2})]'
    for _ in ("before anything is known of the server", "by what is pinned"):
        assert workspace.run(program) == ("ok", [{"a": 1}, {"a": 2}], [])
    assert workspace.paddock("servers", "search", "get_sum") == (
        0,
        "g.get_sum({ a?: number }): { a: number } // Add.\n",
        "",
    )
    code, output, _ = workspace.paddock("servers", "describe", "g.get_sum", "--json")
    [described] = json.loads(output)
    assert (code, described["name"], described["declaration"].splitlines()[1]) == (
        0,
        "g.get-sum",
        "get_sum(args?: {",
    )
    assert described["declaration"].endswith('; // output: observed; tool "get-sum"')
    right = [("started", "g/get-sum", None), ("finished", "g/get-sum", "ok")] * 2
    assert workspace.recorded() == [*UNRESOLVED, *right, *right]


UNRESOLVED = [("started", "g/get_sum", None), ("finished", "g/get_sum", "invalid")]
"""The record of a call by an alias that nothing is known of: nothing was sent."""


def test_an_alias_is_known_at_the_first_use_of_a_server(workspace):
    workspace.says(SUM)
    code, output, errors = workspace.paddock("servers", "call", "g", "get_sum", '{"a": 1}', "--json")
    outcome = json.loads(output)
    assert (code, outcome["status"], outcome["value"], errors) == (0, "ok", {"a": 1}, "")
    assert workspace.recorded() == [
        *UNRESOLVED,
        ("started", "g/get-sum", None),
        ("finished", "g/get-sum", "ok"),
    ]
    _, lines, _ = workspace.paddock("audit", "show", outcome["id"], "--json")
    records = json.loads(lines)
    assert [(each["fields"]["name"], each["parent"]) for each in records if each["event"] == "finished"] == [
        ("g/get_sum", None),
        ("g/get-sum", outcome["id"]),
    ]
    assert outcome["audit"] == records[-1]["id"]


def test_a_rule_about_a_tool_holds_for_its_alias_at_the_first_use_of_a_server(workspace):
    workspace.says(SUM)
    rule = '[[policy.rule]]\ntool = "g/get-sum"\neffect = "deny"\nreason = "no sums"\n'
    (workspace.directory / "paddock.toml").write_text(rule)
    code, output, errors = workspace.paddock("servers", "call", "g", "get_sum", '{"a": 1}')
    assert (code, output, "no sums" in errors) == (1, "", True), errors
    assert workspace.recorded() == [*UNRESOLVED, ("decided", "g/get-sum", "denied")]


def test_arguments_of_a_tool_are_checked_at_the_first_use_of_its_alias(workspace):
    workspace.says(SUM)
    told = 'g.get-sum was not called: `a` must be a number, not the text "x". '
    signature = 'Its signature: g["get-sum"]({ a?: number })'
    code, output, errors = workspace.paddock("servers", "call", "g", "get_sum", '{"a": "x"}')
    assert (code, output, errors) == (1, "", f"{told}{signature}\n")


def test_bytes_go_nowhere_by_an_alias_either(workspace):
    workspace.says(tool("put-file", {"properties": {"data": {}}}))
    status, told, _ = workspace.run("return await servers.g.put_file({data: new Uint8Array(1)})")
    assert (status, told["message"]) == (
        "failed",
        "g.put-file was not called: `arguments.data` holds bytes, but its schema does not declare them as base64 "
        "(`contentEncoding: base64` or `format: byte`): write bytes.toBase64(), or [...bytes]",
    )


def test_wrong_arguments_are_told_once_where_only_reading_is_allowed(workspace):
    workspace.says(SUM)
    program = "return await servers.g.get_sum({a: 'x'}).catch((error) => error.message)"
    status, told, _ = workspace.run(program, "--set", "grants.calls=read_only")
    assert (status, told.partition(":")[0]) == ("ok", "g.get-sum was not called")
    assert workspace.recorded() == [("started", "g/get-sum", None), ("finished", "g/get-sum", "invalid")]


def test_a_rule_about_a_tool_holds_for_its_alias(workspace):
    workspace.says(SUM, tool("get-all"))
    rule = '[[policy.rule]]\ntool = "g/get-sum"\neffect = "deny"\nreason = "no sums"\n'
    (workspace.directory / "paddock.toml").write_text(rule)
    program = "return await servers.g.get_sum({a: 1}).catch((error) => error.message)"
    for _ in ("before anything is known of the server", "by what is pinned"):
        status, told, _ = workspace.run(program)
        assert (status, "no sums" in told) == ("ok", True), told
    for calls, value in (
        ("read_only", "denied"),
        ("dry_run", {"dryRun": True, "server": "g", "tool": "get-all"}),
    ):
        status, told, _ = workspace.run(
            "return await servers.g.get_all({}).catch(() => 'denied')", "--set", f"grants.calls={calls}"
        )
        assert (status, told) == ("ok", value)


@pytest.mark.parametrize("effect", ["deny", "ask"])
def test_a_rule_that_names_an_alias_holds_for_the_tool(workspace, effect):
    workspace.says(SUM)
    rule = f'[[policy.rule]]\ntool = "g/get_sum"\neffect = "{effect}"\nreason = "no sums"\n'
    (workspace.directory / "paddock.toml").write_text(rule)
    for _ in ("before anything is known of the server", "by what is pinned"):
        for name in ("get_sum", "get-sum"):
            code, output, errors = workspace.paddock("servers", "call", "g", name, '{"a": 1}')
            assert (code, output, "no sums" in errors) == (1, "", True), errors
    assert workspace.paddock("policy", "check", "g/get-sum")[0] == (126 if effect == "deny" else 3)


def test_an_allow_that_names_an_alias_allows_no_tool(workspace):
    workspace.says(SUM)
    rule = '[[policy.rule]]\ntool = "g/get_sum"\neffect = "allow"\n'
    (workspace.directory / "paddock.toml").write_text(rule)
    code, output, errors = workspace.paddock("servers", "call", "g", "get-sum", '{"a": 1}')
    assert (code, output) == (1, "")
    assert "g/get-sum is not allowed by any of the workspace rules" in errors


def test_an_alias_may_be_called_where_only_reading_is_allowed(workspace):
    workspace.says(SUM)
    assert workspace.run("return await servers.g.get_sum({a: 1})", "--set", "grants.calls=read_only") == (
        "ok",
        {"a": 1},
        [],
    )


def test_no_alias_stands_for_two_tools(workspace):
    workspace.says(SUM, tool("get.sum"))
    status, told, _ = workspace.run("return await servers.g.get_sum({})")
    assert (status, told["message"]) == ("failed", "Server g has no tool 'get_sum'; did you mean `get.sum`?")


def test_code_and_data_of_a_servers_error_reach_everybody(workspace):
    workspace.says(CODED)
    data = {"retry": True, "seen": "[REDACTED:server]"}
    program = (
        "try { await servers.g.coded({}) } catch (error) { return [error.message, error.code, error.data] }"
    )
    assert workspace.run(program) == ("ok", ["try later", -32050, data], [])
    raw = "try { await servers.g.callRaw('coded') } catch (error) { return [error.name, error.code, error.data] }"
    assert workspace.run(raw) == ("ok", ["ToolError", -32050, data], [])
    status, error, _ = workspace.run("await servers.g.coded({})")
    assert (status, error["code"], error["data"], error["message"]) == ("failed", -32050, data, "try later")
    code, output, _ = workspace.paddock("servers", "call", "g", "coded", "--json")
    error = json.loads(output)["error"]
    assert (code, error["code"], error["data"]) == (1, -32050, data)
    assert workspace.paddock("servers", "call", "g", "coded") == (
        1,
        "",
        'ToolError: try later\n  the server\'s error: code -32050, data {"retry":true,"seen":"[REDACTED:server]"}\n',
    )


def test_a_tool_with_a_name_that_no_record_can_hold_is_approved_with_a_shortened_one(workspace):
    names = ["a" * 600, "b\ud800"]
    workspace.says(*(tool(name, description="First.") for name in names))
    workspace.paddock("servers", "tools", "g")
    workspace.says(*(tool(name, description="Second.") for name in names))
    workspace.paddock("servers", "diff", "g")
    code, _, problem = workspace.paddock("servers", "approve", "g")
    assert (code, problem) == (0, "")
    found = json.loads(workspace.paddock("audit", "tail", "--event", "approved", "--json")[1])
    assert sorted(each["fields"]["name"] for each in found) == [f"g/{'a' * 198}", "g/b?"]


@pytest.mark.parametrize("data", ["x" * 20_000, [[[[0]]]] * 5_000])
def test_data_that_is_too_large_comes_as_its_beginning(workspace, data):
    workspace.says(tool("big", **{"x-error": {"code": -1, "message": "no", "data": data}}))
    text = json.dumps(data)
    status, told, _ = workspace.run("try { await servers.g.big({}) } catch (error) { return error.data }")
    assert (status, told) == ("ok", f"{text[:2000]}... [truncated: {len(text)} characters in all]")


def test_a_definition_with_invisible_characters_waits_for_a_person(workspace):
    schema = {"properties": {"a": {"type": "number", "description": HIDDEN}}}
    workspace.says(tool("adds", schema, HIDDEN), tool("plain", description="\u26a0\ufe0f Careful."))
    warning = "warning: g.adds has invisible characters in its definition; they are spelled out\n"
    assert workspace.paddock("servers", "search", "adds", "--server", "g") == (
        0,
        f"g.adds({{ a?: number }}) // {SPELLED}\n",
        warning,
    )
    assert workspace.paddock("servers", "tools", "g") == (
        0,
        f"g\tadds\t{SPELLED}\ng\tplain\t\u26a0\ufe0f Careful.\n",
        "warning: g.adds: invisible characters in its definition are spelled out\n",
    )
    code, output, _ = workspace.paddock("servers", "tools", "g", "--json")
    [adds, _] = json.loads(output)
    assert (code, adds["description"], adds["input_schema"]["properties"]["a"]["description"]) == (
        0, SPELLED, SPELLED,
    )  # fmt: skip
    status, error, _ = workspace.run("return await servers.g.adds({})")
    assert (status, error["message"]) == (
        "failed",
        "Tool g.adds has invisible characters in its definition, so it was not called. A person can see them with "
        "`paddock servers diff g` and accept the tool with `paddock servers approve g adds`.",
    )
    assert workspace.run("return await servers.g.plain({})")[:2] == ("ok", {})

    code, output, _ = workspace.paddock("servers", "diff", "g")
    lines = output.splitlines()
    assert lines[:2] == ["--- g/adds spelled out", "+++ g/adds as sent"]
    assert '-  "description": "' + SPELLED.replace("\\", "\\\\") + '",' in lines
    assert '+  "description": "Adds numbers.\\u200b\\u202e\\udb40\\udc69",' in lines
    assert workspace.paddock("servers", "approve", "g", "adds")[0] == 0
    (found,) = json.loads(workspace.paddock("audit", "tail", "--event", "approved", "--json")[1])
    record = found["fields"]
    facts = [record[name] for name in ("actor", "surface", "kind", "name", "removed")]
    assert facts == [getpass.getuser(), "cli", "server", "g/adds", False]
    assert workspace.run("return await servers.g.adds({})")[:2] == ("ok", {})
    assert workspace.paddock("servers", "diff") == (
        0,
        "",
        "nothing waits for approval: every tool of g equals its pin\n",
    )
    assert workspace.paddock("servers", "diff", "--json") == (0, "[]\n", "")
    code, output, errors = workspace.paddock("servers", "describe", "g.adds")
    assert output == (
        f"// g.adds\n/** {SPELLED} */\nadds(args?: {{\n  /** {SPELLED} */\n  a?: number;\n"
        "}): Promise<Record<string, unknown>>; // output: observed\n"
        "// g.adds has invisible characters in its definition; they are spelled out\n"
    )
    assert (code, errors) == (0, "")


def test_a_tool_whose_name_hides_characters_is_left_out(workspace):
    workspace.says(tool("get\u200bsum"), tool("good"))
    assert workspace.paddock("servers", "search", "good") == (
        0,
        "g.good()\n",
        'warning: g: tool "get\\u{200b}sum" is left out: its name has invisible characters\n',
    )


def test_every_page_of_a_long_listing_is_searched(workspace):
    workspace.says(*(tool(f"t{n}") for n in range(2_999)), tool("needle"), page=20)
    assert workspace.paddock("servers", "search", "needle") == (0, "g.needle()\n", "")


def test_a_listing_that_never_ends_is_cut_and_said_to_be(workspace):
    workspace.says(tool("good"), page=-1)
    assert workspace.paddock("servers", "search", "good") == (
        0,
        "g.good()\n",
        "warning: g: 1 tool is left out: beyond 20000, listed twice, or with a name of over 200 characters\n"
        "warning: g: its tool listing returns to an earlier page; the rest is left out\n",
    )


def test_a_server_that_is_not_there_is_explained(workspace):
    workspace.says()
    off = "Unknown server: off; off is disabled in .mcp.json; `paddock servers enable off` enables it"
    bad = "Unknown server: bad; its entry in .mcp.json cannot be used; `paddock servers list` says why"
    for name, told in (
        ("off", off),
        ("bad", bad),
        ("of", "Unknown server: of; known: g."),
        ("G", "Unknown server: G; did you mean `g`?"),
    ):
        assert workspace.run(f"return await servers.{name}.x({{}})")[1]["message"] == told
    assert workspace.paddock("servers", "search", "x", "--server", "off") == (1, "", f"{off}\n")
    assert workspace.paddock("servers", "describe", "off.x")[2] == f"off.x: {off}\n"


def test_an_unknown_server_lists_those_that_the_program_may_call(workspace):
    workspace.says()
    servers = json.loads((workspace.directory / ".mcp.json").read_text())["mcpServers"]
    servers |= dict.fromkeys(("hidden", "other"), servers["g"])
    (workspace.directory / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    rule = '[[policy.rule]]\ntool = "hidden/*"\neffect = "deny"\n'
    (workspace.directory / "paddock.toml").write_text(rule)
    told = "try { await servers.of.x({}) } catch (error) { return error.message }"
    assert workspace.run(told)[1] == "Unknown server: of; known: g, other."
    assert workspace.run(told.replace("x({})", "callRaw('x')"))[1] == "Unknown server: of; known: g, other."
    # As the systems that the compat profile stands in for say it.
    scripts = workspace.directory / ".mentu/scripts"
    scripts.mkdir(parents=True)
    (scripts / "told.js").write_text(told)
    assert workspace.paddock("run", "told")[1] == "Unknown server: of\n"


def test_where_no_tool_and_no_server_is_that_is_said(workspace):
    workspace.says()
    assert workspace.paddock("servers", "tools") == (0, "", "no tools are listed by g\n")
    assert workspace.paddock("servers", "diff") == (
        0,
        "",
        "nothing waits for approval: every tool of g equals its pin\n",
    )
    unknown = "Unknown server: of"
    assert workspace.paddock("servers", "diff", "of") == (1, "", f"warning: of: {unknown}\n")
    (workspace.directory / ".mcp.json").write_text(
        '{"mcpServers": {"off": {"command": "x", "disabled": true}}}'
    )
    told = "no configured server is in use: off is disabled in .mcp.json; `paddock servers enable off` enables it\n"
    for command in (["list"], ["tools"], ["diff"], ["search", "x"]):
        assert workspace.paddock("servers", *command) == (0, "", told)
