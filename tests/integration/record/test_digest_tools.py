"""Digests of what the real tools print: TypeScript, ESLint, npm, and node's test runner with both of its reporters."""

import subprocess
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S

from paddock.record.output.digest.digest import Digest, DigestFailure, digest

TYPES = "const a: number = 'x';\nexport const b: string = a;\n"
TESTS = """\
import test from "node:test";
import assert from "node:assert";
test("adds", () => assert.strictEqual(1 + 1, 2));
test("suite", async (t) => {
  await t.test("breaks", () => assert.strictEqual(1 + 1, 3));
});
test("throws", () => { throw new Error("boom"); });
"""
LINTED = "const unused = 1;\ndebugger;\n"
RULES = 'export default [{ rules: { "no-unused-vars": "error", "no-debugger": "warn" } }];\n'


@pytest.fixture(scope="session")
def modules(npm_modules) -> Path:
    """The pinned tools."""
    return npm_modules("digest")


def run(directory: Path, *argv: str) -> Digest:
    """Run a tool and return the digest of what it printed."""
    done = subprocess.run(
        argv, cwd=directory, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    lines = (done.stdout + done.stderr).splitlines()
    return digest(lines, command=" ".join(argv), ok=done.returncode == 0)


@pytest.mark.parametrize("pretty", ["--pretty", "--noEmit"])
def test_s55_tsc(modules: Path, tmp_path: Path, pretty: str) -> None:
    (tmp_path / "bad.ts").write_text(TYPES)
    # Without --lib and --skipLibCheck, most of the time would go into declarations of the DOM.
    tsc = (
        "node",
        str(modules / "typescript/bin/tsc"),
        "--noEmit",
        "--strict",
        "--skipLibCheck",
        "--lib",
        "es5",
    )
    found = run(tmp_path, *tsc, pretty, "bad.ts")
    assert found == Digest(
        kind="tsc",
        ok=False,
        summary="tsc: 2 errors in 1 file",
        failures=(
            DigestFailure(
                name="TS2322",
                file="bad.ts",
                line=1,
                message="Type 'string' is not assignable to type 'number'.",
            ),
            DigestFailure(
                name="TS2322",
                file="bad.ts",
                line=2,
                message="Type 'number' is not assignable to type 'string'.",
            ),
        ),
    )
    (tmp_path / "bad.ts").write_text("export const a = 1;\n")
    assert run(tmp_path, *tsc, pretty, "bad.ts") == Digest(kind="tsc", ok=True, summary="tsc: no errors")


def test_s55_eslint(modules: Path, tmp_path: Path) -> None:
    (tmp_path / "lint.js").write_text(LINTED)
    (tmp_path / "eslint.config.mjs").write_text(RULES)
    eslint = ("node", str(modules / "eslint/bin/eslint.js"), "lint.js")
    found = run(tmp_path, *eslint)
    assert found == Digest(
        kind="eslint",
        ok=False,
        summary="eslint: 1 error, 1 warning",
        failures=(
            DigestFailure(
                name="no-unused-vars",
                file=str(tmp_path / "lint.js"),
                line=1,
                message="'unused' is assigned a value but never used",
            ),
        ),
    )
    (tmp_path / "lint.js").write_text("\n")
    assert run(tmp_path, *eslint) == Digest(kind="eslint", ok=True, summary="eslint: no problems")


@pytest.mark.parametrize("reporter", ["tap", "spec"])
def test_s55_node_test(tmp_path: Path, reporter: str) -> None:
    (tmp_path / "sum.test.mjs").write_text(TESTS)
    found = run(tmp_path, "node", "--test", f"--test-reporter={reporter}")
    assert (found.kind, found.ok, found.summary) == (
        "node-test",
        False,
        "node-test: 4 tests, 1 passed, 3 failed",
    )
    assert [(each.name, each.line, Path(each.file or "").name) for each in found.failures] == [
        ("breaks", 5, "sum.test.mjs"),
        ("throws", 7, "sum.test.mjs"),
    ]
    first, second = (each.message for each in found.failures)
    assert first.endswith("Expected values to be strictly equal:")
    assert second.endswith("boom")
    (tmp_path / "sum.test.mjs").write_text("\n".join(TESTS.splitlines()[:3]))
    assert run(tmp_path, "node", "--test", f"--test-reporter={reporter}") == Digest(
        kind="node-test", ok=True, summary="node-test: 1 test, 1 passed, 0 failed"
    )


def test_s55_npm(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x", "scripts": {"fine": "echo ok"}}')
    found = run(tmp_path, "npm", "run", "nope")
    assert (found.kind, found.ok, found.summary) == ("npm", False, "npm: failed")
    assert [each.message for each in found.failures] == ['Missing script: "nope"']
    assert found.excerpt is not None
    assert "Missing script" in found.excerpt
    installed = run(tmp_path, "npm", "install", "--offline", "--no-audit", "--no-fund")
    assert (installed.kind, installed.ok) == ("npm", True)
    assert installed.summary.startswith("npm: up to date")


def test_s55_generic(tmp_path: Path) -> None:
    (tmp_path / "run.js").write_text("console.log('x');\nthrow new Error('boom');\n")
    found = run(tmp_path, "node", "run.js")
    assert (found.kind, found.ok) == ("generic", False)
    assert "Error: boom" in [each.message for each in found.failures]
    assert found.excerpt is not None
    assert "Error: boom" in found.excerpt
