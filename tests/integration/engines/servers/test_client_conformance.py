"""The official conformance suite against Paddock's client of upstream servers, for both revisions.

Not required, and run without being counted: what the requirements list as `extension`, which is optional by definition,
and as `added-after-release`. Of the extensions Paddock offers the grants for machines, which its own tests cover: the
suite does not tell the issuer, without which Paddock gives no secret to anybody.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration import conformance
from tests.integration.surfaces.mcp_server import npm

CLIENTS = Path(__file__).parents[3] / "clients"

LOGINS = [
    *("metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd"),
    *("scope-from-www-authenticate", "scope-from-scopes-supported", "scope-omitted-when-undefined"),
    *("scope-step-up", "scope-retry-limit", "pre-registration"),
    *("token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none"),
]
LATER_LOGINS = [
    *("resource-mismatch", "offline-access-scope", "offline-access-not-supported"),
    *("authorization-server-migration", "metadata-issuer-mismatch"),
    *("iss-supported", "iss-not-advertised", "iss-supported-missing", "iss-wrong-issuer"),
    *("iss-unexpected", "iss-normalized"),
]
REQUIRED = {
    "2025-11-25": [
        *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
        *(f"auth/{name}" for name in LOGINS),
    ],
    "2026-07-28": [
        *("tools_call", "request-metadata", "sep-2322-client-request-state", "json-schema-ref-no-deref"),
        *("http-standard-headers", "http-custom-headers", "http-invalid-tool-headers"),
        *(f"auth/{name}" for name in (*LOGINS, *LATER_LOGINS)),
    ],
}


@pytest.fixture
def client() -> Iterator[str]:
    """Yield the command of a client, one process for all scenarios until each has a fork of it."""
    with tempfile.TemporaryDirectory() as folder:  # the name of a socket is short
        command = [sys.executable, str(CLIENTS / "conformance_client.py"), f"{folder}/client"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
                yield f"{sys.executable} -I -S {CLIENTS / 'conformance_call.py'} {folder}/client"
            finally:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("revision", list(REQUIRED))
def test_all_that_a_revision_requires(
    npm_modules: npm.Modules, client: str, revision: str, tmp_path: Path
) -> None:
    """The suite starts a client for each scenario, all at the same time."""
    found = conformance.run(
        npm_modules("clients"),
        "client",
        *("--command", client, "--timeout", "500000"),
        revision=revision,
        results=tmp_path / "results",
    )
    assert (sorted(found.required), found.code) == (sorted(REQUIRED[revision]), 0), found.told
    assert all(found.passed[name] for name in found.required)
    assert set(found.unscored.values()) == {"extension", "added-after-release"}
