"""Where the running code stands, told in the user's own line and column."""
# ruff: noqa: SIM905  (a table reads best with one case a line, words in a row)

import re
import string

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from paddock.engines.javascript.parse import ParsedProgram
from paddock.engines.javascript.source_map import (
    NEWLINE_PATTERN,
    SourceMap,
    SourcePosition,
    clamp_place,
    find_place,
)
from paddock.model.outcome import ErrorInfo

BOOM = "new Error('boom')"

THROWN = {
    "first line": f"throw {BOOM}",
    "later line": f"const a = 1\n\n  throw {BOOM}",
    "same line": f"const a = 1; throw {BOOM}",
    "last expression": f"const a = 1\nfail({BOOM}); function fail(e) {{ throw e }}",
    "last expression, twice on its line": f"const fail = (e) => {{ throw e }}; if (0) 1; else fail({BOOM})",
    "both branches on one line": f"const fail = (e) => {{ throw e }}; if (0) {{ 1 }} else {{ fail({BOOM}) }}",
    "line above the last expression": f"const a = {BOOM}; throw a\na",
    "whole arrow": f"async () => {{ throw {BOOM} }}",
    "whole arrow over lines": f"async () => {{\n  throw {BOOM}\n}}",
    "whole function": f"function (x) {{ throw {BOOM} }}",
    "main": f"async function main() {{\n\tthrow {BOOM}\n}}",
    "export default": f"export default async () => {{ throw {BOOM} }}",
    "export default function": f"export default function () {{ throw {BOOM} }}",
    "export const": f"export const a = 1; throw {BOOM}",
    "import type": f"import type {{ A }} from 'a'; throw {BOOM}",
    "fence": f"Here it is:\n\n```js\nconst a = 1\nthrow {BOOM}\n```\nBye",
    "fence, last expression": f"```js\n(() => {{ throw {BOOM} }})()\n```",
    "second fence": f"One\n```js\nconst a = 1\n```\nTwo\n```js\nthrow {BOOM}\n```",
    "indented fence": f"1. Do\n   ```js\n   throw {BOOM}\n   ```",
    "hashbang": f"#!/usr/bin/env node\nthrow {BOOM}",
    "byte order mark": f"\ufeffthrow {BOOM}",
    "CRLF": f"const a = 1\r\nconst b = 2\r\nthrow {BOOM}\r\n",
    "CR": f"const a = 1\rthrow {BOOM}",
    "line separator": f"const a = '\u2028'; throw {BOOM}",
    "CRLF fence": f"Text\r\n```js\r\n1;\r\nthrow {BOOM}\r\n```\r\n",
    "non-ASCII": f"const é = '日本'; throw {BOOM}",
    "emoji": f"const a = '😀😀'; throw {BOOM}",
    "emoji, last expression": f"const a = '😀'; (() => {{ throw {BOOM} }})()",
    "tabs": f"\tconst a = 1\n\t\tthrow {BOOM}",
    "stripped types": f"const a: number = 1; const f = <T,>(x: T): T => {{ throw {BOOM} }}; f<string>('a')",
    "stripped types over lines": f"interface A {{\n  a: string\n}}\nconst a: A = {{ a: '' }}\nthrow {BOOM}",
    "stripped types, emoji": f"type A = '😀日é'; const a: '😀日é' | 1 = 1; throw {BOOM}",
    "stripped types, last expression": f"const a: number = 1\n;((x: any) => {{ throw {BOOM} }})(a)",
    "stripped import type and return": f"import type {{ A }} from 'a'; if (!input) throw {BOOM}; return 1 as A",
    "fenced types": f"Typed:\n```ts\nconst a: number = 1\nthrow {BOOM}\n```",
    "enum": f"enum A {{\n  x,\n  y,\n}}\n\nthrow {BOOM}",
    "enum on the same line": f"enum A {{ x }} throw {BOOM}",
    "enum, emoji": f"enum A {{ x }}\nconst a: string = '😀日é'; throw {BOOM}",
    "enum, last expression": f"enum A {{ x }}\nconst a: number = A.x\n  ;(() => {{ throw {BOOM} }})()",
    "enum, CRLF": f"enum A {{ x }}\r\nconst a = A.x\r\nthrow {BOOM}",
    "enum in a fence": f"Text\n```ts\nenum A {{ x }}\n  throw {BOOM}\n```",
    "enum, default export": f"enum A {{ x }}\nexport default function main() {{\n  throw {BOOM}\n}}",
    "parameter property": f"class A {{\n  constructor(private a: number) {{\n    throw {BOOM}\n  }}\n}}\nnew A(1)",
    "namespace": f"namespace N {{\n  export const f = () => {{ throw {BOOM} }}\n}}\nN.f()",
}


