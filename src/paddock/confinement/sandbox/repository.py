"""The git repository of a workspace whose `.git` is elsewhere: a linked worktree, or a directory of a repository.

    /src/main/.git                      the folder that all worktrees share
    /src/main/.git/worktrees/fix        the folder of one linked worktree; its file `gitdir` names /home/me/fix/.git
    /home/me/fix/.git                   a file of one line: gitdir: /src/main/.git/worktrees/fix
    /src/main/packages/web              a directory of the repository, below its work tree /src/main

A `.git` file may come from a program or an archive. Therefore a repository counts only if it points back: `gitdir`
names the worktree, or the work tree that has `.git` as a real folder contains the workspace. All of it must belong to
the owner of the workspace. `core.worktree` is refused, and object stores elsewhere (`objects/info/alternates`) are not
granted. gitrepository-layout(5), git-worktree(1)
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from paddock.confinement.sandbox.child.git_paths import (
    GitConfigError,
    parse_config,
    parse_entries,
    read_config_files,
)
from paddock.confinement.sandbox.child.paths import is_below
from paddock.confinement.sandbox.child.protected_names import PROTECTED_PATHS, PROTECTED_PATTERNS
from paddock.confinement.sandbox.child.protection import ProtectionRules

_POINTER_BYTES = 4096
_MAX_FOLDERS = 1000
"""Maximum number of folders of a repository in which configuration files are looked for."""
_WITHOUT_CONFIG = frozenset({"objects", "refs", "logs", "hooks", "lfs", "rr-cache"})
_CONFIG_NAMES = frozenset({"config", "config.worktree"})
_CHANGED_BY_COMMITS = frozenset(
    {"HEAD", "ORIG_HEAD", "COMMIT_EDITMSG", "MERGE_MSG", "index", "logs", "objects", "refs"}
)
"""What `git commit` replaces in the folder of a repository. Everything else that exists there stays read-only."""
_PROTECTED = (
    *(
        path.removeprefix(".git/")
        for path in (*PROTECTED_PATHS, *PROTECTED_PATTERNS)
        if path.startswith(".git/")
    ),
    *("objects/info/alternates", "objects/info/http-alternates"),
)
_HEAD = re.compile(r"ref: (refs/heads/[^\0\n]+)\n?")
_SECRET_SECTIONS = ("credential.", "url.")
_SECRET_ENDS = ("extraheader", "password", "passphrase", "smtppass", "imap.pass", "token", "secret", "apikey")
_USER_OF_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#\s\"]*)@")


class Repository(NamedTuple):
    """The git repository of a workspace, as far as programs may use it."""

    folder: str
    """The folder that all worktrees share."""
    own: str
    """The folder of this worktree: `folder`, or one of its `worktrees`."""
    tree: str
    """The top of the work tree."""
    pointer: str = ""
    """The `.git` file of the work tree, if that begins above the workspace."""
    texts: tuple[tuple[str, str], ...] = ()
    """Configuration files with secrets, by their absolute paths: their texts without them."""
    written: tuple[str, ...] = ()
    """The folders that `git commit` writes to."""
    refused: str = ""
    """Why programs may not use it. Then nothing else counts."""
    read_only: str = ""
    """Why programs may not write to it, although they may write to the workspace."""

    @property
    def readable(self) -> list[str]:
        """The paths to read."""
        return [] if self.refused else [self.folder, *filter(None, [self.pointer])]

    def begins_above(self, workspace: str) -> bool:
        """Return whether the work tree is larger than the workspace."""
        return not self.refused and self.tree != os.path.realpath(workspace)

    def obeys(self, path: str) -> bool:
        """Return whether git may read a file of configuration for this worktree, not another one or a submodule."""
        others = [f"{self.own}/modules", f"{self.folder}/modules", f"{self.folder}/worktrees"]
        return path == f"{self.own}/config.worktree" or not any(is_below(path, other) for other in others)

    def list_covered(self) -> list[str]:
        """Return the paths in a writable folder of git that stay read-only, and are there."""
        if self.written != (self.folder,):
            return []
        with os.scandir(self.folder) as entries:
            return [
                entry.path
                for entry in entries
                if entry.name not in _CHANGED_BY_COMMITS
                and not entry.name.endswith(".lock")
                and not entry.is_symlink()
            ]

    def make_rules(self, rules: ProtectionRules) -> ProtectionRules:
        """Return what is protected in the folder of git. `rules` are those of the workspace."""
        within = [path[len(self.folder) + 1 :] for path in self.written if path != self.folder]
        return ProtectionRules(
            added=_PROTECTED,
            git_files=rules.git_files,
            home=rules.home,
            repository=(self.own, self.tree),
            within=tuple(within),
            built_in=False,
        )


def find_repository(workspace: str, *, writes: bool, in_namespaces: bool) -> Repository | None:
    """Return the repository of a workspace, given as its real path, if its `.git` is elsewhere; None if there is none.

    With `writes`, a program may commit, as far as the tier can keep hooks and configuration as they are.
    """
    try:
        found = _discover(workspace)
        if found is None or found.refused:
            return found
        texts = _read_config(found)
    except GitConfigError as error:
        return Repository("", "", "", refused=str(error))
    except OSError:  # nothing of it can be read, or it was just removed
        return None
    if any(
        key == "core.worktree"
        for path, text in texts.items()
        if found.obeys(path)
        for key, _ in parse_config(text)
    ):
        return found._replace(refused="its configuration names another work tree (core.worktree)")
    filtered = {path: filter_config(text) for path, text in texts.items()}
    found = found._replace(
        texts=tuple(sorted((path, text) for path, text in filtered.items() if text is not None))
    )
    if found.texts and not in_namespaces:
        return found._replace(
            refused=f"{found.texts[0][0]} holds credentials, which only the tier namespaces can leave out"
        )
    if not writes:
        return found
    if found.own == found.folder and not in_namespaces:
        return found._replace(
            read_only="only the tier namespaces can keep its hooks and configuration while a program commits"
        )
    return found._replace(written=tuple(_list_written(found)))


def filter_config(text: str) -> str | None:
    """Return git's configuration without credentials; None if it has none."""
    entries = list(parse_entries(text))
    filtered = "".join(
        _render_entry(key, value)
        for key, value in entries
        if not key.startswith(_SECRET_SECTIONS) and not key.endswith(_SECRET_ENDS)
    )
    # The text has comments as well; the entries have no quotes and escapes, which may divide an address.
    return None if list(parse_entries(filtered)) == entries and _clean(text) == text else filtered


