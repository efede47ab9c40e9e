"""Where output says that something went wrong: in the words of every language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.record.output.digest.faults import ReportedError, faults

SAID = {
    "python, two failures": (
        '  File "a.py", line 6, in test_y\n    raise KeyError("z")\nKeyError: \'z\'\n\nFAIL: test_x (a.T)\n---\n'
        '  File "a.py", line 4, in test_x\n    self.fail()\nAssertionError: None\n\nFAILED\n',
        [
            ("KeyError: 'z'", "a.py", "6"),
            ("FAIL: test_x (a.T)", None, None),
            ("AssertionError: None", "a.py", "4"),
        ],
    ),
    "python": (
        'Traceback (most recent call last):\n  File "a.py", line 9, in <module>\n    f()\n'
        "  File \"code.py\", line 3, in f\n    raise ValueError('boom')\nValueError: boom\n",
        [("ValueError: boom", "code.py", "3")],
    ),
    "python, marked": (
        '  File "code.py", line 3, in f\n    return 1 / 0\n           ~~^~~\nZeroDivisionError: division by zero',
        [("ZeroDivisionError: division by zero", "code.py", "3")],
    ),
    "node": (
        "code.js:3\n  throw new Error('boom')\n  ^\n\nError: boom\n    at f (code.js:3:9)\n"
        "    at Module._compile (node:internal/modules/cjs/loader:1521:14)",
        [("Error: boom", "code.js", "3")],
    ),
    "node, syntax": (
        "code.js:3\nlet = = 2\n      ^\n\nSyntaxError: Unexpected token '='\n"
        "    at wrapSafe (node:internal/modules/cjs/loader:1464:18)",
        [("SyntaxError: Unexpected token '='", "code.js", "3")],
    ),
    "bun": (
        "2 | function f() {\n3 |   throw new Error('boom')\n                ^\nerror: boom\n      at f (code.ts:3:13)",
        [("error: boom", "code.ts", "3")],
    ),
    "java": (
        'Exception in thread "main" java.lang.NumberFormatException: x\n'
        "\tat java.base/java.lang.NumberFormatException.forInputString(NumberFormatException.java:67)\n"
        "\tat Main.main(Main.java:3)",
        [('Exception in thread "main" java.lang.NumberFormatException: x', "Main.java", "3")],
    ),
    "go": (
        "panic: boom\n\ngoroutine 1 [running]:\nmain.f(...)\n\t./code.go:3\nmain.main()\n\t./code.go:5 +0x25",
        [("panic: boom", "./code.go", "3")],
    ),
    "go, compiler": (
        "# command-line-arguments\n./code.go:2:15: declared and not used: x\n./code.go:3:2: undefined: y",
        [
            ("./code.go:2:15: declared and not used: x", "./code.go", "2"),
            ("./code.go:3:2: undefined: y", "./code.go", "3"),
        ],
    ),
    "rust": (
        "error[E0425]: cannot find value `x` in this scope\n --> code.rs:3:13\n  |\n3 |     let error = x;",
        [("error[E0425]: cannot find value `x` in this scope", "code.rs", "3")],
    ),
    ".NET": (
        "Unhandled exception. System.Exception: boom\n   at M.F() in ./code.cs:line 3",
        [("Unhandled exception. System.Exception: boom", "./code.cs", "3")],
    ),
    "csc": (
        "code.cs(3,13): error CS1525: Invalid expression term '='",
        [("code.cs(3,13): error CS1525: Invalid expression term '='", "code.cs", "3")],
    ),
    "elixir": (
        "** (ArithmeticError) bad\n    (stdlib 4.2) lists.erl:7: :lists.map/2\n    code.exs:3: M.f/0",
        [("** (ArithmeticError) bad", "code.exs", "3")],
    ),
    "php": (
        'PHP Parse error:  unexpected token "=" in /w/code.php on line 3',
        [('PHP Parse error:  unexpected token "=" in /w/code.php on line 3', "/w/code.php", "3")],
    ),
    "perl says no word of an error": ("boom at code.pl line 3.", [("boom at code.pl line 3.", "code.pl", "3")]),
    "nor does a shell": ("hi\ncode.sh: line 3: x: command not found", [("code.sh: line 3: x: command not found", "code.sh", "3")]),
    "gcc": (
        "code.c: In function 'main':\ncode.c:3:5: error: 'x' undeclared\n    3 |     error(x);",
        [("code.c:3:5: error: 'x' undeclared", "code.c", "3")],
    ),
    "nothing": ("all is well\nat 10:30", []),
    "no place": ("Error: boom\nat 10:30", [("Error: boom", None, None)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_the_place_of_an_error(name: str) -> None:
    text, found = SAID[name]
    assert list(faults(text.splitlines())) == [ReportedError(*each) for each in found]


@given(st.lists(st.text('aE:/. \t"line1()-> File error at panic', max_size=200), max_size=40))
def test_any_text_at_all(lines: list[str]) -> None:
    assert all(
        fault.message in lines and (fault.line is None or fault.line.isdecimal()) for fault in faults(lines)
    )


def test_a_long_line_is_read_quickly() -> None:
    """A pattern that went back would not end within the test's time."""
    for piece in ("a", "/", ".", "a.", ":1", "at ", 'File "', "(", " "):
        assert not [each for each in faults([piece * 200_000]) if each.line == "7"]
