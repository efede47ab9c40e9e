"""Computations over MCP: the tool `compute`, and the one that has the name and the texts of seed 002."""

import asyncio
from typing import Any

from tests.support.mcp_server import Place

from paddock.surfaces.rendering.computation import render_one_line

CALLS: list[dict[str, Any]] = [
    {"source": "emit(read_input())", "input": "hello"},
    {"source": "emit('a'.repeat(2000))", "limits": {"output_kb": 1}},
    {"source": "emit('a'); throw new Error('boom')", "limits": {"partial": True}},
    {"source": "for (;;) {}", "limits": {"wall_ms": 50}},
    {"source": ""},
    {"input": "no source"},
    {"source": "emit(1)", "limits": {"wall_ms": "soon"}},
    {"source": "emit(typeof console + typeof servers)"},
    {"source": "return 1"},
]
CUT = "a" * 1024
LIMIT = {"code": "OUTPUT_LIMIT", "message": "output exceeded 1 KB"}
BOOM = {"code": "EVAL_ERROR", "message": "Error: boom at <eval>:1:18", "partial": "a"}
TIMEOUT = {"code": "TIMEOUT", "message": "execution exceeded 50 ms"}
RETURN = {"code": "EVAL_ERROR", "message": "SyntaxError: Illegal return statement at <eval>:1:1"}
RETURN_HINT = "a computation outputs its result with emit(text), once or several times"
INVALID = [
    {"code": "INVALID_INPUT", "message": "missing source"},
    {"code": "INVALID_INPUT", "message": "missing source"},
    {"code": "INVALID_INPUT", "message": "invalid JSON: limits.wall_ms must be an integer, not a string"},
]


EXPLAINED = [
    "`source` is empty",
    "`source` is missing",
    '`limits.timeout_ms` must be a whole number, not the text "soon"',
]
"""The same three under the default names."""


def answers(place: Place, name: str, *options: str) -> list[Any]:
    async def main() -> list[Any]:
        async with place.client(*options) as client:
            results = [await client.call_tool(name, arguments) for arguments in CALLS]
            return [
                ([block.text for block in result.content], result.structured_content, result.is_error)
                for result in results
            ]

    return asyncio.run(main())


RENAMED = {
    "output_kb": "`limits.output_kb` is deprecated; write `limits.output_bytes`",
    "wall_ms": "`limits.wall_ms` is deprecated; write `limits.timeout_ms`",
}


def failure(status: str, name: str, error: dict[str, str]) -> dict[str, Any]:
    """Return the data of a computation that failed; the error has no `partial`, as its exact answer has."""
    fields = {key: value for key, value in error.items() if key != "partial"}
    return {"status": status, "error": {"name": name, **fields}}


def test_compute(place: Place) -> None:
    assert answers(place, "compute") == [
        (["hello"], {"status": "ok", "output": "hello"}, False),
        (
            [f"output_limit: output exceeded 1 KB\n{CUT}\nwarning: {RENAMED['output_kb']}"],
            {
                **failure("output_limit", "OutputLimit", LIMIT),
                "output": CUT,
                "warnings": [RENAMED["output_kb"]],
            },
            True,
        ),
        (
            ["failed: Error: boom at <eval>:1:18\na"],
            {**failure("failed", "Error", BOOM), "partial": "a"},
            True,
        ),
        (
            [f"timeout: execution exceeded 50 ms\nwarning: {RENAMED['wall_ms']}"],
            {**failure("timeout", "Timeout", TIMEOUT), "warnings": [RENAMED["wall_ms"]]},
            True,
        ),
        *(
            (
                [f"invalid: {told}"],
                failure("invalid", "InvalidInput", {"code": "INVALID_INPUT", "message": told}),
                True,
            )
            for told in EXPLAINED
        ),
        (["undefinedundefined"], {"status": "ok", "output": "undefinedundefined"}, False),
        (
            [f"failed: {RETURN['message']}\nhint: {RETURN_HINT}"],
            failure("failed", "SyntaxError", {**RETURN, "hint": RETURN_HINT}),
            True,
        ),
    ]


def test_compute_under_the_name_of_the_seed(place: Place) -> None:
    assert answers(place, "code.sandbox.js.run", "--tool-names", "compat") == [
        (['{"output":"hello"}'], None, False),
        ([render_one_line({"output": CUT}), render_one_line(LIMIT)], None, True),
        ([render_one_line(BOOM)], None, True),
        ([render_one_line(TIMEOUT)], None, True),
        *(([render_one_line(error)], None, True) for error in INVALID),
        (['{"output":"undefinedundefined"}'], None, False),
        ([render_one_line(RETURN)], None, True),
    ]


def test_an_argument_of_another_name_is_named(place: Place) -> None:
    async def main() -> tuple[Any, Any]:
        async with place.client() as client:
            wrong = {"code": "emit(1)"}
            return await client.call_tool("compute", wrong), await client.call_tool(
                "code.sandbox.js.run", wrong
            )

    native, compat = asyncio.run(main())
    told = "invalid: `code` is unknown; known: source, input, limits; `source` is missing"
    assert native.content[0].text == told
    assert compat.content[0].text == '{"code":"INVALID_INPUT","message":"missing source"}'
