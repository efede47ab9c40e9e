"""A directory that is an index of Python packages and a registry of npm, once a server serves it."""

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


class PackageDirectory:
    """A directory of packages: `simple/` is a PEP 503 index, and the rest npm's. `address` is where it is served."""

    def __init__(self, root: Path, address: str) -> None:
        self.root = root
        self.address = address
        (root / "simple").mkdir(parents=True)

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
        dist = {"tarball": f"{self.address}/tarballs/{name}-{version}.tgz", "integrity": integrity}
        path = self.root / name
        known = json.loads(path.read_text()) if path.exists() else {"name": name, "versions": {}}
        known["versions"][version] = {**own, "dist": dist, "hasInstallScript": "scripts" in own}
        known["dist-tags"] = {"latest": version}
        path.write_text(json.dumps(known))


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _digest(data: str | bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(_bytes(data)).digest()).rstrip(b"=").decode()