def _clean(text: str) -> str:
    return _USER_OF_URL.sub(_leave_out_user, text)


def _leave_out_user(match: re.Match[str]) -> str:
    """Return an address without password, and without user for HTTP, where the user may be a token."""
    scheme, user = match[1], match[2].partition(":")[0]
    return scheme if scheme.lower().startswith(("http", "ftp")) or not user else f"{scheme}{user}@"


def _render_entry(key: str, value: str | None) -> str:
    section, _, rest = key.partition(".")
    name, dot, key = rest.rpartition(".")
    head = f'[{section} "{_escape(_clean(name))}"]' if dot else f"[{section}]"
    if value is None:
        return f"{head}\n\t{key}\n"
    text = _escape(_clean(value)).replace("\n", "\\n").replace("\t", "\\t").replace("\b", "\\b")
    return f'{head}\n\t{key} = "{text}"\n'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _discover(workspace: str) -> Repository | None:
    """Return the repository of a workspace without what depends on its configuration. Raises OSError."""
    here, facts = workspace, os.stat(workspace)
    while True:
        dot = f"{here.rstrip('/')}/.git"
        with contextlib.suppress(FileNotFoundError):
            kind = stat.S_IFMT(os.lstat(dot).st_mode)
            if stat.S_ISREG(kind):
                return _read_pointer_file(workspace, here, dot)
            if not stat.S_ISDIR(kind) or here == workspace:  # a link, or within the workspace
                return None
            if _is_git_folder(dot):
                return _check_owner(Repository(dot, dot, here), workspace)
        above = os.path.dirname(here)
        # Git does not look across file systems either.
        if above == here or os.stat(above).st_dev != facts.st_dev:
            return None
        here = above


