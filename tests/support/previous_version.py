"""The version before this one, built from the history of the project: it must run with the tables of this one."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import paddock

ROOT = Path(__file__).parents[2]
_VENDORED = Path("engines/javascript/js")
"""What is built from a lock file and not in git, within the package."""


class PreviousVersion(NamedTuple):
    """What `tests/previous_version.toml` names."""

    commit: str
    newest_migration: int


def read_previous_version() -> PreviousVersion:
    """Return the commit, and the number of the newest migration for which it was chosen."""
    return PreviousVersion(**tomllib.loads((ROOT / "tests/previous_version.toml").read_text()))


def read_files(commit: str, folder: str, repository: Path = ROOT) -> dict[str, bytes]:
    """Return the files in a folder of a commit. Raises LookupError if the clone does not have the commit."""
    names = _git(repository, commit, "ls-tree", "--name-only", f"{commit}:{folder}").decode().split()
    return {name: _git(repository, commit, "show", f"{commit}:{folder}/{name}") for name in names}


def build_previous_version() -> str:
    """Write the version before this one, once, below the user's cache directory; return its command. Raises LookupError.

    Several processes may ask at the same time. Python compiles its modules once, which takes seconds.
    """
    commit, own = read_previous_version().commit, Path(paddock.__file__).parent
    name = hashlib.sha256(f"{commit} {sys.executable} {sys.version}".encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "paddock-tests" / f"previous-{name}"
    directory.mkdir(parents=True, exist_ok=True)
    package, command, lock = (
        directory / "src/paddock",
        directory / "paddock-before",
        _VENDORED / "package-lock.json",
    )
    with (directory / "lock").open("w") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        complete = (directory / "complete").exists()
        if not complete:
            archive = _git(ROOT, commit, "archive", commit, "src/paddock")
            subprocess.run(["tar", "-x", "-C", directory], input=archive, check=True)
        assert (package / lock).read_bytes() == (own / lock).read_bytes(), (
            f"{lock} was changed since {commit}, so the libraries of this version are not those of that one. "
            "Build them with hatch_build.py of that commit."
        )
        if not complete:
            libraries = _VENDORED / "vendor"
            shutil.copytree(own / libraries, package / libraries, dirs_exist_ok=True)
            command.write_text(
                f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(directory / 'src')!r})\n"
                "from paddock.surfaces.cli import main\nsys.exit(main())\n"
            )
            command.chmod(0o755)
            (directory / "complete").touch()
    return str(command)


def _git(repository: Path, commit: str, *arguments: str) -> bytes:
    git = ["git", "-c", "safe.directory=*", "-C", str(repository)]
    known = subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False)
    if known.returncode != 0:
        raise LookupError(
            f"this clone has no commit {commit}, which tests/previous_version.toml names as the version before this one; "
            "run: git fetch --unshallow"
        )
    return subprocess.run([*git, *arguments], capture_output=True, check=True).stdout
