"""Paddock's own files and directories, checked at each use.

A file that Paddock reads back and trusts may have been replaced by a pipe that blocks its reader, a link to an endless
device, or another user's file. This module opens each file without blocking and without following a link. It reads the
file only if it is a regular file of this user and no larger than expected.

    repaired   a file or directory of this user that other users may read, or that this user may not: Paddock sets its
               mode, logs a warning and writes a record to the ledger (`take_repairs`)
    rejected   another owner, a directory that other users may write to, a link, not a regular file, too large
"""

import errno
import os
import stat
from collections import deque
from pathlib import Path
from typing import NamedTuple

StrPath = str | os.PathLike[str]

_OPEN_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OTHERS_BITS, _OTHERS_WRITE_BITS = 0o077, 0o022
_DIRECTORY_MODE, _FILE_MODE = 0o700, 0o600
_MAX_REPAIRS = 100
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: "a file",
    stat.S_IFLNK: "a link",
}


class NotOursError(OSError):
    """A file or directory is not as Paddock made it; the text says why and what to do."""

    def __init__(
        self, number: int, path: StrPath, why: str, remedy: str, *, owner: int | None = None
    ) -> None:
        """`owner` is the user to whom it belongs, if that is what is wrong."""
        super().__init__(number, f"it {why}; {remedy}", os.fspath(path))
        self.why = why
        self.remedy = remedy
        self.owner = owner


class ModeRepair(NamedTuple):
    """A file mode that Paddock set."""

    path: str
    was: int
    now: int


_repairs: deque[ModeRepair] = deque(maxlen=_MAX_REPAIRS)


def take_repairs() -> list[ModeRepair]:
    """Return and forget the repairs of this process that are not yet recorded, at most the last 100."""
    taken: list[ModeRepair] = []
    while _repairs:
        taken.append(_repairs.popleft())
    return taken


def has_repairs() -> bool:
    """Return whether there are repairs that are not yet recorded."""
    return bool(_repairs)


class FileFinding(NamedTuple):
    """What is wrong with a file or directory; `mode` is the mode to set if that is the whole repair.

    `owner` is the user to whom it belongs, if that is what is wrong.
    """

    number: int
    why: str
    remedy: str
    mode: int | None = None
    owner: int | None = None


def judge_file(facts: os.stat_result, path: StrPath, *, strict: bool = False) -> FileFinding | None:
    """Return what is wrong with one of our files, by its `stat` result; None if nothing is.

    With `strict`, a file that other users may write to cannot be repaired: its content may be theirs.
    """
    if not stat.S_ISREG(facts.st_mode):
        return _wrong_kind(facts, path, "regular file")
    if (wrong := _wrong_owner(facts, path)) is not None:
        return wrong
    wrong = _wrong_mode(facts, path, stat.S_IRUSR, _FILE_MODE)
    if wrong is not None and strict and facts.st_mode & _OTHERS_WRITE_BITS:
        return wrong._replace(remedy=f"remove {os.fspath(path)}", mode=None)
    return wrong


def judge_directory(facts: os.stat_result, path: StrPath, *, private: bool = True) -> FileFinding | None:
    """Return what is wrong with one of our directories, by its `stat` result; None if nothing is.

    Other users may read a directory that is not `private`.
    """
    if not stat.S_ISDIR(facts.st_mode):
        return _wrong_kind(facts, path, "directory")
    if (wrong := _wrong_owner(facts, path)) is not None:
        return wrong
    mode = stat.S_IMODE(facts.st_mode)
    if mode & _OTHERS_WRITE_BITS and (private or not mode & stat.S_ISVTX):
        return FileFinding(
            errno.EPERM,
            f"can be written to by others (mode {mode:04o}), who may have put files there",
            f"check what it contains, then run: chmod 700 {os.fspath(path)}",
        )
    if private or mode & _DIRECTORY_MODE != _DIRECTORY_MODE:
        return _wrong_mode(facts, path, _DIRECTORY_MODE, _DIRECTORY_MODE)
    return None


def check_directory(path: StrPath, *, private: bool = True) -> None:
    """Repair a directory's mode; raise NotOursError if it is unsafe or another user's. Raises OSError without one."""
    # Runs before each program: a correct directory costs one system call.
    finding = judge_directory(os.lstat(path), path, private=private)
    if finding is not None:
        _repair_or_raise(finding, path)


def check_file(path: StrPath) -> None:
    """Repair a file's mode; raise NotOursError unless it is this user's and regular. Raises OSError without one.

    For files that a library opens, such as databases. Paddock reads its other files with `read_own`.
    """
    finding = judge_file(os.lstat(path), path)
    if finding is not None:
        _repair_or_raise(finding, path)


def open_own(
    path: StrPath, flags: int = os.O_RDONLY, *, within: int | None = None, strict: bool = False
) -> int:
    """Return a descriptor of a regular file of this user, below the open directory `within` if that is given.

    A file that `flags` create has mode 0600. Raises OSError; NotOursError for any other kind of file, and with `strict`
    also for a file that other users may write to.
    """
    try:
        file = os.open(path, flags | _OPEN_FLAGS, _FILE_MODE, dir_fd=within)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES}:
            raise
        facts = os.stat(path, dir_fd=within, follow_symlinks=False)
        finding = judge_file(facts, _full_path(path, within), strict=strict)
        if finding is None:
            raise
        _repair_or_raise(finding, path, within)
        file = os.open(path, flags | _OPEN_FLAGS, _FILE_MODE, dir_fd=within)
    try:
        facts = os.fstat(file)
        if judge_file(facts, path) is not None:
            finding = judge_file(facts, _full_path(path, within), strict=strict)
            assert finding is not None
            _repair_or_raise(finding, path, within, file=file)
    except BaseException:
        os.close(file)
        raise
    return file


