"""Prose beside a program that stands in no fence: it is called that, and what is code never is."""

import pytest

PROSE = (
    "This line looks like prose, and a program must be only code; remove the prose, or put ``` on the lines before "
    "and after the code"
)


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        ("Here is what I would do", 1, 1, PROSE),
        ("Here is the code:\n\nreturn 1", 1, 1, PROSE),
        ("return 1\r\n\r\nThis calls `servers.a.b()` (twice), and is fast.", 3, 1, PROSE),
        ("Sure! Here's the program:\nconst x = 1", 1, 1, PROSE),
        ("## What it does\nreturn 1", 1, 1, PROSE),
        ('return 1;\n\n**Note:** it uses "quotes"', 3, 1, PROSE),
        ("here is what you asked for:\nreturn 1", 1, 1, PROSE),
        ("Вот код программы:\n1", 1, 1, PROSE),
        ("const n: number = 1\nIt counts from one.", 2, 1, PROSE),
        ("const x = {\n  a: 'it is a b\n}", 2, 6, "Unterminated string constant"),
        ("const x = {\n  a: foo bar,\n}", 2, 10, "Unexpected token 'bar'"),
        ("return the value.", 1, 12, "Unexpected token 'value'"),
        ("Call it", 1, 6, "Unexpected token 'it'"),
    ],
)
def test_a_refusal_of_prose(host, source, line, column, message):
    error = host.refusal(source)
    assert (error.line, error.column, error.message) == (line, column, message)
