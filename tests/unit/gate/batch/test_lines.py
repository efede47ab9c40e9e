"""Programs as JSON lines: every line is a program, or a fault that names its line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import Program
from paddock.gate.batch import lines
from paddock.gate.batch.lines import BadLine, read_program


def test_a_line_is_a_program():
    line = b'{"id": 3, "language": "python", "code": "1", "stdin": null, "tests": [{"stdin": "1", "expect": "2"}]}'
    program = read_program(line, 1)
    assert isinstance(program, Program)
    assert (program.id, program.stdin, program.tests[0].expect) == ("3", None, b"2")


@pytest.mark.parametrize(
    ("line", "name", "message"),
    [
        (b"{", None, "the line is not JSON: Expecting property name enclosed in double quotes"),
        (b"\xff", None, "the line is not JSON: it is not UTF-8, or not JSON"),
        (b"[" * 100_000, None, "the line is not JSON: it is not UTF-8, or not JSON"),
        pytest.param(
            b"[%s1]" % (b"1," * 1_250_000), None, "the line has more than 1250000 JSON values", id="values"
        ),
        (b"[1]", None, "the line must be an object with `id`, `language` and `code`, not an array"),
        (b'{"code": "1"}', None, "id: give each program an `id`, with which its answer can be found"),
        (b'{"id": "a"}', "a", "language: is missing; code: is missing"),
        (
            b'{"id": "a", "language": "c", "code": "", "test": []}',
            "a",
            "test: is not a field here; did you mean `tests`?",
        ),
        (
            b'{"id": "a", "language": "c", "code": "", "tests": [{"input": ""}]}',
            "a",
            "tests.0.input: is not a field here",
        ),
    ],
)
def test_other_lines_are_faults(line, name, message):
    assert read_program(line, 7) == BadLine(7, name, message)


def test_a_line_that_is_too_long_is_not_parsed(monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 3)
    assert read_program(b"[1]\n", 1).message == "the line is longer than 3 bytes"


@given(
    st.one_of(
        st.binary(max_size=60),
        st.dictionaries(st.sampled_from([*Program.model_fields, "x"]), st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=6,
        )).map(lambda fields: json.dumps(fields).encode()),
    )
)  # fmt: skip
def test_no_line_raises(line):
    found = read_program(line, 1)
    assert isinstance(found, Program | BadLine)
    if isinstance(found, BadLine):
        json.dumps(found.render())
