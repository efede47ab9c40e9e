"""The files of MCP clients: checked, edited in memory, and written atomically.

If a file is a link, its target is written. In a project, where another person may have created the link, the target
must be within the project. A file that is not regular, or belongs to another user, is rejected. Paths to the same file
share one draft, so that no edit undoes another. Servers of `.mcp.json`, which clients load themselves, can move to the
file that only Paddock reads.
"""

import codecs
import errno
import json
import shlex
import stat
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, cast

from paddock.engines.servers.config import is_paddock
from paddock.foundation.files import MAX_FILE_BYTES, keep_backup, replace_file
from paddock.foundation.own_files import NotOursError, read_trusted
from paddock.model.errors import ConfigurationError
from paddock.surfaces.cli.clients.edit import EditError, edit_entry, read_entries

_SERVERS_KEY = ("mcpServers",)
_PRIVATE_MODE, _PROJECT_MODE = 0o600, 0o644
"""Modes of new files: a user's file may get secrets later; a project's file is for everybody who works on it."""


class FileDraft:
    """A file's contents before and after the edit."""

    def __init__(self, file: Path, before: bytes | None, mode: int) -> None:
        """`before` is the contents of the file, None for no file. Raises ConfigurationError unless it is UTF-8."""
        self.file = file
        self.backup: Path | None = None
        self._raw = before
        self._mode = mode
        self._mark = codecs.BOM_UTF8 if before is not None and before.startswith(codecs.BOM_UTF8) else b""
        try:
            self.before = (before or b"").decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ConfigurationError(
                f"{file}: cannot be read: it is not UTF-8 text; save it as UTF-8"
            ) from None
        self.after = self.before

    def read_entries(self, key: Sequence[str]) -> Mapping[str, Any]:
        """Return the entries of the file by name. Raises ConfigurationError for an invalid file."""
        try:
            return read_entries(self.after, self.file, key)
        except EditError as error:
            raise ConfigurationError(
                f"{self.file}: {error}. Nothing was changed; correct the file first."
            ) from None

    def holds_only(self, key: Sequence[str]) -> bool:
        """Return whether the file contains only its entries. Raises ConfigurationError."""
        return all(set(self.read_entries(key[:depth])) <= {name} for depth, name in enumerate(key))

    def edit(self, path: Sequence[str], entry: Mapping[str, Any] | None) -> None:
        """Set an entry, or remove it for None. Raises ConfigurationError."""
        try:
            self.after = edit_entry(self.after, self.file, path, entry)
        except EditError as error:
            where = ".".join(path[:-1])
            by_hand = (
                f"Remove `{path[-1]}` from `{where}` by hand."
                if entry is None
                else f'Add by hand, in `{where}`: "{path[-1]}": {json.dumps(entry)}'
            )
            raise ConfigurationError(f"{self.file}: {error}. Nothing was changed.\n{by_hand}") from None

    def render_diff(self) -> str:
        """Return the change as a unified diff; empty if there is none."""
        lines = unified_diff(
            self.before.splitlines(), self.after.splitlines(), str(self.file), str(self.file), lineterm=""
        )
        return "\n".join(lines) if self.before != self.after else ""

    def check(self) -> None:
        """Raise ConfigurationError if the file may not be written, or has changed since it was read."""
        if self._raw is not None and not self._mode & stat.S_IWUSR:
            raise ConfigurationError(
                f"{self.file}: is write-protected (mode {self._mode:04o}). To let Paddock change it, run: "
                f"chmod u+w {shlex.quote(str(self.file))}. To make the change by hand, see --dry-run."
            )
        try:
            now = read_trusted(self.file, MAX_FILE_BYTES)
        except OSError:
            now = None
        if now != self._raw:
            raise ConfigurationError(
                f"{self.file}: another program changed it in the meantime. Run the command again."
            )

    def write(self) -> Path | None:
        """Write the file and return the path of its backup. Raises OSError."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if self._raw is not None:
            self.backup = keep_backup(self.file, self._raw, mode=self._mode)
        data = self._mark + self.after.encode("utf-8", "backslashreplace")
        replace_file(self.file, data, mode=self._mode)
        return self.backup

    def find_same_file(self, *others: "FileDraft") -> "FileDraft":
        """Return the first of the others that is a draft of the same file, else this one.

        Raises ConfigurationError for a file with two names: writing one name would leave the other unchanged.
        """
        for other in others:
            if other.file == self.file:
                return other
            if self.file.exists() and other.file.exists() and self.file.samefile(other.file):
                raise ConfigurationError(
                    f"{self.file} and {other.file} are two names of one file (a hard link). Nothing was changed; "
                    "remove one of the two first."
                )
        return self


def check_drafts(drafts: Sequence[FileDraft]) -> None:
    """Raise ConfigurationError before any file is written, if one of the changed files cannot be."""
    for draft in drafts:
        if draft.after != draft.before:
            draft.check()


def write_drafts(drafts: Sequence[FileDraft]) -> list[Path]:
    """Write the changed files in order; return the paths of their backups. Raises ConfigurationError."""
    check_drafts(drafts)
    backups: list[Path] = []
    done: list[str] = []
    for draft in drafts:
        if draft.after == draft.before:
            continue
        try:
            backup = draft.write()
        except OSError as error:
            before = f"{', '.join(done)} was changed before" if done else "Nothing was changed"
            raise ConfigurationError(
                f"{draft.file}: cannot be written: {error.strerror}. {before}; make it writable and run the command "
                "again, or make by hand the change that --dry-run shows."
            ) from None
        backups += [] if backup is None else [backup]
        done.append(str(draft.file))
    return backups


def read_draft(path: Path, project: Path | None) -> FileDraft:
    """Return a file to be edited; a missing one is empty. With `project`, the file must be within it.

    Raises ConfigurationError.
    """
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:  # raised by `resolve` up to Python 3.12
            raise ConfigurationError(
                f"{path}: is a link that leads back to itself; correct it first"
            ) from None
    file = path.resolve()  # a user may keep the file elsewhere, behind a link
    if project is not None and not file.is_relative_to(project.resolve()):
        raise ConfigurationError(
            f"{path}: is a link that leads out of the project, to {file}; remove it first"
        )
    try:
        data = read_trusted(file, MAX_FILE_BYTES)
        mode = file.stat().st_mode & 0o777
    except FileNotFoundError:
        return FileDraft(file, None, _PRIVATE_MODE if project is None else _PROJECT_MODE)
    except NotOursError as error:
        remedy = error.remedy
        if error.owner is not None:
            remedy = "run this command as that user"
        elif path.is_symlink() and error.errno != errno.EPERM:  # not a regular file, or too large
            remedy = f"remove the link {path}"
        raise ConfigurationError(f"{file}: it {error.why}; {remedy}") from None
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from None
    return FileDraft(file, data, mode)


def list_shared(shared: FileDraft) -> list[str]:
    """Return the names of the servers in a file, without Paddock itself. Raises ConfigurationError."""
    return [
        name
        for name, entry in shared.read_entries(_SERVERS_KEY).items()
        if isinstance(entry, dict) and not is_paddock(cast("object", entry))
    ]


def draft_move(names: Sequence[str], shared: FileDraft, own: FileDraft) -> tuple[list[str], list[str]]:
    """Move servers from one draft to the other; return the names of the moved ones, and of the others.

    A server stays if the other file has another entry with its name. Raises ConfigurationError, also if Paddock could
    not read the servers in the other file.
    """
    try:
        json.loads(own.before or "{}")
    except (ValueError, RecursionError):
        raise ConfigurationError(
            f"{own.file}: Paddock needs JSON without comments there, so it would not find servers that move there. "
            "Nothing was changed; correct the file first. `paddock servers list` says where."
        ) from None
    moved: list[str] = []
    kept: list[str] = []
    for name in names:
        entry = shared.read_entries(_SERVERS_KEY)[name]
        there = own.read_entries(_SERVERS_KEY)
        if name in there and there[name] != entry:
            kept.append(name)
            continue
        if name not in there:
            own.edit((*_SERVERS_KEY, name), entry)
        shared.edit((*_SERVERS_KEY, name), None)
        moved.append(name)
    return moved, kept
