"""Copy the output of a program, which may be hostile. All processes of the program have ended.

Copies only regular files and directories, without owners, times and special bits. Anything else, or too much, is an
error, and there is no copy.

Files that are kept for later programs are lent as hard links if no program can change them: if Paddock is root, they
belong to a user that no program has. A program that becomes another user cannot write to them, nor can one that stays
root, because it has lost root's capabilities.
"""

import contextlib
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from typing import NamedTuple

from paddock.confinement.sandbox.child import lockdown

StrPath = str | os.PathLike[str]

MAX_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 20_000
MAX_DEPTH = 100
"""Maximum nesting of folders; tools that remove a tree recursively fail on deeper ones."""
KEEPER_UID = 65533
"""Owner of kept files if Paddock is root; systemd keeps this number free (UIDs, GIDs and systemd)."""
_PIECE_BYTES = 256 * 1024


class SafeCopyError(ValueError):
    """A tree contains something that must not be copied; the text says what."""


class CopyReport(NamedTuple):
    """The size and checksum of a copied tree."""

    size: int
    """Bytes."""
    checksum: str
    """CRC-32 (hex) of names and contents, against damage, not attacks; only of names if contents were not checked."""


_Take = Callable[[str, str, os.stat_result, int], int]
"""Copies or links one file, and returns the checksum with its content added."""

_Finish = Callable[[int, int], None]
"""Sets owner and mode of a copied file by its descriptor; the second argument is its present mode."""


def copy(source: StrPath, target: StrPath, *, owner: int | None = None) -> CopyReport:
    """Copy a file or a directory that a program made to `target`, which must not exist.

    Only `owner`, by default this process's user, can read, write and run the files, the latter if it was possible
    before. Raises SafeCopyError for a link, a device, a file with several names or too much data, and OSError if
    copying fails.
    """
    finish = None if owner is None else partial(_hand_over, owner=owner)
    return _walk_tree(os.fspath(source), os.fspath(target), owner, partial(_copy_one, finish=finish))


def keep(source: StrPath, target: StrPath) -> CopyReport:
    """Copy as `copy` does, for `lend`. No program may reach `target` in another way."""
    is_lent = os.geteuid() == 0 and lockdown.is_mapped(KEEPER_UID)
    return _walk_tree(
        os.fspath(source), os.fspath(target), None, partial(_copy_one, finish=_give_away if is_lent else None)
    )


def lend(source: StrPath, target: StrPath, *, owner: int | None, checked: bool = True) -> CopyReport:
    """Give `owner` a tree that `keep` made: each file as a hard link if `owner` cannot change it, else as a copy.

    Checksums of contents take longer than copying them. Raises SafeCopyError and OSError as `copy` does.
    """
    return _walk_tree(
        os.fspath(source), os.fspath(target), owner, partial(_lend_one, owner=owner, checked=checked)
    )


def _walk_tree(source: str, target: str, owner: int | None, take: _Take) -> CopyReport:
    # Paths are strings for speed: there may be thousands, and programs wait for this.
    total, entries, checksum, pending = 0, 0, 0, [(source, target, ".")]
    while pending:
        path, made, name = pending.pop()
        facts = os.lstat(path)
        entries += 1
        total += facts.st_size
        if total > MAX_BYTES or entries > MAX_ENTRIES:
            raise SafeCopyError(f"it has more than {MAX_BYTES} bytes or {MAX_ENTRIES} files")
        if stat.S_ISDIR(facts.st_mode):
            if name.count("/") >= MAX_DEPTH:
                raise SafeCopyError(f"its folders are nested more than {MAX_DEPTH} levels deep")
            os.mkdir(made, 0o700)
            if owner is not None:
                os.chown(made, owner, owner)
            below = "" if name == "." else f"{name}/"
            within = sorted(os.listdir(path))
            pending += [(f"{path}/{entry}", f"{made}/{entry}", f"{below}{entry}") for entry in within]
            checksum = zlib.crc32(os.fsencode(f"{name}/"), checksum)
        elif stat.S_ISREG(facts.st_mode):
            checksum = take(path, made, facts, zlib.crc32(os.fsencode(f"{name}\0"), checksum))
        else:
            raise _no_plain_file(path)
    return CopyReport(total, f"{checksum:08x}")


def _no_plain_file(path: str) -> SafeCopyError:
    name = os.path.basename(path)
    return SafeCopyError(f"{name if name.isprintable() else ascii(name)} is not a plain file")


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
    """Make a hard link; return whether that worked. It fails on another file system, and for a restricted root."""
    try:
        os.link(path, made)
    except OSError:
        return False
    return True


def _copy_file(
    source: str, target: str, facts: os.stat_result, checksum: int, *, finish: _Finish | None, checked: bool
) -> int:
    """Copy one file; return the checksum, with the content added if it is `checked`."""
    mode = 0o700 if facts.st_mode & stat.S_IXUSR else 0o600
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(reading, "rb", buffering=0) as given:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(writing, "wb") as taken:
            for piece in _read_pieces(given):
                checksum = zlib.crc32(piece, checksum) if checked else checksum
                taken.write(piece)
            if finish is not None:
                finish(writing, mode)
    return checksum


def _hand_over(file: int, _: int, *, owner: int) -> None:
    """Give a file to the user of a program."""
    os.fchown(file, owner, owner)


def _give_away(file: int, mode: int) -> None:
    """Make a file read-only for all users, and give it to the keeper."""
    os.fchmod(file, 0o555 if mode & stat.S_IXUSR else 0o444)
    with contextlib.suppress(PermissionError):  # root without capabilities; the file is then copied each time
        os.fchown(file, KEEPER_UID, KEEPER_UID)


def _read_pieces(file: FileIO) -> Iterator[memoryview]:
    room = memoryview(bytearray(_PIECE_BYTES))
    while size := file.readinto(room):
        yield room[:size]
