"""The official conformance suite against Paddock's server with the suite's own tools, for both revisions."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration import conformance

from . import npm

REQUIRED = {"2025-11-25": 30, "2026-07-28": 37}
"""How many scenarios each revision requires of a server."""

TASKS = {
    f"tasks-{name}"
    for name in (
        "lifecycle",
        "capability-negotiation",
        "wire-fields",
        "request-state-removal",
        "mrtr-input",
        "request-headers",
        "dispatch-and-envelope",
        "required-task-error",
        "mrtr-composition",
        "status-notifications",
    )
}
"""The extension `io.modelcontextprotocol/tasks`. The suite skips the last one."""

UNSCORED = {"2025-11-25": {"server-sse-polling"}, "2026-07-28": TASKS}
"""What no revision requires, and what passes as well."""

WARNINGS = {"2025-11-25": set(), "2026-07-28": {"sep-2322-ignore-unexpected-params"}}
"""Checks of required scenarios, about what servers SHOULD do, that Paddock does not pass.

That one brings an answer without the `requestState` of its question. Paddock asks again: a yes is bound to its
question.
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    script = Path(__file__).parents[3] / "clients" / "conformance_server.py"
    command = [sys.executable, str(script), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("revision", list(REQUIRED))
def test_all_that_a_revision_requires(
    npm_modules: npm.Modules, server: str, revision: str, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    modules = npm_modules("clients")
    found = conformance.run(modules, "server", "--url", server, revision=revision, results=results)
    assert (len(found.required), found.code) == (REQUIRED[revision], 0), found.told
    assert {name for name, passed in found.passed.items() if not passed} == set(), found.told
    assert found.unscored.keys() >= UNSCORED[revision]
    assert warned(results, found.required | UNSCORED[revision]) == WARNINGS[revision]


def warned(results: Path, scenarios: set[str]) -> set[str]:
    """Return the checks of some scenarios that ended with a warning."""
    files = [file for name in scenarios for file in results.glob(f"server-{name}-[0-9]*/checks.json")]
    assert len(files) == len(scenarios)
    checks = [check for file in files for check in json.loads(file.read_text())]
    return {check["id"] for check in checks if check["status"] == "WARNING"}
