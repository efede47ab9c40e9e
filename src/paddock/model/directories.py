"""Directories beside the workspace that programs may use."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator

from paddock.model.base import Value

DirectoryAccess = Literal["read-only", "overlay", "workspace-write"]
DIRECTORY_ACCESSES: tuple[DirectoryAccess, ...] = get_args(DirectoryAccess)
"""Access to a directory, weakest first, in the words of the access to the workspace."""
MAX_DIRECTORIES = 32
"""Maximum number of directories of one program. Each one is searched for hidden files when the program starts."""
DIRECTORY_SUFFIXES: dict[str, DirectoryAccess] = {
    "ro": "read-only",
    "rw": "workspace-write",
    "overlay": "overlay",
}
"""What follows the directory at the command line: `--add-dir DIR:rw`."""


def _expand(path: Path) -> Path:
    whole = path.expanduser()
    if not whole.is_absolute() or ".." in whole.parts:
        raise ValueError("write a path that begins with / or ~/, without ..")
    return whole


class GrantedDirectory(Value):
    """One `[[workspace.directory]]`: a directory beside the workspace that programs may use.

    A program has it if it has access to its workspace. A workspace may not name any.
    """

    path: Annotated[Path, AfterValidator(_expand)]
    """The directory, absolute or below the home directory (`~/`)."""
    access: DirectoryAccess = "read-only"
    """Access to it: `read-only`, `overlay` (what programs change there becomes a change set of that directory, for a
    person to accept) or `workspace-write`."""

    def __str__(self) -> str:
        return f"{self.path} ({self.access})"

    def covers(self, other: "GrantedDirectory") -> bool:
        """Return whether this grant includes another one: the directory or one below it, with no more access."""
        levels = DIRECTORY_ACCESSES.index
        return other.path.is_relative_to(self.path) and levels(other.access) <= levels(self.access)


def find_uncovered(
    wanted: Sequence[GrantedDirectory], granted: Sequence[GrantedDirectory]
) -> GrantedDirectory | None:
    """Return the first directory that no granted one covers; None if there is none."""
    return next((each for each in wanted if not any(grant.covers(each) for grant in granted)), None)
