"""Packages for Python, by uv: resolve to a lock with hashes, then install exactly that into a virtual environment."""

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from paddock.engines.packages.installation import Installation, run_step
from paddock.engines.packages.interface import PackagesError, WantedPackages
from paddock.engines.packages.registries import PythonRegistries
from paddock.engines.packages.store import Staging, TreeError, take_tree
from paddock.model.base import count
from paddock.model.outcome import Status

SCRIPTS = "scripts"
"""Directory of entry points in an environment; it comes last on PATH, so that none of them shadows a program."""
CACHE = "cache"
_RESOLVE = '"$@" >lock 2>said || { cat said >&2; exit 1; }; cat lock'
_INSTALL = """
uv=$1 python=$2; shift 2
"$uv" venv --quiet --relocatable --python "$python" env
"$uv" pip install --quiet --python env/bin/python --no-deps --require-hashes -r lock "$@"
"$python" -I -S -m compileall -q -q -j 0 --invalidation-mode unchecked-hash env/lib >/dev/null 2>&1 || true
rm -rf cache env/lib64 env/bin/python*
"""
# `-I -S`: the compiler runs nothing of the packages, neither their `.pth` files nor `sitecustomize`.
_PINNED_PATTERN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_OWN_NAMES_PATTERN = re.compile(r"python[0-9.]*|activate.*|deactivate.*|pydoc.*")
_LIBRARY_PATTERN = re.compile(r"python3\.[0-9]+t?")


async def resolve(installation: Installation, wanted: WantedPackages, staging: Staging) -> bytes:
    """Return the lock of requirements: exact versions with their hashes. Raises PackagesError, EngineError."""
    requirements = "\n".join(sorted(set(wanted.requirements)))
    registries = _of_python(installation)
    constraints = {
        f"constraint-{number}": path.read_bytes() for number, path in enumerate(registries.constraints)
    }
    words = ["pip", "compile", "wanted", "--quiet", "--no-header", "--no-annotate", "--generate-hashes"]
    words += ["--python", str(installation.interpreter.executable), *_list_options(installation)]
    words += [word for name in constraints for word in ("--constraint", name)]
    if installation.settings.exclude_newer:
        words += ["--exclude-newer", installation.settings.exclude_newer]
    files = {"wanted": f"{requirements}\n".encode(), **constraints}
    what = f"resolving {count(len(wanted.requirements), 'package')}"
    async with run_step(
        installation, _RESOLVE, words, files=files, environment=_make_environment(installation), what=what
    ) as ended:
        # What this step has downloaded is for the next one of the same installation, and for no other.
        with contextlib.suppress(OSError):
            (ended.scratch / CACHE).rename(staging.cache)
        return ended.stdout


def list_packages(lock: bytes) -> list[str]:
    """Return the packages of a lock: `name==version`. Raises PackagesError for one that names anything else."""
    text = lock.decode("utf-8", "replace")
    found = [f"{name}=={version}" for name, version in _PINNED_PATTERN.findall(text)]
    starts = [line for line in text.splitlines() if line and not line.startswith((" ", "#", "\t"))]
    if len(starts) != len(found):
        raise PackagesError("the resolution names something else than packages of an index")
    return found


async def install(installation: Installation, lock: bytes, staging: Staging) -> None:
    """Install a lock into the staged environment. Raises PackagesError, EngineError, OSError."""
    python = str(installation.interpreter.executable)
    arguments = [python, *_list_options(installation)]
    async with run_step(
        installation,
        _INSTALL,
        arguments,
        files={"lock": lock},
        moved={CACHE: staging.cache},
        environment=_make_environment(installation),
        what="installing packages",
    ) as ended:
        await asyncio.to_thread(_take, ended.scratch / "env", staging, installation)


def _take(made: Path, staging: Staging, installation: Installation) -> None:
    """Move what was installed, and make anew everything that decides which interpreter runs."""
    try:
        take_tree(made, staging.environment, installation.settings.max_bytes)
    except (TreeError, FileNotFoundError) as problem:
        raise PackagesError(f"the installed packages are refused: {problem}", status=Status.FAILED) from None
    target = staging.environment
    library = [name for name in os.listdir(target / "lib") if _LIBRARY_PATTERN.fullmatch(name)]
    if len(library) != 1:
        raise PackagesError("the installed packages are refused: they have no library of one Python version")
    # A wheel can install files of any name: over the interpreter, too.
    (target / "bin").rename(target / SCRIPTS)
    for name in os.listdir(target / SCRIPTS):
        if _OWN_NAMES_PATTERN.fullmatch(name):
            _remove(target / SCRIPTS / name)
    for name in ("pyvenv.cfg", "lib64"):
        _remove(target / name)
    real = Path(os.path.realpath(installation.interpreter.executable))
    version = library[0].removeprefix("python")
    (target / "pyvenv.cfg").write_text(
        f"home = {real.parent}\ninclude-system-site-packages = false\nversion_info = {version.rstrip('t')}\n"
    )
    (target / "bin").mkdir(mode=0o755)
    for name in ("python", "python3", library[0]):
        (target / "bin" / name).symlink_to(real)
    (target / SCRIPTS / "python").symlink_to("../bin/python")
    (target / "bin").chmod(0o755)
    (target / "pyvenv.cfg").chmod(0o644)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _list_options(installation: Installation) -> Sequence[str]:
    return () if installation.settings.builds else ("--only-binary", ":all:")


def _of_python(installation: Installation) -> PythonRegistries:
    assert isinstance(installation.registries, PythonRegistries)
    return installation.registries


def _make_environment(installation: Installation) -> dict[str, str]:
    return {
        **_of_python(installation).make_environment(),
        "UV_CACHE_DIR": CACHE,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
    }
