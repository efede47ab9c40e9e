"""What of a writable workspace is protected: names, patterns, and what git's configuration adds (`git_paths`).

    .mcp.json, .git/hooks     a file or a folder with all in it, whether it exists or not
    .*/mcp*                   in each part of the path, `*`, `?` and `[...]` match as in a shell; also dots
    **/.mcp.json              in the workspace and in the folders of the two levels below it, not in SKIPPED_FOLDERS
    ci/**                     the same as `ci`

Deeper folders are not looked into: that would take longer than most programs run. Looking is bounded, and a workspace
beyond the bound is refused, because a program could otherwise hide a name behind many others.
"""

import contextlib
import fnmatch
import functools
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from paddock.confinement.sandbox.child import git_paths
from paddock.confinement.sandbox.child.paths import LinkResolver, is_below, open_itself
from paddock.confinement.sandbox.child.protected_names import PROTECTED_PATHS, PROTECTED_PATTERNS
from paddock.confinement.sandbox.child.snapshot import ASIDE_PREFIX, TooLargeError

SKIPPED_FOLDERS = frozenset({".git", "node_modules"})
"""Folders that `**/` does not enter."""
NESTED_LEVELS = 2
"""How many levels below the workspace `**/` reaches."""
MAX_NAMES = 150_000
"""Maximum number of names to look at, which takes a tenth of a second; a folder counts as several."""

_FREE_PATTERNS = 8
"""Comparing with so many patterns takes as long as listing a name."""
_FOLDER_NAMES = 4
"""Looking for a name in a folder takes as long as listing so many."""
_NESTED = "**/"
_WILDCARDS = frozenset("*?[")


class ProtectionRules(NamedTuple):
    """What settings and the user's own configuration of git add to the lists above, and take away from them."""

    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    """Names and patterns as they are in the lists, or paths that git's configuration names."""
    git_files: Sequence[str] = ()
    """Absolute paths of the system's and the user's configuration of git."""
    home: str = ""
    """The user's home directory, for paths of git that begin with `~/`."""
    repository: Sequence[str] = ()
    """The folder of git, and the work tree, of a repository to which the folder belongs and that begins above it."""
    within: Sequence[str] = ()
    """The only paths that jobs may write to, below which alone something is protected; empty for the whole folder."""
    built_in: bool = True
    """Whether the lists above count."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the protected paths that are no patterns."""
        return self.sort().paths

    def sort(self) -> "_SortedRules":
        """Return all rules by how they are looked for."""
        return _sort_rules(tuple(self.added), tuple(self.removed), self.built_in)

    def keep(self, paths: Iterable[str]) -> list[str]:
        """Return paths without those that the settings take away, and those that no job may write to."""
        removed = {rule.removesuffix("/**") for rule in self.removed}
        kept = [path for path in paths if path not in removed]
        return (
            [path for path in kept if any(is_below(path, top) for top in self.within)]
            if self.within
            else kept
        )


BUILT_IN_RULES = ProtectionRules()


_Patterns = Mapping[str, tuple[str, ...]]
"""Patterns: for each first part of their paths, what follows it; "" after the last part."""
_NO_PATTERNS: _Patterns = {}


class _SortedRules(NamedTuple):
    paths: tuple[str, ...]
    nested: tuple[str, ...]
    """Paths to look for in each folder that `**/` reaches."""
    patterns: "_Patterns"


@functools.lru_cache(maxsize=16)
def _sort_rules(added: tuple[str, ...], removed: tuple[str, ...], built_in: bool) -> _SortedRules:
    rules = dict.fromkeys((*((*PROTECTED_PATHS, *PROTECTED_PATTERNS) if built_in else ()), *added))
    rules = ProtectionRules(removed=removed).keep(rule.removesuffix("/**") for rule in rules)
    nested = tuple(rule.removeprefix(_NESTED) for rule in rules if rule.startswith(_NESTED))
    others = [rule for rule in rules if not rule.startswith(_NESTED)]
    patterns = _group_patterns(rule for rule in others if not _WILDCARDS.isdisjoint(rule))
    paths = dict.fromkeys((*(rule for rule in others if _WILDCARDS.isdisjoint(rule)), *nested))
    return _SortedRules(tuple(paths), nested, patterns)


