"""The official conformance suite against Paddock's client of upstream servers, for both revisions.

`requirements/REVISION.yaml` of the suite says which client scenarios a revision requires. All of them are run here, at the
wire version of each revision. Not run is what the same files list under `not_scored`:

* `extension`: optional by definition. Of these Paddock offers the grants for machines, which its own tests cover: the
  suite does not tell the issuer, without which Paddock gives no secret to anybody.
* `added-after-release`: not part of what the revision required when it was published.
"""

import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

CONFORMANCE = "@modelcontextprotocol/conformance"
CLIENT = Path(__file__).parents[2] / "clients" / "conformance_client.py"

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


@pytest.mark.parametrize("revision", list(REQUIRED))
def test_all_that_the_suite_requires_is_run(npm_modules: Callable[[str], Path], revision: str) -> None:
    text = (npm_modules("clients") / CONFORMANCE / "requirements" / f"{revision}.yaml").read_text()
    requirements = yaml.safe_load(text)
    assert sorted(REQUIRED[revision]) == sorted(requirements["client"])
    left_out = {each["reason"] for each in requirements["not_scored"] if each["leg"] == "client"}
    assert left_out == {"extension", "added-after-release"}


@pytest.mark.parametrize(
    ("revision", "scenario"), [(revision, name) for revision, names in REQUIRED.items() for name in names]
)
def test_the_client_conforms(
    npm_modules: Callable[[str], Path], revision: str, scenario: str, tmp_path: Path
) -> None:
    modules = npm_modules("clients")
    kind = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    node = modules / f"node-linux-{kind}" / "bin" / "node"
    client = f"{sys.executable} {CLIENT}"
    asked = ["--command", client, "--scenario", scenario, "--spec-version", revision, "--timeout", "120000"]
    command = [str(node), str(modules / CONFORMANCE / "dist" / "index.js"), "client", *asked]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed: " in done.stdout + done.stderr
