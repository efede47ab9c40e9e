"""Every acceptance case of docs/spec/cases.md is named by a test."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
CASES = TESTS.parent / "docs" / "spec" / "cases.md"
NAME = re.compile(r"^(?:async )?def test_((?:[a-z]\d+_)+)\w*\(", re.MULTILINE)


def named_cases(path):
    """Yield the case ids in the names of a file's test functions."""
    for ids in NAME.findall(path.read_text()):
        yield from ids.rstrip("_").split("_")


def test_every_case_has_a_test():
    cases = [case.lower() for case in re.findall(r"^\| ([A-Z]\d+) \|", CASES.read_text(), re.MULTILINE)]
    assert len(cases) == len(set(cases)) == 197
    named = {case for path in TESTS.rglob("test_*.py") for case in named_cases(path)}
    missing = [case for case in cases if case not in named]
    assert not missing, f"no test names {', '.join(missing)}"
