"""Paddock installed without extras: the README's first screens work, and hints to install an extra can be followed."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.support.processes import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
HINT = re.compile(r"(?:uv )?pip install (?:--reinstall |--force-reinstall )?'\S+'")


def find_source() -> Path:
    """Return the checkout or the wheel that the tested Paddock was installed from."""
    origin = json.loads(importlib.metadata.distribution("paddock-sandbox").read_text("direct_url.json") or "")
    return Path(unquote(urlsplit(origin["url"]).path))


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the environment of commands in an installation without extras, made with the locked versions."""
    place = tmp_path_factory.mktemp("core")
    uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PADDOCK_", "PYTHON"))},
        "VIRTUAL_ENV": str(place / "venv"),
        "PATH": f"{place}/venv/bin:{Path(uv).parent}:{os.environ['PATH']}",
        "HOME": str(place),
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache/uv")),
        "UV_CONSTRAINT": str(place / "locked.txt"),
    }

    def run(*words: str | Path) -> None:
        subprocess.run([uv, *words], cwd=ROOT, env=environment, check=True, capture_output=True)

    run("venv", "--quiet", "--python", sys.executable, place / "venv")
    plain = ("--frozen", "--no-hashes", "--no-emit-project", "--quiet")
    run(
        "export",
        *plain,
        "--no-dev",
        "--all-extras",
        "--no-extra",
        "ray",
        "--output-file",
        place / "locked.txt",
    )
    run("export", *plain, "--no-dev", "--output-file", place / "core.txt")
    run("pip", "install", "--quiet", "-r", place / "core.txt")
    run("pip", "install", "--quiet", "--no-deps", find_source())
    yield environment
    shutil.rmtree(place)


def run_shell(core: dict[str, str], workspace: Path, line: str) -> tuple[int, str]:
    """Return exit code and output of a command line."""
    done = subprocess.run(
        ["sh", "-c", f"{line} 2>&1"],
        cwd=workspace,
        env=core,
        check=False,
        capture_output=True,
        timeout=10 * PATIENCE_S,
    )
    return done.returncode, done.stdout.decode()


def test_the_first_screens_work_without_extras(core: dict[str, str], workspace: Path) -> None:
    assert run_shell(core, workspace, "echo 'return input[0]' | paddock run - --input '[42]'") == (0, "42\n")
    assert run_shell(core, workspace, "paddock exec shell -c 'echo 42'") == (0, "42\n")
    assert run_shell(core, workspace, "paddock policy check --help > /dev/null") == (0, "")
    code = (
        "from paddock import BlockingPaddock as P; p = P().__enter__(); print(p.execute('return 42').value)"
    )
    assert run_shell(core, workspace, f'python -c "{code}"')[1] == "42\n"


def test_many_users_are_served_without_extras(core: dict[str, str], workspace: Path) -> None:
    words = ["paddock", "serve", "http", "--http", "127.0.0.1:0", "--token-file", workspace / "token"]
    path = core["PATH"]
    executable = shutil.which("paddock", path=path)
    assert executable is not None
    with subprocess.Popen(
        [executable, *words[1:]], cwd=workspace, env=core, stderr=subprocess.PIPE
    ) as server:
        assert server.stderr is not None
        line = server.stderr.readline().decode()
        server.terminate()
        server.stderr.read()
    assert "http://127.0.0.1:" in line


@pytest.mark.parametrize(
    "command",
    [
        "echo 'return 42' | paddock run - --set telemetry.metrics=true",
        "paddock cluster status --set cluster.url=postgresql://127.0.0.1:1/none",
        "paddock servers search a --set servers.semantic_search=on",
        'env PATH="$VIRTUAL_ENV/bin:/usr/bin:/bin" paddock exec python -c 1 --package no-such-package==1',
    ],
)
def test_hints_to_install_an_extra_can_be_followed(
    core: dict[str, str], workspace: Path, command: str
) -> None:
    servers = {"odd": {"command": sys.executable, "args": [str(ROOT / "tests/servers/odd.py")]}}
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    _, told = run_shell(core, workspace, command)
    found = HINT.search(" ".join(told.split()))
    assert found is not None, told
    source = find_source()
    folder = source if source.is_dir() else source.parent
    assert run_shell(core, folder, found[0])[0] == 0
    assert found[0] not in " ".join(run_shell(core, workspace, command)[1].split())
