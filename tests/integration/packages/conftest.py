"""An index of Python packages and a registry of npm on loopback, of the tests' own, and a user who is configured for them."""

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from paddock import BlockingPaddock, Outcome

GRANTED = {"packages": {"network": "hosts"}, "runtimes": {"timeout_ms": 120_000}}


class Registry:
    """A directory that a server on loopback serves: `simple/` is a PEP 503 index, and the rest npm's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root.with_name(f"{root.name}.log")
        root.mkdir()
        (root / "simple").mkdir()
        self._output = self.log.open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(root)],
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().split()[5])

    @property
    def index(self) -> str:
        return f"http://127.0.0.1:{self.port}/simple"

    @property
    def npm(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def requests(self, path: str) -> int:
        """Return how often a path was asked for."""
        return sum(path in line for line in self.log.read_text().splitlines() if "GET" in line)

    def stop(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()
            self._output.close()

    def add_wheel(
        self,
        name: str,
        version: str = "1.0",
        files: Mapping[str, str | bytes] | None = None,
        *,
        requires: tuple[str, ...] = (),
        scripts: tuple[str, ...] = (),
    ) -> None:
        """Publish a wheel; without `files` it has one module of its name."""
        info = f"{name}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        content: dict[str, str | bytes] = {
            **({f"{name}.py": f"version = {version!r}\n"} if files is None else files),
            f"{info}/METADATA": "\n".join([*lines, *(f"Requires-Dist: {each}" for each in requires), ""]),
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        if scripts:
            points = "".join(f"{script} = {name}:main\n" for script in scripts)
            content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{points}"
        record = "".join(f"{path},{_digest(data)},{len(_bytes(data))}\n" for path, data in content.items())
        content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
        folder = self.root / "simple" / name.replace("_", "-")
        folder.mkdir(exist_ok=True)
        with zipfile.ZipFile(
            folder / f"{name}-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED
        ) as wheel:
            for path, data in content.items():
                wheel.writestr(path, _bytes(data))

    def add_sdist(self, name: str, version: str, setup: str) -> None:
        """Publish a source distribution whose `setup.py` is `setup`."""
        folder = self.root / "simple" / name
        folder.mkdir(exist_ok=True)
        stem = f"{name}-{version}"
        backend = '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        with tarfile.open(folder / f"{stem}.tar.gz", "w:gz") as archive:
            for path, text in {"pyproject.toml": backend, "PKG-INFO": metadata, "setup.py": setup}.items():
                data = tarfile.TarInfo(f"{stem}/{path}")
                data.size = len(text)
                archive.addfile(data, io.BytesIO(text.encode()))

    def add_module(self, name: str, version: str, files: Mapping[str, str], **manifest: object) -> None:
        """Publish a package for Node.js."""
        own = {"name": name, "version": version, "main": "index.js", **manifest}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in {"package.json": json.dumps(own), **files}.items():
                data = tarfile.TarInfo(f"package/{path}")
                data.size = len(text)
                data.mode = 0o755
                archive.addfile(data, io.BytesIO(text.encode()))
        (self.root / "tarballs").mkdir(exist_ok=True)
        (self.root / "tarballs" / f"{name}-{version}.tgz").write_bytes(packed.getvalue())
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
        dist = {"tarball": f"{self.npm}tarballs/{name}-{version}.tgz", "integrity": integrity}
        path = self.root / name
        known = json.loads(path.read_text()) if path.exists() else {"name": name, "versions": {}}
        known["versions"][version] = {**own, "dist": dist, "hasInstallScript": "scripts" in own}
        known["dist-tags"] = {"latest": version}
        path.write_text(json.dumps(known))


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _digest(data: str | bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(_bytes(data)).digest()).rstrip(b"=").decode()


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
