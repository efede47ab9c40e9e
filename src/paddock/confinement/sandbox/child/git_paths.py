"""What git reads or runs in a workspace, as its effective configuration says (git-config(1), gitrepository-layout(5)).

A program that may write to the workspace must not change files that git later takes settings from, or starts. Where
they are is in git's configuration: `core.hooksPath`, `include.path`, filters, aliases, and more. This module reads that
as git does, with two differences on the safe side: it follows every `includeIf` whatever its condition, and it goes on
after a line that is wrong. It starts nothing, because the configuration itself may be hostile.

An earlier program or an archive may have written what is read here. Therefore the number and the size of files is
bounded; links are followed within the workspace alone. Files elsewhere are read if the user's own configuration names
them, or if they are the repository that a `.git` file names. Only paths in the workspace are returned.
"""

import contextlib
import itertools
import os
import re
import stat
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from paddock.confinement.sandbox.child.paths import LinkResolver, open_itself
from paddock.confinement.sandbox.child.snapshot import TooLargeError, read_up_to

MAX_FILES = 2000
"""Maximum number of files to look for."""
MAX_BYTES = 1024 * 1024
"""Maximum size of these files together, in bytes."""
MAX_WORDS = 20_000
"""Maximum number of words in the commands that they name."""
MAX_DEPTH = 10
"""Maximum depth of files that include one another; git gives up beyond it (config.c)."""

_GIT_FILES = ("hooks", "config", "config.worktree", "commondir")
"""What git obeys in the folder of a repository."""
_PATH_KEYS = frozenset({"core.hookspath", "init.templatedir"})
_COMMAND_SECTIONS = ("alias.", "pager.")
_COMMAND_KEYS = (
    *("command", "cmd", "program", "helper", "editor", "pager", "askpass", "driver", "textconv", "external"),
    *("clean", "smudge", "process", "path", "fsmonitor", "update", "filter", "hook", "proxy", "tunnel"),
    *("uploadpack", "receivepack", "vcs", "browser", "smtpserver"),
)
"""Ends of keys whose values git runs. One too many only protects a file that such a value happens to name."""
_BLANK = re.compile(r"(?:\s|[;#][^\n]*+)*+")
_SECTION = re.compile(r'\[[ \t]*+([\w.-]++)[ \t]*+(?:"((?:[^"\\\n]|\\.)*+)")?[ \t]*+\]')
_ENTRY = re.compile(
    r'([A-Za-z][A-Za-z0-9-]*+)[ \t]*+(?:=((?:"(?:[^"\\\n]|\\(?s:.))*+"|\\(?s:.)|[^\\\n;#])*+))?[^\n]*+'
)
_LEADING = re.compile(r"\A(?:\s|\\\n)*+")
_ESCAPE = re.compile(r'\\(?s:(.))|"')
_ESCAPED = {"\n": "", "n": "\n", "t": "\t", "b": "\b"}
_WORD = re.compile(r"[^\s;&|()<>`\"'{}$=]++")


class GitConfigError(TooLargeError):
    """Git's configuration cannot be followed within bounds."""


