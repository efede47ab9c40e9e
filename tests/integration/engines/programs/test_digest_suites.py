"""Digests of what real runners of tests print: pytest, Python's own, Go's and Rust's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.record.output.digest.digest import Digest, DigestFailure, digest

PYTEST = """\
import json

import pytest


@pytest.fixture
def broken():
    raise OSError("no disk")


class TestSums:
    def test_of_three(self):
        assert sum([1, 1]) == 3


@pytest.mark.parametrize("text", ["{", "c - d"])
def test_parses(text):
    json.loads(text)


def test_never_starts(broken): ...


def test_is_fine(): ...
"""
UNITTEST = """\
import unittest


class Sums(unittest.TestCase):
    def test_of_three(self):
        for number in (2, 3):
            with self.subTest(number=number):
                self.assertEqual(number, 3)

    def test_cause(self):
        try:
            {}["z"]
        except KeyError as error:
            raise ValueError("second") from error

    @unittest.expectedFailure
    def test_better_than_thought(self): ...
"""
GO = {
    "go.mod": "module example/suites\n\ngo 1.18\n",
    "sums/sums_test.go": """package sums

import "testing"

func TestSays(t *testing.T) {
	t.Log("first")
	t.Errorf("got %d", 1)
}

func TestParts(t *testing.T) {
	t.Run("one", func(t *testing.T) { t.Fatal("bad") })
	t.Run("two", func(t *testing.T) {})
}
""",
    "maps/maps_test.go": """package maps

import "testing"

func TestWrites(t *testing.T) {
	var none map[string]int
	none["x"] = 1
}
""",
    "typo/typo_test.go": """package typo

import "testing"

func TestTypo(t *testing.T) { x := 1 }
""",
    "fine/fine_test.go": 'package fine\n\nimport "testing"\n\nfunc TestFine(t *testing.T) {}\n',
}
RUST = """\
#[test]
fn equal() {
    assert!(1 == 2);
}
#[test]
fn says() {
    panic!("boom");
}
#[test]
fn returns() -> Result<(), String> {
    Err("no".into())
}
#[test]
fn fine() {}
"""


def run(directory: Path, *argv: str, path: str | None = None) -> Digest:
    """Run a tool and return the digest of what it printed, with names of files in place of whole paths."""
    variables = {
        **os.environ,
        "PATH": path or os.environ["PATH"],
        "COLUMNS": "80",
        "CI": "",
        "PYTEST_ADDOPTS": "",
    }
    done = subprocess.run(
        argv, cwd=directory, env=variables, capture_output=True, text=True, check=False, timeout=300
    )
    found = digest((done.stdout + done.stderr).splitlines(), command="", ok=done.returncode == 0)
    named = (
        each.model_copy(update={"file": Path(each.file).name if each.file else None})
        for each in found.failures
    )
    return found.model_copy(update={"failures": tuple(named)})


@pytest.mark.parametrize("style", ["auto", "long", "short", "native", "no"])
def test_pytest(tmp_path: Path, style: str) -> None:
    (tmp_path / "test_all.py").write_text(PYTEST)
    (tmp_path / "test_typo.py").write_text("def test_typo(:\n")
    options = ("no:cacheprovider", "no:randomly", "no:xdist")
    command = (sys.executable, "-m", "pytest", *(word for name in options for word in ("-p", name)))
    found = run(tmp_path, *command, "--continue-on-collection-errors", f"--tb={style}")
    assert (found.kind, found.summary) == ("pytest", "pytest: 3 failed, 1 passed, 2 errors")
    assert [(each.name, each.file, each.line) for each in found.failures] == [
        ("TestSums::test_of_three", "test_all.py", None if style == "no" else 13),
        ("test_parses[{]", "test_all.py", None if style == "no" else 18),
        ("test_parses[c - d]", "test_all.py", None if style == "no" else 18),
        (None, "test_typo.py", None if style == "no" else 1),
        ("test_never_starts", "test_all.py", None if style == "no" else 8),
    ]
    said = [each.message for each in found.failures]
    if style in ("native", "no"):  # what the summary has room for
        assert said[4] == "OSError: no disk"
        return
    problem = "json.decoder.JSONDecodeError: Expecting "
    assert said == [
        "assert 2 == 3",
        f"{problem}property name enclosed in double quotes: line 1 column 2 (char 1)",
        f"{problem}value: line 1 column 1 (char 0)",
        "SyntaxError: invalid syntax",
        "OSError: no disk",
    ]


def test_unittest(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(UNITTEST)
    assert run(tmp_path, sys.executable, "-m", "unittest", "sums") == Digest(
        kind="unittest",
        ok=False,
        summary="unittest: 3 tests, failures=1, errors=1, unexpected successes=1",
        failures=(
            DigestFailure(name="sums.Sums.test_cause", file="sums.py", line=14, message="ValueError: second"),
            DigestFailure(
                name="sums.Sums.test_of_three (number=2)",
                file="sums.py",
                line=8,
                message="AssertionError: 2 != 3",
            ),
            DigestFailure(name="sums.Sums.test_better_than_thought", message="unexpected success"),
        ),
    )
    (tmp_path / "fine.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): ...\n"
    )
    assert run(tmp_path, sys.executable, "-m", "unittest", "fine").summary == "unittest: 1 test, all passed"


@pytest.mark.parametrize("verbose", [(), ("-v",)])
def test_go(toolchain_path: str, tmp_path: Path, verbose: tuple[str, ...]) -> None:
    for name, text in GO.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = run(tmp_path, "go", "test", "-p", "1", *verbose, "./...", path=toolchain_path)
    assert (found.kind, found.summary) == ("go-test", "go-test: 1 package passed, 3 failed")
    assert {
        each.name: (each.file, each.line, each.message.partition(" [")[0]) for each in found.failures
    } == {
        "TestSays": ("sums_test.go", 7, "got 1"),
        "TestParts/one": ("sums_test.go", 11, "bad"),
        "TestWrites": ("maps_test.go", 7, "panic: assignment to entry in nil map"),
        None: ("typo_test.go", 5, "declared and not used: x"),
    }
    assert run(tmp_path, "go", "test", *verbose, "./fine", path=toolchain_path) == Digest(
        kind="go-test", ok=True, summary="go-test: 1 package passed, 0 failed"
    )


def test_rust(toolchain_path: str, tmp_path: Path) -> None:
    (tmp_path / "lib.rs").write_text(RUST)
    command = ("rustc", "--test", "lib.rs", "-o", "suite")
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": toolchain_path}, check=True)
    found = run(tmp_path, "./suite", "--test-threads=1")
    assert (found.kind, found.summary) == ("rust-test", "rust-test: 4 tests, 1 passed, 3 failed")
    assert {each.name: (each.file, each.line, each.message) for each in found.failures} == {
        "equal": ("lib.rs", 3, "assertion failed: 1 == 2"),
        "says": ("lib.rs", 7, "boom"),
        "returns": (None, None, 'Error: "no"'),
    }
