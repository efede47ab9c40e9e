"""Real tools in jobs: each gets what it wants from a registry over HTTPS if its host is granted, and nothing without."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.support.network import allow, make_authority, run_outer_proxy
from tests.support.tool_registry import serve_registry

from paddock import BlockingPaddock, Outcome, Settings, Status
from paddock.model.network import NetworkRule
from paddock.policy.decisions.environment import TRUST
from paddock.policy.settings.schema import AuditSettings, NetworkSettings, PythonSettings, RuntimeSettings

HOST = "registry.example"
URL = f"https://{HOST}"
REASON = f"{HOST}:443 is not among the hosts of this request (other.example); request {HOST}, too"
TOLD = f"Paddock: {REASON}"


@dataclass(frozen=True)
class Tool:
    """A program that gets something from the registry."""

    runtime: str
    trust: str
    """The variable that names the file of the certificate authority."""
    printed: str
    """The standard output if the host is granted: its lines that begin with `begin`."""
    refused: str
    """What standard error contains if the host is not granted."""
    code: str | None = None
    begin: str = ""
    arguments: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


CURL = f"curl -sS {URL}/greeting.txt"
GIT = f"git clone -q {URL}/git/repository.git && git -C repository log --format=%s"
PIP = f"""
import subprocess, sys
options = ["--no-cache-dir", "--quiet", "--disable-pip-version-check", "--retries=1", "--target=made"]
command = [sys.executable, "-m", "pip", "install", *options, "--index-url={URL}/simple", "upper"]
if code := subprocess.run(command).returncode:
    sys.exit(code)
sys.path.insert(0, "made")
import lower, upper
print(upper.version, lower.version)
"""
NPM = """
const { dirname, join } = require("node:path");
const { spawnSync } = require("node:child_process");
const npm = join(dirname(process.execPath), "../lib/node_modules/npm/bin/npm-cli.js");
process.chdir("app");
const options = ["--loglevel=error", "--no-audit", "--no-fund", "--fetch-retries=0"];
const own = "--globalconfig=/dev/null"; // a machine may have one with a `cafile`, which npm prefers
const done = spawnSync(process.execPath, [npm, "ci", own, ...options], { stdio: ["ignore", "ignore", "inherit"] });
if (done.status === 0) console.log(require(`${process.cwd()}/node_modules/upper`));
process.exitCode = done.status;
"""
MANIFEST = {"name": "own", "version": "1.0.0", "dependencies": {"upper": "^1"}}
LOCK = {
    "name": "own",
    "version": "1.0.0",
    "lockfileVersion": 3,
    "packages": {
        "": MANIFEST,
        **{
            f"node_modules/{name}": {"version": "1.0.0", "resolved": f"{URL}/tarballs/{name}-1.0.0.tgz"}
            for name in ("upper", "lower")
        },
    },
}
CARGO = 'cargo fetch && find "$HOME/.cargo" -name "*.crate" -exec basename {} ";" | sort'
CARGO_FILES = {
    "Cargo.toml": '[package]\nname = "own"\n[dependencies]\nupper = { version = "1", registry = "tests" }\n',
    "src/lib.rs": "",
    ".cargo/config.toml": f'[registries.tests]\nindex = "sparse+{URL}/crates/"\n[net]\nretry = 0\n',
}
CARGO_RECIPE = {
    "title": "Cargo, called by a shell script",
    "hello": "cargo --version",
    "extensions": [".cargo"],
    "variant": [
        {
            "executables": ["cargo"],
            "prefixes": ["{prefix}"],
            "run": ["/bin/bash", "{source}"],
            "environment": {"PATH": "{bin}:/usr/bin:/bin"},
            "version": {"argv": ["{executable}", "--version"], "pattern": r"cargo (\S+)"},
        }
    ],
}
GO_VARIABLES = {"GOPROXY": f"{URL}/go", "GOSUMDB": "off", "GOFLAGS": "-modcacherw"}
FETCH = (
    f"fetch('{URL}/greeting.txt').then((answer) => answer.text()).then((text) => process.stdout.write(text))"
)
HTTPS = f"require('node:https').get('{URL}/greeting.txt', (answer) => answer.pipe(process.stdout))"
URLLIB = f"import urllib.request as r; print(r.urlopen('{URL}/greeting.txt').read().decode(), end='')"
AIOHTTP = f"""
import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session, session.get("{URL}/greeting.txt") as answer:
        print(await answer.text(), end="")