def _read_pointer_file(workspace: str, tree: str, dot: str) -> Repository | None:
    """Return the repository of a linked worktree, if it points back."""
    text = _read_line(dot)
    if not text.startswith("gitdir:"):
        return None
    own = os.path.realpath(os.path.join(tree, text.removeprefix("gitdir:").strip()))
    listed, folder = os.path.dirname(own), os.path.dirname(os.path.dirname(own))
    if os.path.basename(listed) != "worktrees" or not _is_git_folder(folder):
        return None
    back = os.path.join(own, _read_line(f"{own}/gitdir"))
    if os.path.basename(back) != ".git" or os.path.realpath(os.path.dirname(back)) != tree:
        return Repository(
            "", "", "", refused="it does not point back at this worktree (worktrees/NAME/gitdir)"
        )
    if os.path.realpath(os.path.join(own, _read_line(f"{own}/commondir"))) != folder:
        return Repository("", "", "", refused="its `commondir` leads elsewhere")
    if is_below(folder, workspace):  # granted with the workspace
        return None
    if is_below(workspace, folder):
        return Repository("", "", "", refused="the workspace is in the folder of git itself")
    found = Repository(folder, own, tree, pointer="" if tree == workspace else dot)
    return _check_owner(found, workspace)


def _check_owner(found: Repository, workspace: str) -> Repository:
    paths = [found.tree, found.folder, found.own, f"{found.tree}/.git"]
    owners = {os.lstat(path).st_uid for path in (workspace, *paths)}
    if len(owners) == 1:
        return found
    return Repository("", "", "", refused="it belongs to another user than the workspace")


def _is_git_folder(path: str) -> bool:
    """Return whether a folder looks like one of git's (`is_git_directory` of git), without links."""
    with contextlib.suppress(OSError):
        kinds = [stat.S_IFMT(os.lstat(f"{path}/{name}").st_mode) for name in ("HEAD", "objects", "refs")]
        return kinds == [stat.S_IFREG, stat.S_IFDIR, stat.S_IFDIR]
    return False


def _read_line(path: str) -> str:
    """Return the text of a small regular file; "" without one. Follows no link at the end."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = os.read(file, _POINTER_BYTES + 1) if stat.S_ISREG(os.fstat(file).st_mode) else b""
        finally:
            os.close(file)
        if len(data) <= _POINTER_BYTES and b"\0" not in data:
            return os.fsdecode(data).rstrip("\r\n")
    return ""


def _read_config(found: Repository) -> dict[str, str]:
    """Return all texts of configuration in the folder of git, by absolute path. Raises GitConfigError; OSError."""
    root = os.open(found.folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        texts = read_config_files(root, _list_config_files(found.folder))
    finally:
        os.close(root)
    return {f"{found.folder}/{path}": text for path, text in texts.items() if text}


def _list_config_files(folder: str) -> Iterator[str]:
    """Yield the files of a repository with configuration: its own, of its worktrees and of its submodules."""
    left = _MAX_FOLDERS
    for path, folders, files in os.walk(folder):
        if "HEAD" in files:  # a folder of git, and not one that groups submodules
            folders[:] = [name for name in folders if name not in _WITHOUT_CONFIG]
        left -= 1
        if left < 0:
            raise GitConfigError(f"the repository has more than {_MAX_FOLDERS} folders with configuration")
        for name in _CONFIG_NAMES.intersection(files):
            yield os.path.relpath(f"{path}/{name}", folder)


def _list_written(found: Repository) -> Iterator[str]:
    """Yield the folders that `git commit` writes to, in order of their names; none leads through a link.

    A program of an earlier run may have written HEAD, and made links where it could write.
    """
    if found.own == found.folder:
        yield found.folder
        return
    yield f"{found.folder}/objects"
    branch = _HEAD.fullmatch(f"{_read_line(f'{found.own}/HEAD')}")
    names = branch[1].split("/") if branch else []
    if names and not any(name.startswith(".") or not name for name in names):
        for top in (found.folder, f"{found.folder}/logs"):
            path = f"{top}/{'/'.join(names[:-1])}"
            while not os.path.isdir(path) and is_below(path, f"{top}/refs/heads"):
                path = os.path.dirname(path)
            if is_below(path, f"{top}/refs/heads") and os.path.realpath(path) == path:
                yield path
    yield found.own
