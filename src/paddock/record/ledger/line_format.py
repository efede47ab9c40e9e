r"""The format of the ledger on disk: lines, the head file and the directory.

A record is one line of ASCII JSON, its members in this order, without spaces:

    {"v":1,"seq":7,"id":...,"ts":...,"event":...,"request":...,"parent":...,<fields>,"prev":...,"hash":...}

`hash` is the SHA-256 of the line without its `hash` member and newline, so that a shell can check a line:

    sed 's/,"hash":"[0-9a-f]*"}$/}/' | tr -d '\n' | sha256sum

Files are named by UTC date, so that their names sort in the order of the chain. The file `head` is the lock of all
writers and the anchor of the chain: it has the last record, where that ends, and the last record that is known to be on
the disk.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from paddock.foundation.own_files import NotOursError
from paddock.model.errors import LedgerError, LedgerUnusable
from paddock.model.ids import new_id
from paddock.record.ledger.sink import AuditRecord, Field, timestamp

FORMAT_VERSION = 1
GENESIS_HASH = "0" * 64
"""`prev` of the first record."""
HEAD_FILE_NAME = "head"
HEAD_BYTES = 256
"""Fixed size of the head file: one write within one disk sector replaces all of it."""
MAX_LINE_BYTES = 64 * 1024
"""Maximum length of a line without its newline; longer ones are never written, and never kept in memory."""

_CHUNK_BYTES = 256 * 1024
DAY_S = 86_400
_LOCK_WAIT_S = 5.0
_DATED_NAME_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.ndjson")
_SEQ_PATTERN = re.compile(rb'\{"v":1,"seq":([0-9]{1,18}),')
_HASH = b',"hash":"'
_HASH_BYTES = len(_HASH) + 64 + len(b'"}')
_BODY = f'{{"v":{FORMAT_VERSION},"seq":%d,"id":"%b","ts":"%b",%b,"prev":"%b"}}'.encode()
_PLACE_BYTES = 300
"""Maximum length of a line besides the facts of its record."""
_to_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class DamagedError(ValueError):
    """A line is not an intact record; the text has the reason, `seq` the number that the record seems to have."""

    def __init__(self, message: str, seq: int | None = None) -> None:
        super().__init__(message)
        self.seq = seq


class LedgerEntry(NamedTuple):
    """A record that has not yet been written to the chain."""

    id: str
    facts: bytes
    """Its members `event`, `request`, `parent` and the fields, as they are written in the line."""
    at: float | None
    """Time of the event, in seconds since the epoch; None means the time of writing."""


def new_entry(
    event: str, request: str, parent: str | None, fields: Mapping[str, Field], at: float | None = None
) -> LedgerEntry:
    """Return a new record; raise LedgerError if its line would be over `MAX_LINE_BYTES`."""
    members = {"event": event, "request": request, "parent": parent, **fields}
    facts = orjson.dumps(members)
    facts = (facts if facts.isascii() else _to_ascii(members).encode())[1:-1]
    if len(facts) > MAX_LINE_BYTES - _PLACE_BYTES:
        raise LedgerError(
            f"An audit record is over {MAX_LINE_BYTES} bytes. The ledger stores facts: log fewer of them."
        )
    return LedgerEntry(new_id(), facts, at)


def encode_record(entry: LedgerEntry, *, seq: int, ts: str, prev: str) -> tuple[bytes, str]:
    """Return the line of a record at its position in the chain, with its newline, and its hash."""
    body = _BODY % (seq, entry.id.encode(), ts.encode(), entry.facts, prev.encode())
    digest = hashlib.sha256(body).hexdigest()
    return body[:-1] + _HASH + digest.encode() + b'"}\n', digest


def chain_record(
    previous: AuditRecord | None,
    event: str,
    request: str,
    fields: Mapping[str, Field],
    *,
    parent: str | None = None,
    seconds: float | None = None,
) -> AuditRecord:
    """Return the record that follows `previous` in the chain of an audit sink, or the first one for None.

    `seconds` since the epoch are its time, now by default. Raises LedgerError for a record over 64 KiB.
    """
    line, _ = encode_record(
        new_entry(event, request, parent, fields),
        seq=1 if previous is None else previous.seq + 1,
        ts=timestamp(time.time() if seconds is None else seconds),
        prev=GENESIS_HASH if previous is None else previous.hash,
    )
    return parse_record(line[:-1])


def find_seq(line: bytes) -> int | None:
    """Return the number that the record in a line seems to have."""
    return int(found[1]) if (found := _SEQ_PATTERN.match(line)) else None


def find_record(line: bytes, *, whole: bool = True) -> AuditRecord | None:
    """Return the intact record of a line without its newline, or None; `whole` means that it had a newline."""
    try:
        return parse_record(line, whole=whole)
    except DamagedError:
        return None


def parse_record(line: bytes, *, whole: bool = True) -> AuditRecord:
    """Return the intact record of a line without its newline; `whole` means that it had one. Raises DamagedError."""
    if len(line) > MAX_LINE_BYTES:
        raise _explain_damage(line, f"is longer than {MAX_LINE_BYTES} bytes, so it is not a ledger record")
    if not whole:
        raise _explain_damage(line, "does not end in a newline")
    if line[-_HASH_BYTES : -_HASH_BYTES + len(_HASH)] != _HASH or line[-2:] != b'"}':
        raise _explain_damage(line, "is not a ledger record")
    if hashlib.sha256(line[:-_HASH_BYTES] + b"}").hexdigest().encode() != line[-66:-2]:
        raise _explain_damage(line, "has been changed: its hash does not match its content")
    try:
        members = cast("dict[str, Any]", json.loads(line))
        version = members.pop("v")
        known = {name: members.pop(name) for name in AuditRecord.model_fields if name != "fields"}
        record = AuditRecord(**known, fields=members)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise _explain_damage(line, "is not a ledger record") from None
    if version != FORMAT_VERSION:
        raise _explain_damage(line, "has a format that this version of Paddock does not know")
    return record


def _explain_damage(line: bytes, message: str) -> DamagedError:
    return DamagedError(message, find_seq(line))


class LedgerHead(NamedTuple):
    """The anchor: the last record of the chain."""

    seq: int = 0
    hash: str = GENESIS_HASH
    file: str = ""
    """Name of the file with the record."""
    size: int = 0
    """Where the record ends in that file, in bytes."""
    synced: int = 0
    """Every record up to this one is on the disk; a power failure may lose later ones."""
    boot: str = ""
    """The boot of the machine that wrote this: only a later boot explains that unsynced records are missing."""

    @property
    def excuse(self) -> int | None:
        """The record after which a power failure may have lost others; None if the machine has not rebooted since."""
        return self.synced if self.boot != this_boot() else None

    def encode(self) -> bytes:
        """Return the content of the head file: one padded line of JSON with a checksum of itself."""
        text = (
            f'{{"v":{FORMAT_VERSION},"seq":{self.seq},"hash":"{self.hash}","file":"{self.file}",'
            f'"size":{self.size},"synced":{self.synced},"boot":"{self.boot}"'
        )
        check = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f'{text},"check":"{check}"}}'.ljust(HEAD_BYTES - 1).encode() + b"\n"

    @classmethod
    def parse(cls, raw: bytes) -> "LedgerHead | None":
        """Return the head that `raw` encodes, or None if any byte of it is wrong."""
        try:
            members = cast("dict[str, Any]", json.loads(raw))
            head = cls(*(members[name] for name in cls._fields))
        except (ValueError, TypeError, LookupError, RecursionError):
            return None
        numbers = (head.seq, head.size, head.synced)
        if head.encode() != raw or not all(type(number) is int for number in numbers):
            return None
        sane = 0 <= head.synced <= head.seq < 2**62 and 0 <= head.size < 2**62
        return head if sane and (not head.file or _DATED_NAME_PATTERN.fullmatch(head.file)) else None


class Line(NamedTuple):
    """One line of a file."""

    data: bytes
    """Without its newline, and cut after `MAX_LINE_BYTES` + 1 bytes."""
    end: int
    """Where the next line starts."""
    whole: bool
    """Whether it ends in a newline."""


def lines(fd: int, start: int, end: int) -> Iterator[Line]:
    """Yield the lines between two offsets, in order; keep no more than `MAX_LINE_BYTES` + 1 bytes of each."""
    with open(fd, "rb", closefd=False) as file:
        file.seek(start)
        while start < end:
            data = piece = file.readline(min(MAX_LINE_BYTES + 1, end - start))
            start += len(piece)
            while piece and not piece.endswith(b"\n") and start < end:
                piece = file.readline(min(_CHUNK_BYTES, end - start))
                start += len(piece)
            if not piece:
                return
            whole = piece.endswith(b"\n")
            yield Line(data[:-1] if whole and data is piece else data, start, whole)


def lines_backwards(fd: int, end: int) -> Iterator[Line]:
    """Yield the complete lines before an offset, the last one first, cut like those of `lines`."""
    line_end, tail = 0, None
    while end > 0:
        start = max(0, end - _CHUNK_BYTES)
        chunk = os.pread(fd, end - start, start)
        stop = len(chunk)
        while (cut := chunk.rfind(b"\n", 0, stop)) >= 0:
            if tail is not None:
                yield Line((chunk[cut + 1 : stop] + tail)[: MAX_LINE_BYTES + 1], line_end, whole=True)
            line_end, tail, stop = start + cut + 1, b"", cut
        if tail is not None:
            tail = (chunk[:stop] + tail)[: MAX_LINE_BYTES + 1]
        end = start
    if tail is not None:
        yield Line(tail, line_end, whole=True)


@cache
def this_boot() -> str:
    """Return an id of this boot of the machine; "" if the kernel has none (proc(5))."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return ""


