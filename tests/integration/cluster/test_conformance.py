"""The official conformance suite against three replicas behind a balancer that is not sticky.

The revision without sessions is in the long form of the tests: with `PADDOCK_RELIABILITY_RUNS`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.integration import conformance
from tests.integration.surfaces.mcp_server import npm
from tests.integration.surfaces.mcp_server.test_conformance import REQUIRED
from tests.support.command import make_environment, run_paddock
from tests.support.postgres import HaProxy, find_free_port
from tests.support.replicas import write_keys

REVISIONS = list(REQUIRED) if os.environ.get("PADDOCK_RELIABILITY_RUNS") else ["2025-11-25"]
SERVER = Path(__file__).parents[2] / "clients" / "conformance_server.py"


@pytest.fixture
def front(url: str, tmp_path: Path) -> Iterator[str]:
    """The address of the balancer."""
    run_paddock(
        tmp_path, "cluster", "migrate", environment=make_environment(tmp_path, PADDOCK_CLUSTER_URL=url)
    )
    keys, port = write_keys(tmp_path), find_free_port()
    with ExitStack() as stack:
        ports: list[int] = []
        for number in range(3):
            own = tmp_path / f"r{number}"
            own.mkdir()
            command = [sys.executable, str(SERVER), str(own), url, str(keys), str(port)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            ports.append(int(process.stdout.readline()))
        balancer = stack.enter_context(HaProxy(ports, port=port))
        yield f"{balancer.url}/mcp"


@pytest.mark.parametrize("revision", REVISIONS)
def test_all_that_a_revision_requires(
    npm_modules: npm.Modules, front: str, revision: str, tmp_path: Path
) -> None:
    modules = npm_modules("clients")
    found = conformance.run(
        modules, "server", "--url", front, revision=revision, results=tmp_path / "results"
    )
    assert (len(found.required), found.code) == (REQUIRED[revision], 0), found.told
    assert {name for name, passed in found.passed.items() if not passed} == set(), found.told
