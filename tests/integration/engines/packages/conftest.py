"""An index of Python packages and a registry of npm on loopback, of the tests' own, and a user who is configured for them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.packages import PackageDirectory

from paddock import BlockingPaddock, Outcome

GRANTED = {"packages": {"network": "hosts"}, "runtimes": {"timeout_ms": 120_000}}


class Registry(PackageDirectory):
    """A directory of packages that a server on loopback serves."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.log = root.with_name(f"{root.name}.log")
        self._output = self.log.open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(root)],
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().split()[5])
        super().__init__(root, f"http://127.0.0.1:{self.port}")

    @property
    def index(self) -> str:
        return f"{self.address}/simple"

    @property
    def npm(self) -> str:
        return f"{self.address}/"

    def requests(self, path: str) -> int:
        """Return how often a path was asked for."""
        return sum(path in line for line in self.log.read_text().splitlines() if "GET" in line)

    def stop(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()
            self._output.close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """A registry that serves until the test ends or stops it."""
    served = Registry(tmp_path / "registry")
    yield served
    served.stop()


class User:
    """A user with a workspace, whose configuration names the registry."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.workspace = home / "workspace"
        self.workspace.mkdir(parents=True)
        self.store = home / "cache" / "paddock" / "packages"

    def execute(self, language: str, code: str, **given: object) -> Outcome:
        overrides = {**GRANTED, **given.pop("overrides", {})}
        with BlockingPaddock(self.workspace, overrides=overrides) as p:
            return p.exec(language, code, **given)

    def entries(self) -> list[Path]:
        """Return the environments of the store, and what is left of others."""
        kept = {"requests", "locks"}
        return (
            sorted(path for path in self.store.iterdir() if path.name not in kept)
            if self.store.exists()
            else []
        )


@pytest.fixture
def user(tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> User:
    """A user without settings."""
    home = tmp_path / "home"
    for name in [
        *(each for each in __import__("os").environ if each.startswith(("UV_", "PIP_", "npm_config_")))
    ]:
        monkeypatch.delenv(name)
    for name, folder in (("CONFIG", "config"), ("CACHE", "cache"), ("STATE", "state"), ("DATA", "data")):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / folder))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("UV_DEFAULT_INDEX", registry.index)
    monkeypatch.setenv("npm_config_registry", registry.npm)
    return User(home)
