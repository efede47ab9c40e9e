"""Paddock's own directories, which a grant of a directory above them leaves out: settings, record, vault, caches.

A workspace may hold them, as somebody's home does. A program that reads them has the key of the vault; one that writes
there grants itself what it likes.

    namespaces   an empty directory lies over each, and what leads there from a writable directory is a mount, so that
                 nobody can move it away and put another one in its place
    landlock     rules only add up: what stands beside the way is granted for reading, piece by piece. Nothing can be
                 new in a directory without a rule for all of it, so a writable one is refused

Where Paddock is installed, as in the virtual environment of a project, whoever writes becomes the user. So that stays
as it is, and can be read.

Paddock replaces a single file that a setting places in a workspace (`StateFile`) now and then, and no mount over a file
outlives that: a program that would get at one does not start.
"""

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox.child import permissions
from paddock.sandbox.child.paths import list_links


class PartialGrant(NamedTuple):
    """What stands for directories of which something is left out."""

    granted: tuple[str, ...] = ()
    """Those of the directories that hold nothing of it."""
    found: tuple[str, ...] = ()
    """Files and directories in the others that neither hold nor are what is left out, and are no links."""
    listed: tuple[str, ...] = ()
    """Directories that hold what is left out."""


class StateFile(NamedTuple):
    """A file that Paddock goes by, where a setting places it."""

    key: str
    """The setting."""
    path: str
    """Its name, and nothing more: it may lead through links."""
    readable: bool = False
    """Whether a program may read it; none may change it."""


def list_own_directories(paths: Iterable[Path]) -> tuple[str, ...]:
    """Return the names of Paddock's own directories, those through links and those they lead to."""
    names = [os.path.abspath(path) for path in paths]
    return tuple(dict.fromkeys((*names, *map(os.path.realpath, names))))


def find_exposed_installation(installed: Sequence[str], written: Sequence[Path]) -> tuple[str, ...]:
    """Return those directories in which Paddock is `installed` that are in `written` ones, or hold one."""
    folders = [os.path.realpath(folder) for folder in written]
    return tuple(
        path
        for path in installed
        if any(is_below(path, folder) or is_below(folder, path) for folder in folders)
    )


def is_below(path: str, folder: str) -> bool:
    """Tell whether a path is a directory or in it, by name."""
    return f"{path}/".startswith(f"{folder}/")


def within(own: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
    """Return the real paths of Paddock's `own` directories below one of some `folders`, but for those below another."""
    if not any(is_below(path, folder) for path in own for folder in folders):
        return ()
    folders = [os.path.realpath(folder) for folder in folders]
    real = sorted({os.path.realpath(path) for path in own})
    inside = [path for path in real if any(path != folder and is_below(path, folder) for folder in folders)]
    return tuple(path for path in inside if not any(path != up and is_below(path, up) for up in inside))


def keeper(own: Sequence[str], real: str) -> str:
    """Return which of Paddock's `own` directories holds a real path, or is it; empty when none does."""
    return next((each for each in own if is_below(real, each)), "")


def find_link(own: tuple[str, ...], folder: str) -> str:
    """Return a link below a real `folder` by which Paddock's `own` directories are found; empty when there is none."""
    return next((link for link in _links(own) if is_below(link, folder)), "")


def is_exposed(file: StateFile, folders: Sequence[str], covered: Sequence[str] = ()) -> bool:
    """Tell whether a file, or a link by which it is found, is in one of some real `folders`, and not `covered`."""
    places = (os.path.realpath(file.path), *list_links(os.path.abspath(file.path)))
    found = (place for place in places if any(is_below(place, folder) for folder in folders))
    return any(not any(is_below(place, each) for each in covered) for place in found)


@functools.lru_cache(maxsize=4)
def _links(own: tuple[str, ...]) -> tuple[str, ...]:
    """Return the links that lead to directories, looked for once: no program may make one."""
    return tuple(link for path in own for link in list_links(path))


def ways(hidden: Sequence[str], folders: Sequence[str], user: int) -> Iterator[str]:
    """Yield the directories between writable `folders` and what is `hidden` in them, as far as `user` may enter."""
    for path in hidden:
        above = [folder for folder in folders if is_below(path, folder)]
        here = max(above, key=len) if above else path
        while (here := _next(here, path)) != path:
            yield here
            if permissions.find_barrier(here, user):
                break


def _next(here: str, path: str) -> str:
    """Return the directory after `here` on the way to `path`."""
    return path if here == path else f"{here}/{path[len(here) + 1 :].partition('/')[0]}"


def list_hidden_paths(hidden: Sequence[str], folders: Sequence[str], user: int) -> list[str]:
    """Return what of `hidden` is there and not closed to `user` anyway; below writable `folders` it is made first.

    What is not there could be made by a program. Raises OSError.
    """
    for path in hidden:
        if any(is_below(path, folder) for folder in folders):
            os.makedirs(path, mode=0o700, exist_ok=True)
    there = filter(os.path.isdir, hidden)
    return [path for path in there if not permissions.find_barrier(os.path.dirname(path), user)]


def pieces(folders: Sequence[str], hidden: Sequence[str]) -> PartialGrant:
    """Return what stands for `folders` of which some may hold something `hidden`. Raises OSError."""
    granted: list[str] = []
    found: list[str] = []
    listed: list[str] = []
    for folder in folders:
        (listed if any(path != folder and is_below(path, folder) for path in hidden) else granted).append(
            folder
        )
    for place in listed:  # grows as it goes
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.path in hidden or entry.is_symlink():
                    continue
                above = any(is_below(path, entry.path) for path in hidden)
                (listed if above else found).append(entry.path)
    return PartialGrant(tuple(granted), tuple(sorted(found)), tuple(listed))
