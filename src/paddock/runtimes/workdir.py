"""The separate working directory of a program that gets files or returns some."""

import hashlib
import os
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from paddock.model.work_files import INPUT_BYTES, InputFile
from paddock.sandbox import state_paths
from paddock.sandbox.child import permissions
from paddock.sandbox.child.paths import open_itself

if TYPE_CHECKING:
    from paddock.output.work_files import LeftFile
    from paddock.runtimes.task import ProgramTask
    from paddock.sandbox.protocol import GuardingSandbox

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


def make_workdir(
    task: "ProgramTask", sandbox: "GuardingSandbox", scratch: Path, own: Mapping[str, str]
) -> dict[str, str]:
    """Make the directory in a program's scratch, with its files, and return the SHA-256 (hex) of each by its path.

    `own` are the program's own files, which are written there later. Raises InputFileError.
    """
    files = {file.path: _read_file(file, task, sandbox) for file in task.work.files}
    for name in own:
        if any(name.casefold() == path.split("/")[0].casefold() for path in files):
            raise InputFileError(f"{name!r} is the program's own file; give yours another name")
    if sum(map(len, files.values())) > INPUT_BYTES:
        raise InputFileError(
            f"the files have more than {INPUT_BYTES} bytes together; give smaller ones, or let the program read "
            "the workspace"
        )
    try:
        _write_all(files, scratch)
    except OSError as error:
        raise InputFileError(f"the files cannot be written: {error.strerror}") from None
    files |= {name: text.encode("utf-8", "surrogatepass") for name, text in own.items()}
    return {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}


def _write_all(files: Mapping[str, bytes], scratch: Path) -> None:
    owner = scratch.stat().st_uid
    folders = {PurePath(WORKDIR)}.union(*(PurePath(WORKDIR, path).parents for path in files))
    for folder in sorted(folders - {PurePath()}):
        (scratch / folder).mkdir(mode=0o700)
        os.chown(scratch / folder, owner, -1)
    write_files(files, scratch / WORKDIR)


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Put files into a directory that no job has seen yet, readable by the owner of the directory alone."""
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
    for file in task.work.files:
        try:
            write_below(folder, file.path, _read_file(file, task, sandbox))
        except OSError as error:
            raise InputFileError(f"{file.path} cannot be written: {error.strerror}") from None


def write_below(folder: Path, path: str, data: bytes) -> None:
    """Write a file below a directory in which programs may do anything, through no link. Raises OSError."""
    *parents, name = path.split("/")
    here = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    owner = os.fstat(here).st_uid
    try:
        for parent in parents:
            with suppress(FileExistsError):
                os.mkdir(parent, 0o700, dir_fd=here)
                os.chown(parent, owner, -1, dir_fd=here, follow_symlinks=False)
            below = open_itself(parent, here, flags=os.O_DIRECTORY)
            os.close(here)
            here = below
        aside = f".{os.urandom(8).hex()}"
        file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=here)
        try:
            with open(file, "wb") as stream:  # a descriptor
                stream.write(data)
                os.fchown(file, owner, -1)
            os.rename(aside, name, src_dir_fd=here, dst_dir_fd=here)
        except OSError:
            os.unlink(aside, dir_fd=here)
            raise
    finally:
        os.close(here)


def read_below(folder: Path, path: str, most: int) -> bytes:
    """Return a regular file below a directory in which programs may do anything, read through no link.

    Raises OSError, and ValueError for something that is no regular file or has more than `most` bytes.
    """
    root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = open_itself(path, root)
    finally:
        os.close(root)
    with _close_at_end(found):
        facts = os.fstat(found)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            raise ValueError(f"{path} is not a regular file")
        if facts.st_size > most:
            raise ValueError(f"{path} has {facts.st_size} bytes, and {most} are allowed")
        with open(f"/proc/self/fd/{found}", "rb") as stream:
            return stream.read(most + 1)[:most]


def remove_below(folder: Path, path: str) -> None:
    """Remove a file below a directory in which programs may do anything; a link itself. Raises OSError."""
    parent, _, name = path.rpartition("/")
    root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        here = open_itself(parent or ".", root, flags=os.O_DIRECTORY)
    finally:
        os.close(root)
    with _close_at_end(here):
        os.unlink(name, dir_fd=here)


def _read_file(file: InputFile, task: "ProgramTask", sandbox: "GuardingSandbox") -> bytes:
    if file.data is not None:
        return file.data
    assert file.workspace is not None
    try:
        return _read_below(task.workspace, file.workspace, sandbox, sandbox.user(task.grants()))
    except OSError as error:
        raise InputFileError(
            f"{file.workspace} of the workspace cannot be copied: {error.strerror}"
        ) from None


def _read_below(workspace: Path, path: str, sandbox: "GuardingSandbox", user: int | None) -> bytes:
    """Return a file of the workspace, if the program, which runs as `user`, could read it."""
    root = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = open_itself(path, root)
    finally:
        os.close(root)
    try:
        facts, real = os.fstat(found), os.readlink(f"/proc/self/fd/{found}")
        if not stat.S_ISREG(facts.st_mode):
            raise InputFileError(f"{path} of the workspace is not a regular file")
        own = state_paths.keeper(sandbox.own, real)
        if own or any(state_paths.is_below(real, str(file.path)) for file in sandbox.files):
            raise InputFileError(f"{path} of the workspace belongs to Paddock itself, and no program gets it")
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
    finally:
        os.close(found)


def walk_files(folder: Path) -> "Iterator[LeftFile]":
    """Yield the regular files below a directory in the order of their paths, each through no link.

    One directory and one file are open at a time, however many there are.
    """
    try:
        root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # the program removed or replaced it
        return
    try:
        yield from _walk_below(root)
    finally:
        os.close(root)


def _walk_below(root: int) -> "Iterator[LeftFile]":
    from paddock.output.work_files import LeftFile  # few programs have such a directory

    pending = [""]
    entries = 0
    while pending:
        prefix = pending.pop()
        folders: list[str] = []
        for name in _list_names(prefix, root):
            entries += 1
            if entries > _MAX_ENTRIES:
                return
            with suppress(OSError), _close_at_end(open_itself(prefix + name, root)) as entry:
                facts = os.fstat(entry)
                if stat.S_ISDIR(facts.st_mode):
                    if name not in _IGNORED_FOLDERS and prefix.count("/") < _MAX_DEPTH:
                        folders.append(f"{prefix}{name}/")
                elif stat.S_ISREG(facts.st_mode):
                    # Opened for reading only now: to open a device or a pipe could act, or wait.
                    with open(f"/proc/self/fd/{entry}", "rb") as stream:
                        yield LeftFile(
                            os.fsencode(prefix + name).decode("utf-8", "backslashreplace"), facts, stream
                        )
        pending += reversed(folders)


def _list_names(path: str, root: int) -> list[str]:
    """Return the names in a directory; none for one that cannot be read."""
    with suppress(OSError), _close_at_end(open_itself(path or ".", root, flags=os.O_DIRECTORY)) as folder:
        return sorted(os.listdir(f"/proc/self/fd/{folder}"))
    return []


@contextmanager
def _close_at_end(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
