"""Commands of package managers that install a toolchain."""

import os
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from paddock.engines.programs.toolchain import remedy
from paddock.policy.settings.recipes import Recipe, Words


class NotInstallableError(Exception):
    """No package manager of this machine has a recipe's toolchain; the text says what is needed."""


def has(manager: str) -> bool:
    """Return whether this machine has a package manager: `apt`, `npm`, `pypi` or `brew`."""
    if manager == "pypi":
        return find_spec("pip") is not None  # uv makes environments without it
    return shutil.which({"apt": "apt-get"}.get(manager, manager)) is not None


def commands(recipe: Recipe, target: Path, *, has: Callable[[str], bool] = has) -> list[tuple[str, ...]]:
    """Return the commands that install a recipe's toolchain: its best choice for which this machine has managers.

    npm and pip install below `target`, which Paddock searches; the others install for the whole machine. Raises
    NotInstallableError.
    """
    for choice in recipe.install:
        if all(has(manager) for manager in choice.packages):
            parts = choice.packages.items()
            return [words for manager, names in parts for words in _command_words(manager, names, target)]
    if not recipe.install and not recipe.elsewhere:
        raise NotInstallableError(f"{recipe.title}: {remedy(recipe)}; its recipe names no package")
    managers = [" and ".join(choice.packages) for choice in recipe.install]
    wanted = " or ".join((*managers, *([recipe.elsewhere] if recipe.elsewhere else [])))
    raise NotInstallableError(f"{recipe.title} needs {wanted}, which this machine lacks")


def _command_words(manager: str, names: Words, target: Path) -> list[tuple[str, ...]]:
    match manager:
        case "apt":
            apt = ("apt-get",) if os.geteuid() == 0 else ("sudo", "apt-get")
            return [(*apt, "update"), (*apt, "install", "--yes", "--no-install-recommends", *names)]
        case "npm":
            return [("npm", "install", "--no-audit", "--no-fund", "--prefix", str(target), *names)]
        case "pypi":
            pip = (sys.executable, "-m", "pip", "install", "--target", str(target / "python"))
            return [(*pip, *names)]
        case _:
            return [("brew", "install", *names)]
