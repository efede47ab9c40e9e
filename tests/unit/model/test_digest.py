"""Digests of samples, of hostile text, and their bounds. Real tools: tests/integration/test_digest_tools.py."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.record.output.digest.digest import Digest, DigestFailure, digest

TSC = [
    "src/a.ts(3,5): error TS2322: Type 'string' is not assignable.",
    "src/a.ts(9,1): error TS1005: ';' expected.",
]
ESLINT = [
    "",
    "/w/lint.js",
    "  1:7  error    'unused' is never used  no-unused-vars",
    "  2:1  warning  Unexpected 'debugger'   no-debugger",
    "",
    "✖ 2 problems (1 error, 1 warning)",
]


def test_s55_tsc() -> None:
    assert digest(TSC, command="", ok=False).to_wire() == {
        "kind": "tsc",
        "ok": False,
        "summary": "tsc: 2 errors in 1 file",
        "failures": [
            {"name": "TS2322", "file": "src/a.ts", "line": 3, "message": "Type 'string' is not assignable."},
            {"name": "TS1005", "file": "src/a.ts", "line": 9, "message": "';' expected."},
        ],
    }
    assert digest([], command="npx tsc --noEmit", ok=True) == Digest(
        kind="tsc", ok=True, summary="tsc: no errors"
    )


def test_s55_eslint() -> None:
    assert digest(ESLINT, command="", ok=False) == Digest(
        kind="eslint",
        ok=False,
        summary="eslint: 1 error, 1 warning",
        failures=(
            DigestFailure(name="no-unused-vars", file="/w/lint.js", line=1, message="'unused' is never used"),
        ),
    )
    assert digest([], command="node_modules/.bin/eslint .", ok=True).summary == "eslint: no problems"


def test_s55_npm() -> None:
    lines = ["npm error code E404", "npm error 404 Not Found", "npm error"]
    assert digest(lines, command="npm install x", ok=False) == Digest(
        kind="npm",
        ok=False,
        summary="npm: failed with E404",
        failures=(DigestFailure(name="E404", message="404 Not Found"),),
        excerpt="\n".join(lines),
    )
    done = digest(["", "added 3 packages in 2s"], command="npm ci", ok=True)
    assert done == Digest(kind="npm", ok=True, summary="npm: added 3 packages in 2s")
    assert digest(["npm ERR! code ELIFECYCLE"], command="", ok=False).kind == "npm"


def test_s55_generic() -> None:
    lines = ["starting", "ValueError: bad value at src/run.py:12", "done"]
    assert digest(lines, command="python x.py", ok=False) == Digest(
        kind="generic",
        ok=False,
        summary="generic: failed, 3 lines of output",
        failures=(
            DigestFailure(file="src/run.py", line=12, message="ValueError: bad value at src/run.py:12"),
        ),
        excerpt="\n".join(lines),
    )
    assert digest(["an error, they say"], command="x", ok=True) == Digest(
        kind="generic", ok=True, summary="generic: ok, 1 line of output"
    )


PANIC = """\
running 2 tests
test equal ... FAILED

failures:

---- equal stdout ----

thread 'equal' (19430) panicked at src/lib.rs:2:17:
assertion `left == right` failed
  left: 3
 right: 4

---- quiet stdout ----
failures:
    equal

test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s"""
OLD_PANIC = """\
---- equal stdout ----
thread 'equal' panicked at 'assertion failed: `(left == right)`
  left: `3`,
 right: `4`', src/lib.rs:2:17
