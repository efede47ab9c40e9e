"""The pinned TypeScript compiler, installed once into a cache that the users of programs can reach."""

import fcntl
import os
import subprocess
from pathlib import Path

from paddock.engines.types import installation


def install_compiler() -> Path:
    """Return the directory of toolchains that has the compiler, as `paddock runtimes install types --yes` makes it."""
    # The home of root is closed to the user of its programs.
    cache = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    root = cache / "paddock-tests" / f"types-{installation.VERSION}"
    previous = os.umask(0o022)
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "complete").exists():
            subprocess.run(installation.make_install_command(root), check=True, stdout=subprocess.DEVNULL)
            installation.verify_installation(root)
            (root / "complete").touch()
    os.umask(previous)
    return root
