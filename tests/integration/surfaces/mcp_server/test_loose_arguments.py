"""Arguments as models write them: native tools read what has one meaning; the compat names take their schemas alone."""

import asyncio
import json
from typing import Any

from tests.support.mcp_server import Place

REQUIRED: dict[str, dict[str, Any]] = {
    "execute_code": {"code": "return [typeof input, input]"},
    "call_tool": {"server": "odd", "tool": "echo", "args": {"text": "x"}},
    "search_tools": {"query": "echo"},
    "describe_tools": {"names": ["odd.echo"]},
    "provision_server": {},
    "run_program": {"language": "shell", "code": "echo hi"},
    "query_output": {"artifact_handle": "none", "query_terms": ["x"]},
    "compute": {"source": "emit('x')"},
}
"""Of each native tool the arguments that it cannot do without."""


def answers(place: Place, calls: list[tuple[str, dict[str, Any]]], *options: str) -> list[Any]:
    async def main() -> list[Any]:
        async with place.client(*options) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(main())


def test_null_is_an_optional_argument_that_was_not_given(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == set(REQUIRED)
            for name, given in REQUIRED.items():
                nothing = dict.fromkeys(tools[name].input_schema["properties"])
                told = (await client.call_tool(name, {**nothing, **given})).structured_content or {}
                assert told.get("error", {}).get("name") != "InvalidArguments", (name, told)

    asyncio.run(main())


def test_numbers_objects_and_lists_are_read_from_text(place: Place) -> None:
    source = "return [typeof input, input]"
    inputs: list[tuple[Any, Any]] = [
        (None, ["undefined", None]),
        ([1], ["object", [1]]),
        ("5", ["string", "5"]),
        ('{"a": 1}', ["string", '{"a": 1}']),
        (5, ["number", 5]),
        (False, ["boolean", False]),
    ]
    results = answers(
        place,
        [
            *(("execute_code", {"code": source, "input": given}) for given, _ in inputs),
            ("execute_code", {"code": "return 1", "timeout_ms": "60000"}),
            ("call_tool", {"server": "odd", "tool": "echo", "args": '{"text": "from text"}'}),
            ("call_tool", {"server": "odd", "tool": "echo", "arguments": {"text": "named as in MCP"}}),
            ("describe_tools", {"names": '["odd.echo"]'}),
            ("search_tools", {"query": "echo", "limit": "1"}),
            ("run_program", {"runtime": "shell", "code": "echo $1", "args": '["a"]', "timeoutMs": "30000"}),
            ("compute", {"source": "emit('x')", "limits": '{"timeout_ms": "60000", "partial": "false"}'}),
        ],
    )
    values = [result.structured_content["value"] for result in results[: len(inputs)]]
    assert values == [read for _, read in inputs]
    limited, called, named, described, found, ran, computed = results[len(inputs) :]
    assert limited.structured_content["value"] == 1
    assert called.content[0].text == "from text"
    assert named.content[0].text == "named as in MCP"
    assert [each["name"] for each in described.structured_content["tools"]] == ["odd.echo"]
    assert len(found.structured_content["tools"]) == 1
    assert ran.structured_content["status"] == "ok"
    assert computed.structured_content == {"status": "ok", "output": "x"}


def whole_numbers(schema: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the paths of the whole numbers in a schema of arguments."""
    found: list[tuple[str, ...]] = []
    for name, member in schema["properties"].items():
        if member.get("type") == "integer":
            found.append((name,))
        if member.get("type") == "object":
            found += [(name, *rest) for rest in whole_numbers({"properties": {}, **member})]
    return found


FURTHER = [
    ("query_output", ("cursor", "after_line"), {"stream": "stdout"}),
    ("query_output", ("cursor", "after_char"), {"stream": "stdout", "after_line": 0}),
    ("query_output", ("line_range", "start_line"), {"stream": "stdout", "end_line": 10**400}),
    ("query_output", ("line_range", "end_line"), {"stream": "stdout", "start_line": 1}),
]
"""Whole numbers that the list of tools has no room for, and what goes with them."""
NO_NUMBERS: list[Any] = [2.5, True, "2.5", "x", []]
SAME: tuple[list[Any], ...] = ([20, 20.0, "20", "20.0", "2e1"], [60_000, 60_000.0, "60000", "6e4"])


def test_whole_numbers_are_read_alike_at_every_argument(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            paths = [
                (name, path, {}) for name, tool in tools.items() for path in whole_numbers(tool.input_schema)
            ]
            assert len(paths) == 9

            async def told(name: str, path: tuple[str, ...], beside: dict[str, Any], value: Any) -> str:
                given = REQUIRED[name] | ({"code": "return 1"} if name == "execute_code" else {})
                if path[0] in {"cursor", "line_range"}:
                    given = {"artifact_handle": "none"}
                inner: Any = {path[-1]: value}
                result = await client.call_tool(
                    name, {**given, **({path[0]: {**beside, **inner}} if path[1:] else inner)}
                )
                data = result.structured_content or {}
                assert data.get("status") != "error", (name, path, value, data)
                error = data.get("error", {})
                return json.dumps(
                    [data.get("status"), error.get("code"), error.get("name"), error.get("message")]
                )

            for name, path, beside in [*paths, *FURTHER]:
                for values in SAME[path[-1] == "timeout_ms" :]:  # a short time may be too short
                    answers = {await told(name, path, beside, value) for value in values}
                    assert len(answers) == 1, (name, path, answers)
                for value in NO_NUMBERS:
                    answer = await told(name, path, beside, value)
                    assert "InvalidArguments" in answer or "INVALID_INPUT" in answer, (
                        name,
                        path,
                        value,
                        answer,
                    )
                for value in (-1, 0, 2**70, 1e300):
                    await told(name, path, beside, value)

    asyncio.run(main())


def test_camel_case_and_former_names_are_read(place: Place) -> None:
    program = {"code": "echo one; echo $1", "args": ["two"], "combined": True}
    results = answers(
        place,
        [
            ("execute_code", {"code": "return 1", "timeoutMs": 60_000}),
            (
                "run_program",
                {
                    "runtime": "shell",
                    **program,
                    "relativeCwd": ".",
                    "timeoutMs": 30_000,
                    "outputMode": "intent",
                    "queryTerms": ["two"],
                    "maxResponseLines": 10,
                    "contextLines": 0,
                    "persistOutput": True,
                },
            ),
            ("compute", {"source": "emit('xx')", "limits": {"timeoutMs": 60_000, "outputBytes": 1024}}),
        ],
    )
    limited, ran, computed = [result.structured_content for result in results]
    assert limited["value"] == 1
    assert (ran["status"], [each["content"] for each in ran["excerpts"]]) == ("ok", ["two"])
    assert computed == {"status": "ok", "output": "xx"}
    asked = {"artifactHandle": ran["artifactHandle"], "maxExcerpts": 1, "contextLines": 0}
    lines = {"stream": "stdout", "startLine": 2, "endLine": 2}
    [found, read] = answers(
        place,
        [
            (
                "query_output",
                {**asked, "queryTerms": ["two"], "cursor": {"stream": "stdout", "after_line": 1}},
            ),
            ("query_output", {"artifact_handle": ran["artifactHandle"], "lineRange": lines}),
        ],
    )
    assert [each["content"] for each in found.structured_content["excerpts"]] == ["two"]
    assert [each["content"] for each in read.structured_content["excerpts"]] == ["two"]


def test_unknown_arguments_are_named_with_the_nearest(place: Place) -> None:
    refused = answers(
        place,
        [
            ("execute_code", {"code": "return 1", "time_out": 5}),
            ("run_program", {"language": "shell", "runtime": "perl", "code": ":"}),
            ("run_program", {"language": "shell", "code": ":", "timeoutMs": 500, "timeout_ms": 500}),
            ("run_program", {"languages": "shell", "code": ":"}),
            ("compute", {"source": "emit(1)", "inputs": "x"}),
            ("compute", {"source": "emit(1)", "limits": {"timeout": 5}}),
            ("provision_server", {"intents": "x"}),
        ],
    )
    assert [result.content[0].text for result in refused] == [
        "invalid\nexecute_code: `time_out` is unknown; did you mean `timeout_ms`?",
        "invalid\nrun_program: `language` and `runtime` are one argument, given twice: give `language` alone",
        "invalid\nrun_program: `timeoutMs` and `timeout_ms` are one argument, given twice: give `timeout_ms` alone",
        "invalid\nrun_program: `languages` is unknown; did you mean `language`?",
        "invalid: `inputs` is unknown; did you mean `input`?",
        "invalid: `limits.timeout` is unknown; did you mean `timeout_ms`?",
        "invalid\nprovision_server: `intents` is unknown; did you mean `intent`?",
    ]


def test_what_has_no_such_reading_is_refused_as_ever(place: Place) -> None:
    refused = answers(
        place,
        [
            ("execute_code", {"code": None}),
            ("execute_code", {"code": "return 1", "timeout_ms": "5 s"}),
            ("call_tool", {"server": "odd", "tool": "echo", "args": "text=x"}),
            ("call_tool", {"server": "odd", "tool": "echo", "args": "[1]"}),
            ("run_program", {"language": "python", "args": "--verbose --out x"}),
            ("describe_tools", {"names": "odd.echo, odd.boom"}),
        ],
    )
    assert [result.content[0].text for result in refused] == [
        "invalid\nexecute_code: `code` is missing",
        'invalid\nexecute_code: `timeout_ms` must be a whole number, not the text "5 s"',
        'invalid\ncall_tool: `args` must be an object, not the text "text=x"',
        'invalid\ncall_tool: `args` must be an object, not the text "[1]"',
        'invalid\nrun_program: `args` must be a list, not the text "--verbose --out x"; '
        'give a list with one item for each argument: ["--verbose", "--out", "x"]',
        'invalid\ndescribe_tools: `names` must be a list, not the text "odd.echo, odd.boom"',
    ]


def test_the_compat_names_take_what_their_schemas_say_alone(place: Place) -> None:
    refused = answers(
        place,
        [
            ("mcp_call", {"server": "odd", "tool": "echo", "args": '{"text": "x"}'}),
            ("mcp_call", {"server": "odd", "tool": "echo", "args": None}),
            ("code.sandbox.js.run", {"source": "emit(1)", "limits": {"wall_ms": "5000"}}),
            ("sdl.runtime.execute", {"repoId": "ws", "runtime": "shell", "code": ":", "timeoutMs": "500"}),
        ],
        "--tool-names",
        "compat",
    )
    assert [(result.is_error, result.content[0].text.splitlines()[-1]) for result in refused] == [
        (True, '`args` must be an object, not the text "{\\"text\\": \\"x\\"}"'),
        (True, "`args` must be an object, not null"),
        (
            True,
            '{"code":"INVALID_INPUT","message":"invalid JSON: limits.wall_ms must be an integer, not a string"}',
        ),
        (True, 'sdl.runtime.execute: `timeoutMs` must be a whole number, not the text "500"'),
    ]


def test_files_are_texts_by_path_too(place: Place) -> None:
    program = {"language": "shell", "code": "cat a.csv b/c"}
    taken, refused = answers(
        place,
        [
            ("run_program", {**program, "files": {"a.csv": "x\n", "b/c": "y"}}),
            ("run_program", {**program, "files": {"path": "a.csv", "text": "x"}}),
        ],
    )
    assert taken.structured_content["stdoutSummary"] == "x\ny"
    assert refused.content[0].text == (
        "invalid\nrun_program: `files` must be a list, not an object; "
        'give a list such as [{"path": "a.csv", "text": "x,y"}]'
    )
