"""The overlay of a workspace (overlayfs of Linux): a job writes to it, and the workspace stays as it is.

    lower   the workspace, as the root of the jail has it
    upper   SCRATCH/.overlay/upper, on the disk, where it counts as scratch and is removed with it; the parent reads it
    merged  at the path of the workspace, for the job

The job sees an empty directory instead of `.overlay`. `userxattr` is what a user namespace may mount; then overlayfs
renames no directory of the lower one (EXDEV), and programs copy it instead, as between two file systems. With
`volatile` nothing is synced to disk, because the upper directory is never mounted again.
"""

import contextlib
import os
import stat
from typing import Literal

from paddock.confinement.sandbox.child.mounts import (
    NODEV,
    NOEXEC,
    NOSUID,
    RDONLY,
    clone_mount_tree,
    cover_file,
    mount_filesystem,
)
from paddock.confinement.sandbox.child.paths import is_below, open_itself

FOLDER = ".overlay"
UPPER, WORK = f"{FOLDER}/upper", f"{FOLDER}/work"
"""Directories below scratch."""
_MOUNTED: Literal["mounted"] = "mounted"
_REFUSED: Literal["refused"] = "refused"
_FAILED: Literal["failed"] = "failed"
"""Files in that directory, one of which says what became of an overlay."""
_OPTIONS = "lowerdir={},upperdir={},workdir={},userxattr,volatile"
_MOUNT_POINT = 4
"""Field of a line of /proc/self/mountinfo (proc_pid_mountinfo(5))."""


def overlay_workspace(workspace: str, scratch: str) -> None:
    """Mount an overlay over a workspace, and keep what is mounted below it. Raises OSError."""
    lower = open_itself(workspace, flags=os.O_DIRECTORY)
    inner = [(path, clone_mount_tree(path)) for path in _list_mounts_below(workspace)]
    os.mkdir(f"{scratch}/{FOLDER}", 0o700)
    for path in (UPPER, WORK):
        os.mkdir(f"{scratch}/{path}", 0o700)
    # The root of an overlay has the mode of its upper directory.
    os.chmod(f"{scratch}/{UPPER}", stat.S_IMODE(os.fstat(lower).st_mode) & 0o777)
    files = [
        lower,
        *(open_itself(f"{scratch}/{path}", flags=os.O_DIRECTORY) for path in (UPPER, WORK, FOLDER)),
    ]
    # Paths of descriptors need no escapes: a name may contain a comma or a colon.
    options = _OPTIONS.format(*(f"/proc/self/fd/{file}" for file in files))
    try:
        mount_filesystem("overlay", workspace, NOSUID | NODEV, options)
    except OSError:
        _mark(_REFUSED, files[-1])
        raise
    _mark(_MOUNTED, files[-1])  # by its directory: scratch may be in the workspace
    for file in files:
        os.close(file)
    for path, tree in inner:
        target = open_itself(path)
        cover_file(target, tree)
        os.close(target)
    empty = "size=4k,nr_inodes=1,mode=0"
    mount_filesystem("tmpfs", f"{scratch}/{FOLDER}", RDONLY | NOSUID | NODEV | NOEXEC, empty)


def mark_failure(scratch: str) -> None:
    """Note that a job with an overlay cannot start, perhaps for another reason than the overlay."""
    with contextlib.suppress(OSError):
        os.makedirs(f"{scratch}/{FOLDER}", 0o700, exist_ok=True)
        _mark(f"{scratch}/{FOLDER}/{_FAILED}")


def read_state(scratch: str) -> Literal["pending", "mounted", "refused", "failed"]:
    """Return what has become of the overlay in a prepared job's scratch."""
    for state in (_REFUSED, _FAILED, _MOUNTED):
        if os.path.lexists(f"{scratch}/{FOLDER}/{state}"):
            return state
    return "pending"


def _mark(name: str, within: int | None = None) -> None:
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=within))


def _list_mounts_below(folder: str) -> list[str]:
    """Return the outermost mount points below a directory."""
    with open("/proc/self/mountinfo", "rb") as file:
        points = {_unescape(line.split(b" ", _MOUNT_POINT + 1)[_MOUNT_POINT]) for line in file}
    found: list[str] = []
    for path in sorted(points):
        if path != folder and is_below(path, folder) and not any(is_below(path, each) for each in found):
            found.append(path)
    return found


def _unescape(path: bytes) -> str:
    r"""Return a path of /proc/self/mountinfo without its escapes, such as `\040`."""
    first, *others = path.split(b"\\")
    return os.fsdecode(first + b"".join(bytes([int(each[:3], 8)]) + each[3:] for each in others))
