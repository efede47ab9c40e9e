"""Packages from npm that the tests use, pinned by a lock file and installed once into the user's cache."""

import fcntl
import os
import platform
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

CLIENTS = Path(__file__).resolve().parents[2] / "clients"


def installed(pins: Path = CLIENTS) -> Path:
    """Return the `node_modules` of a lock file; several processes may ask at the same time."""
    files = [pins / name for name in ("package.json", "package-lock.json")]
    digest = sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "paddock-tests" / f"{pins.name}-{digest[:16]}"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            for path in files:
                shutil.copy(path, place)
            subprocess.run(
                ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=place, check=True
            )
            (place / "complete").touch()
    return place / "node_modules"


def node(modules: Path) -> str:
    """Return the pinned Node.js of the clients, newer than what a machine may have."""
    kind = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    return str(modules / f"node-linux-{kind}" / "bin" / "node")
