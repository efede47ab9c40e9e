"""Copy what a job made. Nothing of the job lives any more, but everything it left may be meant to hurt.

Only plain files and directories are copied, without owners, times and special bits; what is too large, or no such
thing, is an error and no copy.
"""

import os
import stat
import zlib
from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 256 * 1024 * 1024
MOST_ENTRIES = 20_000
_PIECE = 256 * 1024


class TreeError(ValueError):
    """A tree holds what is not copied; the text says what."""


class Copied(NamedTuple):
    """What was copied."""

    size: int
    """Bytes."""
    checksum: str
    """CRC-32 (hex) of names and contents: it tells of damage, not of malice. Of names alone when it was not checked."""


def copy(source: Path, target: Path, *, owner: int | None = None, checked: bool = True) -> Copied:
    """Copy a file or a directory to `target`, which is not there yet.

    Files can be read, run (where they could before) and written by `owner` alone, by default this process's user.
    The checksum of contents takes longer than copying them. Raises TreeError for a link, a device, a file with several
    names or too much, OSError when copying fails.
    """
    total, entries, checksum, pending = 0, 0, 0, [(source, target, ".")]
    while pending:
        path, made, name = pending.pop()
        facts = os.lstat(path)
        entries += 1
        total += facts.st_size
        if total > MOST_BYTES or entries > MOST_ENTRIES:
            raise TreeError(f"it is over {MOST_BYTES} bytes or {MOST_ENTRIES} files")
        if stat.S_ISDIR(facts.st_mode):
            made.mkdir(mode=0o700)
            below = "" if name == "." else f"{name}/"
            pending += [(path / each, made / each, f"{below}{each}") for each in sorted(os.listdir(path))]  # noqa: PTH208
            checksum = zlib.crc32(os.fsencode(f"{name}/"), checksum)
        elif stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
            checksum = zlib.crc32(os.fsencode(f"{name}\0"), checksum)
            mode = 0o700 if facts.st_mode & stat.S_IXUSR else 0o600
            checksum = _copy_file(path, made, mode, checksum, checked=checked)
        else:
            raise TreeError(f"{path.name} is not a plain file")
        if owner is not None:
            os.chown(made, owner, owner)
    return Copied(total, f"{checksum:08x}")


def _copy_file(source: Path, target: Path, mode: int, checksum: int, *, checked: bool) -> int:
    """Copy one file; return the checksum, with its content added when that is `checked`."""
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(reading, "rb", buffering=0) as given:  # noqa: PTH123 - a descriptor
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(writing, "wb") as taken:  # noqa: PTH123
            room = memoryview(bytearray(_PIECE))
            while size := given.readinto(room):
                piece = room[:size]
                checksum = zlib.crc32(piece, checksum) if checked else checksum
                taken.write(piece)
    return checksum