def read_own(path: StrPath, max_bytes: int, *, within: int | None = None) -> bytes:
    """Return the content of a regular file of this user. Raises what `open_own` raises, also above `max_bytes`."""
    file = open_own(path, within=within)
    try:
        data = b""
        while len(data) <= max_bytes and (piece := os.read(file, max_bytes + 1 - len(data))):
            data += piece
    finally:
        os.close(file)
    if len(data) > max_bytes:
        raise NotOursError(errno.EFBIG, path, f"is larger than {max_bytes} bytes", _move_remedy(path))
    return data


def read_trusted(path: StrPath, max_bytes: int) -> bytes:
    """Return the content of a file that a person wrote and Paddock obeys; follows a link.

    Raises OSError; NotOursError unless it is a regular file of this user or of root, of at most `max_bytes`, that is
    not world-writable.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        facts = os.fstat(file)
        finding = None if stat.S_ISREG(facts.st_mode) else _wrong_kind(facts, path, "regular file")
        if finding is None and facts.st_uid:
            finding = _wrong_owner(facts, path)
        if finding is None and facts.st_mode & stat.S_IWOTH:
            why, remedy = (
                "can be written to by every user",
                f"check what it contains, then run: chmod o-w {path}",
            )
            finding = FileFinding(errno.EPERM, why, remedy)
        if finding is not None:
            raise NotOursError(finding.number, path, finding.why, finding.remedy, owner=finding.owner)
        with open(file, "rb", closefd=False) as stream:
            data = stream.read(max_bytes + 1)
    finally:
        os.close(file)
    if len(data) > max_bytes:
        raise NotOursError(errno.EFBIG, path, f"is larger than {max_bytes} bytes", _move_remedy(path))
    return data


def read_secret(path: StrPath, max_bytes: int) -> bytes:
    """Return the content of a file with a secret that a person wrote; follows a link.

    The group may read it: a mounted Secret of Kubernetes belongs to root, and its group is that of the pod. Raises what
    `read_trusted` raises, and NotOursError if every user can read it.
    """
    data = read_trusted(path, max_bytes)
    if os.stat(path).st_mode & stat.S_IRWXO:
        remedy = f"run: chmod 600 {os.fspath(path)}"
        raise NotOursError(errno.EPERM, path, "can be read by every user", remedy)
    return data


def _wrong_kind(facts: os.stat_result, path: StrPath, wanted: str) -> FileFinding:
    kind = stat.S_IFMT(facts.st_mode)
    number = {stat.S_IFDIR: errno.EISDIR, stat.S_IFLNK: errno.ELOOP}.get(kind, errno.EINVAL)
    if wanted == "directory" and kind != stat.S_IFLNK:
        number = errno.ENOTDIR
    return FileFinding(number, f"is {_KINDS.get(kind, 'something else')}, not a {wanted}", _move_remedy(path))


def _wrong_owner(facts: os.stat_result, path: StrPath) -> FileFinding | None:
    own = os.geteuid()
    if facts.st_uid == own:
        return None
    return FileFinding(
        errno.EPERM,
        f"belongs to user {facts.st_uid}, and Paddock runs as user {own}",
        f"{_move_remedy(path)}, or run: chown {own} {os.fspath(path)}",
        owner=facts.st_uid,
    )


def _wrong_mode(facts: os.stat_result, path: StrPath, needed: int, usual: int) -> FileFinding | None:
    mode = stat.S_IMODE(facts.st_mode)
    now = mode & ~_OTHERS_BITS
    if mode & needed != needed:
        why, now = f"is closed to its owner (mode {mode:04o})", now | usual
    elif mode & _OTHERS_BITS:
        why = f"can be {'changed' if mode & _OTHERS_WRITE_BITS else 'read'} by others (mode {mode:04o})"
    else:
        return None
    return FileFinding(errno.EPERM, why, f"run: chmod {now:o} {os.fspath(path)}", now)


def _full_path(path: StrPath, within: int | None) -> str:
    """Return a path; for one relative to an open directory, the path from the root."""
    return (
        os.fspath(path)
        if within is None
        else f"{Path(f'/proc/self/fd/{within}').readlink()}/{os.fspath(path)}"
    )


def _move_remedy(path: StrPath) -> str:
    return f"move {os.fspath(path)} away"


def _repair_or_raise(
    finding: FileFinding, path: StrPath, within: int | None = None, *, file: int | None = None
) -> None:
    """Set the mode if that is the whole repair; else raise NotOursError."""
    name = _full_path(path, within)
    if finding.mode is None:
        raise NotOursError(finding.number, name, finding.why, finding.remedy, owner=finding.owner)
    was = _set_mode(path, finding.mode, within) if file is None else _set_mode_of(file, finding.mode)
    _repairs.append(ModeRepair(name, was, finding.mode))
    import logging

    logging.getLogger("paddock.foundation.files").warning(
        "%s: it %s; its mode is %04o now", name, finding.why, finding.mode
    )


def _set_mode(path: StrPath, mode: int, within: int | None) -> int:
    """Set the mode of this user's file or directory, which must not be a link; return the old mode. Raises OSError."""
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        return _set_mode_of(found, mode)
    finally:
        os.close(found)


def _set_mode_of(file: int, mode: int) -> int:
    facts = os.fstat(file)
    if facts.st_uid != os.geteuid() or stat.S_ISLNK(facts.st_mode):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))  # another process swapped it since
    os.chmod(f"/proc/self/fd/{file}", mode)  # the file of the descriptor (proc(5))
    return stat.S_IMODE(facts.st_mode)
