"""Every acceptance case that is finished is named by a test."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
NAME = re.compile(r"test_((?:[a-z]\d+_)+)")


def ids(letter, *spans):
    """Return case ids: `ids("m", 1, (3, 5))` is m1, m3, m4, m5."""
    bounds = [span if isinstance(span, tuple) else (span, span) for span in spans]
    return {f"{letter}{number}" for first, last in bounds for number in range(first, last + 1)}


FINISHED = ids("g", (1, 28)) | ids("m", (1, 30)) | ids("p", (1, 44)) | ids("x", (1, 40)) | ids("s", (1, 55))


def named_cases(path):
    """Yield the case ids in the names of a file's test functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (found := NAME.match(node.name)):
            yield from found[1].rstrip("_").split("_")


def test_every_finished_case_has_a_test():
    named = {case for path in TESTS.rglob("test_*.py") for case in named_cases(path)}
    missing = sorted(FINISHED - named, key=lambda case: (case[0], int(case[1:])))
    assert not missing, f"no test names {', '.join(missing)}"
