"""Which requests are claimed: those that a `started` record of the ledger names. Memory is constant.

There is no list of claims that could disagree with the ledger after a crash. Two kinds of ids are told apart:

* An id that this process minted after it opened the ledger, and has not spent, cannot be claimed: nobody else can make
  the same one. Nothing is read for it. Almost all requests are such.
* Any other id was brought by a caller, and may have been claimed by whatever process. The ledger is searched for its
  claim, from the day on which it was minted. Most of that happens before the lock is taken, the rest under it.

A process may hand an id that it minted to another one, which claims it first: as brought. The file `brought` tells the
first process. Whoever claims a brought id adds a byte to it under the lock, before the record is written. A process
that finds records of others in the chain and this file changed distrusts every id that it has minted so far, and
searches for those. A byte without its record, after a crash, costs such a search and nothing else, and so does a file
that somebody removed or changed.
"""

import errno
import logging
import os
import stat
from pathlib import Path

from paddock.audit.line_format import Head, file_name, list_dated_files, open_regular
from paddock.audit.sink import CLAIM_SKEW_S, STARTED
from paddock.model import ids
from paddock.own_files import NotOursError, judge_file

BROUGHT = "brought"
"""Name of the file with one byte for each claim of an id that a caller brought."""

_CHUNK_BYTES = 1024 * 1024
_NEEDLE = f'"event":"{STARTED}","request":"%s"'
"""What a claim holds. Quotes inside of strings are escaped in JSON, so no field's value can look like this."""


class Claims:
    """Tells whether a request of one ledger is claimed. Every method needs the lock of the chain."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mark = directory / BROUGHT
        self._facts: tuple[int, int, int] = (0, 0, 0)
        self._others = -1
        self._trusted_since = 0

    def is_own(self, request: str, others: int) -> bool:
        """Return whether this process minted an id, and no process can have claimed it.

        `others` changes whenever other processes have written to the chain.
        """
        if others != self._others:
            facts = self._brought_state()
            if facts != self._facts:
                self._trusted_since = ids.next_serial()
            self._facts, self._others = facts, others
        return ids.is_unspent(request, self._trusted_since)

    def mark_brought(self) -> None:
        """Note that an id is claimed that a caller brought; other processes learn of it. Raises OSError."""
        try:
            _append_byte(self._mark)
        except OSError:
            self._make_anew()
        self._facts = self._brought_state()

    def _make_anew(self) -> None:
        """Put a file of ours in the place of a link or a pipe, say. Raises NotOursError for a directory."""
        finding = judge_file(self._mark.lstat(), self._mark)
        if finding is not None and finding.number == errno.EISDIR:
            raise NotOursError(finding.number, self._mark, finding.why, finding.remedy)
        self._mark.unlink()
        _append_byte(self._mark)
        wrong = finding if finding is not None and finding.mode is None else None
        why = wrong.why if wrong is not None else "has another name beside it, or cannot grow"
        logging.getLogger("paddock.files").warning("%s: it %s; it was removed and made anew", self._mark, why)

    def _brought_state(self) -> tuple[int, int, int]:
        """Return what tells the file from how it was before; one that was removed is made anew, and is another one."""
        try:
            facts = self._mark.lstat()
        except FileNotFoundError:
            _append_byte(self._mark)
            facts = self._mark.lstat()
        return facts.st_ino, facts.st_size, facts.st_ctime_ns


def _append_byte(path: Path) -> None:
    """Add a byte to a file, which takes no space on the disk. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise OSError(errno.EINVAL, "it is no regular file of one name")
        os.ftruncate(fd, facts.st_size + 1)
    finally:
        os.close(fd)


class ClaimSearch:
    """Looks for the claim of one request, in the files in which it could stand."""

    def __init__(self, directory: Path, request: str, minted: float) -> None:
        """Take a request, and when it was minted in seconds since the epoch.

        A claim is written no earlier than its id was minted, give or take the skew that `minted_at` allows, and never
        into a file older than its date.
        """
        self.found = False
        self._directory = directory
        self._needle = (_NEEDLE % request).encode()
        self._oldest = file_name(minted - CLAIM_SKEW_S)
        self._read: dict[str, int] = {}

    def go_on(self, end: Head) -> None:
        """Read what was not read before, up to an end of the chain. Raises OSError.

        What stands behind it may be half a record, which its writer removes again.
        """
        for name in list_dated_files(self._directory):
            if self._oldest <= name <= end.file and not self.found:
                self._search_file(name, end.size if name == end.file else None)

    def _search_file(self, name: str, end: int | None) -> None:
        fd = open_regular(self._directory, name)
        if fd is None:
            return
        try:
            end = os.fstat(fd).st_size if end is None else end
            reached = self._read.get(name, 0)
            while reached < end and not self.found:
                start = max(0, reached - len(self._needle) + 1)
                chunk = os.pread(fd, min(_CHUNK_BYTES, end - start), start)
                if start + len(chunk) <= reached:
                    break
                self.found = self._needle in chunk
                reached = start + len(chunk)
            self._read[name] = reached
        finally:
            os.close(fd)