asyncio.run(main())
"""
GREETING = "from the registry\n"
TUNNEL = "CONNECT tunnel failed, response 403"


def get_with(library: str) -> str:
    return f"import {library}; print({library}.get('{URL}/greeting.txt').text, end='')"


TOOLS = {
    "curl": Tool("shell", "CURL_CA_BUNDLE", GREETING, TUNNEL, CURL),
    "git": Tool("shell", "GIT_SSL_CAINFO", "First\n", TUNNEL, GIT),
    "pip": Tool("python", "PIP_CERT", "1.0 1.0\n", TOLD, PIP),
    "npm": Tool(
        "node",
        "NODE_EXTRA_CA_CERTS",
        "1\n",
        TOLD,
        NPM,
        files={
            "app/package.json": json.dumps(MANIFEST),
            "app/package-lock.json": json.dumps(LOCK),
            "app/.npmrc": f"registry={URL}/\n",
        },
    ),
    "cargo": Tool(
        "cargo",
        "CARGO_HTTP_CAINFO",
        "lower-1.0.0.crate\nupper-1.0.0.crate\n",
        TUNNEL,
        CARGO,
        files=CARGO_FILES,
    ),
    "go": Tool(
        "go",
        "SSL_CERT_FILE",
        '\t"Path": "example.com/lower",\n\t"Path": "example.com/upper",\n',
        TOLD,
        begin='\t"Path"',
        arguments=("mod", "download", "-json"),
        files={"go.mod": "module own\n\ngo 1.16\n\nrequire example.com/upper v1.0.0\n"},
        environment=GO_VARIABLES,
    ),
    "fetch": Tool("node", "NODE_EXTRA_CA_CERTS", GREETING, TOLD, FETCH),
    "https": Tool("node", "NODE_EXTRA_CA_CERTS", GREETING, TOLD, HTTPS),
    "urllib": Tool("python", "SSL_CERT_FILE", GREETING, TOLD, URLLIB),
    "requests": Tool("python", "REQUESTS_CA_BUNDLE", GREETING, TOLD, get_with("requests")),
    "httpx2": Tool("python", "SSL_CERT_FILE", GREETING, TOLD, get_with("httpx2")),
    "aiohttp": Tool("python", "SSL_CERT_FILE", GREETING, TOLD, AIOHTTP),
}


@pytest.fixture(scope="module")
def cargo_directory() -> Path:
    """The directory of Cargo and rustc: that of rustup's toolchain, if there is rustup."""
    if shutil.which("rustup"):
        return Path(subprocess.check_output(["rustup", "which", "cargo"], text=True)).parent
    if found := shutil.which("cargo"):
        return Path(found).parent
    pytest.fail("cargo is missing: install Rust 1.70 or later with rustup", pytrace=False)


@dataclass(frozen=True)
class Bench:
    """Paddock behind a proxy that leads every name except `localhost` to the registry."""

    paddock: BlockingPaddock
    authority: Path
    """The certificate authority, in the workspace."""
    port: int
    """The port of the registry."""

    def run(self, tool: Tool, host: str) -> Outcome:
        return self.paddock.exec(
            tool.runtime,
            tool.code,
            args=tool.arguments,
            files=tool.files,
            outputs=[],
            env={**tool.environment, tool.trust: str(self.authority)},
            network=[host],
        )


