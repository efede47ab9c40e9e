"""The packages that a program asks for, and the interpreter that they are for."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from paddock.model.canonical import canonical
from paddock.model.packages import INSTALLERS, Installer, PackageEnvironment


class WantedPackages(NamedTuple):
    """The packages of a program."""

    language: str
    requirements: tuple[str, ...]
    files: Mapping[str, bytes] = MappingProxyType({})
    """`package.json` and `package-lock.json`, as the program has them."""
    actor: str = "local"
    """Who asks. Environments in which builds ran are never another actor's."""

    @property
    def installer(self) -> Installer:
        """The program that installs them."""
        return INSTALLERS[self.language]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over everything that is asked for."""
        files = {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}
        return hashlib.sha256(canonical([self.installer, sorted(set(self.requirements)), files])).hexdigest()


class PackageInterpreter(NamedTuple):
    """The interpreter that packages are for, and the program that installs them."""

    executable: Path
    """The interpreter, as jobs see it."""
    readable: tuple[Path, ...]
    """Paths that a job needs to run it."""
    identity: str
    """SHA-256 (hex) over facts that change with it."""
    installer: Path
    """uv or npm."""
    has_workspace: bool
    """Whether the program has access to a workspace, which decides the user of the installation."""


class Provided(NamedTuple):
    """An environment, while it is in use."""

    facts: PackageEnvironment
    folder: Path
    """Its directory, for jobs to read: for Python a virtual environment, for Node.js one with `node_modules`."""
