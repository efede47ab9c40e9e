"""Find out whether a request is claimed, that is, named by a `started` record of the ledger. Memory is constant.

There is no list of claims that could disagree with the ledger after a crash. There are two kinds of ids:

* An id that this process minted after it opened the ledger, and has not used, cannot be claimed, because no other
  process can make the same one. Nothing is read for it. Almost all requests have such an id.
* Every other id was brought by a caller and may have been claimed by any process. The ledger is searched for its claim,
  from the day on which it was minted. Most of the search happens before the lock is taken, the rest under it.

A process may pass an id that it minted to another process, which claims it first as a brought id. The file `brought`
informs the first process: a process that claims a brought id adds a byte to the file under the lock, before it writes
the record. A process that finds other processes' records in the chain, and this file changed, no longer trusts the ids
that it has minted so far, and searches for them. A byte without a record, after a crash, costs only such a search, and
so does a file that was removed or changed.
"""

import errno
import logging
import os
import stat
from pathlib import Path

from paddock.foundation.own_files import NotOursError, judge_file
from paddock.model import ids
from paddock.record.ledger.line_format import LedgerHead, file_name, list_dated_files, open_regular
from paddock.record.ledger.sink import CLAIM_SKEW_S, STARTED

BROUGHT = "brought"
"""Name of the file with one byte for each claim of an id that a caller brought."""

_CHUNK_BYTES = 1024 * 1024
_NEEDLE = f'"event":"{STARTED}","request":"%s"'
"""Text in the record of a claim. JSON escapes quotes in strings, so that no field's value can contain it."""


class LedgerClaims:
    """Knows which ids of one ledger cannot be claimed. Every method needs the lock of the chain."""

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
        """Record for other processes that an id that a caller brought is claimed. Raises OSError."""
        try:
            _append_byte(self._mark)
        except OSError:
            self._make_anew()
        self._facts = self._brought_state()

    def _make_anew(self) -> None:
        """Replace a link, a pipe or another user's file by our own file. Raises NotOursError for a directory."""
        finding = judge_file(self._mark.lstat(), self._mark)
        if finding is not None and finding.number == errno.EISDIR:
            raise NotOursError(finding.number, self._mark, finding.why, finding.remedy)
        self._mark.unlink()
        _append_byte(self._mark)
        wrong = finding if finding is not None and finding.mode is None else None
        why = wrong.why if wrong is not None else "has another name beside it, or cannot grow"
        logging.getLogger("paddock.foundation.files").warning(
            "%s: it %s; Paddock replaced it", self._mark, why
        )

    def _brought_state(self) -> tuple[int, int, int]:
        """Return facts that change with the file. A removed file is made again and has other facts."""
        try:
            facts = self._mark.lstat()
        except FileNotFoundError:
            _append_byte(self._mark)
            facts = self._mark.lstat()
        return facts.st_ino, facts.st_size, facts.st_ctime_ns


def _append_byte(path: Path) -> None:
    """Add a byte to a file, which is sparse and takes no disk space. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise OSError(errno.EINVAL, "it is not a regular file with a single name")
        os.ftruncate(fd, facts.st_size + 1)
    finally:
        os.close(fd)


class ClaimSearch:
    """Searches for the claim of one request in the files that may contain it."""

    def __init__(self, directory: Path, request: str, minted: float) -> None:
        """Search for a request that was minted at a time in seconds since the epoch.

        A claim is written after its id was minted, except for the clock skew that `find_mint_time` allows, and never
        into a file with an earlier date.
        """
        self.found = False
        self._directory = directory
        self._needle = (_NEEDLE % request).encode()
        self._oldest = file_name(minted - CLAIM_SKEW_S)
        self._read: dict[str, int] = {}

    def go_on(self, end: LedgerHead) -> None:
        """Continue the search up to an end of the chain. Raises LedgerUnusable.

        Data after that end may be a partial record, which its writer removes again.
        """
        for name in list_dated_files(self._directory):
            if self._oldest <= name <= end.file and not self.found:
                self._search_file(name, end.size if name == end.file else None)

    def _search_file(self, name: str, end: int | None) -> None:
        with open_regular(self._directory, name) as fd:
            if fd is None:
                return
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
