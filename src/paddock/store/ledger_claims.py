"""Which requests are claimed: those that a `started` record of the ledger names.

There is no second list that could disagree with the ledger after a crash. A process reads the files in which
a claim could stand once, and from then on only what other processes have added.
"""

import os
import re
from pathlib import Path

from paddock.store.audit import CLAIM_SKEW_S, STARTED
from paddock.store.ledger_format import Head, dated_files, file_name, open_regular

_CHUNK = 1024 * 1024
_CLAIM = re.compile(rb'"event":"' + STARTED.encode() + rb'","request":"([0-9A-Z]{26})"')
"""Quotes inside of strings are escaped in JSON, so no field's value can look like this."""


class Claims:
    """The claimed requests of a ledger. Every method needs the lock of the chain."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = ""
        self._requests: set[bytes] = set()
        self._read: dict[str, int] = {}

    def hold(self, request: str, minted: float, end: Head) -> bool:
        """Return whether `request`, minted at `minted`, is claimed in the chain that ends at `end`.

        A claim is written no earlier than its id was minted, give or take the skew that `minted_at` allows,
        and never into a file older than its date: that bounds the files to look at. A new day forgets
        everything, so memory is bounded by a day or two of claims; what is still needed is read again.
        """
        if end.file != self._file:
            self._file = end.file
            self._requests.clear()
            self._read.clear()
        oldest = file_name(minted - CLAIM_SKEW_S)
        if oldest < end.file:
            for name in dated_files(self._directory):
                if oldest <= name < end.file:
                    self._read_on(name, None)
        self._read_on(end.file, end.size)
        return request.encode() in self._requests

    def wrote(self, before: Head, after: Head, claimed: str | None) -> None:
        """Note a record that this process wrote, which need not be read back."""
        if self._read.get(after.file) == before.size and before.file == after.file:
            self._read[after.file] = after.size
        if claimed is not None:
            self._requests.add(claimed.encode())

    def _read_on(self, name: str, end: int | None) -> None:
        position = self._read.get(name, 0)
        if position == end:
            return
        if end is not None and end < position:
            position = 0
        fd = open_regular(self._directory, name)
        if fd is None:
            return
        try:
            end = os.fstat(fd).st_size if end is None else end
            while position < end:
                chunk = os.pread(fd, min(_CHUNK, end - position), position)
                whole = chunk.rfind(b"\n") + 1 or len(chunk)
                self._requests.update(_CLAIM.findall(chunk, 0, whole))
                position += whole
                if not chunk:
                    break
        finally:
            os.close(fd)
        self._read[name] = position
