"""A Ray cluster and a program that uses it, in an environment and namespaces of their own."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.command import CONTAINED, OWN_PLACES

import paddock

ROOT = Path(__file__).resolve().parents[2]
SOURCE = str(Path(paddock.__file__).parents[1])
SCENARIOS = ROOT / "tests" / "integration" / "surfaces" / "client_ray" / "scenarios.py"


def install_ray(group: str = "ray") -> Path:
    """Install Ray beside the dependencies of Paddock, once, below the user's cache directory; return its Python.

    The versions are those of a group in uv.lock. Several processes may ask at the same time.
    """
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv") or "uv"
    own = getattr(sys, "_base_executable", sys.executable)
    locked = ["--quiet", "--frozen", "--project", str(ROOT), "--python", own]
    locked += ["--no-default-groups", "--group", group, "--extra", "ray"]
    wanted = subprocess.run([uv, "export", *locked, "--no-emit-project"], stdout=subprocess.PIPE, check=True)
    digest = hashlib.sha256(wanted.stdout + sys.version.encode()).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "paddock-tests" / f"ray-{digest[:16]}"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(place / "venv")}
            subprocess.run([uv, "sync", *locked, "--no-install-project"], env=environment, check=True)
            (place / "complete").touch()
    return place / "venv" / "bin" / "python"


def run_with_ray(code: str) -> str:
    """Return what Python code prints that can import Ray and Paddock."""
    command = [install_ray(), "-c", code]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


class Cluster:
    """Runs functions of `scenarios.py`, each of which uses the cluster."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def call(self, scenario: str, **arguments: Any) -> Any:
        """Return what a scenario returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([scenario, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the cluster has ended with {self._process.wait()}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]


@contextmanager
def open_cluster(folder: Path, path: str, *, dashboard: bool = False) -> Iterator[Cluster]:
    """Start a cluster, whose nodes keep what is their own below a directory; end all of its processes."""
    own = {name: str(folder / name) for name in OWN_PLACES}
    environment = {
        **own,
        "PATH": path,
        "LANG": "C.UTF-8",
        "PYTHONPATH": SOURCE,
        "PADDOCK_RUNTIMES_TIMEOUT_MS": "120000",
    }
    python = install_ray("ray-dashboard" if dashboard else "ray")
    command = [*CONTAINED, "--net", str(python), str(SCENARIOS), str(folder), *["dashboard"] * dashboard]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        try:
            yield Cluster(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # it ends, and the namespace with it
            process.wait()
