"""What the compiler reads of tools: lenient, valid, and no text of a schema but literals and names."""

from paddock.engines.types.declarations import DeclaredServer, DeclaredTool, declare_servers


def declare(arguments=None, result=None, *, names=("read",)):
    return declare_servers([DeclaredServer("files", (DeclaredTool(names, arguments, result),))], "program")


def test_a_server_is_declared_with_its_tools_and_named_types():
    arguments = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "lines": {"type": "integer"},
            "sort": {"enum": ["name", "size"]},
        },
        "required": ["path"],
    }
    result = {
        "type": "object",
        "properties": {"content": {"type": "string"}, "of": {"type": "object", "properties": {"n": {}}}},
    }
    assert declare(arguments, result).splitlines() == [
        "declare namespace program$ {",
        'type Arguments$files$read = { "path": string | Date; "lines"?: number | bigint; "sort"?: "name" | "size"; };',
        "interface Result$files$read$of {",
        '  "n": any;',
        "}",
        "interface Result$files$read {",
        '  "content": string;',
        '  "of": Result$files$read$of;',
        "}",
        "interface Server$files {",
        "  call(tool: string, args?: any): Promise<any>;",
        "  callRaw(tool: string, args?: any): Promise<any>;",
        '  "read"(args: Arguments$files$read, ...rest: any[]): Promise<Result$files$read>;',
        "}",
        "interface Servers$ {",
        '  "files": Server$files;',
        "}",
        "}",
        "declare function $program(): program$.Servers$;",
    ]


def test_a_tool_that_no_program_names_has_a_name_and_any_type():
    assert '  "get-sum": any;\n  "get_sum": any;\n' in declare(names=("get-sum", "get_sum"))


def test_a_server_whose_tools_are_unknown_is_of_any_type():
    assert '  "files": any;' in declare_servers([DeclaredServer("files", None)], "program")


def test_what_types_cannot_say_is_of_any_type():
    unsure = [
        {"not": {"type": "string"}}, {"if": {}, "then": {}}, {"allOf": [{"type": "string"}, {"minLength": 2}]},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}}}, {"type": "array"}, {"enum": [{}]},
        {"type": "string", "contentEncoding": "base64"}, {"type": "string", "format": "byte"}, True, {"type": "odd"},
    ]  # fmt: skip
    for schema in unsure:
        text = declare({"properties": {"value": schema}})
        assert any(f'"value"?: {each};' in text for each in ("any", "ReadonlyArray<any>")), schema


def test_names_of_strangers_are_literals():
    text = declare({"properties": {'"}; declare const x: never; //': {"const": "*/"}}}, names=("a\nb",))
    assert '"\\"}; declare const x: never; //"?: "*/";' in text
    assert '  "a\\nb"(args?: Arguments$files$a_b, ...rest: any[]): Promise<any>;' in text


def test_members_that_javascript_reads_itself_are_no_tools():
    assert "then" not in declare({"type": "object"}, names=("then",))


def test_methods_are_declared_where_their_server_has_them():
    server = DeclaredServer("files", (DeclaredTool(("read",)),), frozenset({"resources", "tools"}))
    assert declare_servers([server], "program").splitlines()[1:14] == [
        "interface Result$files$resources$list {",
        "  uri: string; name: string; title?: string; description?: string; mimeType?: string; size?: number; "
        "annotations?: any; icons?: any; _meta?: any;",
        "}",
        "interface Result$files$resources$read {",
        "  uri: string; mimeType?: string; text?: string; blob?: string; _meta?: any;",
        "}",
        "interface Server$files$resources {",
        "  list(): Promise<Result$files$resources$list[]>;",
        "  read(uri: string | { uri: string }): Promise<Result$files$resources$read[]>;",
        "}",
        "interface Server$files {",
        "  call(tool: string, args?: any): Promise<any>;",
        "  callRaw(tool: string, args?: any): Promise<any>;",
    ]


def test_a_tool_named_as_a_capability_is_any_because_it_has_methods_too():
    server = DeclaredServer("files", (DeclaredTool(("resources",)),), frozenset({"resources"}))
    assert '  "resources": any;\n}' in declare_servers([server], "program")
