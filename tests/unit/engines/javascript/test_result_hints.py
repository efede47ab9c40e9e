"""Hints for programs that take a tool's result for something else: the text shows what was read, the call what there was."""

import pytest

from paddock.engines.javascript.result_hints import ResultShape, explain_nothing, explain_wrong_use
from paddock.model.base import Json
from paddock.model.outcome import ErrorInfo

SHAPES = {
    ("s", "list"): ResultShape.of({"result": [1, 2]}),
    ("s", "text"): ResultShape.of("text"),
    ("s", "many"): ResultShape.of({f"m{number}": [] for number in range(9)}),
    ("s", "array"): ResultShape.of([1]),
}
LIST = "servers.s.list returned an object with `result`"


def fail(source: str, message: str, at: str) -> str:
    place = source.index(at)
    line = source.count("\n", 0, place) + 1
    column = place - source.rfind("\n", 0, place)
    error = ErrorInfo(name="TypeError", message=message, phase="run", line=line, column=column)
    return explain_wrong_use(error, source, SHAPES)


@pytest.mark.parametrize(
    ("source", "message", "at", "hint"),
    [
        ("const r = await servers.s.list();\nreturn r.map(f)", "r.map is not a function", "map", f"{LIST}: use `r.result`"),
        ("const r = await servers.s.list()\nfor (const x of r) {}", "r is not iterable", "r) ", f"{LIST}: use `r.result`"),
        (
            "return (await servers.s.list()).map(f)",
            "(intermediate value).map is not a function",
            "map",
            f"{LIST}: use `(await servers.s.list()).result`",
        ),
        (
            "const r = await servers.s.list(); return r.items.length",
            "Cannot read properties of undefined (reading 'length')",
            "length",
            f"{LIST}, without `items`",
        ),
        ("const r = await servers.s.text(); r.map(f)", "r.map is not a function", "map", "servers.s.text returned a text"),
        (
            "const r = await servers.s.many(); r.map(f)",
            "r.map is not a function",
            "map",
            "servers.s.many returned an object with `m0`, `m1`, `m2`, `m3`, `m4`, `m5` and more",
        ),
        ("const r = {}; r.map(f)", "r.map is not a function", "map", ""),
        ("const r = await servers.s.array(); r.mapp(f)", "r.mapp is not a function", "mapp", ""),
        ("const r = await servers.t.list(); r.map(f)", "r.map is not a function", "map", ""),
    ],
)  # fmt: skip
def test_an_error_says_what_a_tool_returned(source: str, message: str, at: str, hint: str) -> None:
    assert fail(source, message, at) == hint


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("const r = await servers.s.list(); return r.items", f"{LIST}, without `items`"),
        ("const r = await servers.s.list(); return r?.items?.length", f"{LIST}, without `items`"),
        ("const { items } = await servers.s.list(); return items", f"{LIST}, without `items`"),
        ("return (await servers.s.list()).items", f"{LIST}, without `items`"),
        (
            "const r = await servers.s.text(); return r.items",
            "servers.s.text returned a text, without `items`",
        ),
        ("const r = await servers.s.list(); return r.result", ""),
        ("const { result } = await servers.s.list(); return result", ""),
        ("const r = await servers.s.array(); return r.length", ""),
        ("const r = await servers.s.list(); return", ""),
        ("const r = { a: 1 }; return r.items", ""),
        ("await servers.s.list()", ""),
    ],
)
def test_a_program_that_returns_nothing_learns_what_it_read(source: str, note: str) -> None:
    assert explain_nothing(source, SHAPES) == (f"the program returned nothing: {note}" if note else "")


@pytest.mark.parametrize("value", [None, 1, True, {"\u202e": 1}, {"a" * 100: []}])
def test_names_that_are_long_or_hide_something_are_left_out(value: Json) -> None:
    assert ResultShape.of(value).describe() in ("no object", "an object")
