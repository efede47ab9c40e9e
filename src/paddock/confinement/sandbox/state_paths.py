"""Keep programs out of Paddock's own directories (settings, ledger, vault, caches), even if a parent is granted.

A granted workspace may contain them, as a home directory does. A program that reads them has the key of the vault; one
that writes to them can grant itself anything.

    namespaces   an empty directory covers each. Every directory between it and a writable one is a mount, which no
                 program can move away and replace
    landlock     rules can only add access. A readable grant is split: its entries beside the path to Paddock's
                 directories are granted one by one. That cannot cover files that a program will make, so a writable
                 grant is rejected

A program that writes to Paddock's installation, such as a project's virtual environment, gains the user's powers.
Therefore the installation is readable but not writable.

A setting may place a single file of Paddock in a workspace (`StateFile`). Paddock replaces it at times, and a mount
over a file does not survive that. Therefore a program whose grants expose the file does not start.
"""

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.confinement.sandbox.child import permissions
from paddock.confinement.sandbox.child.paths import is_below, list_links


class StateFile(NamedTuple):
    """A file that Paddock trusts, and that a setting places."""

    key: str
    """The setting."""
    path: str
    """Its path, which may lead through links."""
    readable: bool = False
    """Whether a program may read it; none may change it."""


def list_own_directories(paths: Iterable[Path]) -> tuple[str, ...]:
    """Return the absolute paths of Paddock's own directories, both as given and with links resolved."""
    names = [os.path.abspath(path) for path in paths]
    return tuple(dict.fromkeys((*names, *map(os.path.realpath, names))))


def find_exposed_installation(installed: Sequence[str], written: Sequence[Path]) -> tuple[str, ...]:
    """Return the directories of Paddock's installation that are in a `written` directory or contain one."""
    folders = [os.path.realpath(folder) for folder in written]
    return tuple(
        path
        for path in installed
        if any(is_below(path, folder) or is_below(folder, path) for folder in folders)
    )


def within(own: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
    """Return the real paths of Paddock's outermost `own` directories below one of `folders`."""
    if not any(is_below(path, folder) for path in own for folder in folders):
        return ()
    folders = [os.path.realpath(folder) for folder in folders]
    real = sorted({os.path.realpath(path) for path in own})
    inside = [path for path in real if any(path != folder and is_below(path, folder) for folder in folders)]
    return tuple(path for path in inside if not any(path != up and is_below(path, up) for up in inside))


def keeper(own: Sequence[str], real: str) -> str:
    """Return the one of Paddock's `own` directories that is or contains a real path; "" without one."""
    return next((folder for folder in own if is_below(real, folder)), "")


def find_link(own: tuple[str, ...], folder: str) -> str:
    """Return a link below a real `folder` that leads to one of Paddock's `own` directories; "" without one."""
    return next((link for link in _links(own) if is_below(link, folder)), "")


def is_exposed(file: StateFile, folders: Sequence[str], covered: Sequence[str] = ()) -> bool:
    """Return whether a file, or a link on its path, is in one of some real `folders` and not in a `covered` one."""
    paths = (os.path.realpath(file.path), *list_links(os.path.abspath(file.path)))
    found = (path for path in paths if any(is_below(path, folder) for folder in folders))
    return any(not any(is_below(path, folder) for folder in covered) for path in found)


@functools.lru_cache(maxsize=4)
def _links(own: tuple[str, ...]) -> tuple[str, ...]:
    """Return the links on the paths of directories. The result is cached: no program may make such a link."""
    return tuple(link for path in own for link in list_links(path))


def list_parents(hidden: Sequence[str], folders: Sequence[str], user: int) -> Iterator[str]:
    """Yield the directories between writable `folders` and the `hidden` paths in them, as far as `user` may enter."""
    for path in hidden:
        above = [folder for folder in folders if is_below(path, folder)]
        here = max(above, key=len) if above else path
        while here != path and (here := f"{here}/{path[len(here) + 1 :].partition('/')[0]}") != path:
            yield here
            if permissions.find_barrier(here, user):
                break


def list_hidden_paths(hidden: Sequence[str], folders: Sequence[str], user: int) -> list[str]:
    """Return the `hidden` directories that exist and that `user` could enter. Raises OSError.

    First makes those below writable `folders`, because a program could make a missing one.
    """
    for path in hidden:
        if any(is_below(path, folder) for folder in folders):
            os.makedirs(path, mode=0o700, exist_ok=True)
    there = filter(os.path.isdir, hidden)
    return [path for path in there if not permissions.find_barrier(os.path.dirname(path), user)]
