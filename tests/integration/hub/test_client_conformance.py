"""The official conformance suite against Paddock's client of upstream servers, for both revisions.

Not run are scenarios about what it does not offer: OAuth (`auth/*`; credentials come from the servers file), questions
back to the user (`elicitation-*`, `sep-2322-*`; they fail the call, with a reason).
"""

import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CONFORMANCE = "@modelcontextprotocol/conformance/dist/index.js"
CLIENT = Path(__file__).parents[2] / "clients" / "conformance_client.py"
REQUIRED = [
    *(("2025-11-25", name) for name in ("initialize", "tools_call", "sse-retry")),
    *(("2026-07-28", name) for name in ("tools_call", "request-metadata", "http-standard-headers")),
    *(("2026-07-28", name) for name in ("http-custom-headers", "http-invalid-tool-headers")),
    ("2026-07-28", "json-schema-ref-no-deref"),
]


@pytest.mark.parametrize(("revision", "scenario"), REQUIRED)
def test_the_client_conforms(
    npm_modules: Callable[[str], Path], revision: str, scenario: str, tmp_path: Path
) -> None:
    modules = npm_modules("clients")
    kind = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    node = modules / f"node-linux-{kind}" / "bin" / "node"
    client = f"{sys.executable} {CLIENT}"
    asked = ["--command", client, "--scenario", scenario, "--spec-version", revision, "--timeout", "120000"]
    command = [str(node), str(modules / CONFORMANCE), "client", *asked]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed: " in done.stdout + done.stderr
