"""Paddock's own files and directories, checked each time they are used.

A file that Paddock reads back and believes may have been replaced: by a pipe on which a reader waits for ever, by a
link to a device without an end, by a file of another user. Each is opened here, without waiting and without following
a link, and is read only if it is a regular file of this user and no larger than expected.

    repaired   a file or directory of this user that others may read, or that is closed to this user: its mode is set,
               a warning is logged, and the ledger gets a record (`take_repairs`)
    refused    another owner, a directory that others may write to, a link, what is no regular file, a file too large
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
    """A file or directory is not what Paddock made; the text says why and what to do."""

    def __init__(self, number: int, path: StrPath, why: str, remedy: str) -> None:
        super().__init__(number, f"it {why}; {remedy}", os.fspath(path))
        self.why = why
        self.remedy = remedy


class ModeRepair(NamedTuple):
    """A mode that was set."""

    path: str
    was: int
    now: int


_repairs: deque[ModeRepair] = deque(maxlen=_MAX_REPAIRS)


def take_repairs() -> list[ModeRepair]:
    """Return the repairs of this process that no record tells of yet, at most the last 100; the next call has none."""
    taken: list[ModeRepair] = []
    while _repairs:
        taken.append(_repairs.popleft())
    return taken


def has_repairs() -> bool:
    """Tell whether there are repairs that no record tells of yet."""
    return bool(_repairs)


class FileFinding(NamedTuple):
    """What is wrong with a file or directory; `mode` is the one to set where setting it is all that is needed."""

    number: int
    why: str
    remedy: str
    mode: int | None = None


def judge_file(facts: os.stat_result, path: StrPath, *, strict: bool = False) -> FileFinding | None:
    """Return what is wrong with a file of ours of these facts, None when nothing is.

    With `strict` it is wrong for good when others may write to it: what it says may be theirs.
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
    """Return what is wrong with a directory of ours of these facts, None when nothing is.

    One that is not `private` may be read by others.
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
            f"look at what it holds, then run: chmod 700 {os.fspath(path)}",
        )
    if private or mode & _DIRECTORY_MODE != _DIRECTORY_MODE:
        return _wrong_mode(facts, path, _DIRECTORY_MODE, _DIRECTORY_MODE)
    return None


def check_directory(path: StrPath, *, private: bool = True) -> None:
    """Raise NotOursError unless a directory is this user's and safe; repair its mode. Raises OSError without one."""
    # For each program that runs: a good one costs one system call.
    finding = judge_directory(os.lstat(path), path, private=private)
    if finding is not None:
        _repair_or_raise(finding, path)


def check_file(path: StrPath) -> None:
    """Raise NotOursError unless a file is this user's and regular; repair its mode. Raises OSError without one.

    It is for files that something else opens, such as databases: those of ours are read by `read_own`.
    """
    finding = judge_file(os.lstat(path), path)
    if finding is not None:
        _repair_or_raise(finding, path)


def open_own(
    path: StrPath, flags: int = os.O_RDONLY, *, within: int | None = None, strict: bool = False
) -> int:
    """Return a descriptor of a regular file of this user, below the open directory `within` when that is given.

    A file that `flags` make is for its owner alone. Raises NotOursError for anything else, with `strict` also for what
    others may write to, and OSError.
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


def read_own(path: StrPath, most: int, *, within: int | None = None) -> bytes:
    """Return the content of a regular file of this user, of at most `most` bytes. Raises what `open_own` raises."""
    file = open_own(path, within=within)
    try:
        data = b""
        while len(data) <= most and (piece := os.read(file, most + 1 - len(data))):
            data += piece
    finally:
        os.close(file)
    if len(data) > most:
        raise NotOursError(errno.EFBIG, path, f"is larger than {most} bytes", _move_remedy(path))
    return data


def read_trusted(path: StrPath, most: int) -> bytes:
    """Return the content of a file that a person wrote and Paddock obeys; a link to one is followed.

    Raises NotOursError unless it is a regular file of this user or of root, of at most `most` bytes, that not everybody
    may write to; and OSError.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        facts = os.fstat(file)
        finding = None if stat.S_ISREG(facts.st_mode) else _wrong_kind(facts, path, "regular file")
        if finding is None and facts.st_uid:
            finding = _wrong_owner(facts, path)
        if finding is None and facts.st_mode & stat.S_IWOTH:
            why, remedy = (
                "can be written to by everybody",
                f"look at what it says, then run: chmod o-w {path}",
            )
            finding = FileFinding(errno.EPERM, why, remedy)
        if finding is not None:
            raise NotOursError(finding.number, path, finding.why, finding.remedy)
        with open(file, "rb", closefd=False) as stream:
            data = stream.read(most + 1)
    finally:
        os.close(file)
    if len(data) > most:
        raise NotOursError(errno.EFBIG, path, f"is larger than {most} bytes", _move_remedy(path))
    return data


def _wrong_kind(facts: os.stat_result, path: StrPath, wanted: str) -> FileFinding:
    kind = stat.S_IFMT(facts.st_mode)
    number = {stat.S_IFDIR: errno.EISDIR, stat.S_IFLNK: errno.ELOOP}.get(kind, errno.EINVAL)
    if wanted == "directory" and kind != stat.S_IFLNK:
        number = errno.ENOTDIR
    return FileFinding(number, f"is {_KINDS.get(kind, 'something else')} and no {wanted}", _move_remedy(path))


def _wrong_owner(facts: os.stat_result, path: StrPath) -> FileFinding | None:
    own = os.geteuid()
    if facts.st_uid == own:
        return None
    return FileFinding(
        errno.EPERM,
        f"belongs to user {facts.st_uid}, and Paddock runs as user {own}",
        f"{_move_remedy(path)}, or run: chown {own} {os.fspath(path)}",
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
    """Return the path of what may be named below an open directory."""
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
    """Repair what can be, raise NotOursError for the rest."""
    name = _full_path(path, within)
    if finding.mode is None:
        raise NotOursError(finding.number, name, finding.why, finding.remedy)
    was = _set_mode(path, finding.mode, within) if file is None else _set_mode_of(file, finding.mode)
    _repairs.append(ModeRepair(name, was, finding.mode))
    import logging

    logging.getLogger("paddock.files").warning(
        "%s: it %s; its mode is %04o now", name, finding.why, finding.mode
    )


def _set_mode(path: StrPath, mode: int, within: int | None) -> int:
    """Set the mode of this user's file or directory at a path that is no link; return what it was. Raises OSError."""
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        return _set_mode_of(found, mode)
    finally:
        os.close(found)


def _set_mode_of(file: int, mode: int) -> int:
    facts = os.fstat(file)
    if facts.st_uid != os.geteuid() or stat.S_ISLNK(facts.st_mode):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))  # it was swapped meanwhile
    os.chmod(f"/proc/self/fd/{file}", mode)  # the file of the descriptor (proc(5))
    return stat.S_IMODE(facts.st_mode)
