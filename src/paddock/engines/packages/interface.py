"""What callers give and get: the packages that are wanted, the environment, its progress, and why there is none."""

import hashlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from paddock.model.canonical import canonical
from paddock.model.errors import PaddockError
from paddock.model.outcome import Status
from paddock.model.requirements import INSTALLERS, Installer, PackageEnvironment

on_progress: ContextVar[Callable[[str], None] | None] = ContextVar("on_progress", default=None)
"""Receives one line for each step of an installation, which the command line prints on standard error. Must not
raise."""


def report_progress(text: str) -> None:
    """Pass on one line of progress."""
    if (receive := on_progress.get()) is not None:
        receive(text)


class PackagesError(PaddockError):
    """Packages cannot be provided. `status` is that of the program, which did not start; `hint` is the remedy."""

    def __init__(self, message: str, hint: str = "", *, status: Status = Status.UNAVAILABLE) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


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
