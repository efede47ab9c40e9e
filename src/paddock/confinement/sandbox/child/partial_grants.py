"""Split grants of folders that contain paths which a job must not reach, because Landlock cannot exclude a path.

Everything beside the way to such a path is granted by itself. In the folders on the way, a job can list names, but
neither make, rename nor remove any: a name made later would have no rule.
"""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from paddock.confinement.sandbox.child.hiding import HidingRules, find_hidden
from paddock.confinement.sandbox.child.messages import JobSpec, StartError
from paddock.confinement.sandbox.child.paths import list_above
from paddock.confinement.sandbox.child.snapshot import TooLargeError

NARROWED = ("readable", "writable", "listed", "pieces", "written", "hidden")
"""Fields of a job spec that the files to hide change."""


class PartialGrant(NamedTuple):
    """A grant of directories, without the hidden paths in them."""

    granted: tuple[str, ...] = ()
    """The directories that contain no hidden path."""
    found: tuple[str, ...] = ()
    """Files and directories in the `listed` ones that are not hidden, contain no hidden path and are not links."""
    listed: tuple[str, ...] = ()
    """Directories that contain a hidden path."""


def pieces(folders: Sequence[str], hidden: Iterable[str]) -> PartialGrant:
    """Return the grant of `folders` without the `hidden` paths in them. Raises OSError."""
    hidden = frozenset(hidden)
    above = {parent for path in hidden for parent in list_above(path)}
    granted: list[str] = []
    found: list[str] = []
    listed: list[str] = []
    for folder in folders:
        (listed if folder in above else granted).append(folder)
    for folder in listed:  # grows during the loop
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.path in hidden or entry.is_symlink():
                    continue
                (listed if entry.path in above else found).append(entry.path)
    return PartialGrant(tuple(granted), tuple(sorted(found)), tuple(listed))


def leave_out(spec: JobSpec, hidden: Sequence[str]) -> JobSpec:
    """Return a job spec, for a job without a jail, whose grants do not include `hidden` paths. Raises OSError."""
    readable, writable = pieces(spec.readable, hidden), pieces(spec.writable, hidden)
    further = pieces([path for path in spec.pieces if path not in hidden], hidden)
    return spec._replace(
        readable=readable.granted,
        writable=writable.granted,
        pieces=(*further.granted, *further.found, *readable.found),
        written=writable.found,
        listed=(*spec.listed, *readable.listed, *writable.listed, *further.listed),
    )


def hide_files(spec: JobSpec) -> JobSpec:
    """Return a job spec with the files that are to hide now. Raises TooLargeError; StartError, and OSError."""
    if not spec.searched:
        return spec
    try:
        found = find_hidden(spec.searched, HidingRules(*spec.hiding), spec.shown)
    except TooLargeError:
        raise
    except OSError as error:
        raise StartError(f"hidden files: {error}") from error
    spec = spec._replace(hidden=[tuple(each) for each in found])
    return spec if spec.jail or not found else leave_out(spec, [each.path for each in found])