@pytest.fixture(scope="module")
def bench(
    tmp_path_factory: pytest.TempPathFactory, toolchain_path: str, cargo_directory: Path
) -> Iterator[Bench]:
    """Many clients never use a proxy for `localhost`, so that the registry has another name."""
    root = tmp_path_factory.mktemp("tools")
    authority = make_authority(root / "tls", HOST, "localhost")
    workspace = root / "workspace"
    workspace.mkdir()
    copied = Path(shutil.copy(authority.file, workspace))
    served = serve_registry(root / "registry", URL, authority.server)
    with pytest.MonkeyPatch.context() as patch, served as port, run_outer_proxy(port) as outer:
        ours = {"NO_PROXY", "HTTPS_PROXY", *TRUST}
        for name in [each for each in os.environ if each.upper() in ours or each.startswith("GO")]:
            patch.delenv(name)
        patch.setenv("NO_PROXY", "localhost")
        patch.setenv("HTTPS_PROXY", f"http://{outer.authority}")
        patch.setenv("PATH", f"{cargo_directory}:{toolchain_path}")
        settings = Settings(
            audit=AuditSettings(directory=root / "audit"),
            runtimes=RuntimeSettings(
                network="hosts",
                timeout_ms=120_000,
                environment=("GO*", *TRUST),
                recipes={"cargo": CARGO_RECIPE},
                python=PythonSettings(environment=Path(sys.prefix)),
            ),
            network=NetworkSettings(
                connect_timeout_ms=60_000,  # a machine without a resolver takes long to report an unknown name
                rule=[
                    *(
                        NetworkRule(host=host, effect="allow", origin="user")
                        for host in (HOST, "other.example")
                    ),
                    allow("localhost", port),
                ],
            ),
        )
        with BlockingPaddock(workspace, settings=settings) as paddock:
            yield Bench(paddock, copied, port)


def list_connections(outcome: Outcome) -> set[tuple[str, int, str, str]]:
    return {(each.host, each.port, each.verdict, each.reason) for each in outcome.network}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_reaches_the_host_that_is_granted(bench: Bench, name: str) -> None:
    outcome = bench.run(TOOLS[name], HOST)
    assert outcome.status is Status.OK, outcome.program.stderr.text
    lines = outcome.program.stdout.text.splitlines(keepends=True)
    assert "".join(line for line in lines if line.startswith(TOOLS[name].begin)) == TOOLS[name].printed
    assert list_connections(outcome) == {(HOST, 443, "allowed", "")}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_refused_a_host_that_is_not_granted(bench: Bench, name: str) -> None:
    outcome = bench.run(TOOLS[name], "other.example")
    assert (outcome.status, outcome.error.hint) == (Status.FAILED, REASON), outcome.error
    assert TOOLS[name].refused in outcome.program.stderr.text
    assert list_connections(outcome) == {(HOST, 443, "refused", REASON)}


@pytest.mark.parametrize("name", ["curl", "git", "fetch", "requests"])
def test_a_tool_reaches_a_server_of_the_machine(bench: Bench, name: str) -> None:
    """The rule names `localhost`, a port and the network of its addresses."""
    tool = TOOLS[name]
    local = replace(tool, code=tool.code.replace(HOST, f"localhost:{bench.port}"))
    outcome = bench.run(local, "localhost")
    assert outcome.status is Status.OK, outcome.program.stderr.text
    assert outcome.program.stdout.text == tool.printed
    assert list_connections(outcome) == {("localhost", bench.port, "allowed", "")}


def test_a_tool_checks_the_certificate(bench: Bench) -> None:
    """The proxy does not open TLS: an authority that the program does not trust is refused by the program."""
    untrusted = Tool("shell", "CURL_CA_BUNDLE", "", "", f"unset CURL_CA_BUNDLE; {CURL}")
    outcome = bench.run(untrusted, HOST)
    assert "SSL certificate problem" in outcome.program.stderr.text
