"""Copy what a job made. Nothing of the job lives any more, but everything it left may be meant to hurt.

Only plain files and directories are copied, without owners, times and special bits; what is too large, or no such
thing, is an error and no copy.

What is kept for later jobs is lent to them without being copied again, where no job can change it: as root, the files
are given to a user that no job has. A job that becomes another user has no way to write to them, and neither has one
that stays root, for it has lost root's capabilities.
"""

import contextlib
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from typing import NamedTuple

from paddock.sandbox.child import lockdown

StrPath = str | os.PathLike[str]

MAX_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 20_000
MAX_DEPTH = 100
"""Folders in folders: deeper ones are not removed by who calls itself for each of them."""
KEEPER_UID = 65533
"""User of what is kept, as root; systemd keeps this number free (UIDs, GIDs and systemd)."""
_PIECE_BYTES = 256 * 1024


class TreeError(ValueError):
    """A tree holds what is not copied; the text says what."""


class CopyReport(NamedTuple):
    """What was copied."""

    size: int
    """Bytes."""
    checksum: str
    """CRC-32 (hex) of names and contents: it tells of damage, not of malice. Of names alone when it was not checked."""


_Take = Callable[[str, str, os.stat_result, int], int]
"""Puts one file in its place, and returns the checksum with its content added."""

_Finish = Callable[[int, int], None]
"""Gives a copied file, open, the owner and the mode that it is to have; the second number is the mode it has."""


def copy(source: StrPath, target: StrPath, *, owner: int | None = None) -> CopyReport:
    """Copy a file or a directory that a job made to `target`, which is not there yet.

    Files can be read, run (where they could before) and written by `owner` alone, by default this process's user.
    Raises TreeError for a link, a device, a file with several names or too much, OSError when copying fails.
    """
    finish = None if owner is None else partial(_hand_over, owner=owner)
    return _walk_tree(os.fspath(source), os.fspath(target), owner, partial(_copy_one, finish=finish))


def keep(source: StrPath, target: StrPath) -> CopyReport:
    """Copy as `copy` does, for `lend`. No job may come to `target` in any other way."""
    is_lent = os.geteuid() == 0 and lockdown.is_mapped(KEEPER_UID)
    return _walk_tree(
        os.fspath(source), os.fspath(target), None, partial(_copy_one, finish=_give_away if is_lent else None)
    )


def lend(source: StrPath, target: StrPath, *, owner: int | None, checked: bool = True) -> CopyReport:
    """Give `owner` what `keep` has made: each file by a second name where `owner` cannot change it, else as a copy.

    The checksum of contents takes longer than copying them. Raises TreeError and OSError as `copy` does.
    """
    return _walk_tree(
        os.fspath(source), os.fspath(target), owner, partial(_lend_one, owner=owner, checked=checked)
    )


def _walk_tree(source: str, target: str, owner: int | None, take: _Take) -> CopyReport:
    # Paths are texts here: there may be thousands, and programs wait for it.
    total, entries, checksum, pending = 0, 0, 0, [(source, target, ".")]
    while pending:
        path, made, name = pending.pop()
        facts = os.lstat(path)
        entries += 1
        total += facts.st_size
        if total > MAX_BYTES or entries > MAX_ENTRIES:
            raise TreeError(f"it is over {MAX_BYTES} bytes or {MAX_ENTRIES} files")
        if stat.S_ISDIR(facts.st_mode):
            if name.count("/") >= MAX_DEPTH:
                raise TreeError(f"it has folders in more than {MAX_DEPTH} folders")
            os.mkdir(made, 0o700)
            if owner is not None:
                os.chown(made, owner, owner)
            below = "" if name == "." else f"{name}/"
            within = sorted(os.listdir(path))
            pending += [(f"{path}/{each}", f"{made}/{each}", f"{below}{each}") for each in within]
            checksum = zlib.crc32(os.fsencode(f"{name}/"), checksum)
        elif stat.S_ISREG(facts.st_mode):
            checksum = take(path, made, facts, zlib.crc32(os.fsencode(f"{name}\0"), checksum))
        else:
            raise _no_plain_file(path)
    return CopyReport(total, f"{checksum:08x}")


def _no_plain_file(path: str) -> TreeError:
    name = os.path.basename(path)
    return TreeError(f"{name if name.isprintable() else ascii(name)} is not a plain file")


def _copy_one(path: str, made: str, facts: os.stat_result, checksum: int, *, finish: _Finish | None) -> int:
    if facts.st_nlink != 1:
        raise _no_plain_file(path)
    return _copy_file(path, made, facts, checksum, finish=finish, checked=True)


def _lend_one(
    path: str, made: str, facts: os.stat_result, checksum: int, *, owner: int | None, checked: bool
) -> int:
    if facts.st_uid != KEEPER_UID or owner == KEEPER_UID or not _try_link(path, made):
        finish = None if owner is None else partial(_hand_over, owner=owner)
        return _copy_file(path, made, facts, checksum, finish=finish, checked=checked)
    if checked:
        with open(path, "rb", buffering=0) as given:
            for piece in _read_pieces(given):
                checksum = zlib.crc32(piece, checksum)
    return checksum


def _try_link(path: str, made: str) -> bool:
    """Give a file a second name; tell whether that is possible: not on another file system, nor to every root."""
    try:
        os.link(path, made)
    except OSError:
        return False
    return True


def _copy_file(
    source: str, target: str, facts: os.stat_result, checksum: int, *, finish: _Finish | None, checked: bool
) -> int:
    """Copy one file; return the checksum, with its content added when that is `checked`."""
    mode = 0o700 if facts.st_mode & stat.S_IXUSR else 0o600
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(reading, "rb", buffering=0) as given:  # a descriptor
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(writing, "wb") as taken:
            for piece in _read_pieces(given):
                checksum = zlib.crc32(piece, checksum) if checked else checksum
                taken.write(piece)
            if finish is not None:
                finish(writing, mode)
    return checksum


def _hand_over(file: int, _: int, *, owner: int) -> None:
    """Give a file to the user of a job."""
    os.fchown(file, owner, owner)


def _give_away(file: int, mode: int) -> None:
    """Let everybody who gets at a file read and run it, and nobody change it."""
    os.fchmod(file, 0o555 if mode & stat.S_IXUSR else 0o444)
    with contextlib.suppress(PermissionError):  # root without its capabilities; then it is copied each time
        os.fchown(file, KEEPER_UID, KEEPER_UID)


def _read_pieces(file: FileIO) -> Iterator[memoryview]:
    room = memoryview(bytearray(_PIECE_BYTES))
    while size := file.readinto(room):
        yield room[:size]
