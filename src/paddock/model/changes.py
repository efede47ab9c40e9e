"""The changes of a program in its outcome; those that wait for a person are in `change_set`."""

from typing import Annotated, Literal

from pydantic import Field

from paddock.model.base import Value, WholeNumber

OverlayMethod = Literal["overlayfs", "copy"]
"""How the workspace was overlaid: by the file system overlayfs, or by a copy of it."""

Count = Annotated[WholeNumber, Field(ge=0)]


class ChangesSummary(Value):
    """The changes of a program in its outcome."""

    id: str
    """What `paddock changes` takes; empty if there are none."""
    method: OverlayMethod
    """How the workspace was overlaid: by the file system overlayfs, or by a copy of it."""
    added: Count = 0
    """Number of paths that the program added."""
    modified: Count = 0
    """Number of paths whose contents or permission bits it changed."""
    deleted: Count = 0
    """Number of paths that it deleted."""
    protected: tuple[str, ...] = ()
    """Printable paths that must be named to be accepted. At most 20."""
    left_out: tuple[str, ...] = ()
    """Printable paths that cannot be accepted. At most 20."""
    incomplete: str = ""
    """Why there is more than this, so that nothing can be accepted; empty if it is complete."""
    diff: str = ""
    """The first lines of the unified difference, redacted and printable. At most 4,000 characters."""


class DirectoryChanges(ChangesSummary):
    """The changes of a program in a directory beside the workspace; they are a change set of that directory."""

    directory: str
    """Printable real path of the directory: `paddock changes` takes it with `--workspace`."""
