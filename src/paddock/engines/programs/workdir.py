"""The separate working directory of a program that gets files or returns some."""

import errno
import hashlib
import os
import stat
import unicodedata
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from paddock.confinement.sandbox import spec, state_paths
from paddock.confinement.sandbox.child import permissions
from paddock.confinement.sandbox.child.hiding import find_hidden
from paddock.confinement.sandbox.child.paths import open_itself
from paddock.foundation.files import write_below
from paddock.model.work_files import INPUT_BYTES, check_relative

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import GuardingSandbox
    from paddock.engines.programs.task import ProgramTask
    from paddock.record.output.work_files import LeftFile

WORKDIR = "work"
"""Its name in scratch."""
VARIABLE = "PADDOCK_WORKDIR"
"""Environment variable with its path."""
_MAX_ENTRIES, _MAX_DEPTH = 20_000, 100
"""Maximum number of entries that are examined, and maximum nesting of directories."""
_IGNORED_FOLDERS = frozenset({"__pycache__"})
"""Directories that a language's tools write without being asked."""


class InputFileError(ValueError):
    """An input file is missing, closed or too large; the text says which and why."""


class IrregularFileError(ValueError):
    """Something that was to be read is a directory, a device, a pipe or a socket."""


def make_workdir(
    task: "ProgramTask", sandbox: "GuardingSandbox", scratch: Path, own: Mapping[str, str]
) -> dict[str, str]:
    """Make the directory in a program's scratch, with its files, and return the SHA-256 (hex) of each by its path.

    `own` are the program's own files, which are written there later. Raises InputFileError.
    """
    files = _read_files(task, sandbox)
    for name in own:
        if any(name.casefold() == path.split("/")[0].casefold() for path in files):
            raise InputFileError(f"{name!r} is the program's own file; give yours another name")
    if sum(map(len, files.values())) > INPUT_BYTES:
        raise InputFileError(
            f"the files have more than {INPUT_BYTES} bytes together; give smaller ones, or let the program read "
            "the workspace"
        )
    try:
        folders = {PurePath(WORKDIR)}.union(*(PurePath(WORKDIR, path).parents for path in files))
        for folder in sorted(folders - {PurePath()}):
            make_folder(scratch, folder)
        write_files(files, scratch / WORKDIR)
    except OSError as error:
        raise InputFileError(f"the files cannot be written: {error.strerror}") from None
    files |= {name: text.encode("utf-8", "surrogatepass") for name, text in own.items()}
    return {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}


