"""Install the client libraries for Python that tests connect with, once, outside of the source tree.

Versions and hashes are pinned in `tests/client_libraries`. There are two environments for MCP, because some libraries
need the official one in its version 1, and one for clients of SandboxFusion. Those from npm are installed by the
fixture `npm_modules`.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PINS = Path(__file__).resolve().parent.parent / "tests" / "client_libraries"
ENVIRONMENTS = ("python-mcp-1", "python-mcp-2", "python-grading")


def install(name: str, folder: Path = PINS) -> Path:
    """Install what is missing of an environment below the user's cache directory; return its Python.

    `folder` contains its requirements, `NAME.txt`. Several processes may ask at the same time.
    """
    requirements = folder / f"{name}.txt"
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "paddock-tests" / f"{name}-{digest[:16]}"
    place.mkdir(parents=True, exist_ok=True)
    python = place / "venv" / "bin" / "python"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            _fill(place / "venv", requirements)
            (place / "complete").touch()
    return python


def _fill(target: Path, requirements: Path) -> None:
    beside = Path(sys.executable).parent / "uv"
    found = shutil.which("uv") or (str(beside) if beside.exists() else None)
    uv = [found] if found else [sys.executable, "-m", "uv"]
    own = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([*uv, "venv", "--quiet", "--clear", "--python", own, str(target)], check=True)
    # The lock has everything that is needed, and of verl, which depends on torch, the package alone.
    wanted = ["--require-hashes", "--no-deps", "-r", str(requirements)]
    subprocess.run(
        [*uv, "pip", "install", "--quiet", "--python", str(target / "bin" / "python"), *wanted], check=True
    )


if __name__ == "__main__":
    for environment in ENVIRONMENTS:
        print(environment, install(environment))