def _group_patterns(patterns: Iterable[str]) -> _Patterns:
    grouped: dict[str, tuple[str, ...]] = {}
    for pattern in patterns:
        part, _, rest = pattern.partition("/")
        grouped[part] = (*grouped.get(part, ()), rest)
    return grouped


@functools.lru_cache(maxsize=512)
def _compile_part(part: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(part))


def compile_built_in_rules() -> None:
    """Fill the caches with the built-in rules: once in the fork server, instead of in each process that it forks."""
    BUILT_IN_RULES.sort()
    for part in {part for pattern in PROTECTED_PATTERNS for part in pattern.split("/")}:
        if not _WILDCARDS.isdisjoint(part):
            _compile_part(part)


def list_protected_paths(root: int, rules: ProtectionRules, *, nested: bool = True) -> list[str]:
    """Return the paths below an open folder that are protected now, without those below another one of them.

    They are relative, and need not exist. Where one of them is a link, its target in the folder is protected, too.
    Without `nested`, leaves out what only `**/` finds. Raises TooLargeError; OSError if the folder cannot be read.
    """
    links, present = LinkResolver(root), PresentNames(root)
    found = [*rules.paths, *_find(root, rules.sort(), nested=nested)]
    found += git_paths.list_git_paths(
        root, links, rules.git_files, rules.home, present.names, above=rules.repository
    )
    targets = [links.resolve(path) for path in dict.fromkeys(found) if present.may_hold(path)]
    return list_outermost(rules.keep((*found, *links.passed, *filter(None, targets))))


def list_matches(root: int, rules: ProtectionRules) -> list[str]:
    """Return the paths below an open folder that match a pattern. Raises TooLargeError."""
    return rules.keep(_find(root, rules.sort(), nested=True))


class PresentNames:
    """Names in an open folder, and in the folders of it that are asked about: most protected paths do not exist."""

    def __init__(self, root: int) -> None:
        """List an open folder. Raises OSError if it cannot be read."""
        self._root = root
        self.names = _list_names(root, ".")
        self._inner: dict[str, set[str] | None] = {}

    def may_hold(self, path: str) -> bool:
        """Return whether a relative path may exist. False is certain as long as nothing changes."""
        first, _, rest = path.partition("/")
        if not rest or first not in self.names:
            return first in self.names
        if first not in self._inner:
            self._inner[first] = None  # a link, or a folder that cannot be read
            with contextlib.suppress(OSError):
                self._inner[first] = _list_names(self._root, first)
        inner = self._inner[first]
        return inner is None or rest.partition("/")[0] in inner

    def select(self, paths: Iterable[str], known: Collection[str] = ()) -> Iterator[str]:
        """Yield the paths that may exist, or are `known` to have existed, and one in each folder that is or was there.

        That one stands for the folder, which must remain a folder.
        """
        folders: set[str] = set()
        for path in paths:
            first, inner, *_ = (*path.split("/"), "")
            is_there = self.may_hold(path) or f"{first}/{inner}".rstrip("/") in known
            if is_there or (first not in folders and (first in self.names or first in known)):
                folders.add(first)
                yield path


def _list_names(root: int, name: str) -> set[str]:
    opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    try:
        return set(os.listdir(opened))
    finally:
        os.close(opened)


def list_outermost(paths: Iterable[str]) -> list[str]:
    """Return paths in their order, each once, without those below another one of them."""
    given = dict.fromkeys(paths)
    return [path for path in given if not _is_below_any(path, given)]


def _is_below_any(path: str, paths: Collection[str]) -> bool:
    while "/" in path:
        path = path.rpartition("/")[0]
        if path in paths:
            return True
    return False