def file_name(seconds: float) -> str:
    """Return the name of the file for a time, by its UTC date."""
    return _day_name(int(seconds // DAY_S))


@lru_cache(maxsize=8)
def _day_name(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY_S, UTC):%Y-%m-%d}.ndjson"


def list_dated_files(directory: Path) -> list[str]:
    """Return the names of the ledger's files, oldest first; none without a directory. Raises LedgerUnusable."""
    try:
        return sorted(name for name in os.listdir(directory) if _DATED_NAME_PATTERN.fullmatch(name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise explain_failed_call(error, directory, "read") from error


def stat_files(directory: Path, first: str = "") -> dict[str, os.stat_result]:
    """Return the facts of the ledger's files from the name `first` on, oldest first. Raises LedgerUnusable.

    A file is complete if there is a later one.
    """
    found: dict[str, os.stat_result] = {}
    for name in list_dated_files(directory):
        try:
            if name >= first:
                found[name] = (directory / name).lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise explain_failed_call(error, directory, "read") from error
    return found


def list_irregular_files(directory: Path) -> list[str]:
    """Return the names in the places of the ledger's files that are no regular files, which no reader opens."""
    return [name for name, facts in stat_files(directory).items() if not stat.S_ISREG(facts.st_mode)]


@contextmanager
def open_regular(directory: Path, name: str) -> Generator[int | None]:
    """Open a file of the ledger for reading; yield None unless it is a regular file. Raises LedgerUnusable.

    An OSError in the context is a failure to read the ledger.
    """
    path, fd = directory / name, None
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISREG(path.lstat().st_mode):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        yield fd
    except OSError as error:
        raise explain_failed_call(error, directory, "read") from error
    finally:
        if fd is not None:
            os.close(fd)


def read_lines(
    directory: Path, name: str, start: int = 0, end: int | None = None, *, backwards: bool = False
) -> Iterator[Line]:
    """Yield the lines of a regular file between two offsets, by default all of them. Raises LedgerUnusable.

    See `lines`; from `lines_backwards` with `backwards`, without a `start`.
    """
    with open_regular(directory, name) as fd:
        if fd is not None:
            end = os.fstat(fd).st_size if end is None else end
            yield from lines_backwards(fd, end) if backwards else lines(fd, start, end)


def read_published_head(directory: Path) -> LedgerHead:
    """Return the end of the chain as the last writer left it, without the lock. Raises LedgerUnusable.

    The chain never becomes shorter than that. Without a valid head file, this is the beginning of the chain.
    """
    with open_regular(directory, HEAD_FILE_NAME) as fd:
        raw = b"" if fd is None else os.pread(fd, HEAD_BYTES + 1, 0)
    return LedgerHead.parse(raw) or LedgerHead()


def hold(fd: int, how: int, directory: Path) -> None:
    """Take the lock on the head file, `LOCK_EX` or `LOCK_SH`. Raises LedgerError after a wait of 5 s."""
    deadline = 0.0
    while True:
        try:
            return fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            deadline = deadline or now + _LOCK_WAIT_S
            if now > deadline:
                raise LedgerError(
                    f"The audit ledger {directory} is locked: another process has held it for "
                    f"{_LOCK_WAIT_S:.0f} s. Nothing runs without its record. "
                    f"Find that process with `fuser -v {directory / HEAD_FILE_NAME}`."
                ) from None
            time.sleep(0.0001)


def explain_failed_call(error: OSError, directory: Path, what: str) -> LedgerUnusable:
    """Return the error for a failed system call on the ledger: what happened, why, and what to do."""
    why = error.strerror or str(error)
    if isinstance(error, NotOursError):
        why, cure = f"{error.filename}: it {error.why}", f"To go on, {error.remedy}."
        return LedgerUnusable(
            f"The audit ledger {directory} cannot be {what}: {why}. {_remedy_text(what)}{cure}"
        )
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            cure = "Free space on its file system or raise the quota."
        case errno.EFBIG:
            cure = "Raise the limit on the size of files (ulimit -f)."
        case errno.ENOTDIR:
            cure = (
                "Remove the file that is in the way of a directory, or choose another state directory: set "
                "XDG_STATE_HOME."
            )
        case errno.EROFS:
            cure = "Mount its file system writable, or choose another state directory: set XDG_STATE_HOME."
        case errno.EACCES | errno.EPERM:
            cure = f"Make it accessible to user {os.geteuid()}, or choose another state directory: set XDG_STATE_HOME."
        case errno.EMFILE | errno.ENFILE:
            cure = "Close some, or raise the limit (ulimit -n)."
        case _:
            cure = "Repair its file system, or choose another state directory: set XDG_STATE_HOME."
    return LedgerUnusable(f"The audit ledger {directory} cannot be {what}: {why}. {_remedy_text(what)}{cure}")


def _remedy_text(what: str) -> str:
    return "" if what == "read" else "Nothing runs without its record. "