---- says stdout ----
thread 'says' panicked at 'it's 1:2', src/lib.rs:5:9
test result: FAILED. 0 passed; 2 failed; 0 ignored"""


@pytest.mark.parametrize(
    ("output", "failures"),
    [
        (
            PANIC,
            [("equal", "src/lib.rs", 2, "assertion `left == right` failed"), ("quiet", None, None, "failed")],
        ),
        (
            OLD_PANIC,
            [
                ("equal", "src/lib.rs", 2, "assertion failed: `(left == right)`"),
                ("says", "src/lib.rs", 5, "it's 1:2"),
            ],
        ),
    ],
    ids=["now", "before 1.73"],
)
def test_the_test_harness_of_rust(
    output: str, failures: list[tuple[str, str | None, int | None, str]]
) -> None:
    assert digest(output.split("\n"), command="cargo test", ok=False) == Digest(
        kind="rust-test",
        ok=False,
        summary="rust-test: 2 tests, 0 passed, 2 failed",
        failures=tuple(
            DigestFailure(name=name, file=file, line=line, message=said)
            for name, file, line, said in failures
        ),
    )


def test_sections_of_pytest_with_one_title_are_told_apart_by_their_files() -> None:
    lines = [
        "____ test_x ____",
        "E   ValueError: one",
        "a/test_one.py:3: ValueError",
        "____ test_x ____",
        "E   ValueError: two",
        "lib.py:9: in f",
        "a/test_two.py:4: ValueError",
        "lib.py:9: ValueError",
        "==== short test summary info ====",
        "FAILED a/test_two.py::test_x - ValueError: t...",
        "FAILED a/test_one.py::test_x - ValueError: o...",
        "FAILED a/test_none.py::test_y",
        "3 failed in 0.10s",
    ]
    assert digest(lines, command="", ok=False).failures == (
        DigestFailure(name="test_x", file="a/test_two.py", line=4, message="ValueError: two"),
        DigestFailure(name="test_x", file="a/test_one.py", line=3, message="ValueError: one"),
        DigestFailure(name="test_y", file="a/test_none.py", message="failed"),
    )


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("=== 1 failed, 2 passed, 1 warning in 3.21s (0:01:02) ===", "pytest"),
        ("no tests ran in 0.01s", "pytest"),
        ("1 failed", "generic"),
        ("Ran 1 test in 0.001s", "unittest"),
        ("Ran 1 test", "generic"),
        ("ok  \texample/x\t(cached)", "go-test"),
        ("?   \texample/x\t[no test files]", "go-test"),
        ("FAIL\texample/x [build failed]", "go-test"),
        ("ok  \t", "generic"),
        ("test result: ok. 1 passed; 0 failed; 0 ignored", "rust-test"),
        ("test result: fine", "generic"),
    ],
)
def test_runners_are_known_by_how_they_end(line: str, kind: str) -> None:
    assert digest(["x", line, ""], command="", ok=False).kind == kind


def test_s55_everything_is_capped() -> None:
    lines = [f"error {number}: " + "x" * 300 for number in range(50)]
    found = digest(lines, command="", ok=False)
    assert (len(found.failures), found.truncated_failures) == (20, 30)
    assert {len(each.message) for each in found.failures} == {200}
    assert found.excerpt == "\n".join(lines[-30:])


def test_success_is_not_read_out_of_output() -> None:
    assert digest(TSC, command="", ok=True) == Digest(kind="tsc", ok=True, summary="tsc: 2 errors in 1 file")


PIECES = [
    "\x1b[31m",
    "error",
    "TS1",
    ": ",
    "(1,2)",
    "✖ ",
    "not ok 1 - ",
    "npm ERR! ",
    "  1:1  error  ",
    "  ",
    "a.b:3",
    "# fail 2",
    "\r",
    "1 failed in 0.1s",
    "___ ",
    " ___",
    "FAILED ",
    "E   ",
    "::",
    "Ran 1 test in 0.1s",
    "=" * 70,
    "ERROR: ",
    '  File "a", line 1',
    "ok  \tx",
    "--- FAIL: ",
    "=== RUN   ",
    "    a.go:3: ",
    "panic: ",
    "\ta.go:3",
    "test result: ok. 1 passed; 2 failed;",
    "---- ",
    " stdout ----",
    "thread 'x' panicked at ",
    "'",
]
LINES = st.lists(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=6).map("".join), max_size=40
)


@given(LINES, st.sampled_from(["", "tsc", "node --test", "eslint", "npm"]), st.booleans())
def test_hostile_output_gives_a_bounded_digest(lines: list[str], command: str, ok: object) -> None:
    found = digest(lines, command=command, ok=bool(ok))
    assert found.ok is bool(ok)
    assert len(found.failures) <= 20
    assert len(found.summary) < 300
    assert len((found.excerpt or "").split("\n")) <= max(30, sum("\n" in line for line in lines) * 6 + 30)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "  1:1  error  " + " " * 480,
        "a." * 250,
        ":1" * 250,
        "1:" * 250,
        "✖ " + " (1" * 160,
        "test at " + ":1" * 240,
        "error " + "a.b" * 160,
        "\x1b[" * 250,
        "(1,1" * 125,
        "1 failed, " * 50,
        "=" * 500,
        "___ " * 125,
        "--- FAIL: " * 50,
        "    a.go:1: " * 40,
        "\ta.go" * 80,
        "thread '' panicked at " + "', " * 160,
        "ERROR: a (" + "a." * 240,
        '  File "' * 60,
    ],
)
def test_hostile_lines_cost_linear_time(line: str) -> None:
    """Quadratic in 500 characters would be minutes for these; the bound is generous for slow machines."""
    started = time.process_time()
    digest([line] * 4000, command="", ok=False)
    digest([line] * 4000 + ["✖ 1 problem (1 error, 0 warnings)"], command="", ok=False)
    digest([line] * 4000 + ["# fail 1", "  not ok 1 - x"], command="", ok=False)
    for end in ("1 failed in 0.1s", "Ran 1 test in 0.1s", "ok  \tx", "test result: ok. 1 passed; 1 failed;"):
        digest([line] * 4000 + [end], command="", ok=False)
    assert time.process_time() - started < 20
