"""Packages for Node.js, by npm."""

from paddock.packages.errors import PackagesError
from paddock.packages.phase import Phase
from paddock.packages.store import Staging
from paddock.packages.wanted import Wanted


async def resolve(phase: Phase, wanted: Wanted) -> bytes:
    """Return the lock of requirements. Raises PackagesError."""
    raise PackagesError(f"{phase.interpreter.installer} does not install for {wanted.language} yet")


def list_packages(lock: bytes) -> list[str]:
    """Return the packages of a lock. Raises PackagesError."""
    raise PackagesError(f"a lock of {len(lock)} bytes cannot be read yet")


async def install(phase: Phase, lock: bytes, staging: Staging) -> None:
    """Install a lock into the staged environment. Raises PackagesError."""
    raise PackagesError(f"{phase.interpreter.installer}: {len(lock)} bytes for {staging.path} do nothing yet")