def make_folder(scratch: Path, folder: PurePath | str) -> None:
    """Make a directory in a program's scratch, which no program has seen yet, for the owner of scratch alone."""
    path = scratch / folder
    path.mkdir(mode=0o700)
    os.chown(path, scratch.stat().st_uid, -1)


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Put files into a directory that no program has seen yet, readable by the owner of the directory alone."""
    owner = folder.stat().st_uid
    for name, data in files.items():
        path = folder / name
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(file, "wb") as stream:  # a descriptor
            stream.write(data)
        os.chown(path, owner, -1)


def add_files(task: "ProgramTask", sandbox: "GuardingSandbox", folder: Path) -> None:
    """Write the files of a program into a working directory that programs have used. Raises InputFileError.

    None of them is written through a link, and an existing file is replaced.
    """
    for path, data in _read_files(task, sandbox).items():
        try:
            write_below(folder, path, data, for_user=folder.stat(follow_symlinks=False).st_uid)
        except OSError as error:
            raise InputFileError(f"{path} cannot be written: {error.strerror}") from None


def read_below(folder: Path, path: str, most: int) -> bytes:
    """Return a regular file below a directory in which programs may do anything, read through no link.

    `path` is spelled as `walk_files` lists it. Raises OSError, with ELOOP for a link; IrregularFileError for something
    that is no regular file; and ValueError for a path that leads out, and for a file that has another name, which may
    be outside, or more than `most` bytes.
    """
    with _open_root(folder) as root:
        found = open_itself(_find_listed(path, root), root)
    with _close_at_end(found):
        facts = os.fstat(found)
        if not stat.S_ISREG(facts.st_mode):
            raise IrregularFileError(f"{path} is not a regular file")
        if facts.st_nlink > 1:
            raise ValueError(f"{path} is not a regular file: it has another name")
        if facts.st_size > most:
            raise ValueError(f"{path} has {facts.st_size} bytes, and {most} are allowed")
        with open(f"/proc/self/fd/{found}", "rb") as stream:
            return stream.read(most + 1)[:most]


def remove_below(folder: Path, path: str) -> None:
    """Remove a file below a directory in which programs may do anything; a link itself. Raises as `read_below`."""
    with _open_root(folder) as root:
        parent, _, name = _find_listed(path, root).rpartition("/")
        here = open_itself(parent or ".", root, flags=os.O_DIRECTORY)
    with _close_at_end(here):
        os.unlink(name, dir_fd=here)


def _find_listed(path: str, root: int) -> str:
    """Return the path of a file as the system spells it: the same, or else that of a file which is listed as `path`.

    Programs make names that are not in Unicode NFC, or not Unicode. Raises OSError without such a file, and ValueError
    for a path that leads out.
    """
    check_relative(path)
    with suppress(FileNotFoundError), _close_at_end(open_itself(path, root)):
        return path
    wanted = unicodedata.normalize("NFC", path)
    for spelled, _ in _walk_regular(root):
        if unicodedata.normalize("NFC", _render_path(spelled)) == wanted:
            return spelled
    raise FileNotFoundError(errno.ENOENT, "there is no such file", path)


def _read_files(task: "ProgramTask", sandbox: "GuardingSandbox") -> dict[str, bytes]:
    """Return the content of each input file by its path. Raises InputFileError."""
    hidden: list[str] = []
    if any(file.workspace for file in task.work.files):
        grants = task.grants()
        granted = spec.list_granted(grants)
        try:
            found = find_hidden(spec.list_searched(grants, granted), sandbox.hiding, granted)
        except OSError as error:
            raise InputFileError(f"files of the workspace cannot be copied: {error}") from None
        hidden = [each.path for each in found]
    contents: dict[str, bytes] = {}
    for file in task.work.files:
        if file.data is not None:
            contents[file.path] = file.data
            continue
        assert file.workspace is not None
        try:
            contents[file.path] = _read_workspace_file(task, file.workspace, sandbox, hidden)
        except OSError as error:
            raise InputFileError(
                f"{file.workspace} of the workspace cannot be copied: {error.strerror}"
            ) from None
    return contents


def _read_workspace_file(
    task: "ProgramTask", path: str, sandbox: "GuardingSandbox", hidden: Sequence[str]
) -> bytes:
    """Return a file of the workspace, if the program could read it and it is not `hidden`."""
    user = sandbox.user(task.grants())
    with open_in_workspace(task.workspace, path) as found:
        facts, real = os.fstat(found), os.readlink(f"/proc/self/fd/{found}")
        if not stat.S_ISREG(facts.st_mode):
            raise InputFileError(f"{path} of the workspace is not a regular file")
        own = state_paths.keeper(sandbox.own, real)
        if own or any(state_paths.is_below(real, str(file.path)) for file in sandbox.files):
            raise InputFileError(f"{path} of the workspace belongs to Paddock itself, and no program gets it")
        if any(state_paths.is_below(real, each) for each in hidden):
            raise InputFileError(
                f"{path} of the workspace is hidden from programs, because it holds secrets (workspace.hide); a person "
                "can show it with `show` under [workspace] in the user's paddock.toml"
            )
        if user is not None and (
            permissions.find_barrier(os.path.dirname(real), user)
            or not permissions.may_read(facts, user, {user})
        ):
            raise InputFileError(
                f"{path} of the workspace cannot be read by user {user}, as whom programs run here; let others read "
                "it (chmod o+r)"
            )
        if facts.st_size > INPUT_BYTES:
            raise InputFileError(
                f"{path} of the workspace has more than {INPUT_BYTES} bytes, the maximum for all files"
            )
        with open(f"/proc/self/fd/{found}", "rb") as stream:
            return stream.read(INPUT_BYTES + 1)


@contextmanager
def open_in_workspace(workspace: Path, path: str) -> Generator[int]:
    """Open an entry of the workspace (O_PATH). Raises OSError."""
    with _close_at_end(os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
        found = open_itself(path, root)
    with _close_at_end(found):
        yield found


def walk_files(folder: Path) -> "Iterator[LeftFile]":
    """Yield the regular files below a directory in the order of their paths, each through no link.

    One directory and one file are open at a time, however many there are.
    """
    from paddock.record.output.work_files import LeftFile  # few programs have such a directory

    with ExitStack() as stack:
        try:
            root = stack.enter_context(_open_root(folder))
        except OSError:  # the program removed or replaced it
            return
        for path, entry in _walk_regular(root):
            # Opened for reading only now: to open a device or a pipe could act, or wait.
            with suppress(OSError), open(f"/proc/self/fd/{entry}", "rb") as stream:
                yield LeftFile(_render_path(path), os.fstat(entry), stream)


def _walk_regular(root: int) -> Iterator[tuple[str, int]]:
    """Yield the paths of regular files below a directory as the system spells them, each with a descriptor (O_PATH)."""
    pending = [""]
    entries = 0
    while pending:
        prefix = pending.pop()
        folders: list[str] = []
        names: list[str] = []  # none of a directory that cannot be read
        with (
            suppress(OSError),
            _close_at_end(open_itself(prefix or ".", root, flags=os.O_DIRECTORY)) as folder,
        ):
            names = sorted(os.listdir(f"/proc/self/fd/{folder}"))
        for name in names:
            entries += 1
            if entries > _MAX_ENTRIES:
                return
            with suppress(OSError), _close_at_end(open_itself(prefix + name, root)) as entry:
                mode = os.fstat(entry).st_mode
                if stat.S_ISREG(mode):
                    yield prefix + name, entry
                elif stat.S_ISDIR(mode) and name not in _IGNORED_FOLDERS and prefix.count("/") < _MAX_DEPTH:
                    folders.append(f"{prefix}{name}/")
        pending += reversed(folders)


def _render_path(path: str) -> str:
    r"""Return a path of the system as it is listed: bytes that are not UTF-8 as `\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextmanager
def _open_root(folder: Path) -> Generator[int]:
    """Open a directory that programs may have replaced by a link. Raises OSError, also for a link."""
    with _close_at_end(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)) as root:
        yield root


@contextmanager
def _close_at_end(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
