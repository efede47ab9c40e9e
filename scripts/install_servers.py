"""Install the real MCP servers that tests and the demo talk to, once, outside of the source tree.

The versions are pinned in `tests/servers`: `package-lock.json` for npm, `requirements.txt` for PyPI. The
Python servers get a separate environment each, as every upstream server should.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).resolve().parent.parent / "tests" / "servers"
PINNED_FILES = ("package.json", "package-lock.json", "requirements.txt")


@dataclass(frozen=True)
class RealServers:
    """Where the servers are. Values are argument vectors without the server's own arguments."""

    everything: tuple[str, ...]
    filesystem: tuple[str, ...]
    memory: tuple[str, ...]
    thinking: tuple[str, ...]
    git: tuple[str, ...]
    time: tuple[str, ...]


def install(root: Path | None = None) -> RealServers:
    """Install what is missing below `root` and return the commands; by default below the user's cache directory.

    Several processes may ask at the same time.
    """
    pins = hashlib.sha256(b"".join((PINS / name).read_bytes() for name in PINNED_FILES)).hexdigest()
    if root is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        root = cache / "paddock-tests" / pins[:16]
    root.mkdir(parents=True, exist_ok=True)
    complete = root / "complete"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists() or complete.read_text() != pins:
            complete.unlink(missing_ok=True)
            _install_npm(root / "npm")
            _install_python(root / "python")
            complete.write_text(pins)
    return _commands(root)


def _install_npm(target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINS / name, target)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=target, check=True)


def _install_python(target: Path) -> None:
    beside = Path(sys.executable).parent / "uv"
    found = shutil.which("uv") or (str(beside) if beside.exists() else None)
    uv = [found] if found else [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--clear", str(target)], check=True)
    requirements = str(PINS / "requirements.txt")
    subprocess.run(
        [*uv, "pip", "install", "--quiet", "--python", str(target), "-r", requirements], check=True
    )


def _commands(root: Path) -> RealServers:
    node = shutil.which("node") or "node"
    npm = root / "npm" / "node_modules" / "@modelcontextprotocol"
    python = str(root / "python" / "bin" / "python")
    return RealServers(
        everything=(node, str(npm / "server-everything" / "dist" / "index.js")),
        filesystem=(node, str(npm / "server-filesystem" / "dist" / "index.js")),
        memory=(node, str(npm / "server-memory" / "dist" / "index.js")),
        thinking=(node, str(npm / "server-sequential-thinking" / "dist" / "index.js")),
        git=(python, "-m", "mcp_server_git"),
        time=(python, "-m", "mcp_server_time"),
    )


if __name__ == "__main__":
    for name, argv in vars(install()).items():
        print(name, *argv)
