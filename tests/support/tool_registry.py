"""A registry over HTTPS on loopback for real tools: packages for pip, npm, Cargo and Go, a git repository, and a file."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import ssl
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.network import FileHandler, serve_directory
from tests.support.packages import PackageDirectory

GIT = "/git/"


class _Handler(FileHandler):
    """Serves files, and below `/git/` repositories over smart HTTP (git-http-backend(1))."""

    def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
        if self.path.startswith(GIT):
            self._run_git()
        else:
            super().do_GET()

    def do_POST(self) -> None:  # noqa: N802
        self._run_git()

    def _run_git(self) -> None:
        path, _, query = self.path.removeprefix(GIT.rstrip("/")).partition("?")
        given = {
            "GIT_PROJECT_ROOT": f"{self.directory}{GIT}",
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        command = ["git", "http-backend"]
        done = subprocess.run(
            command,
            env=os.environ | given | {"CONTENT_LENGTH": str(len(body))},
            input=body,
            capture_output=True,
            check=True,
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in (fields | {"Content-Length": str(len(answer))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)


@contextlib.contextmanager
def serve_registry(root: Path, address: str, context: ssl.SSLContext) -> Iterator[int]:
    """Serve `upper`, which depends on `lower`, to every tool; yields the port. `address` is what its indexes name."""
    packages = PackageDirectory(root, address)
    packages.add_wheel("upper", requires=("lower",))
    packages.add_wheel("lower")
    packages.add_module("upper", "1.0.0", {"index.js": "module.exports = 1"}, dependencies={"lower": "^1"})
    packages.add_module("lower", "1.0.0", {"index.js": "module.exports = 2"})
    (root / "crates").mkdir()
    (root / "crates" / "config.json").write_text(json.dumps({"dl": f"{address}/crates/{{crate}}.crate"}))
    _add_crate(root / "crates", "upper", "lower")
    _add_crate(root / "crates", "lower")
    _add_go_module(root / "go", "example.com/upper", "example.com/lower")
    _add_go_module(root / "go", "example.com/lower")
    _add_repository(root / "git")
    (root / "greeting.txt").write_text("from the registry\n")
    with serve_directory(root, context, _Handler) as port:
        yield port


def _add_crate(root: Path, name: str, *requires: str) -> None:
    """Add a crate to a sparse index (https://doc.rust-lang.org/cargo/reference/registry-index.html)."""
    packed = io.BytesIO()
    needed = "".join(f'{each} = "1"\n' for each in requires)
    manifest = f'[package]\nname = "{name}"\nversion = "1.0.0"\n[dependencies]\n{needed}'
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in {"Cargo.toml": manifest, "src/lib.rs": ""}.items():
            data = tarfile.TarInfo(f"{name}-1.0.0/{path}")
            data.size = len(text)
            archive.addfile(data, io.BytesIO(text.encode()))
    (root / f"{name}.crate").write_bytes(packed.getvalue())
    fields = {"features": [], "optional": False, "default_features": True, "target": None, "kind": "normal"}
    entry = {
        "name": name,
        "vers": "1.0.0",
        "deps": [{"name": each, "req": "^1", **fields} for each in requires],
        "cksum": hashlib.sha256(packed.getvalue()).hexdigest(),
        "features": {},
        "yanked": False,
    }
    folder = root / name[:2] / name[2:4]
    folder.mkdir(parents=True)
    (folder / name).write_text(f"{json.dumps(entry)}\n")


def _add_go_module(root: Path, name: str, *requires: str) -> None:
    """Add a module to a module proxy (https://go.dev/ref/mod#goproxy-protocol)."""
    folder = root / name / "@v"
    folder.mkdir(parents=True)
    manifest = f"module {name}\n\ngo 1.18\n" + "".join(f"\nrequire {each} v1.0.0\n" for each in requires)
    (folder / "list").write_text("v1.0.0\n")
    (folder / "v1.0.0.info").write_text(json.dumps({"Version": "v1.0.0"}))
    (folder / "v1.0.0.mod").write_text(manifest)
    with zipfile.ZipFile(folder / "v1.0.0.zip", "w") as archive:
        archive.writestr(f"{name}@v1.0.0/go.mod", manifest)
        archive.writestr(f"{name}@v1.0.0/main.go", "package main\n")


def _add_repository(root: Path) -> None:
    """Add a bare repository with one commit on its branch `main`."""
    root.mkdir()
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    for command in (
        ["init", "--quiet", "--initial-branch=main", "source"],
        ["-C", "source", *identity, "commit", "--quiet", "--allow-empty", "--message=First"],
        ["clone", "--quiet", "--bare", "source", "repository.git"],
    ):
        subprocess.run(["git", *command], cwd=root, env=environment, check=True)
