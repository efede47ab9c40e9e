"""Overlays of directories such as the workspace (overlayfs of Linux): a job writes to them, and they stay as they are.

    lower   the directory, as the root of the jail has it
    upper   SCRATCH/.overlay/0/upper, on disk, where it counts as scratch and is removed with it; the parent reads it
    merged  at the path of the directory, for the job

The job sees an empty directory instead of `.overlay`. `userxattr` is what a user namespace may mount; then overlayfs
renames no directory of the lower one (EXDEV), and programs copy it instead, as between two file systems. With
`volatile` nothing is synced to disk, because the upper directory is never mounted again.
"""

import contextlib
import os
import stat
from collections.abc import Sequence
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
from paddock.confinement.sandbox.child.paths import is_below, open_beneath, open_itself

FOLDER = ".overlay"
"""Directory below scratch."""
_MOUNTED: Literal["mounted"] = "mounted"
_REFUSED: Literal["refused"] = "refused"
_FAILED: Literal["failed"] = "failed"
"""Files in that directory, one of which says what became of all overlays."""
_OPTIONS = "lowerdir={},upperdir={},workdir={},userxattr,volatile"
_MOUNT_POINT = 4
"""Field of a line of /proc/self/mountinfo (proc_pid_mountinfo(5))."""


def locate_upper(number: int) -> str:
    """Return the upper directory of an overlay, relative to scratch."""
    return f"{FOLDER}/{number}/upper"


def mount_overlays(directories: Sequence[str], scratch: str) -> None:
    """Mount an overlay over each directory, and keep what is mounted below them. Raises OSError."""
    os.mkdir(f"{scratch}/{FOLDER}", 0o700)
    own = open_itself(f"{scratch}/{FOLDER}", flags=os.O_DIRECTORY)
    # By its descriptor: scratch may be in a directory that an overlay covers.
    for number, directory in enumerate(directories):
        _mount_overlay(directory, own, number)
    _mark(_MOUNTED, own)
    os.close(own)
    empty = "size=4k,nr_inodes=1,mode=0"
    mount_filesystem("tmpfs", f"{scratch}/{FOLDER}", RDONLY | NOSUID | NODEV | NOEXEC, empty)


def _mount_overlay(directory: str, own: int, number: int) -> None:
    lower = open_itself(directory, flags=os.O_DIRECTORY)
    inner = [(path, clone_mount_tree(path)) for path in _list_mounts_below(directory)]
    names = (f"{number}/upper", f"{number}/work")
    for name in (str(number), *names):
        os.mkdir(name, 0o700, dir_fd=own)
    # The root of an overlay has the mode of its upper directory.
    os.chmod(names[0], stat.S_IMODE(os.fstat(lower).st_mode) & 0o777, dir_fd=own)
    files = [lower, *(open_beneath(name, own, flags=os.O_DIRECTORY) for name in names)]
    # Paths of descriptors need no escapes: a name may contain a comma or a colon.
    options = _OPTIONS.format(*(f"/proc/self/fd/{file}" for file in files))
    try:
        mount_filesystem("overlay", directory, NOSUID | NODEV, options)
    except OSError:
        _mark(_REFUSED, own)
        raise
    for file in files:
        os.close(file)
    for path, tree in inner:
        target = open_itself(path)
        cover_file(target, tree)
        os.close(target)


def mark_failure(scratch: str) -> None:
    """Note that a job with overlays cannot start, perhaps for another reason than an overlay."""
    with contextlib.suppress(OSError):
        os.makedirs(f"{scratch}/{FOLDER}", 0o700, exist_ok=True)
        _mark(f"{scratch}/{FOLDER}/{_FAILED}")


def read_state(scratch: str) -> Literal["pending", "mounted", "refused", "failed"]:
    """Return what has become of the overlays in a prepared job's scratch."""
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
