"""Where the TypeScript compiler is, and how it comes there: one version, whose hash is pinned.

It is one static executable with its libraries beside it, in a package of npm for each platform
(https://www.npmjs.com/package/@typescript/typescript-linux-x64). This module imports little, because programs whose
types nobody checks ask it, too.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from paddock.engines.programs import directories

VERSION: Final = "7.0.2"
_INTEGRITY: Final[Mapping[str, str]] = {
    "x64": "sha512-EYdf2cNg7rgCWJnxCdJ+F3V39O8ihb37eHAu1LK8oAFizgTQbPOK7zHHXbPt8rX24COqODXeI3sIf0fCXG7H/A==",
    "arm64": "sha512-Qh4eU4/y3yDjnfjjyPYihMj5/ODIlmt+Bzu17OI+fiSRDW57QmU5SiN63exPRNJPKUzcc1INa1NXdrJ+MqHjUQ==",
}
"""By npm's name of the processor: the hash of the package (https://w3c.github.io/webappsec-subresource-integrity/)."""
_PROCESSORS: Final[Mapping[str, str]] = {"x86_64": "x64", "aarch64": "arm64"}
NOT_INSTALLED: Final = "the TypeScript compiler is not installed: paddock runtimes install types"


class CompilerPackageError(Exception):
    """The compiler's package cannot be installed, or is another one than the pinned; the text says why."""


def find_package() -> str | None:
    """Return the name of the package for this machine; None if there is none."""
    processor = _PROCESSORS.get(os.uname().machine) if sys.platform == "linux" else None
    return None if processor is None else f"@typescript/typescript-linux-{processor}"


def make_install_command(target: Path) -> tuple[str, ...]:
    """Return the command that installs the compiler below a directory. Raises CompilerPackageError."""
    package = find_package()
    if package is None:
        raise CompilerPackageError(
            "there is no TypeScript compiler for this machine: it needs Linux on x86_64 or aarch64"
        )
    if shutil.which("npm") is None:
        raise CompilerPackageError("the TypeScript compiler needs npm, which this machine lacks")
    options = ("--no-audit", "--no-fund", "--save-exact", "--ignore-scripts")
    return ("npm", "install", *options, "--prefix", str(target), f"{package}@{VERSION}")


def verify_installation(target: Path) -> None:
    """Check that npm installed the pinned package, and remove it otherwise. Raises CompilerPackageError.

    npm compares a download with the hash that the registry names, and writes it into its lock file.
    """
    package = find_package()
    assert package is not None
    folder = target / "node_modules" / package
    lock = json.loads((target / "node_modules" / ".package-lock.json").read_bytes())
    found = lock.get("packages", {}).get(f"node_modules/{package}", {}).get("integrity", "no hash")
    pinned = _INTEGRITY[package.rpartition("-")[2]]
    if found != pinned:
        shutil.rmtree(folder, ignore_errors=True)
        raise CompilerPackageError(
            f"{package}@{VERSION} has the hash {found}, and Paddock knows it as {pinned}; it was removed. "
            "Check the registry that npm uses: npm config get registry"
        )


def find_compiler(user: int | None) -> Path | None:
    """Return the executable of the pinned version for processes of a user; None if it is not installed.

    None as the user means that of this process.
    """
    package = find_package()
    if package is None:
        return None
    for root in directories.list_search_directories(user):
        folder = root / "node_modules" / package
        try:
            if json.loads((folder / "package.json").read_bytes())["version"] == VERSION:
                return folder / "lib" / "tsc"
        except (OSError, ValueError, KeyError):
            continue
    return None
