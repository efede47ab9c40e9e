"""Other systems that run programs of models, installed apart from Paddock, each behind a driver that times its own work.

A driver reads `{"work": NAME, "times": N}` a line, and answers with how many milliseconds each of N programs took.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
PINS = ("package.json", "package-lock.json", "python.txt")
DEBIAN = {"bwrap": "bubblewrap", "rg": "ripgrep", "socat": "socat"}
"""Programs that sandbox-runtime calls, and their packages."""
AS_OF = "2026-11-30T00:00:00Z"
"""Nothing newer is installed, so that the dependencies of what is pinned stay what they were."""


@cache
def home() -> Path:
    """Return where the rivals are; installs them into the user's cache when they are not there yet."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pins = sha256(b"".join((HERE / name).read_bytes() for name in PINS)).hexdigest()[:16]
    target = cache_home / "paddock-bench" / f"rivals-{pins}"
    target.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            _install(target)
            (target / "complete").touch()
    return target


def _install(target: Path) -> None:
    for name in PINS:
        shutil.copy(HERE / name, target)
    if (
        missing := [package for program, package in DEBIAN.items() if not shutil.which(program)]
    ) and os.geteuid() == 0:
        apt = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", *missing]
        subprocess.run(apt, check=True, stdout=subprocess.DEVNULL)
    # isolated-vm is compiled here, so its install script has to run.
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=target, check=True)
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    subprocess.run(
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, "python"], cwd=target, check=True
    )
    pip = [uv, "pip", "install", "--quiet", "--exclude-newer", AS_OF, "--python", "python/bin/python"]
    subprocess.run([*pip, "--only-binary", ":all:", "-r", "python.txt"], cwd=target, check=True)


class Rival:
    """One driver, running."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def spent(self, work: str, times: int) -> list[float]:
        """Return the milliseconds of each of `times` programs. Raises RuntimeError when the driver fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"work": work, "times": times}) + "\n")
        self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"a driver of another system ended: {self._process.args}")
        return json.loads(line)


@contextmanager
def rival(name: str) -> Generator[Rival]:
    """Start the driver `name` (a file beside this one) and end it."""
    [driver] = HERE.glob(f"{name}_driver.*")
    at = home()
    if driver.suffix == ".mjs":
        shutil.copy(driver, at)  # node looks for packages beside the importing file
        command = ["node", str(at / driver.name)]
    else:
        command = [str(at / "python" / "bin" / "python"), str(driver)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=at
    )
    try:
        yield Rival(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