def lines_of(source: str) -> list[str]:
    return NEWLINE_PATTERN.split(source.removeprefix("\ufeff"))


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@pytest.mark.parametrize("source", THROWN.values(), ids=THROWN)
def test_thrown_error_stands_at_the_users_line_and_column(host, source):
    line = next(number for number, text in enumerate(lines_of(source), 1) if BOOM in text)
    text = lines_of(source)[line - 1]
    spot = host.thrown_at(source)
    assert (spot.line, spot.column) == (line, units(text[: text.index(BOOM)]) + 1)
    assert spot.excerpt.split("\n")[0] == text


def test_a_place_in_the_wrapper_is_moved_into_the_text():
    positions = SourceMap(prefix=36, insertions=((0, 0, 7),))
    assert find_place(1, 5, positions, "1+1")[:2] == (1, 1)
    assert find_place(1, 37 + 3, positions, "1+1")[:2] == (1, 1)
    assert find_place(1, 37 + 7 + 2, positions, "1+1")[:2] == (1, 3)
    assert find_place(9, 9, positions, "1+1\n22") == SourcePosition(2, 3, "22\n  ^")


def test_places_left_of_an_insertion_stay():
    positions = SourceMap(prefix=0, insertions=((1, 4, 7), (1, 10, 7)))
    columns = [
        find_place(2, column, positions, "\n" + "x" * 30).column
        for column in (1, 5, 6, 12, 13, 18, 19, 25, 26)
    ]
    assert columns == [1, 5, 5, 5, 6, 11, 11, 11, 12]


def test_a_place_of_compiled_code_leads_to_the_piece_before_it():
    positions = SourceMap(prefix=10, map=((), ((4, 0, 2), (9, 1, 5)), ()))
    source = "first line\nsecond line"
    assert find_place(2, 5, positions, source)[:2] == (1, 3)
    assert find_place(2, 9, positions, source)[:2] == (1, 3)
    assert find_place(2, 10, positions, source)[:2] == (2, 6)
    assert find_place(3, 1, positions, source)[:2] == (2, 6)
    assert find_place(7, 1, positions, source)[:2] == (2, 6)
    assert find_place(2, 1, positions, source)[:2] == (1, 1)


def test_caret_keeps_tabs_and_counts_cells():
    assert clamp_place(1, 3, "\t\tfoo()").excerpt == "\t\tfoo()\n\t\t^"
    assert clamp_place(1, 8, "a = '😀' + b").excerpt == "a = '😀' + b\n       ^"
    assert clamp_place(1, 7, "a = '日' + b").excerpt == "a = '日' + b\n       ^"
    assert clamp_place(1, 3, "e\u0301 = b").excerpt == "e\u0301 = b\n ^"


def test_long_line_is_cut_to_a_window_around_the_column():
    source = "".join(f"{number:<10}" for number in range(100))
    spot = clamp_place(1, 501, source)
    shown, caret = spot.excerpt.split("\n")
    assert shown == "…" + source[440:560] + "…"
    assert shown[caret.index("^")] == "5"
    assert shown[caret.index("^") :].startswith("50  ")
    assert clamp_place(1, 1, source).excerpt == source[:120] + "…\n^"
    assert clamp_place(1, 1001, source).excerpt == "…" + source[880:] + "\n" + " " * 121 + "^"


def test_excerpt_cannot_steer_a_terminal():
    assert clamp_place(1, 1, "\x1b[2Jboom \u202e\u200b\x00").excerpt == "\ufffd[2Jboom \ufffd\ufffd\ufffd\n^"


