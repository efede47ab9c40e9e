"""What one program changed in an overlay of its workspace: the manifest of a change set."""

from typing import Annotated, Literal

from pydantic import Field

from paddock.model.base import Value, WholeNumber
from paddock.model.changes import Count, OverlayMethod

ChangeKind = Literal["added", "modified", "deleted", "mode"]
FileType = Literal["file", "directory", "link"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class FileFacts(Value):
    """What is, or was, at a path. Owners, set-id bits, times and extended attributes are no part of a change."""

    type: FileType
    mode: Annotated[WholeNumber, Field(ge=0, le=0o777)]
    """Permission bits; 0o777 for a link."""
    size: Count = 0
    """Bytes of a file; 0 otherwise."""
    sha256: Sha256 | None = None
    """Digest of a file's contents."""
    target: str | None = None
    """Target of a link."""


class Change(Value):
    """One path that differs after a run."""

    path: str
    """Relative to the workspace, with `/`; bytes that are not UTF-8 are lone surrogates (PEP 383)."""
    kind: ChangeKind
    before: FileFacts | None = None
    """What the workspace had at the end of the run; None if the path was added."""
    after: FileFacts | None = None
    """What the program left; None if it was deleted."""
    renamed_from: str | None = None
    """Path of a deleted file with the same contents, which this added one probably was; for display only."""
    linked_to: str | None = None
    """Path of an earlier change of which this is another name (a hard link)."""
    binary: bool = False
    """Whether the contents are shown as a size only."""
    protected: bool = False
    """Whether the path decides what other programs run (`.git/hooks`, `.mcp.json`); it is accepted only by name."""
    outward: bool = False
    """Whether it is an absolute link or one that leads out of the workspace; it is accepted only by name."""
    changed_meanwhile: bool = False
    """Whether the workspace's own file was changed during the run; such a path is a conflict."""


class ChangeSet(Value):
    """The manifest of what one program or session changed. Its ID is made of the digest of its canonical JSON."""

    version: Literal[1] = 1
    request: str
    """ID of the request or session."""
    workspace: str
    """Real path of the workspace."""
    opened_ns: Count
    """When the overlay was opened, in nanoseconds since the epoch, by the clock of the file system."""
    ended_ns: Count
    method: OverlayMethod
    changes: tuple[Change, ...] = ()
    """Sorted by path."""
    left_out: tuple[str, ...] = ()
    """Paths that can never be accepted: devices, FIFOs, sockets, names that cannot be kept. At most 100."""
    incomplete: str = ""
    """Why there is more than this; such a set is shown and cannot be accepted. Empty if it is complete."""
    flow_labels: tuple[str, ...] = ()
    """What the run had read, for flow rules."""
