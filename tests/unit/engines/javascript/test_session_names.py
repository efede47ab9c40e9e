"""What becomes of the declarations of a program in a session."""

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.engines.javascript.conftest import Host

from paddock.engines.javascript import parse
from paddock.engines.javascript.parse import ParsedProgram

TEXTS = {
    "1": ("", "return 1"),
    "let a": ('[],["a"],[],[]', ";   a=void 0;"),
    "const a = 1, { b } = c": ('[],[],["a","b"],[]', ";     a = 1, ({ b } = c);"),
    "const [a, ...b] = c;": ('[],[],["a","b"],[]', ";     [a, ...b] = c;"),
    "var a, { b: { d = 1 } = {} } = c": ('[],[],[],["a","d"]', ";   a, ({ b: { d = 1 } = {} } = c);"),
    "for (var i = 0; ;) var a = 1": ('[],[],[],["a","i"]', "for (    i = 0; ;)     a = 1;"),
    "for (var { a } of b) { var d\n[1] }": ('[],[],[],["d","a"]', "for (    { a } of b) { ;   d;\n[1] }"),
    "for (let i of a) { const b = 1 }": ("", "for (let i of a) { const b = 1 }"),
    "function f() { var a; let b }": ('[["f",$00000f]],[],[],[]', "function $00000f() { var a; let b }"),
    "async function* f() {}": ('[["f",$00000f]],[],[],[]', "async function* $00000f() {}"),
    "class A extends B { static { var a } }": (
        '[],["A"],[],[]',
        ";A=class A extends B { static { var a } };",
    ),
    "switch (a) { case 1: var b = 1 }": ('[],[],[],["b"]', "switch (a) { case 1: ;   b = 1; }"),
    "a: var b = 1": ('[],[],[],["b"]', "a:     b = 1;"),
    "using a = b": ("", "using a = b"),
    "var f; function f() {}": ('[["f",$00000f]],[],[],[]', ";   f; function $00000f() {}"),
}
"""Text: what is declared, and the body."""


def read(host: Host, source: str) -> ParsedProgram:
    request = parse.write_request(source, "auto", session=True).decode()
    return parse.read_response(str(host.reader.eval(f"intake({json.dumps(request)})")).encode(), source)


@pytest.mark.parametrize("text", TEXTS)
def test_a_declaration_becomes_an_assignment(host: Host, text: str) -> None:
    declared, body = TEXTS[text]
    code = read(host, text).code.removesuffix("\n})\n//# sourceURL=paddock:program")
    _, _, inside = code.partition("){")
    head, found, rest = inside.partition(");")
    if not declared:
        assert inside == body
    else:
        assert (head.partition("(")[2], found, rest) == (declared, ");", body)


def test_a_program_without_a_session_is_read_as_ever(host: Host) -> None:
    assert host.read("let a = 1").code == (  # pyright: ignore[reportAttributeAccessIssue]
        '"use strict";__paddock(async function(input){let a = 1\n})\n//# sourceURL=paddock:program'
    )


PIECES = st.sampled_from(
    ["let a = 1", "const { b, ...c } = { b: 2, d: 3 }", "var e", "function f() { return 4 }", "class G {}", "if (1) var h = 5",
     "for (var i of [6]) ;", "[1].map((x) => x)", "(7)", "`8`", "/9/.test('9')", "throw_: 1", "async function j() {}"]
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    st.lists(PIECES, min_size=1, max_size=6, unique=True),
    st.lists(st.sampled_from(["\n", ";", ";\n\n", " ;\t"]), min_size=6, max_size=6),
)
def test_positions_lead_back_to_the_text(host: Host, pieces: list[str], ends: list[str]) -> None:
    """Each statement of any program is found where it stands, and the program is one for the engine too."""
    text = "".join(piece + end for piece, end in zip(pieces, ends, strict=False)) + "throw new Error('here')"
    try:
        program = read(host, text)
    except (parse.ProgramError, ValueError):  # TypeScript would be asked
        assume(False)  # two statements without a semicolon between them can be no program
        raise
    lines = program.code.split("\n")
    row = next(number for number, line in enumerate(lines, 1) if "throw new" in line)
    place = program.place(row, lines[row - 1].index("throw new") + 1)
    before = text[: text.index("throw new")]
    assert (place.line, place.column) == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)
    host.runner.eval(program.code)