def _find(root: int, rules: _SortedRules, *, nested: bool) -> list[str]:
    """Return the paths that match a pattern; each folder is listed once for all of them."""
    found: list[str] = []
    left = MAX_NAMES
    pending = [_ProtectedFolder("", NESTED_LEVELS if nested and rules.nested else -1, rules.patterns)]
    with contextlib.ExitStack() as closed:
        while pending:
            folder = pending.pop()
            opened = _open_readable(root, folder.path, closed)
            if opened is None:
                continue
            try:
                found += [folder.join(path) for path in _look_for(opened, rules.nested, folder.levels)]
                if folder.levels <= 0 and not folder.patterns:
                    continue
                with os.scandir(opened) as entries:
                    for entry in entries:
                        if entry.name.startswith(ASIDE_PREFIX):
                            continue
                        matches, below = _match_entry(entry, folder)
                        found += matches
                        left -= 1 + len(folder.patterns) // _FREE_PATTERNS
                        left -= 0 if below is None else _FOLDER_NAMES * (1 + len(rules.nested))
                        if left < 0:
                            raise TooLargeError(
                                f"patterns such as **/mcp.json are compared with the upper {NESTED_LEVELS} levels of "
                                "the workspace, which hold too many names"
                            )
                        if below is not None and not _is_last(below, opened, entry.name):
                            pending.append(below)
                        elif below is not None:
                            paths = [f"{entry.name}/{path}" for path in rules.nested]
                            found += [folder.join(path) for path in _look_for(opened, paths, below.levels)]
            finally:
                os.close(opened)
    return [*dict.fromkeys(found)]


class _ProtectedFolder(NamedTuple):
    """A folder to list."""

    path: str
    levels: int
    """How many levels of folders in it `**/` still reaches; -1 if it does not reach the folder itself."""
    patterns: _Patterns
    """What is left of patterns whose first parts match the path."""

    def join(self, path: str) -> str:
        return f"{self.path}/{path}" if self.path else path


def _match_entry(
    entry: os.DirEntry[str], folder: _ProtectedFolder
) -> tuple[list[str], _ProtectedFolder | None]:
    """Return an entry of a folder once for each pattern that ends with it, and the entry as a folder to list."""
    name = entry.name
    rests: list[str] = []
    if folder.patterns:
        rests = [
            rest
            for part, follow in folder.patterns.items()
            if part == name or (not _WILDCARDS.isdisjoint(part) and _compile_part(part).match(name))
            for rest in follow
        ]
    found = [folder.join(name) for rest in rests if not rest]
    further = _group_patterns(filter(None, rests)) if rests else _NO_PATTERNS
    levels = folder.levels - 1 if folder.levels > 0 and name not in SKIPPED_FOLDERS else -1
    if (further or levels >= 0) and entry.is_dir(follow_symlinks=False):
        return found, _ProtectedFolder(folder.join(name), levels, further)
    return found, None


def _is_last(folder: _ProtectedFolder, above: int, name: str) -> bool:
    """Return whether nothing in a folder needs to be listed; then it need not be opened either, unless it is closed."""
    return (
        folder.levels == 0
        and not folder.patterns
        and os.access(name, os.X_OK, dir_fd=above, effective_ids=True)
    )


def _look_for(folder: int, paths: Iterable[str], levels: int) -> list[str]:
    """Return those of `paths` that are in an open folder that `**/` reaches."""
    if levels < 0:
        return []
    return [path for path in paths if os.access(path, os.F_OK, dir_fd=folder, follow_symlinks=False)]


def _open_readable(root: int, path: str, closed: contextlib.ExitStack) -> int | None:
    """Open a folder below an open one for reading; None if there is none, or another user has closed it.

    A program can close a folder that it made. Such a folder is opened up until `closed` ends.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        if "/" not in path:  # the usual case, and the fastest call
            with contextlib.suppress(PermissionError):
                return os.open(path or ".", flags, dir_fd=root)
        folder = open_itself(path or ".", root, flags=os.O_DIRECTORY)
        own = f"/proc/self/fd/{folder}"
        try:
            with contextlib.suppress(PermissionError):
                return os.open(".", flags, dir_fd=folder)
            mode = stat.S_IMODE(os.fstat(folder).st_mode)
            os.chmod(own, mode | stat.S_IRWXU)
            closed.callback(_close_again, root, path, mode)
            return os.open(".", flags, dir_fd=folder)
        finally:
            os.close(folder)
    return None


def _close_again(root: int, path: str, mode: int) -> None:
    with contextlib.suppress(OSError):
        folder = open_itself(path or ".", root, flags=os.O_DIRECTORY)
        try:
            os.chmod(f"/proc/self/fd/{folder}", mode)
        finally:
            os.close(folder)