CODE = st.text(
    st.one_of(
        st.sampled_from([*"()[]{};,.:=<>!?+-*/'\"`$\\#@ \n\r\t", "\u2028", "\ufeff", "😀", "é", "日", "“"]),
        st.sampled_from(string.ascii_lowercase),
    ),
    max_size=40,
)
WORDS = st.sampled_from(
    "return await import export default type interface enum namespace class function async const let if else try catch "
    "from as satisfies declare abstract a b x main input { } ( ) ; , : = => <T> `${ ``` ```js ```ts // /* */ <!-- --> "
    "'s' 1 /r/ . ?. ! @d # # \n \r\n \u2028 😀 é ... * yield throw new this super".split(" "),
)
TEXTS = st.one_of(
    st.text(max_size=60),
    CODE,
    st.lists(WORDS, max_size=25).map(" ".join),
    st.lists(WORDS, max_size=25).map("".join),
)
SLOWLY = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400
)


@SLOWLY
@given(source=TEXTS)
@example(source="```js```")
@example(source="export default")
@example(source="import type")
def test_any_text_is_a_program_or_a_refusal_inside_of_it(host, source):
    for language in ("javascript", "typescript"):
        answer = host.read(source, language)
        if isinstance(answer, ErrorInfo):
            lines = lines_of(source)
            assert 1 <= answer.line <= len(lines)
            assert 1 <= answer.column <= units(lines[answer.line - 1]) + 1
            assert answer.message
        else:
            assert isinstance(answer, ParsedProgram)
            if source.isascii():  # V8 and acorn know different editions of Unicode
                host.runner.eval(answer.code)
            for column, _ in enumerate(answer.code[:200], 1):
                assert find_place(1, column, answer.positions, source).line >= 1


NAMES = st.sampled_from(["a", "b", "é", "$x"])
EXPRESSIONS = st.recursive(
    st.one_of(
        NAMES,
        st.sampled_from(
            ["1", "'😀'", "`t${1}\n`", "/r/g", "null", "input", "(() => 1)", "({}).x", "[1, 2]", "'\u2028'"]
        ),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", "\n+ ", " , ", " ?? ", " /*c*/ === "]), inner).map(
            "(%s%s%s)".__mod__
        ),
        inner.map(lambda e: f"[{e}]"),
        inner.map(lambda e: f"((q) => {{ return {e} }})(1)"),
        inner.map(lambda e: f"(async () => {{\n{e}\n}})()"),
    ),
    max_leaves=5,
)
STATEMENTS = st.recursive(
    st.one_of(
        EXPRESSIONS.map(lambda e: f"{e};"),
        EXPRESSIONS.map(lambda e: f"var v = {e} // note\n"),
        EXPRESSIONS.map(lambda e: f"if (0) return {e};"),
        st.sampled_from(
            [
                ";",
                "var f = function (x) { return x };",
                "/* c */",
                "var n: number = 1;",
                "type T = '😀';",
                "var w;",
            ]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda s: "{" + "".join(s) + "}"),
        st.tuples(inner, inner).map(lambda s: f"if (1) {{ {s[0]} }}\r\nelse {{ {s[1]} }}"),
        st.tuples(inner, inner).map(lambda s: f"try {{ {s[0]} }} catch {{ {s[1]} }}"),
    ),
    max_leaves=6,
)
MARK = "mark.here"


@pytest.mark.slow
@SLOWLY
@given(
    before=st.lists(STATEMENTS, max_size=4),
    after=st.lists(STATEMENTS, max_size=3),
    newline=st.sampled_from([" ", "\n", "\r\n", "\n\n\t"]),
    compiled=st.booleans(),
)
def test_every_piece_of_a_program_keeps_its_place(host, before, after, newline, compiled):
    enum = "enum Compiled { one }" if compiled else ""
    source = newline.join([enum, *before, f"{MARK};", *after])
    # Source maps do not count U+2028 as the end of a line, and nobody writes one into compiled TypeScript.
    source = source.replace("\u2028", "") if compiled else source
    program = host.read(source)
    assert isinstance(program, ParsedProgram), program
    host.runner.eval(program.code)
    lines = NEWLINE_PATTERN.split(program.code)
    row = next(number for number, text in enumerate(lines) if MARK in text)
    column = units(lines[row][: lines[row].index(MARK)])
    line = next(number for number, text in enumerate(lines_of(source), 1) if MARK in text)
    text = lines_of(source)[line - 1]
    spot = find_place(row + 1, column + 1, program.positions, source)
    assert (spot.line, spot.column) == (line, units(text[: text.index(MARK)]) + 1)
    assert re.search(r"\n.*\^$", spot.excerpt)
