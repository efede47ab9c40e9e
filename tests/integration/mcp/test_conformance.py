"""The official conformance suite against Paddock's server with the suite's own tools, for both revisions."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import npm

CONFORMANCE = "@modelcontextprotocol/conformance/dist/index.js"
SUMMARY = re.compile(r"^([✓✗]) ([\w/.-]+): \d+ passed", re.MULTILINE)

NOT_OFFERED = {
    "2025-11-25": {"resources-subscribe", "resources-unsubscribe"}
    | {"logging-set-level", "tools-call-with-logging"}
    | {"tools-call-sampling", "tools-call-elicitation"}
    | {"elicitation-sep1034-defaults", "elicitation-sep1330-enums", "server-sse-polling"},
    "2026-07-28": {"server-stateless"},  # of its 25 checks two want a tool that samples
}
"""Scenarios about what Paddock's server does not offer: programs ask neither models nor people for anything, stored
output never changes, and what programs print comes as progress."""

EXTENSIONS = ("tasks-", "input-required-result-")
"""Families of scenarios likewise: answers are complete or wait."""


@pytest.fixture
def server() -> Iterator[str]:
    script = Path(__file__).parents[2] / "clients" / "conformance_server.py"
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("revision", list(NOT_OFFERED))
def test_what_is_offered_conforms(
    npm_modules: npm.Modules, server: str, revision: str, tmp_path: object
) -> None:
    modules = npm_modules("clients")
    command = [
        npm.node(modules),
        str(modules / CONFORMANCE),
        "server",
        "--url",
        server,
        "--requirements",
        revision,
    ]
    done = subprocess.run(
        command, cwd=str(tmp_path), capture_output=True, text=True, check=False, timeout=280
    )
    results = {name: mark == "✓" for mark, name in SUMMARY.findall(done.stdout)}
    offered = {
        name: passed
        for name, passed in results.items()
        if name not in NOT_OFFERED[revision] and not name.startswith(EXTENSIONS)
    }
    assert len(offered) >= 23, done.stdout
    assert [name for name, passed in offered.items() if not passed] == []