def parse_config(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys, as `git config --list` prints them, and the values. Skips lines that are wrong."""
    return ((key, value) for key, value in parse_entries(text) if value is not None)


def parse_entries(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the same as `parse_config`, and keys without a value, which git reads as true, with None."""
    text, section, at = f"{text}\n", "", 0  # git reads the end of a file as the end of a line
    while (blank := _BLANK.match(text, at)) and (at := blank.end()) < len(text):
        if match := _SECTION.match(text, at):
            name = "" if match[2] is None else f".{_ESCAPE.sub(lambda escape: escape[1] or '', match[2])}"
            section = f"{match[1].lower()}{name}"
            at = match.end()
        elif match := _ENTRY.match(text, at):
            value = match[2]
            if value is not None:
                # Without quotes and escapes, and without unquoted spaces around it.
                value = _ESCAPE.sub(_unescape, _LEADING.sub("", value, count=1).rstrip(" \t\r\f\v"))
            yield f"{section}.{match[1].lower()}", value
            at = match.end()
        else:
            end = text.find("\n", at)
            at = end if end >= 0 else len(text)


def _unescape(match: re.Match[str]) -> str:
    return "" if match[1] is None else _ESCAPED.get(match[1], match[1])


def list_git_paths(
    root: int,
    links: LinkResolver,
    files: Sequence[str],
    home: str,
    present: Collection[str],
    *,
    above: Sequence[str] = (),
) -> list[str]:
    """Return the relative paths below an open folder that git reads as settings or runs there.

    `files` are the system's and the user's configuration, and `home` is the user's home directory. `links` gets the
    links that the paths lead through. `present` are the names in the folder. `above` are git's folder and the work tree
    of a repository to which the folder belongs, if these begin above it. Raises GitConfigError if there is more than
    git needs.
    """
    reader = _ConfigReader(root, links, home)
    for file in files:
        reader.read_config(file, reader.top, trusted=True)
    if above:
        reader.read_git_folder(*above)
    elif "HEAD" in present:  # a repository without a work tree
        reader.read_git_folder(reader.top, reader.top)
    if not {".git", ".gitmodules"}.isdisjoint(present):
        reader.read_repository(reader.top)
    return [*reader.found]


def read_config_files(root: int, files: Iterable[str]) -> dict[str, str]:
    """Return the texts of configuration files below an open folder, and of those there that they include.

    The keys are relative paths, with links in the folder resolved. Raises GitConfigError.
    """
    reader = _ConfigReader(root, LinkResolver(root), "")
    for file in files:
        reader.read_config(f"{reader.top}/{file}", reader.top)
    return reader.texts


class _Submodule(NamedTuple):
    name: str
    path: str


class _ConfigReader:
    """Reads configuration and collects paths. Paths are absolute, and may lead through links."""

    def __init__(self, root: int, links: LinkResolver, home: str) -> None:
        self._root = root
        self._links = links
        self._home = home
        self._seen: set[tuple[str, ...]] = set()
        self._files, self._bytes, self._words = MAX_FILES, MAX_BYTES, MAX_WORDS
        self.top = links.top
        self.found: dict[str, None] = {}
        """What was found, relative to the workspace."""
        self.texts: dict[str, str] = {}
        """The texts of the configuration files that were found there."""

    def finds(self, path: str) -> int:
        """Return the type of file of a path in the workspace, as `stat.S_IFMT` does; 0 if it does not exist."""
        self._count_file()
        inside = self._links.resolve(path)
        with contextlib.suppress(OSError, ValueError):
            return stat.S_IFMT(os.lstat(inside, dir_fd=self._root).st_mode) if inside else 0
        return 0

    def read_repository(self, tree: str) -> None:
        """Read the repository of a work tree, and those of its submodules."""
        if self._was_seen(os.path.normpath(tree)):
            return
        dot = f"{tree}/.git"
        folder = dot
        if self.finds(dot) == stat.S_IFREG:
            self._protect(dot)
            folder = self._read_pointer(dot, "gitdir:") or dot
        if self.finds(dot):
            self.read_git_folder(folder, tree)
        for module in self._list_submodules(f"{tree}/.gitmodules"):
            self._protect(f"{tree}/.gitmodules")
            for name in _GIT_FILES:
                self._protect(f"{folder}/modules/{module.name}/{name}")
            self.read_repository(_join(tree, module.path))

    def read_git_folder(self, folder: str, tree: str) -> None:
        """Read a folder in which git keeps a repository with its work tree `tree`."""
        inside = self._links.resolve(folder)
        names = None if inside is None else {name for name, _ in self._list_folder(folder)}
        common = folder
        if names is None or "commondir" in names:
            common = self._read_pointer(f"{folder}/commondir", "", trusted=True) or folder
        for each in dict.fromkeys((folder, common)):
            for name in _GIT_FILES:
                self._protect(f"{each}/{name}")
            self._protect_links(f"{each}/hooks")
        self.read_config(f"{common}/config", tree, trusted=True)
        if names is None or "config.worktree" in names:
            self.read_config(f"{folder}/config.worktree", tree, trusted=True)
        if names is not None and "worktrees" in names:
            self._read_worktrees(f"{folder}/worktrees", tree)

    def _read_worktrees(self, folder: str, tree: str) -> None:
        """Read what a repository keeps of its linked work trees."""
        for name, _ in self._list_folder(folder):
            self.read_config(f"{folder}/{name}/config.worktree", tree)
            if dot := self._read_pointer(f"{folder}/{name}/gitdir", ""):
                self.read_repository(os.path.dirname(dot))

    def read_config(self, file: str, tree: str, *, trusted: bool = False, depth: int = 0) -> None:
        """Read a configuration for a work tree; only a `trusted` name may be of a file outside of the workspace."""
        inside = self._protect(file)
        if depth > MAX_DEPTH or self._was_seen(inside or file, tree):
            return
        text = self._read(file, trusted=trusted)
        if inside:
            self.texts[inside] = text
        for key, value in parse_config(text):
            if not value:
                continue
            if key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
                included = _join(os.path.dirname(file), self._expand(value))
                self.read_config(included, tree, trusted=inside is None, depth=depth + 1)
            elif key in _PATH_KEYS:
                path = _join(tree, self._expand(value))
                if self._protect(path) == "":
                    raise GitConfigError(f"{key} of git's configuration is the workspace itself")
                self._protect_links(path)
            elif key.startswith(_COMMAND_SECTIONS) or key.endswith(_COMMAND_KEYS):
                self._protect_command(value, tree)

    def _protect(self, path: str) -> str | None:
        """Protect what a path leads to, and return its relative path; None if it is outside."""
        inside = self._links.resolve(path)
        if inside:
            self.found[inside] = None
        return inside

    def _protect_links(self, folder: str) -> None:
        """Protect what links in a folder lead to, such as hooks whose scripts are elsewhere in the workspace."""
        for name, is_link in self._list_folder(folder):
            if is_link:
                self._protect(f"{folder}/{name}")

    def _protect_command(self, command: str, tree: str) -> None:
        """Protect the files that a command names, and its program even if it does not exist."""
        words = _WORD.findall(command.lstrip("! \t"))
        self._words -= len(words)
        if self._words < 0:
            raise GitConfigError(f"git's configuration names commands of more than {MAX_WORDS} words")
        for number, word in enumerate((command, *words)):
            path = _join(tree, self._expand(word))
            try:
                kind = stat.S_IFMT(os.lstat(path, dir_fd=self._root).st_mode)
            except OSError:
                kind = 0
            is_program = number == 1 and "/" in word
            if kind not in {0, stat.S_IFDIR} or (is_program and not kind):
                self._protect(path)

    def _list_submodules(self, file: str) -> list[_Submodule]:
        found: list[_Submodule] = []
        for key, value in parse_config(self._read(file)):
            name = key.removeprefix("submodule.").removesuffix(".path")
            if len(name) == len(key) - len("submodule..path") and ".." not in name.split("/"):
                found.append(_Submodule(name, value))
        return found

    def _list_folder(self, folder: str) -> list[tuple[str, bool]]:
        """Return the names in a folder of the workspace, and whether each is a link."""
        self._count_file()
        found: list[tuple[str, bool]] = []
        if inside := self._links.resolve(folder):
            with contextlib.suppress(OSError):
                opened = open_itself(inside, self._root, flags=os.O_DIRECTORY)
                try:
                    with os.scandir(f"/proc/self/fd/{opened}") as entries:
                        listed = itertools.islice(entries, self._files + 1)
                        found = [(entry.name, entry.is_symlink()) for entry in listed]
                finally:
                    os.close(opened)
        self._count_file(len(found))
        return found

    def _read_pointer(self, file: str, prefix: str, *, trusted: bool = False) -> str:
        """Return the absolute path that a file of one line names; "" without one."""
        text = self._read(file, trusted=trusted).strip()
        path = text.removeprefix(prefix).strip()
        if not path or not text.startswith(prefix):
            return ""
        return _join(os.path.dirname(file), path)

    def _expand(self, path: str) -> str:
        return f"{self._home}/{path[2:]}" if path.startswith("~/") and self._home else path

    def _read(self, file: str, *, trusted: bool = False) -> str:
        """Return the text of a regular file, "" without one. Raises GitConfigError."""
        self._count_file()
        data = b""
        with contextlib.suppress(OSError), self._open(file, trusted=trusted) as opened:
            if opened is not None and stat.S_ISREG(os.fstat(opened).st_mode):
                readable = os.open(f"/proc/self/fd/{opened}", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    data = read_up_to(readable, self._bytes + 1)
                finally:
                    os.close(readable)
        self._bytes -= len(data)
        if self._bytes < 0:
            raise GitConfigError(f"git's configuration has more than {MAX_BYTES >> 10} KiB")
        data = data.replace(b"\0", b" ")  # no name contains one
        return os.fsdecode(data).removeprefix("\ufeff").replace("\r\n", "\n")

    @contextlib.contextmanager
    def _open(self, file: str, *, trusted: bool) -> Generator[int | None]:
        """Yield a descriptor (O_PATH) of a file; None if it is outside and not trusted, or behind a link there."""
        inside, path = self._links.resolve(file), os.path.normpath(file)
        opened = None
        if inside:
            opened = open_itself(inside, self._root)
        elif trusted and not path.startswith(f"{self.top}/"):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            yield opened
        finally:
            if opened is not None:
                os.close(opened)

    def _was_seen(self, *what: str) -> bool:
        seen = what in self._seen
        self._seen.add(what)
        return seen

    def _count_file(self, count: int = 1) -> None:
        self._files -= count
        if self._files < 0:
            raise GitConfigError(f"git's configuration names more than {MAX_FILES} files")


def _join(folder: str, path: str) -> str:
    """Return a path that begins at a folder unless it is absolute."""
    return path if path.startswith("/") else f"{folder}/{path}"
