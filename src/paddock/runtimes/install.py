"""How a toolchain gets onto this machine: the commands of its package managers."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from paddock.runtimes.recipe import Recipe, Words


class NotInstallableError(Exception):
    """No package manager of this machine has a recipe's toolchain; the text says what is needed instead."""


def commands(
    recipe: Recipe, target: Path, *, which: Callable[[str], str | None] = shutil.which
) -> list[tuple[str, ...]]:
    """Return the commands that install a recipe's toolchain, the best choice that this machine has managers for.

    npm and pip install below `target`, where Paddock looks; the others for the whole machine. Raises
    NotInstallableError.
    """
    for choice in recipe.install:
        if all(which(_PROGRAMS[manager]) for manager in choice.packages):
            parts = choice.packages.items()
            return [words for manager, names in parts for words in _words(manager, names, target)]
    managers = [" and ".join(choice.packages) for choice in recipe.install]
    wanted = " or ".join((*managers, *([recipe.elsewhere] if recipe.elsewhere else [])))
    raise NotInstallableError(f"{recipe.title} needs {wanted}, which is not here")


_PROGRAMS: Mapping[str, str] = MappingProxyType(
    {"apt": "apt-get", "npm": "npm", "pypi": sys.executable, "brew": "brew"}
)


def _words(manager: str, names: Words, target: Path) -> list[tuple[str, ...]]:
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
